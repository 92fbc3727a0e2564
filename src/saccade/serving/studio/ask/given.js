// The input of a model as the address describes it: a text, a sample, or a drawing.

import { typedExamples } from "./state.js";

/**
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("./sentence.js").Given} Given
 */

/** @param {Model | null} model @param {Parts} parts @param {string} key @returns {Given | null} */
export function givenOf(model, parts, key) {
  if (model?.input.kind !== "image") return parts[key] ?? (model ? typedExamples(model)[0] : undefined) ?? null;
  if (parts.png) return { png: parts.png };
  const sample = Number(parts.image ?? model.examples[0]?.sample);
  return sample > 0 ? { sample } : null;
}

/**
 * What is given, as the address says it.
 * @param {string} key @param {Given} given @returns {Record<string, string | null>}
 */
export function partsOf(key, given) {
  if (typeof given === "string") return { [key]: given };
  return "sample" in given ? { image: String(given.sample), png: null } : { png: given.png, image: null };
}

/** @param {Given} given */
export function isEmpty(given) {
  return typeof given === "string" && given.trim() === "";
}

/** The parts that are set; those that are left out are not there. @param {Record<string, string | null>} parts */
export function defined(parts) {
  const every = Object.entries(parts).map(([key, value]) => [key, value ?? undefined]);
  return /** @type {Parts} */ (Object.fromEntries(every));
}

/** The text that a second one begins with: another example. @param {Model | null} model @param {Parts} parts */
export function secondText(model, parts) {
  const first = givenOf(model, parts, "t");
  return (model ? typedExamples(model) : []).find((one) => one !== first) ?? String(first ?? "");
}

/**
 * Another model that answers the same text; null: there is none of this name that takes the same kind of input.
 * @param {Model[]} models @param {Model} first @param {string | undefined} name
 */
export function secondModel(models, first, name) {
  return comparable(models, first).find((one) => one.name === name) ?? null;
}

/** The models that can answer what the first is asked. @param {Model[]} models @param {Model} first */
export function comparable(models, first) {
  const isText = first.input.kind === "text";
  return isText ? models.filter((one) => one !== first && one.input.kind === "text" && one.name !== first.name) : [];
}

/**
 * What is seen of the second of two: changes are made to the first alone.
 * @param {import("./state.js").AskState} state @param {boolean} isOther another model, which has other heads
 * @returns {import("./state.js").AskState}
 */
export function besideState(state, isOther) {
  return { ...state, cut: [], swap: null, which: 0, off: isOther ? [] : state.off };
}
