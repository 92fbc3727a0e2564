// One sentence (or image): what is asked, what is answered, and what was looked at.

import { alternativesElement, answerElement } from "./answers.js";
import { Refused, events, inPath, post } from "../shared/api.js";
import { Figure, isWritten } from "./figure.js";
import { ImageInput, TextInput } from "./input.js";
import { ANSWERS, answerParts, editsOf, inputOf, isComparable, isEdited, optionsOf, settle } from "./state.js";
import { make, number, reveal } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 * @typedef {string | {sample: number} | {png: string}} Given
 *
 * @typedef {object} Listener
 * @property {(given: Given, isFinal: boolean) => void} asked
 * @property {(parts: Record<string, string | null>, how?: "push" | "replace") => void} changed
 * @property {(row: number, column: number) => void} moved
 * @property {(sentence: string) => void} told
 */

const MOST_KEPT = 24; // looks

export class Sentence {
  /** @param {Listener} listener @param {string} label */
  constructor(listener, label) {
    this.listener = listener;
    this.label = label;
    this.inputPlace = make("div", { class: "input" });
    this.answer = make("div", { class: "answer-place", "aria-live": "polite" });
    this.others = make("div", {});
    this.steps = make("div", {
      class: "steps row",
      role: "group",
      "aria-label": "Step through the output",
      hidden: true,
    });
    this.figure = new Figure(
      (row, column) => listener.moved(row, column),
      (row, column) =>
        listener.changed(row === null ? { pin: null } : { row: String(row), col: String(column), pin: "1" }),
    );
    this.nothing = make("p", { class: "quiet", hidden: true });
    this.element = make("div", { class: "sentence" }, this.inputPlace, this.answer, this.others, this.steps);
    /** @type {TextInput | ImageInput | null} */
    this.input = null;
    /** @type {Model | null} */
    this.model = null;
    /** @type {Look | null} */
    this.look = null;
    /** @type {Look | null} */
    this.changed = null;
    /** @type {Given} */
    this.given = "";
    this.isSpelt = false; // written letter by letter
    /** @type {Map<string, Look>} */
    this.kept = new Map();
  }

  /** @param {Model} model */
  use(model) {
    if (this.model === model) return;
    this.model = model;
    this.clear();
    const typed = (/** @type {string} */ text, /** @type {boolean} */ isFinal) => this.listener.asked(text, isFinal);
    this.input =
      model.input.kind === "image"
        ? new ImageInput(model, (image) => this.listener.asked(image, true), this.listener.told)
        : new TextInput(this.label, typed, model.input.kind === "json" ? "Type a JSON value" : undefined);
    this.inputPlace.replaceChildren(this.input.element);
  }

  /** What is asked where nothing is given: of an image model without samples, the empty pad. */
  get nothingGiven() {
    return this.input instanceof ImageInput ? { png: this.input.png() } : "";
  }

  /** @param {Given} given */
  showInput(given) {
    if (this.input instanceof TextInput) this.input.show(String(given));
    else if (this.input && typeof given === "object") this.input.show(given);
  }

  /**
   * Asks the model, and once more with what is changed.
   * @param {Given} given @param {AskState} state @param {AbortSignal} signal
   */
  async ask(given, state, signal) {
    const { model } = this;
    if (!model) return;
    this.given = given;
    if (state.which >= ANSWERS) {
      throw new Refused(`The address asks for answer ${state.which + 1}; there are at most ${ANSWERS} here.`, 400);
    }
    const options = optionsOf(model, state);
    const request = { input: inputOf(model, given), options, which: state.which };
    const isNew = !this.kept.has(JSON.stringify([model.name, request]));
    if (isNew && model.streams && !state.isDrawn && state.which === 0) await this.stream(model, request, signal);
    const look = await this.lookAt(model, request, signal);
    const edited = { ...request, which: 0, ...editsOf(state) };
    const changed = isEdited(state) ? await this.lookAt(model, edited, signal) : null;
    [this.look, this.changed] = [look, changed];
    if (this.input instanceof ImageInput && look.image && typeof given === "object" && "sample" in given)
      this.input.showPixels(look.image);
  }

  /** @param {Model} model @param {{input: Given, options: object}} request @param {AbortSignal} signal */
  async stream(model, { input, options }, signal) {
    const text = make("span", {});
    const cursor = make("span", { class: "cursor" }, "▍");
    this.answer.replaceChildren(
      make("p", { class: "answer", dir: "auto" }, make("span", { class: "prompt" }, String(input)), text, cursor),
    );
    for await (const { piece } of events(`/api/models/${inPath(model.name)}/stream`, { input, options }, signal)) {
      if (typeof piece === "string") text.textContent += piece;
    }
    cursor.remove();
  }

  /** @param {Model} model @param {object} request @param {AbortSignal} signal @returns {Promise<Look>} */
  async lookAt(model, request, signal) {
    const key = JSON.stringify([model.name, request]);
    const known = this.kept.get(key);
    if (known) return known;
    const look = await post(`/api/models/${inPath(model.name)}/looks`, request, signal);
    this.kept.set(key, look);
    if (this.kept.size > MOST_KEPT) this.kept.delete(/** @type {string} */ (this.kept.keys().next().value));
    return look;
  }

  /** Nothing is asked: nothing is answered. */
  clear() {
    [this.look, this.changed] = [null, null];
    this.answer.replaceChildren();
    this.others.replaceChildren();
    reveal(this.steps, false);
    reveal(this.figure.element, false);
    reveal(this.nothing, false);
  }

  /** What the server no longer keeps is asked for again. */
  forget() {
    this.kept.clear();
  }

  /** The look that is shown: after the change, if there is one. @param {AskState} state */
  shown(state) {
    return this.changed && state.shown !== "before" ? this.changed : this.look;
  }

  /** @param {AskState} state @param {Sentence | null} first another one that this one is compared with */
  async draw(state, first = null) {
    const { model, look } = this;
    const shown = this.shown(state);
    if (!model || !look || !shown) return;
    const settled = shown.id === null ? null : settle(state, shown);
    this.drawAnswer(model, look, state, settled);
    reveal(this.nothing, settled === null);
    reveal(this.figure.element, settled !== null);
    if (!settled) this.nothing.textContent = shown.why ?? "This model has no attention to show.";
    if (!settled) return;
    const { given } = this;
    const its = answerParts(state, shown === this.changed);
    const walked = typeof given === "string" ? { m: model.name, t: given, ...its } : null;
    const compared = this.compared(state, first?.shown(state) ?? null);
    const seen = { ...compared, written: this.rowsWritten(look, state, settled), walked };
    await this.figure.show(shown, settled, state, seen);
  }

  /**
   * What the weights are compared with, and how the picture says so.
   * @param {AskState} state @param {Look | null} first
   */
  compared(state, first) {
    const { look, changed } = this;
    const shown = this.shown(state);
    if (first && shown && isComparable(state, first, shown, false))
      return { label: "second minus first", before: first };
    if (!look || !changed) return { label: "", before: null };
    if (shown === look) return { label: "before", before: null };
    const isDifference = state.shown === "difference" && isComparable(state, look, changed, !state.swap);
    return isDifference ? { label: "after minus before", before: look } : { label: "after", before: null };
  }

  /** @param {Model} model @param {Look} look @param {AskState} state @param {Settled | null} settled */
  drawAnswer(model, look, state, settled) {
    const { words, first } = writtenWords(look);
    // a decoder's first row is the start
    const start = first + (settled?.head === "alignment" || !look.alignment ? 0 : 1);
    const isOfWords = settled !== null && settled.words && isWritten(look, settled);
    const pinned = isOfWords && state.isPinned && state.row !== null ? state.row - start : null;
    const pin = (/** @type {number} */ word) => {
      if (word === pinned) this.listener.changed({ pin: null });
      else if (isOfWords) this.listener.changed({ row: String(word + start), col: null, pin: "1" });
      else this.listener.changed({ h: "alignment", row: String(word), col: null, pin: "1" }, "push");
    };
    this.isSpelt = words.every((word) => word.length === 1); // buttons of single letters help nobody
    const chosen = !this.isSpelt && (isOfWords || (settled && look.alignment)) ? pin : null;
    const answer = answerElement(model, look.answer, look, { words, step: state.step, chosen, pinned });
    const score =
      typeof look.answer.score === "number" && look.answer.tokens
        ? make("small", { class: "mono score", title: scoreMeans(model, state) }, number(look.answer.score))
        : null;
    this.answer.replaceChildren(answer, ...(score ? [score] : []));
    const others = alternativesElement(look.alternatives ?? [], state.which, (which) =>
      this.listener.changed({ n: which ? String(which) : null, pin: null, step: null }, "push"),
    );
    this.others.replaceChildren(...(others ? [others] : []));
    this.drawSteps(words.length, state);
  }

  /** @param {number} count @param {AskState} state */
  drawSteps(count, state) {
    reveal(this.steps, count > 1);
    const step = Math.min(state.step ?? count, count);
    const go = (/** @type {number} */ next) =>
      this.listener.changed({ step: next >= count ? null : String(Math.max(1, next)) });
    let slider = /** @type {HTMLInputElement | null} */ (this.steps.querySelector("input"));
    if (!slider) {
      slider = make("input", { type: "range", min: 1, "aria-label": "Words written so far" });
      this.steps.replaceChildren(
        make("button", { type: "button", class: "small", "aria-label": "One word back" }, "◀"),
        slider,
        make("button", { type: "button", class: "small", "aria-label": "One word on" }, "▶"),
        make("span", { class: "quiet mono" }),
      );
    }
    slider.max = String(count);
    slider.value = String(step);
    slider.oninput = () => go(Number(slider.value));
    const [back, on] = this.steps.querySelectorAll("button");
    back.onclick = () => go(step - 1);
    on.onclick = () => go(step + 1);
    back.disabled = step <= 1;
    on.disabled = step >= count;
    const said = this.steps.querySelector("span");
    if (said) said.textContent = `${this.isSpelt ? "letter" : "word"} ${step} of ${count}`;
  }

  /**
   * The rows of the map that are written when so many words are.
   * @param {Look} look @param {AskState} state @param {Settled} settled
   */
  rowsWritten(look, state, settled) {
    if (state.step === null) return null;
    const words = state.step + writtenWords(look).first;
    if (settled.head === "alignment" || settled.words) return words;
    return look.axes[settled.attention.rows].words.filter((word) => (word ?? 0) < words).length;
  }
}

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

/** Searched answers are ranked by the mean over their tokens, drawn ones have the sum. */
function scoreMeans(/** @type {Model} */ model, /** @type {AskState} */ state) {
  const isSum = state.isDrawn && "tries" in model.options && !model.streams;
  return isSum ? "log-probability of the whole answer" : "log-probability a token, on average";
}
