// X → Q, K, V → scores → weights → output, with the numbers of the lecture: pointing at a number shows how it arose,
// and typing another one over a given number changes all that is computed from it.

import { get, post } from "../shared/api.js";
import { afterwards, make, number, reveal } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";
import { edited, readEdits, withEdit } from "../walk/document.js";
import { madeOf } from "../walk/links.js";
import { subscripts } from "../walk/numbers.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {{name: string, row: number, column: number}} Cell
 */

const GIVEN = ["inputs", "W_query", "W_key", "W_value"];
const COMPUTED = ["queries", "keys", "values", "scores", "weights", "sum"];
const PAUSE = 250; // milliseconds after the last key
const POINT = "Point at a number, or type over one of the upper row.";

class Steps {
  /** @param {Stage} stage @param {import("../shared/types.js").WalkDocument} given the numbers of the lecture */
  constructor(stage, given) {
    this.stage = stage;
    this.given = given;
    this.said = make("p", { class: "arithmetic mono", role: "status" }, POINT);
    this.field = make("div", { class: "steps-field" });
    const back = { type: "button", hidden: true, onclick: () => stage.go({ e: null }) };
    this.back = make("button", back, "Restore the numbers of the lecture");
    for (const kind of ["pointerover", "focusin"]) this.field.addEventListener(kind, (event) => this.point(event));
    this.field.addEventListener("change", (event) => this.type(event, true));
    const typing = afterwards((/** @type {Event} */ event) => this.type(event, false), PAUSE);
    this.field.addEventListener("input", typing);
    this.field.addEventListener("focusout", ({ target }) => {
      const value = target instanceof HTMLInputElement ? typedNumber(target.value) : NaN;
      if (target instanceof HTMLInputElement && Number.isFinite(value)) target.value = textOf(value);
    });
    stage.picture.append(this.field, make("div", { class: "row" }, this.said, this.back));
    /** @type {Step[]} */
    this.steps = [];
    /** @type {Cell | null} */
    this.pointed = null;
    this.asked = 0;
  }

  async read() {
    const { stage } = this;
    this.asked += 1;
    const mine = this.asked;
    const parts = { e: stage.parts().e };
    const walk = await post("/api/walkthrough", edited(this.given, parts), stage.signal).catch((error) => {
      stage.go({ e: null }); // what cannot be computed goes back to the lecture's numbers
      throw error;
    });
    if (mine !== this.asked) return;
    this.steps = walk.steps;
    reveal(this.back, readEdits(parts).length > 0);
    this.draw();
    stage.offer("walk", { x: "projection", ...(parts.e ? { e: parts.e } : {}) });
  }

  draw() {
    const typed = typedIn(document.activeElement); // before the field goes
    const focused = cellOf(document.activeElement);
    const rows = [GIVEN, COMPUTED].map((names) => {
      const shown = this.steps.filter(({ name }) => names.includes(name));
      return make("div", { class: "blocks" }, ...shown.map((step) => blockOf(step, names === GIVEN)));
    });
    this.field.replaceChildren(...rows);
    const again = focused && /** @type {HTMLInputElement | null} */ (this.find(focused, " input"));
    again?.focus();
    if (again && typed && typedNumber(typed.text) === this.valueOf(focused)) {
      again.value = typed.text; // typing goes on where it was
      again.setSelectionRange(typed.start, typed.end);
    }
    this.explain();
  }

  /** @param {Cell} cell @param {string} [within] */
  find({ name, row, column }, within = "") {
    const place = `[data-step="${name}"] td[data-row="${row}"][data-column="${column}"]${within}`;
    return /** @type {HTMLElement | null} */ (this.field.querySelector(place));
  }

  /** @param {Event} event */
  point(event) {
    const cell = cellOf(/** @type {Element} */ (event.target));
    if (cell) this.pointed = cell;
    if (cell) this.explain();
  }

  /** @param {Event} event @param {boolean} isFinal */
  type(event, isFinal) {
    const field = /** @type {HTMLInputElement} */ (event.target);
    const cell = cellOf(field);
    const value = typedNumber(field.value);
    if (!cell || !field.isConnected) return;
    const { name, row, column } = cell;
    if (!Number.isFinite(value) && isFinal) this.draw(); // the old one stays
    if (!Number.isFinite(value) || value === this.valueOf(cell)) return;
    const e = withEdit(readEdits(this.stage.parts()), { name, place: [row, column], value });
    this.stage.go({ e });
  }

  /** @param {Cell} cell @returns {number | undefined} */
  valueOf({ name, row, column }) {
    return this.steps.find((step) => step.name === name)?.values[row]?.[column];
  }

  /** The arithmetic of the number that was pointed at last; what it is made of lights up. */
  explain() {
    const { pointed, steps, field } = this;
    for (const lit of field.querySelectorAll("[data-lit]")) lit.removeAttribute("data-lit");
    if (!pointed) return;
    const parts = madeOf(steps, pointed.name, pointed.row, pointed.column, -1);
    for (const part of parts) {
      const row = part.row === null ? "" : `[data-row="${part.row}"]`;
      const place = part.column === null ? row : `${row}[data-column="${part.column}"]`;
      const cells = field.querySelectorAll(`[data-step="${part.name}"] td${place}`);
      for (const cell of cells) cell.setAttribute("data-lit", "");
    }
    this.said.textContent = sentenceOf(steps, pointed, parts);
  }
}

/** @param {Stage} stage */
export async function steps(stage) {
  const { projection } = await get("/api/walkthroughs", stage.signal);
  const shown = new Steps(stage, projection);
  await shown.read();
  return { redraw: () => shown.draw(), follow: () => shown.read() };
}

/** @param {Element | null} field */
function typedIn(field) {
  if (!(field instanceof HTMLInputElement)) return null;
  return { text: field.value, start: field.selectionStart, end: field.selectionEnd };
}

/** @param {string} text */
function typedNumber(text) {
  return text.trim() === "" ? NaN : Number(text.replace("−", "-").replace(",", "."));
}

/** @param {number} value */
function textOf(value) {
  return number(value, Number.isInteger(value) ? 0 : 2);
}

/** The number that an element shows. @param {Element | null} element @returns {Cell | null} */
function cellOf(element) {
  const cell = element?.closest("td[data-row]");
  const block = cell?.closest("[data-step]");
  if (!(cell instanceof HTMLElement) || !(block instanceof HTMLElement)) return null;
  return { name: block.dataset.step ?? "", row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
}

/** @param {Step} step @param {boolean} isGiven its numbers can be typed over */
function blockOf(step, isGiven) {
  const rows = step.values.map((row, at) => {
    const cells = row.map((/** @type {number} */ value, /** @type {number} */ place) => {
      const its = { "data-row": at, "data-column": place, title: String(value) };
      const text = textOf(value);
      const label = `${step.title}, row ${at + 1}, column ${place + 1}`;
      const typed = { type: "text", class: "mono", inputmode: "decimal", "aria-label": label, value: text };
      const cell = make("td", { class: "mono", ...its, tabindex: isGiven ? null : 0 }, text);
      if (isGiven) cell.replaceChildren(make("input", typed));
      if (step.name === "weights") {
        cell.style.backgroundColor = colourOf(value);
        cell.toggleAttribute("data-ink", isDarkInk(value));
      }
      return cell;
    });
    return make("tr", {}, ...cells);
  });
  const table = make("table", { class: "numbers" }, make("caption", {}, step.title), make("tbody", {}, ...rows));
  const equation = make("small", { class: "equation" }, ...subscripts(step.equation));
  return make("div", { class: "block", "data-step": step.name }, table, equation);
}

/** @param {Step[]} all @param {Cell} cell @param {import("../walk/links.js").Part[]} parts what it is made of */
function sentenceOf(all, { name, row, column }, parts) {
  const value = all.find((step) => step.name === name)?.values[row][column] ?? 0;
  const [one, other] = parts.map((part) => numbersOf(all, part));
  const digits = (/** @type {number} */ some) => String(Number(some.toFixed(3))).replace("-", "−");
  if (!one) return `${digits(value)} is given`;
  if (name === "weights") {
    const at = one.map((each) => `e^${digits(each)}`);
    return `${at[column]} / (${at.join(" + ")}) = ${digits(value)}`;
  }
  if (!other) return digits(value);
  return `${one.map((each, place) => `${digits(each)}·${digits(other[place])}`).join(" + ")} = ${digits(value)}`;
}

/** @param {Step[]} all @param {import("../walk/links.js").Part} part @returns {number[]} */
function numbersOf(all, { name, row, column }) {
  const values = all.find((step) => step.name === name)?.values ?? [];
  if (row !== null) return column === null ? values[row] : [values[row][column]];
  return values.map((each) => each[column ?? 0]);
}
