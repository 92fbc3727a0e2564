// Every head of a real model for one sentence, with measures of what it does, sorted by one of them.

import { inPath, post, weightsOf } from "../shared/api.js";
import { openingOf } from "../ask/opening.js";
import { optionsOf, readState } from "../ask/state.js";
import { choice, make, number, setChoice } from "../shared/dom.js";
import { MEASURES, habitOf, measuresOf } from "../shared/measures.js";
import { GLOSSARY, headName } from "../shared/names.js";
import { picture } from "../shared/ramp.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {{name: string, head: number, matrix: Matrix, measures: Record<string, number | null>}} Head
 */

const NO_MODEL = "This scene needs a text model with examples. Start `saccade serve` without a model: it trains one.";

/** @param {Stage} stage */
export async function heads(stage) {
  await stage.studio.readModels();
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
  const sort = choice("Sorted by", "sort", MEASURES, (value) => stage.go({ by: value }));
  sort.title = GLOSSARY.entropy;
  const draw = () => {
    const key = MEASURES.some(([name]) => name === stage.parts().by) ? stage.parts().by : MEASURES[0][0];
    setChoice(sort, key);
    const sizeOf = (/** @type {Head} */ one) => one.measures[key] ?? -1;
    const sorted = [...every].sort((one, other) => sizeOf(other) - sizeOf(one));
    grid.replaceChildren(...sorted.map((one) => card(one, key, model.name, input)));
  };
  const sentence = make("p", { class: "sentence-line" }, input);
  stage.picture.append(sentence, make("div", { class: "row" }, "sorted by", sort), grid);
  draw();
  stage.offer("ask", { m: model.name, t: input });
  return { redraw: draw, follow: async () => draw() };
}

/** @param {Look} look @returns {Promise<Head[]>} */
async function readHeads(look) {
  const measures = await measuresOf(look);
  const named = Object.entries(measures).flatMap(([name, heads]) =>
    heads.map((its, head) => ({ name, head, measures: its })),
  );
  return Promise.all(
    named.map(async (one) => ({ ...one, matrix: await weightsOf(look, one.name, String(one.head), false) })),
  );
}

/** @param {Head} one @param {string} key @param {string} model @param {string} text */
function card({ name, head, matrix, measures }, key, model, text) {
  const value = measures[key];
  const href = `/ask?${new URLSearchParams({ m: model, t: text, a: name, h: String(head) })}`;
  const said = make("span", { class: "mono" }, value === null ? "–" : number(value, 3));
  const its = { href, "data-page": "ask", "data-key": `${name}:${head}` };
  const habit = make("b", {}, habitOf(measures));
  return make("li", {}, make("a", its, picture(matrix), said, habit, make("span", {}, headName(name, head))));
}
