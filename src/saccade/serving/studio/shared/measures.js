// What each head does, in numbers that the library measures, and in one phrase.

import { get, inPath } from "./api.js";

/**
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./types.js").Measures} Measures
 */

/** What is measured, and its name. @type {[string, string][]} */
export const MEASURES = [
  ["entropy", "spread (bits)"],
  ["distance", "distance (words)"],
  ["previous", "previous word"],
  ["same", "same word"],
  ["itself", "itself"],
];
const MOSTLY = 0.5; // of the weight
const FOCUSED = 1; // bits: about two words

/** @param {Look} look @returns {Promise<Measures>} */
export function measuresOf(look) {
  return get(`/api/looks/${inPath(look.id ?? "")}/measures`);
}

/** What a head mostly does with this text. @param {Record<string, number | null>} measures */
export function habitOf({ entropy, previous, same, itself }) {
  if ((previous ?? 0) > MOSTLY) return "the word before";
  if ((itself ?? 0) > MOSTLY) return "itself";
  if ((same ?? 0) > MOSTLY) return "the same word";
  return (entropy ?? 0) < FOCUSED ? "one or two words" : "many words";
}
