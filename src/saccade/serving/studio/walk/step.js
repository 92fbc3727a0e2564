// One step of the walk as a block: its equation and its numbers, or where they are many their colours, which open.

import { make, named, within } from "../shared/dom.js";
import { GLOSSARY } from "../shared/names.js";
import { picture } from "../shared/ramp.js";
import { subscripts } from "./numbers.js";
import { NumberTable } from "./table.js";

/**
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {import("./document.js").Edit} Edit
 *
 * @typedef {object} StepListener
 * @property {(name: string, place: number[], value: number, isFirst: boolean) => void} edited isFirst: another number
 *   than the one before
 * @property {(name: string, place: number[]) => void} returned a number is put back
 * @property {(row: number, column: number) => void} masked a cell of the mask is clicked
 * @property {(name: string, row: number, column: number) => void} pointed
 * @property {() => void} left
 * @property {(block: number) => void} block another query's weighted values
 * @property {(name: string) => void} opened the numbers behind the colours are wanted, or no longer
 */

/** Steps with a row for each query; that of the chosen one is marked. */
export const OF_QUERIES = new Set(["queries", "scores", "scaled", "biased", "masked", "weights", "sum", "output"]);
/** What some steps hold, told under the pointer. @type {Record<string, string>} */
const TOLD = { queries: GLOSSARY.query, keys: GLOSSARY.key, weights: GLOSSARY.weight };
const MOST = { rows: 6, columns: 5 }; // of a block that shows its numbers at once
const SIDE = { width: 150, height: 76 }; // pixels of a block of colours

/** @param {unknown[][]} values Whether there are more numbers than one reads at once. */
function isLarge(values) {
  return values.length > MOST.rows || (values[0]?.length ?? 0) > MOST.columns;
}

/** Heads are counted from 1 on the page, and from 0 on the command line. @param {string} text */
function fromOne(text) {
  return text.replace(/\b([Hh]ead) (\d+)/, (_, word, head) => `${word} ${Number(head) + 1}`);
}

export class StepView {
  /** @param {StepListener} listener */
  constructor(listener) {
    this.listener = listener;
    this.title = make("h2", {});
    this.equation = make("p", { class: "equation" });
    this.code = make("code", { class: "code" });
    this.chooser = make("select", {
      "aria-label": "The query whose weighted values are shown",
      hidden: true,
      onchange: () => listener.block(Number(this.chooser.value)),
    });
    this.numbers = new NumberTable(listener);
    this.colours = make("button", { type: "button", class: "colours", hidden: true });
    this.colours.addEventListener("click", () => listener.opened(this.name));
    this.colours.addEventListener("pointermove", (event) => this.onPointer(event));
    this.colours.addEventListener("pointerleave", () => listener.left());
    this.note = make("small", {});
    const said = make("div", { class: "said" }, this.title, this.equation);
    this.element = make("section", { class: "step" }, said, this.chooser, this.colours, this.note, this.code);
    this.name = "";
    this.isLarge = false;
    this.size = { rows: 1, columns: 1 };
  }

  /** A number that was being changed is no longer. */
  forget() {
    this.numbers.edited = "";
  }

  /**
   * @param {Step} step @param {number} block @param {Edit[]} edits @param {boolean} mayGlow
   * @param {boolean} isOpen its numbers are shown elsewhere, in the panel
   */
  show(step, block, edits, mayGlow, isOpen) {
    const isBlocked = step.block_labels.length > 0;
    const values = /** @type {(number | null)[][]} */ (isBlocked ? step.values[block] : step.values);
    this.name = step.name;
    this.element.dataset.step = step.name;
    this.title.textContent = fromOne(step.title);
    this.title.title = TOLD[step.name] ?? "";
    this.equation.replaceChildren(...subscripts(fromOne(step.equation)));
    this.code.textContent = step.code;
    this.isLarge = isLarge(values);
    this.size = { rows: values.length, columns: values[0]?.length ?? 0 };
    this.showChooser(step, isBlocked ? block : null);
    const { rows, columns } = this.size;
    this.note.textContent = this.isLarge ? `${rows} × ${columns}` : "";
    this.colours.toggleAttribute("hidden", !this.isLarge);
    if (this.isLarge) this.drawColours(step, values, isOpen);
    const hasNumbers = !this.isLarge || isOpen;
    if (hasNumbers) {
      this.numbers.show(step, values, isBlocked ? block : null, edits, mayGlow);
      this.numbers.choose(OF_QUERIES.has(step.name) ? block : null);
    }
    if (!this.isLarge && this.numbers.element.parentElement !== this.element) this.note.before(this.numbers.element);
    if (this.isLarge && this.numbers.element.parentElement === this.element) this.numbers.element.remove();
  }

  /** @param {Step} step @param {number | null} block */
  showChooser(step, block) {
    this.chooser.toggleAttribute("hidden", block === null);
    if (block === null) return;
    const options = step.block_labels.map((label, place) =>
      make("option", { value: place }, `of the query «${named(label)}»`),
    );
    this.chooser.replaceChildren(...options);
    this.chooser.value = String(block);
  }

  /** @param {Step} step @param {(number | null)[][]} values @param {boolean} isOpen */
  drawColours(step, values, isOpen) {
    const { rows, columns } = this.size;
    const flat = Float64Array.from(values.flat(), (value) => value ?? 0);
    const isWeights = step.name.startsWith("weights");
    const most = isWeights ? 1 : flat.reduce((best, value) => Math.max(best, Math.abs(value)), 1e-9);
    const scale = Math.min(SIDE.width / columns, SIDE.height / rows, 22);
    const drawn = picture({ rows, columns, values: flat }, { isDifference: !isWeights, most });
    drawn.style.width = `${Math.max(24, columns * scale)}px`;
    drawn.style.height = `${Math.max(16, rows * scale)}px`;
    this.colours.replaceChildren(drawn);
    this.colours.setAttribute("aria-label", `${step.title}: ${isOpen ? "close" : "open"} its numbers`);
    this.colours.setAttribute("aria-expanded", String(isOpen));
  }

  /** @param {PointerEvent} event */
  onPointer(event) {
    const drawn = this.colours.querySelector("canvas");
    if (!drawn) return;
    const frame = drawn.getBoundingClientRect();
    const { rows, columns } = this.size;
    const row = within(Math.floor(((event.clientY - frame.top) / frame.height) * rows), 0, rows - 1);
    const column = within(Math.floor(((event.clientX - frame.left) / frame.width) * columns), 0, columns - 1);
    this.listener.pointed(this.name, row, column);
  }

  /** @param {number | null} row @param {number | null} column */
  light(row, column) {
    this.numbers.light(row, column);
    const drawn = this.colours.querySelector("canvas");
    if (!this.isLarge || !drawn) return;
    const { rows, columns } = this.size;
    const mark = make("span", { class: "lit", "data-row": row ?? "", "data-column": column ?? "" });
    const [left, top] = [drawn.offsetLeft, drawn.offsetTop];
    const [width, height] = [drawn.offsetWidth / columns, drawn.offsetHeight / rows];
    mark.style.left = `${left + (column ?? 0) * width}px`;
    mark.style.top = `${top + (row ?? 0) * height}px`;
    mark.style.width = `${column === null ? drawn.offsetWidth : width}px`;
    mark.style.height = `${row === null ? drawn.offsetHeight : height}px`;
    this.colours.append(mark);
  }

  dim() {
    this.numbers.dim();
    for (const mark of this.colours.querySelectorAll(".lit")) mark.remove();
  }
}
