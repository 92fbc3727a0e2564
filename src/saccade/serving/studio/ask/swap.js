// Replaces one word of the text, even if the same word occurs twice.

import { make, reveal, shortened } from "../shared/dom.js";

/**
 * @typedef {object} Place  a word with enough context to identify it
 * @property {string} label
 * @property {string} word
 * @property {number} which  of the words that are the same, from 0
 * @property {string} phrase
 * @property {string} before  what comes before the word in the phrase
 * @property {string} after
 */

const MOST_AROUND = 12; // words of context; a word that these do not identify is not offered
const WORD = /[\p{L}\p{N}'’-]+/gu;

export class Swap {
  /** @param {(swap: string) => void} swapped */
  constructor(swapped) {
    this.old = make("select", { "aria-label": "Word to replace" });
    this.fresh = make("input", {
      type: "text",
      size: 10,
      "aria-label": "Replacement word",
      placeholder: "another word",
    });
    const button = make("button", { class: "small" }, "Swap");
    this.element = make("form", { class: "row swap" }, "swap ", this.old, " for ", this.fresh, button);
    /** @type {Place[]} */
    this.places = [];
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      const place = this.places.find((one) => one.phrase === this.old.value);
      const word = this.fresh.value.trim();
      if (place && word) swapped(`${place.phrase}→${place.before}${word}${place.after}`);
    });
  }

  /** @param {string | null} text null: there are no words @param {[string, string] | null} swap what is swapped now */
  show(text, swap) {
    this.places = text === null ? [] : placesOf(text);
    reveal(this.element, this.places.length > 0);
    const wanted = swap?.[0] ?? this.old.value;
    const options = this.places.map(({ phrase, label }) => make("option", { value: phrase, title: phrase }, label));
    this.old.replaceChildren(...options);
    const place = this.places.find((one) => one.phrase === wanted) ?? this.places[0];
    if (!place) return;
    this.old.value = place.phrase;
    if (!swap || place.phrase !== wanted || document.activeElement === this.fresh) return;
    this.fresh.value = swap[1].slice(place.before.length, swap[1].length - place.after.length);
  }

  /** Offers this word to be replaced. @param {{word: string, which: number}} wanted */
  prefer({ word, which }) {
    const same = this.places.filter((one) => one.word === word);
    const place = same.find((one) => one.which === which) ?? same[0];
    if (place) this.old.value = place.phrase;
  }
}

/**
 * The word of the text that a cell is about: its row, or where the rows are words of the answer, its column.
 * @param {import("../shared/types.js").Look} look @param {import("./state.js").Settled} settled
 * @param {{row: number, column: number}} cell @returns {{word: string, which: number} | null}
 */
export function wordOfText(look, { attention, words, rows, columns }, { row, column }) {
  const written = look.alignment && look.attentions.find(({ name }) => name === look.alignment?.name)?.rows;
  if (!words || attention.columns === written) return null;
  const [labels, place] = attention.rows === attention.columns ? [rows, row] : [columns, column];
  const word = labels[place];
  return word === undefined ? null : { word, which: labels.slice(0, place).filter((one) => one === word).length };
}

/** @param {string} text @returns {Place[]} */
function placesOf(text) {
  const words = [...text.matchAll(WORD)].map((found) => {
    return { word: found[0], start: found.index, end: found.index + found[0].length };
  });
  return words.flatMap(({ word, start, end }, place) => {
    let [first, last] = [place, place];
    const phrase = () => text.slice(words[first].start, words[last].end);
    while (!isOnce(text, phrase()) && last - first < MOST_AROUND && (first > 0 || last < words.length - 1)) {
      if (first > 0) first -= 1;
      else last += 1;
    }
    if (!isOnce(text, phrase())) return [];
    const same = words.filter((one) => one.word === word);
    const which = same.findIndex((one) => one.start === start);
    const label = shortened(word) + (same.length > 1 ? ` (${which + 1} of ${same.length})` : "");
    const [before, after] = [text.slice(words[first].start, start), text.slice(end, words[last].end)];
    return [{ label, word, which, phrase: phrase(), before, after }];
  });
}

/** Whether a phrase stands once in a text, between ends of words. @param {string} text @param {string} phrase */
function isOnce(text, phrase) {
  const isPart = (/** @type {string} */ two) => /^[\p{L}\p{N}]{2}$/u.test(two);
  let count = 0;
  for (let at = text.indexOf(phrase); at >= 0 && count < 2; at = text.indexOf(phrase, at + 1)) {
    const end = at + phrase.length;
    if (!isPart(text.slice(Math.max(0, at - 1), at + 1)) && !isPart(text.slice(end - 1, end + 1))) count += 1;
  }
  return count === 1;
}
