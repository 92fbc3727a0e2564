// Numbers in a table that are typed or dragged, and how many digits they have.

import { make } from "../shared/dom.js";

/** @typedef {import("../shared/types.js").Step} Step */

const GIVEN = ["inputs", "source", "W_query", "W_key", "W_value", "bias", "W_output", "W_score"];
const DIRECT = ["queries", "keys", "values"];
const SYMBOLS = new Set([...GIVEN, ...DIRECT]);
const DRAG = 6; // pixels a tenth
export const STEP = 0.1;
export const DECIMALS = 3;

/** @param {Step} step Whether its numbers are given, not computed. */
export function isGiven(step) {
  return SYMBOLS.has(step.name) && step.code.includes("given[");
}

/**
 * Digits after the point that numbers need, as far as they fit into their cells.
 * @param {Step} step @param {(number | null)[][]} values
 */
export function decimalsOf(step, values) {
  const isWhole = values.flat().every((value) => value === null || Number.isInteger(value));
  if (!isGiven(step)) return isWhole ? 0 : DECIMALS;
  const needed = values
    .flat()
    .map((value) => String(Number((value ?? 0).toFixed(DECIMALS))).split(".")[1]?.length ?? 0);
  return Math.max(0, ...needed);
}

/** "A_ij v_j" with its letters below the line. @param {string} equation */
export function subscripts(equation) {
  return equation.split(/_([A-Za-z]+)/).map((part, place) => (place % 2 ? make("sub", {}, part) : part));
}

/** @param {HTMLElement} frame */
export function glow(frame) {
  frame.removeAttribute("data-glow");
  void frame.offsetWidth; // begins the animation anew
  frame.setAttribute("data-glow", "");
}

/**
 * A number that is drawn to the right grows.
 * @param {HTMLInputElement} input @param {() => number} current @param {(value: number) => void} moved
 */
export function drag(input, current, moved) {
  /** @type {{x: number, value: number} | null} */
  let start = null;
  input.addEventListener("pointerdown", (event) => {
    if (document.activeElement === input) return;
    start = { x: event.clientX, value: current() };
    input.setPointerCapture(event.pointerId);
  });
  input.addEventListener("pointermove", (event) => {
    const steps = start ? Math.trunc((event.clientX - start.x) / DRAG) : 0;
    if (start && steps) moved(start.value + steps * STEP);
  });
  input.addEventListener("pointerup", () => (start = null));
  input.addEventListener("pointercancel", () => (start = null));
}
