// The way from a chosen word of Ask to the words that are like it, on the Words page.

import { addressOf } from "../shared/address.js";
import { make, reveal, shortened, visible } from "../shared/dom.js";
import { MARKS } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").Settled} Settled
 */

export class WordLink {
  constructor() {
    this.element = make("a", { class: "button small", "data-page": "words", hidden: true });
  }

  /** @param {Model} model @param {Settled} settled @param {number} row the chosen word */
  show(model, { attention, rows, words, view }, row) {
    const [first, last] = [model.words[0], model.words.at(-1)];
    const side = attention.name.startsWith("decoder") ? last : first;
    const word = rows[row] ?? "";
    const isWord = words && view !== "picture" && /^\S*\p{L}\S*$/u.test(word) && !(word in MARKS);
    reveal(this.element, side !== undefined && isWord);
    this.element.textContent = `More like «${shortened(visible(word), 20)}»`;
    /** @type {import("../shared/types.js").Parts} */
    const other = side !== undefined && side !== first ? { side } : {};
    this.element.href = addressOf("words", { m: model.name, word, ...other });
  }
}
