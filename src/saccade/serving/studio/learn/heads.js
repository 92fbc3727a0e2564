// Every head of a real model at one sentence, with what it does in numbers, sorted by one of them.

import { inPath, post, weightsOf } from "../shared/api.js";
import { openingOf } from "../ask/opening.js";
import { optionsOf, readState } from "../ask/state.js";
import { choice, make, number, setChoice } from "../shared/dom.js";
import { headName } from "../shared/names.js";
import { picture } from "../shared/ramp.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {{name: string, head: number, matrix: Matrix, measures: Record<string, number | null>}} Head
 */

const NO_MODEL = "This scene needs a model that reads texts and has examples; `saccade serve` trains one.";
/** @type {[string, string][]} */
const MEASURES = [
  ["entropy", "spread (bits)"],
  ["before", "previous word"],
  ["itself", "itself"],
  ["distance", "distance (words)"],
];

/**
 * What a head does: its mean entropy in bits, and where heads look within one text the mean distance, and the mean
 * weight of the token before and of the token itself.
 * @param {Matrix} matrix @param {boolean} isSelf @returns {Record<string, number | null>}
 */
export function measuresOf({ rows, columns, values }, isSelf) {
  const sums = { entropy: 0, before: 0, itself: 0, distance: 0 };
  for (let place = 0; place < values.length; place += 1) {
    const [row, column, weight] = [Math.floor(place / columns), place % columns, values[place]];
    if (weight > 0) sums.entropy -= weight * Math.log2(weight);
    sums.distance += weight * Math.abs(row - column);
    if (row === column) sums.itself += weight;
    if (row === column + 1) sums.before += weight;
  }
  const mean = (/** @type {number} */ sum, count = rows) => (isSelf ? sum / count : null);
  return {
    entropy: sums.entropy / rows,
    before: mean(sums.before, Math.max(1, rows - 1)),
    itself: mean(sums.itself),
    distance: mean(sums.distance),
  };
}

/** @param {Stage} stage */
export async function heads(stage) {
  const isTelling = (/** @type {import("../shared/types.js").Model} */ one) =>
    one.has_attention && one.input.kind === "text" && one.examples.length > 0;
  const model = stage.studio.models.find(isTelling);
  if (!model) return stage.say(NO_MODEL);
  const opening = await openingOf(model).catch(() => null);
  const input = opening?.input ?? String(model.examples[0]);
  const options = optionsOf(model, readState({}));
  /** @type {Look} */
  const look = await post(`/api/models/${inPath(model.name)}/looks`, { input, options }, stage.signal);
  const every = await readHeads(look);
  const grid = make("ol", { class: "head-cards" });
  const sort = choice("Sorted by", "sort", MEASURES, (value) => draw(value));
  const draw = (/** @type {string} */ key) => {
    const sizeOf = (/** @type {Head} */ one) => one.measures[key] ?? -1;
    const sorted = [...every].sort((one, other) => sizeOf(other) - sizeOf(one));
    grid.replaceChildren(...sorted.map((one) => card(one, key, model.name, input)));
  };
  const above = [make("p", { class: "sentence-line" }, input), make("div", { class: "row" }, "sorted by", sort)];
  stage.picture.append(...above, grid);
  setChoice(sort, "entropy");
  draw("entropy");
  stage.offer("ask", { m: model.name, t: input });
  return () => draw(/** @type {HTMLInputElement | null} */ (sort.querySelector("input:checked"))?.value ?? "entropy");
}

/** @param {Look} look @returns {Promise<Head[]>} */
async function readHeads(look) {
  const named = look.attentions.flatMap((one) =>
    Array.from({ length: one.heads }, (_, head) => ({ name: one.name, head, isSelf: one.rows === one.columns })),
  );
  return Promise.all(
    named.map(async ({ name, head, isSelf }) => {
      const matrix = await weightsOf(look, name, String(head), false);
      return { name, head, matrix, measures: measuresOf(matrix, isSelf) };
    }),
  );
}

/** @param {Head} one @param {string} key @param {string} model @param {string} text */
function card({ name, head, matrix, measures }, key, model, text) {
  const value = measures[key];
  const href = `/ask?${new URLSearchParams({ m: model, t: text, a: name, h: String(head) })}`;
  const said = make("span", { class: "mono" }, value === null ? "–" : number(value, 3));
  const its = { href, "data-page": "ask", "data-key": `${name}:${head}` };
  return make("li", {}, make("a", its, picture(matrix), headName(name, head), said));
}
