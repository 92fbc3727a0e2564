// The words of an answer in the order in which they were written, and a slider to step through them.

import { make, reveal } from "../shared/dom.js";

/** @typedef {import("../shared/types.js").Look} Look */

/**
 * The words that were written one after the other, and the row of the first of them.
 * @param {Look} look @returns {{words: string[], first: number}}
 */
export function writtenWords(look) {
  if (look.alignment) {
    const words = look.alignment.rows.filter((word) => word !== "</s>");
    return { words, first: 0 };
  }
  const writer = look.attentions.find((one) => one.kind === "causal");
  const text = String(look.answer?.text ?? "");
  if (!writer || !text) return { words: [], first: 0 };
  const labels = look.axes[writer.rows].labels.map((label) => label.replaceAll("▁", " "));
  return lastWords(labels, text);
}

/**
 * The last of some labels, as far as they make up a text: before it stands what was given, after it the end.
 * @param {string[]} labels @param {string} text @returns {{words: string[], first: number}}
 */
function lastWords(labels, text) {
  let [first, last, end] = [labels.length, labels.length, text.length];
  while (first > 0) {
    const label = labels[first - 1].trim() || labels[first - 1];
    const start = end >= label.length ? text.lastIndexOf(label, end - label.length) : -1;
    const isNext = start >= 0 && (first === last || !/\S/.test(text.slice(start + label.length, end)));
    if (!isNext && first < last) break;
    first -= 1;
    if (isNext) end = start;
    else last -= 1;
  }
  return { words: labels.slice(first, last).map((label) => label.trim() || label), first };
}

/**
 * The rows of the map that are written when so many words are; null: all.
 * @param {Look} look @param {number | null} step @param {import("./state.js").Settled} settled
 */
export function rowsWritten(look, step, settled) {
  if (step === null) return null;
  const words = step + writtenWords(look).first;
  if (settled.head === "alignment" || settled.words) return words;
  return look.axes[settled.attention.rows].words.filter((word) => (word ?? 0) < words).length;
}

/** The slider that goes through an answer word by word. */
export class Steps {
  /** @param {(step: number | null) => void} stepped so many words are written; null: all */
  constructor(stepped) {
    this.stepped = stepped;
    this.count = 0;
    this.step = 0;
    this.slider = make("input", {
      type: "range",
      min: 1,
      "aria-label": "Words written so far",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.back = this.turner("◀", "One word back", -1);
    this.on = this.turner("▶", "One word forward", 1);
    this.said = make("span", { class: "quiet mono" });
    const all = [this.back, this.slider, this.on, this.said];
    const group = { role: "group", "aria-label": "Step through the output", hidden: true };
    this.element = make("div", { class: "steps row", ...group }, ...all);
  }

  /** @param {string} sign @param {string} label @param {number} by */
  turner(sign, label, by) {
    const turn = () => this.go(this.step + by);
    return make("button", { type: "button", class: "small", "aria-label": label, onclick: turn }, sign);
  }

  /** @param {number} next */
  go(next) {
    this.stepped(next >= this.count ? null : Math.max(1, next));
  }

  /** @param {number} count @param {number | null} step @param {boolean} isSpelt written letter by letter */
  show(count, step, isSpelt) {
    reveal(this.element, count > 1);
    this.count = count;
    this.step = Math.min(step ?? count, count);
    this.slider.max = String(count);
    this.slider.value = String(this.step);
    this.back.disabled = this.step <= 1;
    this.on.disabled = this.step >= count;
    this.said.textContent = `${isSpelt ? "letter" : "word"} ${this.step} of ${count}`;
  }
}
