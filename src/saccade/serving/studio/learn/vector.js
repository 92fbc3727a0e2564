// One vector or attention: compares two small translators, which differ in nothing else, by sentence length.

import { events, inPath } from "../shared/api.js";
import { make, number } from "../shared/dom.js";
import { differing } from "../ask/answers.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {{from: number, to: number, bleu: number, right: number, of: number}} Bin
 * @typedef {{bins: Bin[], sentence: string, reference: string, answer: string}} Measured
 */

const MODELS = ["one-vector", "with-attention"];
const TITLES = ["one vector", "attention"];
const LONGEST = 99;
/** @type {Map<string, Promise<Measured>>} */
const kept = new Map();

/** @param {Stage} stage */
export async function vector(stage) {
  await stage.studio.readModels();
  if (!(await hasModels(stage, MODELS))) return;
  /** @type {Measured[]} */
  const measured = [];
  for (const [place, name] of MODELS.entries()) {
    const known = kept.get(name) ?? measure(name, stage, place);
    kept.set(name, known);
    known.catch(() => kept.delete(name));
    measured.push(await known);
  }
  const [first] = measured;
  const label = "BLEU by the number of words in the sentence";
  const chart = make("div", { class: "lengths", role: "img", "aria-label": label });
  chart.append(...first.bins.map((_, place) => groupOf(measured.map(({ bins }) => bins[place]))));
  const legend = TITLES.map((title, place) => make("span", { class: `key key-${place}` }, title));
  const unit = make("span", {}, "BLEU (100: all words right) by the number of words in the sentence");
  const above = make("p", { class: "row lengths-legend" }, ...legend, unit);
  const answers = measured.map(({ answer, reference }, place) => {
    const marked = differing(reference, answer);
    return make("p", { class: "long-answer" }, make("small", {}, TITLES[place]), make("span", {}, ...marked));
  });
  stage.picture.append(above, chart, make("p", { class: "sentence-line" }, first.sentence), ...answers);
  stage.offer("ask", { m: MODELS[0], t: first.sentence, m2: MODELS[1] });
}

/** @param {string} name @param {Stage} stage @param {number} place @returns {Promise<Measured>} */
async function measure(name, stage, place) {
  for await (const told of events(`/api/learn/lengths/${inPath(name)}`, {}, stage.signal)) {
    if (told.bins) return told;
    stage.progress((place + told.done / told.of) / MODELS.length, "Translating sentences of every length");
  }
  throw new Error("The measurement ended early.");
}

/** @param {Bin[]} bins the same range of both models */
function groupOf(bins) {
  const bars = bins.map(({ bleu }, place) => {
    const said = make("span", { class: "mono", "data-bleu": String(bleu) }, number(bleu, 0));
    return make("div", { class: `length-bar key-${place}`, "--share": String(bleu / 100) }, said);
  });
  const [{ from, to, of }] = bins;
  const name = to >= LONGEST ? `${from} and more` : from === 1 ? `up to ${to}` : `${from}–${to}`;
  const label = make("span", { title: `${of} sentences` }, name);
  return make("div", { class: "length-group" }, make("div", { class: "length-bars" }, ...bars), label);
}
