// Text about a sentence: which words are new to the model, and what its weights are compared with.

import { isComparable, typedExamples, whyUnseen } from "./state.js";
import { addressOf } from "../shared/address.js";
import { make, shortened, visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 */

const MOST_LISTED = 5; // words that are new to a model

/**
 * The words that a model does not know, in a sentence; empty where it knows all.
 * @param {Model} model @param {Look} look @param {string} given
 * @param {string} [example] a sentence of which it knows all
 */
export function unknownOf(model, { unknown = [] }, given, example = typedExamples(model)[0]) {
  const fresh = [...new Set(unknown)];
  if (!fresh.length) return "";
  const listed = fresh.slice(0, MOST_LISTED).map((word) => `«${shortened(visible(word), 24)}»`);
  const more = fresh.length > MOST_LISTED ? ` and ${fresh.length - MOST_LISTED} more` : "";
  const words = given.split(/\s+/).filter(Boolean);
  const count = Math.max(1, words.filter((word) => fresh.some((part) => hasPart(word, part))).length);
  const which = words.length === 1 ? "This word is" : `${count} of ${words.length} words ${count === 1 ? "is" : "are"}`;
  const said = `${which} new to this model (${listed.join(", ")}${more})`;
  return `${said}, so its answer may be meaningless.${example ? ` Try: ${example}` : ""}`;
}

/**
 * What is to be known of a text: that a word of it is swapped, and which words the model does not know.
 * @param {Model} model @param {Look} look @param {string} given @param {AskState} state
 */
export function noteOf(model, look, given, { swap }) {
  const swapped = swap && `The text is read with «${shortened(swap[1])}» in the place of «${shortened(swap[0])}».`;
  return [swapped, unknownOf(model, look, given)].filter(Boolean).join(" ");
}

/**
 * Whether a word has a part that stands by itself: «cat» in «cat,» but not in «cats».
 * @param {string} word @param {string} part
 */
function hasPart(word, part) {
  const isLetter = (/** @type {string} */ sign) => /^[\p{L}\p{N}]$/u.test(sign);
  for (let at = word.indexOf(part); at >= 0; at = word.indexOf(part, at + 1)) {
    const [first, last, end] = [part[0], part[part.length - 1], at + part.length];
    const goesOn = (isLetter(first) && isLetter(word[at - 1] ?? "")) || (isLetter(last) && isLetter(word[end] ?? ""));
    if (!goesOn) return true;
  }
  return false;
}

/**
 * Why nothing is seen of an answer, with the way to where it is.
 * @param {Model} model @param {AskState} state @param {Look} look @param {import("./sentence.js").Given} given
 */
export function unseenParts(model, state, look, given) {
  const why = whyUnseen(state, look);
  if (look.id === null || typeof given !== "string" || model.reads === false) return [why];
  const map = { class: "button small", "data-page": "map", href: addressOf("map", { m: model.name, t: given }) };
  return [`${why} Map shows texts of any length: `, make("a", map, "open this text in Map")];
}

/**
 * What the weights are compared with, and how the picture says so.
 * @param {AskState} state @param {Look | null} look before the change @param {Look | null} changed
 * @param {Look | null} shown one of both @param {Look | null} first of two texts
 */
export function comparedWith(state, look, changed, shown, first) {
  if (first && shown && isComparable(state, first, shown, false))
    return { label: "second minus first", before: first };
  if (!look || !changed) return { label: "", before: null };
  if (shown === look) return { label: "before", before: null };
  const isDifference = state.shown === "difference" && isComparable(state, look, changed, !state.swap);
  return isDifference ? { label: "after minus before", before: look } : { label: "after", before: null };
}
