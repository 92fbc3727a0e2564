// While the user steps through an answer: the words that the model could have written, with their probabilities.

import { get, inPath } from "../shared/api.js";
import { make, percent, reveal, visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Candidates} Candidate
 */

const DRAWN = "Drawn at random, by these probabilities.";
const SEARCHED = "Not the likeliest word here: whole answers are compared, and the best one has this word.";

export class Candidates {
  constructor() {
    this.list = make("ol", { class: "next-words", "aria-label": "Candidates for this word" });
    this.why = make("p", { class: "quiet" });
    this.element = make("div", { class: "row next-place", hidden: true }, this.list, this.why);
    /** @type {Map<string, Promise<Candidate[]>>} */
    this.kept = new Map();
    this.shows = 0;
  }

  /**
   * @param {Look} look @param {number | null} token of the answer, counted from 0; null: nothing is stepped through
   * @param {boolean} isDrawn the answer is drawn at random
   */
  async show(look, token, isDrawn) {
    this.shows += 1;
    const mine = this.shows;
    if (token === null || !look.id) return reveal(this.element, false);
    /** @type {Promise<Candidate[]>} */
    const known = this.kept.get(look.id) ?? get(`/api/looks/${inPath(look.id)}/candidates`);
    this.kept.clear(); // keep only the candidates of one answer
    this.kept.set(look.id, known);
    const step = (await known)[token];
    if (mine !== this.shows) return undefined;
    reveal(this.element, step !== undefined);
    if (!step) return undefined;
    this.list.replaceChildren(...step.candidates.map((one) => item(one, step.token)));
    const isLess = step.candidates[0]?.token !== step.token;
    this.why.textContent = !isLess ? "" : isDrawn ? DRAWN : SEARCHED;
    return undefined;
  }
}

/** @param {{token: string, probability: number}} candidate @param {string} written */
function item({ token, probability }, written) {
  const name = make("bdi", {}, visible(token.replace(/^\u2581(?=.)/, "")));
  const said = make("span", { class: "mono" }, percent(probability));
  const one = make("li", { "--share": String(probability) }, name, said);
  one.toggleAttribute("data-written", token === written);
  return one;
}

/**
 * The first token of the word that is written at a step, among those of the answer.
 * @param {Look} look @param {number} step so many words are written @param {number} first the row of the first word
 */
export function tokenOf(look, step, first) {
  const writer = look.attentions.find((one) => one.kind === "causal");
  if (!writer) return step - 1; // a token is a word
  const { words } = look.axes[writer.rows];
  const start = first + Number(Boolean(look.alignment)); // a translation begins with the start token
  const before = (/** @type {number} */ word) => words.filter((one) => (one ?? 0) < word).length;
  return before(start + step - 1) - before(start);
}
