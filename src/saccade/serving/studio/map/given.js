// The text of a map: made from a model's examples, stored in the address, or pasted and compressed after the #.

import { countOf } from "./reading.js";
import { keptText, madeCounts, madeText, packed } from "./text.js";

/**
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").Model} Model
 */

export class GivenText {
  constructor() {
    this.hash = { key: "", text: "" };
    /** @type {Map<string, number>} tokens a word of a model's examples */
    this.perWord = new Map();
  }

  /** @param {Parts} parts @param {Model} model @returns {Promise<string | null>} */
  async textOf(parts, model) {
    if (parts.t !== undefined) return parts.t;
    if (parts.k === undefined) return madeText(model.examples, countOf(parts));
    const text = await keptText(parts.k, location.hash);
    if (text !== null && this.hash.key !== parts.k) this.hash = { key: parts.k, text: await packed(text) };
    return text;
  }

  /** How many words of its examples are offered: no more than are taken. @param {Model} model */
  countsOf(model) {
    return madeCounts(model.examples, this.perWord.get(model.name));
  }

  /**
   * How many tokens the words of a model's examples have.
   * @param {Model} model @param {string} text @param {number} tokens
   */
  learn(model, text, tokens) {
    const words = text.split(" ").length;
    const isMade = text === madeText(model.examples, words);
    if (isMade && tokens >= words) this.perWord.set(model.name, tokens / words);
  }

  /** The packed text stays behind the address whatever else of it is written. @param {string | undefined} wanted */
  writeHash(wanted) {
    const { key, text } = this.hash;
    const isThis = wanted === key && location.search.includes(key);
    if (isThis && text && location.hash !== text)
      history.replaceState(history.state, "", location.pathname + location.search + text);
  }
}
