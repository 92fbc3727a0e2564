// The answer of the model with the current changes, next to the original answer and its probability.

import { alternativesElement, answerElement, differing } from "./answers.js";
import { tokensOfWord } from "./writing.js";
import { make, percent, reveal, shortened, visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").AnswerRecord} AnswerRecord
 * @typedef {import("../shared/types.js").Scored} Scored
 */

const MOVED = 0.02; // of a probability: smaller changes are not mentioned separately
const WHOLE = "that the model gives this whole answer: the product of the probabilities of its parts";

export class Headline {
  /** @param {(which: number) => void} chosen another answer */
  constructor(chosen) {
    this.chosen = chosen;
    this.answer = make("div", { class: "answer-place", "aria-live": "polite" });
    this.probability = make("p", { class: "probability" });
    this.fresh = make("p", { class: "fresh", hidden: true }); // how probable a new answer is
    this.was = make("p", { class: "was", hidden: true });
    this.others = make("div", { class: "others-place" });
    const first = make("div", { class: "headline-first" }, this.answer, this.fresh, this.probability, this.others);
    this.element = make("div", { class: "headline" }, first, this.was);
  }

  clear() {
    this.answer.replaceChildren();
    this.probability.replaceChildren();
    this.others.replaceChildren();
    for (const one of [this.was, this.fresh]) reveal(one, false);
  }

  /**
   * @param {Model} model @param {Look} look the answer before any change @param {Look | null} changed after it
   * @param {import("./answers.js").Writing} writing @param {number} which of the answers is looked at
   * @param {boolean} isDrawn the answers are drawn at random
   */
  show(model, look, changed, writing, which, isDrawn) {
    const now = changed ?? look;
    this.answer.replaceChildren(answerElement(model, now.answer, now, writing));
    const other = changed ? null : alternativesElement(look.alternatives ?? [], which, this.chosen);
    this.others.replaceChildren(...(other ? [other] : []));
    reveal(this.was, changed !== null);
    if (changed) this.was.replaceChildren(...before(look, changed));
    const fresh = changed && !isDrawn ? freshChances(look, changed) : null;
    const whose = fresh ? "" : ` probability of ${isDrawn ? "the likeliest answer" : "the answer"} before`;
    const told = changed ? chosenPart(look, changed, writing.told) : null;
    this.probability.replaceChildren(...(changed ? changedParts(changed, whose, told) : plainParts(look)));
    reveal(this.fresh, fresh !== null);
    this.fresh.replaceChildren(...(fresh ? [chances(fresh), make("small", {}, namedFor(now.answer))] : []));
  }
}

/** @param {Look} look */
function plainParts(look) {
  const probability = probabilityOf(look.answer);
  if (probability === null) return [];
  return [make("b", { class: "mono", title: WHOLE }, percent(probability)), make("small", {}, namedFor(look.answer))];
}

/** What a percentage is: of a text, that of all its tokens. @param {AnswerRecord} answer */
function namedFor(answer) {
  return typeof answer.log_probability === "number" ? " probability of the whole answer" : " probability";
}

/**
 * How probable the answer of the changed model was before, if it was found then, and is now; null: it is the old one.
 * @param {Look} look @param {Look} changed @returns {[number | null, number] | null}
 */
export function freshChances(look, { answer, change }) {
  const now = change?.same === false ? probabilityOf(answer) : null;
  if (now === null) return null;
  const text = textOf(answer);
  const known = look.alternatives?.find((one) => textOf(one) === text);
  return [look.answer.probabilities?.[text] ?? (known ? probabilityOf(known) : null), now];
}

/** How probable the old answer was, and is now; null: the model does not say. @param {Look} changed */
export function oldChances({ change }) {
  if (!change?.before.tokens.length) return null;
  return /** @type {[number, number]} */ ([change.before.before, change.before.after].map(together));
}

/** @param {[number | null, number]} pair before and after */
export function chances([one, other]) {
  const text = one === null ? percent(other) : `${percent(one)} → ${percent(other)}`;
  return make("b", { class: "mono", title: WHOLE }, text);
}

/**
 * How probable the old answer was, and is now.
 * @param {Look} changed @param {string} which answer that is @param {Part | null} chosen the word that is chosen
 * @typedef {{token: string, one: number, other: number}} Part  of an answer, before and after
 */
function changedParts(changed, which, chosen) {
  const pair = oldChances(changed);
  const { change } = changed;
  if (!change || !pair) return [];
  const moved = chosen ?? mostMoved(change.before);
  const told = chances(pair);
  told.classList.add("moved");
  const where = moved && `; ${chosen ? "at" : "most at"} «${shortened(visible(moved.token), 24)}»: `;
  return [
    told,
    make("small", {}, which),
    moved && make("small", { class: "moved-most" }, where),
    moved && make("span", { class: "mono" }, `${percent(moved.one)} → ${percent(moved.other)}`),
  ].filter((part) => part !== null);
}

/**
 * The word of the old answer that is chosen; null: none is, or the answer has only one.
 * @param {Look} look @param {Look} changed @param {number | null} word @returns {Part | null}
 */
function chosenPart(look, { change }, word) {
  const { tokens = [], before: old = [], after: now = [] } = change?.before ?? {};
  const its = (tokens.length > 1 && tokensOfWord(look, word)?.filter((place) => place in tokens)) || [];
  if (!its.length) return null;
  const [one, other] = [old, now].map((logs) => together(its.map((place) => logs[place])));
  return { token: its.map((place) => tokens[place]).join("").replace(/^\u2581(?=.)/, ""), one, other };
}

/** The part of an answer whose probability changes most. @param {Scored} scored */
function mostMoved({ tokens, before, after }) {
  if (tokens.length < 2) return null;
  const parts = tokens.map((token, place) => {
    const [one, other] = [Math.exp(before[place]), Math.exp(after[place])];
    return { token, one, other, size: Math.abs(one - other) };
  });
  const most = parts.reduce((best, part) => (part.size > best.size ? part : best));
  return most.size >= MOVED ? most : null;
}

/** What the answer was, struck through where it differs. @param {Look} look @param {Look} changed */
function before(look, changed) {
  const [old, fresh] = [textOf(look.answer), textOf(changed.answer)];
  if (old === fresh) return [make("span", { class: "same" }, "the same answer as before the change")];
  return [make("span", { class: "quiet" }, "before: "), ...differing(fresh, old, "s")];
}

/** @param {AnswerRecord} answer */
export function textOf(answer) {
  return String(answer.text ?? answer.label ?? "");
}

/**
 * How probable a whole answer is; null: the model does not say.
 * @param {AnswerRecord} answer @returns {number | null}
 */
export function probabilityOf(answer) {
  if (typeof answer.log_probability === "number") return Math.exp(answer.log_probability);
  if (typeof answer.label === "string" && answer.probabilities) return answer.probabilities[answer.label] ?? null;
  if (Array.isArray(answer.labels) && typeof answer.score === "number") return Math.exp(answer.score);
  if (Array.isArray(answer.masks)) return answer.masks.reduce(surest, 1);
  return null;
}

/** @param {number} all @param {{probability: number}[]} some candidates, the surest first */
function surest(all, some) {
  return all * (some[0]?.probability ?? 1);
}

/** @param {number[]} logs of probabilities */
function together(logs) {
  return Math.exp(logs.reduce((sum, one) => sum + one, 0));
}

/** How probable each token of the old answer is before and after. @param {Scored} scored */
export function probabilityTable({ tokens, before: one, after: other }) {
  const rows = tokens.map((token, place) => {
    const pair = [Math.exp(one[place]), Math.exp(other[place])];
    const cells = pair.map((probability) => make("td", { class: "mono" }, percent(probability)));
    const name = make("th", { scope: "row" }, make("bdi", {}, visible(token)));
    return make("tr", Math.abs(pair[0] - pair[1]) > 0.05 ? { class: "moved" } : {}, name, ...cells);
  });
  const head = ["part", "before", "after"].map((title) => make("th", { scope: "col" }, title));
  const title = "Probability of each part of the original answer, before and after the change";
  const caption = make("caption", { class: "unseen" }, title);
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}
