// What the page shows if the address has no text: an example with a link whose removal changes the answer.

import { inPath, post } from "../shared/api.js";
import { optionsOf, readState } from "./state.js";

/**
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {{input: string, name: string, row: number, column: number}} Opening
 */

/** @type {Map<string, Promise<Opening | null>>} */
const kept = new Map();

/**
 * Measured by the server, once for each model; null: it found no such link.
 * @param {Model} model @returns {Promise<Opening | null>}
 */
export function openingOf(model) {
  const known = kept.get(model.name) ?? ask(model);
  kept.set(model.name, known);
  known.catch(() => kept.delete(model.name));
  return known;
}

/** @param {Model} model @returns {Promise<Opening | null>} */
async function ask(model) {
  if (model.input.kind !== "text" || !model.has_attention || !model.examples.length) return null;
  return post(`/api/models/${inPath(model.name)}/opening`, { options: optionsOf(model, readState({})) });
}

/** The address that an opening stands for. @param {Opening} opening @returns {import("../shared/types.js").Parts} */
export function openingParts({ input, name, row, column }) {
  return { t: input, a: name, h: "mean", row: String(row), col: String(column) };
}

/**
 * If the address has no text, shows an instructive example.
 * @param {import("../shared/types.js").Studio} studio @param {Model} model
 * @param {import("../shared/types.js").Parts} parts
 */
export async function openedParts(studio, model, parts) {
  if (["t", "a", "h", "how"].some((key) => parts[key] !== undefined)) return parts;
  const opening = await openingOf(model).catch(() => null);
  if (!opening || studio.parts().t !== undefined) return studio.parts();
  const opened = { ...openingParts(opening), ...parts };
  studio.go(opened);
  return opened;
}
