// What is given to a model, as the address says it: a text, a sample, or a drawing.

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
