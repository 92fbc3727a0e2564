// While the user steps through an answer: the words that the model could have written, with their probabilities.

import { get, inPath } from "../shared/api.js";
import { make, percent, reveal, visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Candidates} Candidate
 */

const DRAWN = "Drawn at random, by these probabilities.";
const SEARCHED = "Not the likeliest word here: whole answers are compared, and the best one has this word.";
const SPACED = "· is a space: these candidates differ in whether one stands before them";

const RIVAL = ", likelier here, but whole answers are compared";
const UNSURE = 0.5; // of a probability: a word below it is pointed out

export class Candidates {
  /** @param {(step: number) => void} stepped to a word that the model was unsure of */
  constructor(stepped) {
    this.stepped = stepped;
    this.doubt = make("button", { type: "button", class: "small doubt", hidden: true });
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
    reveal(this.doubt, false);
    if (token === null || !look.id) return reveal(this.element, false);
    const step = (await this.of(look.id))[token];
    if (mine !== this.shows) return undefined;
    reveal(this.element, step !== undefined);
    if (!step) return undefined;
    const names = step.candidates.map(({ token }) => nameOf(token));
    const isTwin = (/** @type {string} */ name) => names.indexOf(name) !== names.lastIndexOf(name);
    const items = step.candidates.map((one, place) => item(one, step.token, isTwin(names[place])));
    this.list.replaceChildren(...items);
    const isLess = step.candidates[0]?.token !== step.token;
    this.why.textContent = !isLess ? "" : isDrawn ? DRAWN : SEARCHED;
    return undefined;
  }

  /** The candidates at each step of an answer; those of one answer are kept. @param {string} id of its look */
  of(id) {
    /** @type {Promise<Candidate[]>} */
    const known = this.kept.get(id) ?? get(`/api/looks/${inPath(id)}/candidates`);
    this.kept.clear();
    this.kept.set(id, known);
    return known;
  }

  /**
   * Points out the word of an answer that the model was least sure of, if it was unsure of any.
   * @param {Look} look @param {number[]} tokens the first token of each word, counted from 0
   * @param {boolean} isDrawn the answer is drawn at random
   */
  async showDoubt(look, tokens, isDrawn) {
    const mine = this.shows;
    if (!look.id || !tokens.length) return;
    const steps = await this.of(look.id);
    if (mine !== this.shows) return;
    const chances = tokens.map((token) => (steps[token] ? chanceOf(steps[token]) : 1));
    const word = chances.indexOf(Math.min(...chances));
    const step = steps[tokens[word]];
    if (!step || chances[word] >= UNSURE) return;
    const other = step.candidates.find((one) => one.token !== step.token);
    const instead = other ? `, «${nameOf(other.token)}» ${percent(other.probability)}` : "";
    const least = percent(step.candidates.at(-1)?.probability ?? 0);
    const chance = chances[word] ? percent(chances[word]) : `below ${least}`;
    const isLess = other && other.probability > chances[word];
    const why = !isLess ? "" : isDrawn ? "; the word is drawn at random" : RIVAL;
    this.doubt.textContent = `least sure at «${nameOf(step.token)}»: ${chance}${instead}${why}`;
    this.doubt.onclick = () => this.stepped(word + 1);
    reveal(this.doubt, true);
  }
}

/** @param {string} token */
function nameOf(token) {
  return visible(token.replace(/^\u2581(?=.)/, ""));
}

/** How probable the written token was; 0 if it is none of the candidates. @param {Candidate} step */
function chanceOf({ token, candidates }) {
  return candidates.find((one) => one.token === token)?.probability ?? 0;
}

/**
 * @param {{token: string, probability: number}} candidate @param {string} written
 * @param {boolean} isTwin another candidate differs only in the space before it, which is shown then
 */
function item({ token, probability }, written, isTwin) {
  const name = make("bdi", isTwin ? { title: SPACED } : {}, isTwin ? visible(token) : nameOf(token));
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
