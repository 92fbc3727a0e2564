// Writes out how a number was computed, and shows a query times a key, number by number, as strips of colour.

import { make, number } from "../shared/dom.js";
import { picture } from "../shared/ramp.js";
import { madeOf } from "./links.js";

/**
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {import("./links.js").Part} Part
 */

const MOST = 6; // terms that are written out; of more, the first few and the last
const NEAR = 1e-3; // of what is written out, which may be another score than a product
const OF_A_PAIR = new Set(["scores", "scaled", "biased", "masked", "weights"]);

/** @param {number} value As exactly as one reads it. */
function digits(value) {
  return String(Number(value.toFixed(3))).replace("-", "−");
}

/**
 * "0.1·0.3 + 6.2·1.2 + 2.1·4 = 15.87"
 * @param {Step[]} steps @param {string} name @param {number} row @param {number} column
 * @param {number} block the query whose weighted values are shown
 */
export function arithmeticOf(steps, name, row, column, block) {
  const step = steps.find((one) => one.name === name);
  const values = step?.block_labels.length ? step.values[block] : step?.values;
  const value = values?.[row]?.[column];
  if (value === null) return "masked: −∞, so that its weight is 0";
  if (step && isTyped(step, row, column, block)) return `${digits(value)} was typed here, in place of what is computed`;
  const parts = madeOf(steps, name, row, column, block);
  const [one, other] = parts.map((part) => numbersOf(steps, part, block));
  if (!one || value === undefined) return `${digits(value ?? 0)} is given`;
  const end = ` = ${digits(value)}`;
  if (name === "weights") return softmaxOf(step, one, column) + end;
  if (name === "sum" && parts.length === 1) return termsOf(one.map(digits)) + end;
  if (name === "scaled") return `${digits(one[0])}${scalingOf(step)}${end}`;
  if (!other) return digits(value);
  if (name === "biased") return `${digits(one[0])} + ${digits(other[0])}${end}`;
  const total = one.reduce((sum, each, place) => sum + each * other[place], 0);
  if (Math.abs(total - value) > NEAR * Math.max(1, Math.abs(value))) return `${step?.equation ?? ""}${end}`;
  return termsOf(one.map((each, place) => `${digits(each)}·${digits(other[place])}`)) + end;
}

/**
 * Whether a computed number was overwritten.
 * @param {Step} step @param {number} row @param {number} column @param {number} block
 */
function isTyped(step, row, column, block) {
  const place = (step.block_labels.length ? [block, row, column] : [row, column]).join();
  return step.changed.some((one) => one.join() === place);
}

/** What is done to a dot product, as the step's equation says it: " / (√3 · 4)". @param {Step | undefined} step */
function scalingOf(step) {
  const [formula, ...given] = (step?.equation ?? "").replace(/ \(head \d+\)$/, "").split(", ");
  const values = Object.fromEntries(given.map((one) => one.split(" = ")));
  const [before, after] = formula.replace(/^E = /, "").split("Q Kᵀ");
  const factor = before ? ` · ${before.replace(" · ", "")}` : "";
  return factor + after.replace(/[DT]/g, (letter) => values[letter] ?? letter);
}

/** @param {Step | undefined} step @param {number[]} scores @param {number} column */
function softmaxOf(step, scores, column) {
  if (!step?.equation.includes("softmax")) return step?.equation ?? "";
  const powers = scores.map((each) => (each === null ? "0" : `e^${digits(each)}`));
  return `${powers[column]} / (${termsOf(powers)})`;
}

/** @param {string[]} terms */
function termsOf(terms) {
  if (terms.length <= MOST) return terms.join(" + ");
  return `${terms.slice(0, MOST - 2).join(" + ")} + … + ${terms.at(-1)} (${terms.length} terms)`;
}

/** @param {Step[]} steps @param {Part} part @param {number} block @returns {number[]} */
function numbersOf(steps, { name, row, column }, block) {
  const step = steps.find((one) => one.name === name);
  const values = (step?.block_labels.length ? step.values[block] : step?.values) ?? [];
  if (row !== null) return column === null ? values[row] : [values[row][column]];
  return values.map((/** @type {number[]} */ each) => each[column ?? 0]);
}

/**
 * The query and the key of a pair, and their product number by number, whose sum is the score.
 * @param {Step[]} steps @param {string} name @param {number} row @param {number} column @returns {HTMLElement | null}
 */
export function pairStrips(steps, name, row, column) {
  const find = (/** @type {string} */ wanted) => steps.find((one) => one.name === wanted);
  const [query, key] = [find("queries")?.values[row], find("keys")?.values[column]];
  if (!OF_A_PAIR.has(name) || !query || !key || query.length !== key.length) return null;
  const product = query.map((/** @type {number} */ one, /** @type {number} */ place) => one * key[place]);
  const total = product.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
  const rows = [
    ["q", query, ""],
    ["k", key, ""],
    ["q∘k", product, `Σ = ${number(total, 3)}`],
  ];
  return make("div", { class: "pair-strips" }, ...rows.map(([label, values, end]) => stripOf(label, values, end)));
}

/** @param {string} label @param {number[]} values @param {string} end */
function stripOf(label, values, end) {
  const flat = Float64Array.from(values);
  const most = flat.reduce((best, value) => Math.max(best, Math.abs(value)), 1e-9);
  const drawn = picture({ rows: 1, columns: flat.length, values: flat }, { isDifference: true, most });
  const name = make("span", { class: "mono" }, label);
  return make("div", {}, name, drawn, make("span", { class: "mono" }, end));
}
