// Measures what the answer depends on: leaves out each word in turn, and shows how probable the answer is without it.

import { events, inPath } from "../shared/api.js";
import { make, percent, shortened, visible } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/status.js").Status} Status
 * @typedef {{number: number, word: string, start: number, after: number | null}} Effect
 * @typedef {{text: string, answer: string, before: number, effects: Effect[]}} Measured
 */

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
   * @param {string} model its name @param {{input: unknown, options: object}} asked @param {string} text
   * @param {AbortSignal} signal @param {(share: number, what?: string) => void} progress
   */
  async show(model, asked, text, signal, progress) {
    const key = JSON.stringify([model, asked]);
    const measured = this.kept.get(key) ?? (await measure(model, asked, text, signal, progress));
    this.kept.set(key, measured);
    this.draw(measured);
  }

  /** @param {Measured} measured */
  draw({ answer, before, effects }) {
    const drops = effects.map(({ after }) => Math.max(0, before - (after ?? -Infinity)));
    const most = Math.max(...drops.filter(Number.isFinite), 1e-9);
    this.words.replaceChildren(
      ...effects.map(({ word, after }, place) => {
        const shade = SHADE * Math.min(1, drops[place] / most);
        const left = after === null ? "no text" : percent(Math.exp(after));
        const shown = make("bdi", { class: isDarkInk(shade) ? "on-ink" : "" }, shortened(visible(word), 24));
        shown.style.backgroundColor = colourOf(shade);
        return make("li", {}, shown, make("span", { class: "mono" }, left));
      }),
    );
    this.said.textContent =
      `Below each word: the probability of «${shortened(answer, 60)}» without that word; with all words it is ` +
      `${percent(Math.exp(before))}. The darker a word, the more the answer depends on it.`;
  }
}

/**
 * @param {string} model @param {{input: unknown, options: object}} asked @param {string} text
 * @param {AbortSignal} signal @param {(share: number, what?: string) => void} progress @returns {Promise<Measured>}
 */
async function measure(model, asked, text, signal, progress) {
  /** @type {Measured} */
  const found = { text, answer: "", before: 0, effects: [] };
  let count = 1;
  for await (const told of events(`/api/models/${inPath(model)}/effects`, asked, signal)) {
    if (told.of !== undefined) [count, found.answer, found.before] = [told.of, told.answer, told.before];
    else found.effects.push(told);
    progress(found.effects.length / Math.max(1, count), "Leaving out each word");
  }
  return found;
}
