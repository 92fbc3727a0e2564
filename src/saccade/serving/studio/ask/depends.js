// Measures what the answer depends on: leaves out each word in turn, and shows how probable the answer is without it.

import { events, inPath } from "../shared/api.js";
import { make, percent, shortened, visible } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/status.js").Status} Status
 * @typedef {{number: number, word: string, start: number, after: number[] | null}} Effect  of each token; null: no text
 * @typedef {{answer: string, tokens: string[], before: number[], effects: Effect[]}} Measured
 */

const CUT =
  "What the answer depends on is not measured while links are cut: they are cut at places of the text, and without a " +
  "word, other words stand there. Undo the cuts to measure it.";
const SHADE = 0.36; // of the darkest word: text on it must stay readable

export class Depends {
  constructor() {
    this.words = make("ol", { class: "depends-words", "aria-label": "How probable the answer is without each word" });
    this.said = make("p", { class: "quiet" });
    const label = { class: "depends", "aria-label": "What the answer depends on", hidden: true };
    this.element = make("section", label, this.words, this.said);
    /** @type {Map<string, Measured>} */
    this.kept = new Map();
  }

  /**
   * Measures, if that was not done before, and shows what was found.
   * @param {string} model its name @param {{input: unknown, options: object, without_links: unknown[]}} asked
   * @param {number[] | null} chosen the tokens of one word of the answer; null: all of it
   * @param {AbortSignal} signal @param {(share: number, what?: string) => void} progress
   */
  async show(model, asked, chosen, signal, progress) {
    this.words.replaceChildren();
    this.said.textContent = asked.without_links.length ? CUT : "";
    if (asked.without_links.length) return;
    const { without_links: _, ...request } = asked;
    const key = JSON.stringify([model, request]);
    const measured = this.kept.get(key) ?? (await measure(model, request, signal, progress));
    this.kept.set(key, measured);
    this.draw(measured, chosen);
  }

  /** @param {Measured} measured @param {number[] | null} chosen */
  draw({ answer, tokens, before, effects }, chosen) {
    const its = chosen?.filter((token) => token in tokens) ?? [];
    const sum = (/** @type {number[]} */ logs) => {
      return (its.length ? its.map((token) => logs[token]) : logs).reduce((all, one) => all + one, 0);
    };
    const whole = sum(before);
    const [chance, said] = [Math.exp(whole), percent(Math.exp(whole))];
    const changes = effects.map(({ after }) => (after ? Math.exp(sum(after)) : 0) - chance);
    const most = Math.max(...changes.map(Math.abs), 1e-9);
    this.words.replaceChildren(
      ...effects.map(({ word, after }, place) => {
        const shade = (SHADE * Math.abs(changes[place])) / most;
        const without = after === null ? "no text" : percent(Math.exp(sum(after)));
        const way = after === null || without === said ? "" : changes[place] < 0 ? " ↓" : " ↑";
        const shown = make("bdi", { class: isDarkInk(shade) ? "on-ink" : "" }, shortened(visible(word), 24));
        shown.style.backgroundColor = colourOf(shade);
        return make("li", {}, shown, make("span", { class: "mono" }, without + way));
      }),
    );
    const word = its.map((token) => tokens[token]).join("").replaceAll("\u2581", " ").trim();
    const all = `«${shortened(answer, 60)}»`;
    const what = its.length ? `«${word}» at its place in the answer` : all;
    this.said.textContent =
      `With all words, the probability of ${what} is ${said}; below each word stands what it is ` +
      "without that word, ↓ lower or ↑ higher; the stronger the colour of a word, the larger the change.";
  }
}

/**
 * @param {string} model @param {object} asked @param {AbortSignal} signal
 * @param {(share: number, what?: string) => void} progress @returns {Promise<Measured>}
 */
async function measure(model, asked, signal, progress) {
  /** @type {Measured} */
  const found = { answer: "", tokens: [], before: [], effects: [] };
  let count = 1;
  for await (const told of events(`/api/models/${inPath(model)}/effects`, asked, signal)) {
    if (told.of !== undefined) {
      count = told.of;
      Object.assign(found, { answer: told.answer, tokens: told.tokens, before: told.scores });
    } else found.effects.push({ ...told, after: told.scores });
    progress(found.effects.length / Math.max(1, count), "Leaving out each word");
  }
  return found;
}
