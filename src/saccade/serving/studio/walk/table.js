// The numbers of one step as a table: each is typed, dragged or stepped, and put back.

import { make, named, number, shortened } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";
import { isAt } from "./document.js";
import { DECIMALS, STEP, decimalsOf, drag, glow, isGiven } from "./numbers.js";

/**
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {import("./document.js").Edit} Edit
 * @typedef {import("./step.js").StepListener} StepListener
 */

const MANY = 10; // columns: more have two decimals

export class NumberTable {
  /** @param {StepListener} listener */
  constructor(listener) {
    this.listener = listener;
    this.table = make("table", { class: "numbers" });
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "region" }, this.table);
    this.wrong = make("p", { class: "wrong", role: "status" }); // what cannot be computed with, and what can
    this.element = make("div", { class: "held" }, this.scroll, this.wrong);
    this.shape = "";
    /** @type {HTMLElement[][]} */
    this.cells = [];
    /** @type {(number | null)[][]} */
    this.values = []; // with what is being typed
    /** @type {(number | null)[][]} */
    this.before = []; // as they were shown last
    this.name = "";
    this.decimals = 0; // of numbers while they are not edited
    /** @type {number | null} */
    this.block = null; // the query, where each has its own numbers
    /** @type {HTMLElement[]} */
    this.notes = []; // at the ends of the rows
    this.edited = ""; // the number that is being edited: row and column
    this.table.addEventListener("pointerover", (event) => this.onPointer(event));
    this.table.addEventListener("pointerleave", () => listener.left());
    this.table.addEventListener("focusin", (event) => this.onPointer(event));
  }

  /**
   * @param {Step} step @param {(number | null)[][]} values @param {number | null} block @param {Edit[]} edits
   * @param {boolean} mayGlow
   */
  show(step, values, block, edits, mayGlow) {
    [this.name, this.block] = [step.name, block];
    this.scroll.setAttribute("aria-label", step.title);
    this.wrong.textContent = "";
    const shape = JSON.stringify([step.name, isGiven(step), step.row_labels, step.column_labels]);
    const isNew = shape !== this.shape;
    if (isNew) this.build(step, values);
    this.shape = shape;
    const isWide = (values[0]?.length ?? 0) > MANY;
    this.element.toggleAttribute("data-wide", isWide);
    this.decimals = Math.min(decimalsOf(step, values), isWide ? 2 : DECIMALS);
    const longest = Math.max(2, ...values.flat().map((value) => number(value ?? 0, this.decimals).length));
    this.table.style.setProperty("--letters", String(longest)); // no digit is cut off
    this.fill(step, values, mayGlow && !isNew);
    this.mark(step, edits);
    this.values = structuredClone(values);
    this.before = structuredClone(values);
  }

  /** Marks the row of the chosen query. @param {number | null} row */
  choose(row) {
    for (const one of this.table.tBodies[0]?.rows ?? [])
      one.toggleAttribute("data-chosen", one.sectionRowIndex === row);
  }

  /** @param {Step} step @param {(number | null)[][]} values */
  build(step, values) {
    const titles = step.column_labels.map((label) => make("th", { scope: "col" }, make("bdi", {}, named(label))));
    const head = make("tr", {}, make("td", {}), ...titles);
    this.cells = values.map((row, at) => row.map((_, place) => this.cell(step, at, place)));
    this.notes = values.map(() => make("td", { class: "row-note" }));
    const rows = this.cells.map((cells, row) => {
      const entries = cells.map((cell, column) => make("td", { "data-row": row, "data-column": column }, cell));
      const name = make("th", { scope: "row" }, make("bdi", {}, named(step.row_labels[row] ?? "")));
      return make("tr", {}, name, ...entries, ...(step.name === "weights" ? [this.notes[row]] : []));
    });
    const caption = make("caption", { class: "unseen" }, step.title);
    this.table.replaceChildren(caption, make("thead", {}, head), make("tbody", {}, ...rows));
  }

  /** @param {Step} step @param {number} row @param {number} column @returns {HTMLElement} */
  cell(step, row, column) {
    const label = `${step.title}, row ${step.row_labels[row]}, column ${step.column_labels[column]}`;
    if (step.name !== "masked") {
      const input = make("input", {
        type: "text",
        inputmode: "decimal",
        class: `${isGiven(step) ? "given" : "computed"} mono`,
        "aria-label": label,
        size: 5,
      });
      input.addEventListener("input", () => this.typed(input, row, column));
      input.addEventListener("focus", () => {
        input.value = String(this.values[row][column]);
        input.select(); // so that typing replaces all of its digits
      });
      input.addEventListener("blur", () => this.left(input, row, column));
      input.addEventListener("keydown", (event) => this.stepped(event, input, row, column));
      drag(
        input,
        () => this.values[row][column] ?? 0,
        (value) => this.set(input, row, column, value),
      );
      return input;
    }
    const button = make("button", { type: "button", class: "mono", onclick: () => this.listener.masked(row, column) });
    button.dataset.label = label;
    return button;
  }

  /** @param {HTMLInputElement} input @param {number} row @param {number} column */
  typed(input, row, column) {
    const value = Number(input.value.replace("−", "-").replace(",", "."));
    const isNumber = input.value.trim() !== "" && Number.isFinite(value);
    input.toggleAttribute("data-wrong", !isNumber);
    const text = input.value.trim() ? `«${shortened(input.value)}»` : "An empty cell";
    const kept = number(this.values[row][column] ?? 0, this.decimals);
    const said = `${text} is not a number; write one such as 2, −0.5 or 1e3, or ${kept} is kept.`;
    this.wrong.textContent = isNumber ? "" : said;
    if (isNumber) this.tell(row, column, value);
  }

  /** @param {number} row @param {number} column @param {number} value */
  tell(row, column, value) {
    const key = `${row} ${column}`;
    const isFirst = key !== this.edited;
    this.edited = key;
    this.values[row][column] = value;
    this.listener.edited(this.name, this.place(row, column), value, isFirst);
  }

  /**
   * The number as it is, in the place of what was typed; the sentence stays that says what was wrong with that.
   * @param {HTMLInputElement} input @param {number} row @param {number} column
   */
  putBack(input, row, column) {
    input.removeAttribute("data-wrong");
    input.value = number(this.values[row][column] ?? 0, this.decimals);
  }

  /** @param {HTMLInputElement} input @param {number} row @param {number} column */
  left(input, row, column) {
    this.edited = "";
    this.putBack(input, row, column);
  }

  /** @param {KeyboardEvent} event @param {HTMLInputElement} input @param {number} row @param {number} column */
  stepped(event, input, row, column) {
    if (event.key === "Escape") this.wrong.textContent = "";
    if (event.key === "Escape" || (event.key === "Enter" && input.hasAttribute("data-wrong"))) {
      this.left(input, row, column);
      input.select();
    }
    const by = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
    if (by === undefined || event.altKey) return;
    event.preventDefault();
    this.set(input, row, column, (this.values[row][column] ?? 0) + by * (event.shiftKey ? 10 : 1));
  }

  /** @param {HTMLInputElement} input @param {number} row @param {number} column @param {number} value */
  set(input, row, column, value) {
    const next = Number(value.toFixed(6)); // sums of tenths have long tails
    input.value = String(next);
    this.wrong.textContent = "";
    this.tell(row, column, next);
  }

  /** @param {number} row @param {number} column */
  place(row, column) {
    return this.block === null ? [row, column] : [this.block, row, column];
  }

  /**
   * Shows which numbers were changed, each with a way back, and what follows for its row.
   * @param {Step} step @param {Edit[]} edits
   */
  mark(step, edits) {
    this.notes.forEach((note, row) => (note.textContent = step.row_notes[row] ?? ""));
    this.cells.forEach((cells, row) =>
      cells.forEach((cell, column) => {
        const frame = /** @type {HTMLElement} */ (cell.parentElement);
        const isChanged = edits.some((edit) => isAt(edit, step.name, this.place(row, column)));
        if (isChanged === frame.hasAttribute("data-changed")) return;
        frame.toggleAttribute("data-changed", isChanged);
        if (isChanged) frame.append(this.backButton(step, row, column, cell));
        else frame.querySelector(".back")?.remove();
      }),
    );
  }

  /** @param {Step} step @param {number} row @param {number} column @param {HTMLElement} cell */
  backButton(step, row, column, cell) {
    const label = `Restore row ${step.row_labels[row]}, column ${step.column_labels[column]} of ${step.title}`;
    const back = () => {
      cell.focus(); // the button goes
      this.listener.returned(this.name, this.place(row, column));
    };
    const attributes = { type: "button", class: "back", "aria-label": label, title: "Restore", onclick: back };
    return make("button", attributes, "↺");
  }

  /** @param {Step} step @param {(number | null)[][]} values @param {boolean} mayGlow */
  fill(step, values, mayGlow) {
    values.forEach((row, at) =>
      row.forEach((value, place) => {
        const cell = this.cells[at][place];
        const frame = /** @type {HTMLElement} */ (cell.parentElement);
        if (cell instanceof HTMLInputElement) {
          if (document.activeElement !== cell || Number(cell.value) !== value)
            cell.value = number(value ?? 0, this.decimals);
          cell.removeAttribute("data-wrong");
        } else cell.textContent = value === null ? "−∞" : number(value, this.decimals);
        if (cell.dataset.label) cell.setAttribute("aria-label", `${cell.dataset.label}: ${cell.textContent}`);
        frame.title = value === null ? "masked" : String(value);
        if (step.name === "weights" && value !== null) {
          frame.style.backgroundColor = colourOf(value);
          frame.toggleAttribute("data-ink", isDarkInk(value));
        }
        if (mayGlow && this.before[at]?.[place] !== value) glow(frame);
      }),
    );
  }

  /** @param {Event} event */
  onPointer(event) {
    const frame = /** @type {Element} */ (event.target).closest("td[data-row]");
    if (frame instanceof HTMLElement)
      this.listener.pointed(this.name, Number(frame.dataset.row), Number(frame.dataset.column));
  }

  /** @param {number | null} row @param {number | null} column */
  light(row, column) {
    this.cells.forEach((cells, at) =>
      cells.forEach((cell, place) => {
        const isLit = (row === null || row === at) && (column === null || column === place);
        if (isLit) cell.parentElement?.setAttribute("data-lit", "");
      }),
    );
  }

  dim() {
    for (const cell of this.table.querySelectorAll("[data-lit]")) cell.removeAttribute("data-lit");
  }
}
