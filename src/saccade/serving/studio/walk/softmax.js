// The softmax opened: e to the power of each score, and the sum of each row, by which it is divided.

import { make, named, number } from "../shared/dom.js";
import { picture } from "../shared/ramp.js";
import { glow } from "./numbers.js";

/**
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {import("../shared/types.js").Walkthrough} Walkthrough
 */

const MOST = { rows: 6, columns: 5 }; // that are written out
const SIDE = { width: 150, height: 76 }; // pixels of the colours of more
const DIGITS = 3;

/** The scores that the softmax is taken of. @param {Step[]} steps @returns {Step | undefined} */
export function scoresOf(steps) {
  const place = steps.findIndex((step) => step.name === "weights");
  return place > 0 ? steps[place - 1] : undefined;
}

/**
 * e^score for each score, less the largest of its row, and their sum; null: the weights are no softmax.
 * @param {Walkthrough} walk @returns {{powers: number[][], sums: number[]} | null}
 */
export function powersOf(walk) {
  const scores = scoresOf(walk.steps);
  if (walk.weights !== "softmax" || !scores) return null;
  const powers = scores.values.map((/** @type {(number | null)[]} */ row) => {
    const most = Math.max(...row.map((score) => score ?? -Infinity));
    return row.map((score) => (score === null ? 0 : Math.exp(score - most)));
  });
  return { powers, sums: powers.map((/** @type {number[]} */ row) => row.reduce((sum, one) => sum + one, 0)) };
}

/**
 * The block between scores and weights.
 * @param {Walkthrough} walk @param {number} row the chosen query
 * @param {HTMLElement | null} before the block as it was: numbers that are others now glow
 */
export function softmaxBlock(walk, row, before) {
  const found = powersOf(walk);
  const scores = scoresOf(walk.steps);
  if (!found || !scores) return null;
  const { powers, sums } = found;
  const isLarge = powers.length > MOST.rows || (powers[0]?.length ?? 0) > MOST.columns;
  const equation = make("p", { class: "equation" }, "e^(score − largest of its row): the same shares as of e^score");
  const said = make("div", { class: "said" }, make("h2", {}, "Powers and sum"), equation);
  const label = { class: "step-like", "aria-label": "Powers and their sum", "data-block": "powers" };
  const sum = `Σ of «${named(scores.row_labels[row] ?? "")}» = ${number(sums[row] ?? 0, DIGITS)}`;
  const shown = isLarge ? [coloursOf(powers), make("small", {}, sum)] : [tableOf(scores, powers, sums)];
  const block = make("section", label, said, ...shown);
  const old = [...(before?.querySelectorAll("td") ?? [])].map(({ title }) => title);
  const cells = [...block.querySelectorAll("td")];
  if (old.length === cells.length) cells.forEach((cell, at) => cell.title !== old[at] && glow(cell));
  return block;
}

/** @param {number[][]} powers */
function coloursOf(powers) {
  const [rows, columns] = [powers.length, powers[0].length];
  const drawn = picture({ rows, columns, values: Float64Array.from(powers.flat()) });
  const scale = Math.min(SIDE.width / columns, SIDE.height / rows, 22);
  drawn.style.width = `${columns * scale}px`;
  drawn.style.height = `${rows * scale}px`;
  return drawn;
}

/** @param {Step} scores @param {number[][]} powers @param {number[]} sums */
function tableOf(scores, powers, sums) {
  const body = powers.map((row, at) => {
    const cells = row.map((power) => make("td", { class: "mono", title: power }, number(power, DIGITS)));
    const sum = make("td", { class: "mono row-sum", title: sums[at] }, number(sums[at], DIGITS));
    return make("tr", {}, ...cells, sum);
  });
  const titles = [...scores.column_labels, "Σ"].map((title) => make("th", { scope: "col" }, named(title)));
  const head = make("tr", {}, ...titles);
  return make("table", { class: "numbers" }, make("thead", {}, head), make("tbody", {}, ...body));
}
