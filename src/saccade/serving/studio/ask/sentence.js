// One sentence (or image) with its input, the answer, and what the model looked at.

import { Refused, events, inPath, post } from "../shared/api.js";
import { Candidates, tokenOf } from "./candidates.js";
import { cutCells, cutKeys } from "./cells.js";
import { Depends } from "./depends.js";
import { Figure } from "./figure.js";
import { writesNote } from "./figure-text.js";
import { Headline } from "./headline.js";
import { ImageInput, TextInput } from "./input.js";
import { ANSWERS, answerParts, editsOf, inputOf, isDrawnAnswer, isEdited, optionsOf, seenOf } from "./state.js";
import { comparedWith, noteOf, unseenParts } from "./sentence-text.js";
import { Strip } from "./strip.js";
import { Steps, rowsWritten } from "./written.js";
import { tokensOfWord, writingOf } from "./writing.js";
import { make, reveal } from "../shared/dom.js";

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
 * @property {((row: number, column: number) => void) | null} cut
 * @property {(sentence: string) => void} told
 */

const MOST_KEPT = 24; // looks
const JSON_HEIGHT = 62; // pixels: two lines; the answer matters more than the brackets
const MOST_WORDS = 120; // whose links are drawn between them

export class Sentence {
  /** @param {Listener} listener @param {string} label */
  constructor(listener, label) {
    this.listener = listener;
    this.label = label;
    this.inputPlace = make("div", { class: "input" });
    this.unknown = make("p", { class: "unknown", role: "status", hidden: true });
    this.headline = new Headline((which) =>
      listener.changed({ n: which ? String(which) : null, pin: null, step: null }, "push"),
    );
    this.steps = new Steps((step) => listener.changed({ step: step === null ? null : String(step) }));
    this.strip = new Strip({
      pointed: (row, column) => this.figure.pointFrom(row, column),
      pinned: (row) => listener.changed({ row: String(row), col: null, pin: "1" }),
      cut: listener.cut,
    });
    this.depends = new Depends();
    this.figure = new Figure(
      (row, column) => listener.moved(row, column),
      (row, column) =>
        listener.changed(row === null ? { pin: null } : { row: String(row), col: String(column), pin: "1" }),
    );
    this.nothing = make("p", { class: "quiet", hidden: true });
    this.name = make("p", { class: "model-name", hidden: true }); // where two models answer
    this.candidates = new Candidates((step) => listener.changed({ step: String(step) }));
    this.headline.element.append(this.candidates.doubt);
    const answer = [this.headline.element, this.steps.element, this.candidates.element];
    const answered = make("div", { class: "answered" }, ...answer);
    const parts = [this.name, this.inputPlace, this.unknown, this.strip.element, this.depends.element, answered];
    this.element = make("div", { class: "sentence" }, ...parts);
    /** @type {TextInput | ImageInput | null} */
    this.input = null;
    /** @type {Model | null} */
    this.model = null;
    this.look = this.changed = /** @type {Look | null} */ (null);
    /** @type {Given} */
    this.given = "";
    /** @type {number[] | null} */
    this.chosen = null; // the tokens of the chosen word of the answer
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
        : model.input.kind === "json"
          ? new TextInput(this.label, typed, "Type a JSON value", JSON_HEIGHT)
          : new TextInput(this.label, typed);
    this.inputPlace.replaceChildren(this.input.element);
    this.element.toggleAttribute("data-image", model.input.kind === "image");
  }

  /** Where two models answer the same text: which one this is. @param {boolean} isOfTwo @param {boolean} isFirst */
  showName(isOfTwo, isFirst) {
    reveal(this.name, isOfTwo);
    this.name.textContent = this.model?.name ?? "";
    reveal(this.inputPlace, isFirst || !isOfTwo);
  }

  /** The default input: for an image model without samples, the empty drawing pad. */
  get nothingGiven() {
    return this.input instanceof ImageInput ? { png: this.input.png() } : "";
  }

  /** @param {Given} given */
  showInput(given) {
    if (this.input instanceof TextInput) this.input.show(String(given));
    else if (this.input && typeof given === "object") this.input.show(given);
  }

  /** The request that is sent to the model. @param {Model} model @param {Given} given @param {AskState} state */
  request(model, given, state) {
    return { input: inputOf(model, given), options: optionsOf(model, state) };
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
    const request = { ...this.request(model, given, state), which: state.which };
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
    this.headline.clear();
    this.headline.answer.replaceChildren(
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

  /** Clears the answer, because there is no input. */
  clear() {
    [this.look, this.changed] = [null, null];
    this.headline.clear();
    const parts = [this.steps.element, this.candidates.element, this.strip.element, this.depends.element, this.unknown];
    for (const one of [...parts, this.candidates.doubt, this.figure.element, this.nothing]) reveal(one, false);
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
    const settled = seenOf(state, shown);
    this.drawAnswer(model, this.changed ?? look, state, settled);
    this.unknown.textContent = noteOf(model, look, String(this.given), state);
    reveal(this.unknown, this.unknown.textContent !== "");
    reveal(this.nothing, settled === null);
    reveal(this.figure.element, settled !== null);
    if (!settled) this.nothing.replaceChildren(...unseenParts(model, state, shown, this.given));
    reveal(this.strip.element, false);
    if (!settled) return;
    const { given } = this;
    const its = answerParts(state, shown === this.changed);
    const walked = typeof given === "string" ? { m: model.name, t: given, ...its } : null;
    const compared = comparedWith(state, look, this.changed, shown, first?.shown(state) ?? null);
    const seen = { ...compared, written: rowsWritten(shown, state.step, settled), walked, model };
    await this.figure.show(shown, settled, state, seen);
    this.drawLinks(state);
  }

  /**
   * Leaves out each word, where that is wanted instead of the links.
   * @param {AskState} state @param {AbortSignal} signal @param {(share: number, what?: string) => void} progress
   */
  async measure(state, signal, progress) {
    const { model, given, look } = this;
    const isThere = Boolean(state.isMeasured && model && look && typeof given === "string");
    reveal(this.depends.element, isThere);
    if (!isThere || !model || typeof given !== "string") return;
    const { without_heads, without_links, replace } = editsOf(state);
    const asked = { ...this.request(model, given, state), without_heads, without_links, replace };
    await this.depends.show(model.name, asked, this.chosen, signal, progress);
  }

  /** The links of the chosen word, between the words themselves. @param {AskState} state */
  drawLinks(state) {
    const { weights: matrix, settled, look, row, column, isDifference, upTo } = this.figure;
    const isShort = matrix !== null && matrix.values.length > 0 && Math.max(matrix.rows, matrix.columns) <= MOST_WORDS;
    const isThere = Boolean(settled && look && isShort && settled.view !== "picture");
    reveal(this.strip.element, isThere && !state.isMeasured);
    if (!isThere || !matrix || !settled || !look) return;
    const isSelf = settled.attention.rows === settled.attention.columns && settled.head !== "alignment";
    const cut = cutCells(look, settled, state);
    const { rows, columns } = settled;
    const after = isDifference && !state.isDifference ? "after the change" : "";
    const note = (/** @type {number} */ one) => [writesNote(look, settled, one), after].filter(Boolean).join(", ");
    this.strip.show({ matrix, rows, columns, isSelf, row, column, upTo, cut, where: cutKeys(look, settled), note });
  }

  /**
   * @param {Model} model @param {Look} look the one whose answer is told @param {AskState} state
   * @param {Settled | null} settled
   */
  drawAnswer(model, look, state, settled) {
    const writing = writingOf(look, state, settled, this.listener.changed);
    const { words, first, isSpelt, pinned } = writing;
    this.chosen = tokensOfWord(look, pinned);
    const before = /** @type {Look} */ (this.look);
    const isDrawn = isDrawnAnswer(model, state);
    this.headline.show(model, before, this.changed, writing, state.which, isDrawn);
    this.steps.show(words.length, state.step, isSpelt);
    const step = model.writes && state.step !== null ? Math.min(state.step, words.length) : 0;
    const token = step > 0 ? tokenOf(look, step, first) : null;
    this.candidates.show(look, token, isDrawn).catch(() => reveal(this.candidates.element, false));
    const tokens = model.writes && !step && !this.changed ? words.map((_, word) => tokenOf(look, word + 1, first)) : [];
    void this.candidates.showDoubt(look, tokens, isDrawn).catch(() => undefined);
  }
}
