// Words as points: a model's word vectors, projected onto the two directions in which they differ most.

import { get, inPath, query } from "../shared/api.js";
import { make, number, visible } from "../shared/dom.js";
import { Scatter } from "../words/scatter.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {{words: import("../words/scatter.js").WordPoint[], share: number, telling: string}} Plane
 * @typedef {{word: string, neighbours: {word: string, cosine: number}[]}} Found
 */

const OTHERS = 60;
const NEIGHBOURS = 6;
const FONT = 18; // pixels: readable from the last row of a lecture hall

/** @param {Stage} stage */
export async function points(stage) {
  await stage.studio.readModels();
  const model = stage.studio.models.find((one) => one.words.length > 0);
  if (!model) return void (await hasModels(stage, ["demo"]));
  const base = `/api/models/${inPath(model.name)}/words`;
  const scatter = new Scatter((word) => stage.go({ word }), FONT);
  const near = make("ol", { class: "bars" });
  const title = make("h2", {});
  const chosen = make("select", { "aria-label": "A word", onchange: () => stage.go({ word: chosen.value }) });
  const side = make("div", { class: "points-side" }, chosen, title, near);
  stage.picture.append(make("div", { class: "points-fields" }, scatter.element, side));
  /** @type {Plane} */
  const plane = await get(`${base}/map?${query({ others: OTHERS, fixed: 1 })}`, stage.signal);
  const frequent = plane.words.map((point) => point.word);
  const read = async () => {
    const word = stage.parts().word ?? plane.telling;
    /** @type {Found} */
    const found = await get(`${base}?${query({ word, neighbours: NEIGHBOURS })}`, stage.signal);
    const its = await get(`${base}/map?${query({ words: word, others: OTHERS, fixed: 1 })}`, stage.signal);
    const options = [...new Set([word, ...frequent])].sort((one, other) => one.localeCompare(other));
    chosen.replaceChildren(...options.map((one) => make("option", { value: one }, visible(one))));
    chosen.value = word;
    title.textContent = `Nearest to «${visible(word)}»`;
    near.replaceChildren(
      ...found.neighbours.map(({ word: other, cosine }) => {
        const open = { type: "button", class: "word", onclick: () => stage.go({ word: other }) };
        const value = make("span", { class: "mono", "data-cosine": String(cosine) }, number(cosine, 3));
        return make("li", { "--share": String(Math.max(0, cosine)) }, make("button", open, visible(other)), value);
      }),
    );
    scatter.show(its.words, new Set(frequent));
    scatter.mark([word, ...found.neighbours.map((one) => one.word)], word);
    stage.offer("words", { m: model.name, word });
  };
  await read();
  return { redraw: () => scatter.draw(), follow: read };
}
