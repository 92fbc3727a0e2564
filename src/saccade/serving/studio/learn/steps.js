// X → Q, K, V → scores → weights → output, with the numbers of the lecture; pointing at a number shows how it arose.

import { get, post } from "../shared/api.js";
import { make, number } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";
import { madeOf } from "../walk/links.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Step} Step
 */

const SHOWN = ["inputs", "queries", "keys", "values", "scores", "weights", "sum"];

/** @param {Stage} stage */
export async function steps(stage) {
  const { projection } = await get("/api/walkthroughs", stage.signal);
  /** @type {import("../shared/types.js").Walkthrough} */
  const walk = await post("/api/walkthrough", projection, stage.signal);
  const said = make("p", { class: "arithmetic mono", role: "status" }, "Point at a number.");
  const all = walk.steps;
  const blocks = all.filter(({ name }) => SHOWN.includes(name)).map((step) => blockOf(step));
  const field = make("div", { class: "blocks" }, ...blocks);
  const point = (/** @type {Event} */ event) => {
    const cell = /** @type {Element} */ (event.target).closest("td[data-row]");
    if (!(cell instanceof HTMLElement)) return;
    const name = /** @type {HTMLElement} */ (cell.closest("[data-step]")).dataset.step ?? "";
    said.textContent = explain(all, name, Number(cell.dataset.row), Number(cell.dataset.column), field);
  };
  field.addEventListener("pointerover", point);
  field.addEventListener("focusin", point);
  stage.picture.append(field, said);
  stage.offer("walk", { x: "projection" });
  const redraw = () =>
    blocks.forEach((block, place) => block.replaceWith((blocks[place] = blockOf(stepOf(all, block)))));
  return { redraw };
}

/** @param {Step[]} all @param {HTMLElement} block */
function stepOf(all, block) {
  return /** @type {Step} */ (all.find(({ name }) => name === block.dataset.step));
}

/** @param {Step} step */
function blockOf(step) {
  const rows = step.values.map((row, at) => {
    const cells = row.map((/** @type {number} */ value, /** @type {number} */ place) => {
      const its = { "data-row": at, "data-column": place, title: String(value) };
      const cell = make("td", { class: "mono", tabindex: 0, ...its });
      cell.textContent = number(value, Number.isInteger(value) ? 0 : 2);
      if (step.name === "weights") {
        cell.style.backgroundColor = colourOf(value);
        cell.toggleAttribute("data-ink", isDarkInk(value));
      }
      return cell;
    });
    return make("tr", {}, ...cells);
  });
  const table = make("table", { class: "numbers" }, make("caption", {}, step.title), make("tbody", {}, ...rows));
  return make("div", { class: "block", "data-step": step.name }, table, make("small", {}, step.equation));
}

/**
 * The arithmetic of a number; what it is made of lights up.
 * @param {Step[]} all @param {string} name @param {number} row @param {number} column @param {HTMLElement} field
 */
function explain(all, name, row, column, field) {
  for (const lit of field.querySelectorAll("[data-lit]")) lit.removeAttribute("data-lit");
  const parts = madeOf(all, name, row, column, -1);
  for (const part of parts) {
    const row = part.row === null ? "" : `[data-row="${part.row}"]`;
    const place = part.column === null ? row : `${row}[data-column="${part.column}"]`;
    const cells = field.querySelectorAll(`[data-step="${part.name}"] td${place}`);
    for (const cell of cells) cell.setAttribute("data-lit", "");
  }
  const value = all.find((step) => step.name === name)?.values[row][column] ?? 0;
  const [one, other] = parts.map((part) => numbersOf(all, part));
  const digits = (/** @type {number} */ some) => String(Number(some.toFixed(3))).replace("-", "−");
  if (!one) return `${digits(value)} is given`;
  if (name === "weights") {
    const at = one.map((each) => `e^${digits(each)}`);
    return `${at[column]} / (${at.join(" + ")}) = ${digits(value)}`;
  }
  if (!other) return `${digits(value)}`;
  return `${one.map((each, place) => `${digits(each)}·${digits(other[place])}`).join(" + ")} = ${digits(value)}`;
}

/** @param {Step[]} all @param {import("../walk/links.js").Part} part @returns {number[]} */
function numbersOf(all, { name, row, column }) {
  const values = all.find((step) => step.name === name)?.values ?? [];
  if (row !== null) return column === null ? values[row] : [values[row][column]];
  return values.map((each) => each[column ?? 0]);
}
