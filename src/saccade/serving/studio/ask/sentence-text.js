// Text about a sentence: which words are new to the model, and what its weights are compared with.

import { isComparable, typedExamples } from "./state.js";
import { visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 */

/**
 * The words that a model does not know, in a sentence; empty where it knows all.
 * @param {Model} model @param {Look} look @param {string} given
 */
export function unknownOf(model, { unknown = [] }, given) {
  if (!unknown.length) return "";
  const count = given.split(/\s+/).filter(Boolean).length;
  const words = unknown.map((word) => `«${visible(word)}»`).join(", ");
  const verb = unknown.length === 1 ? "is" : "are";
  const [example] = typedExamples(model);
  const said = `${unknown.length} of ${count} words ${verb} new to this model (${words})`;
  return `${said}, so its answer may be meaningless.${example ? ` Try: ${example}` : ""}`;
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
