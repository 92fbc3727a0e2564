// Where the numbers of a walk come from: an example of the lectures, or a head of a model with a text.

import { answerNames, editsOf, inputOf, optionsOf, readState, typedExamples } from "../ask/state.js";
import { Refused, inPath, post } from "../shared/api.js";
import { wholeNumber } from "../shared/address.js";
import { make, reveal, visible } from "../shared/dom.js";
import { keyName } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").WalkDocument} WalkDocument
 */

/** @type {Record<string, string>} */
const TITLES = {
  projection: "Inputs: three words, three matrices",
  retrieval: "Queries, keys and values: three tokens",
  retrieval4: "The same with a fourth token",
  dictionary: "A dictionary: hard look-up",
  additive: "The additive score",
  heads: "Two heads, side by side and times W_O",
  channels: "A softmax for each channel: heads of width 1",
};
export const FROM_MODEL = "model";
export const NO_EDITS = { e: null, mask: null, score: null, weights: null, temp: null };
/** What was changed on the Ask page before a head was taken from there. */
const NO_CHANGES = { n: null, off: null, cut: null, swap: null };
const NOTHING = { row: null, w: null, x: null, from: null, t: null, a: null, h: null, how: null, seed: null };

export class WalkSource {
  /** @param {Studio} studio @param {(parts: Record<string, string | null>) => void} chosen */
  constructor(studio, chosen) {
    this.studio = studio;
    this.chosen = chosen;
    this.preset = make("select", { onchange: () => this.choosePreset() });
    this.start = make("label", { class: "check" }, "start", this.preset);
    this.text = make("input", { type: "text", size: 40, "aria-label": "The text that the model reads" });
    this.changes = make("span", { class: "quiet" });
    this.head = make("select", { "aria-label": "The head", onchange: () => this.chooseHead() });
    this.element = this.makeForm();
    this.key = ""; // of the head: "encoder.1.self:3"
  }

  makeForm() {
    const parts = [make("label", { class: "check" }, "text", this.text), make("button", { class: "small" }, "Read")];
    const head = make("label", { class: "check" }, "head", this.head);
    const form = make("form", { class: "row from-model", hidden: true }, ...parts, head, this.changes);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.chosen({ ...NO_EDITS, ...NO_CHANGES, t: this.text.value, a: null, h: null });
    });
    return form;
  }

  /** What names the numbers that a walk starts from. @param {Parts} parts */
  originOf(parts) {
    if (parts.from !== FROM_MODEL) return parts.x ?? "projection";
    return JSON.stringify([this.request(parts), parts.a, parts.h]);
  }

  /**
   * The real numbers of a head, and the row that was chosen.
   * @param {Parts} parts @param {AbortSignal} signal @returns {Promise<[WalkDocument, number]>}
   */
  async take(parts, signal) {
    const request = this.request(parts);
    if (!request) throw new Refused("There is no model here; start one with `saccade serve RUN`.", 404);
    /** @type {Look} */
    const look = await post(`/api/models/${inPath(request.model)}/looks`, request.asked, signal);
    const [name, head] = [parts.a ?? look.layer, Number(parts.h ?? look.head ?? 0)];
    const heads = look.attentions.flatMap((one) =>
      Array.from({ length: one.heads }, (_, number) => `${one.name}:${number}`),
    );
    this.head.replaceChildren(...heads.map((key) => make("option", { value: key }, `${keyName(key)} (${key})`)));
    this.key = `${name}:${head}`;
    this.head.value = this.key;
    const walked = await post(`/api/looks/${inPath(look.id ?? "")}/walk`, { name, head }, signal);
    return [walked, chosenRow(look, name, parts)];
  }

  /** @param {Parts} parts @param {string[]} presets */
  show(parts, presets) {
    const isModel = parts.from === FROM_MODEL;
    reveal(this.element, isModel);
    if (isModel && document.activeElement !== this.text) this.text.value = String(this.request(parts)?.typed ?? "");
    this.changes.textContent = isModel ? answerNames(readState(parts)).join(" · ") : "";
    const options = presets.map((name) => make("option", { value: name }, TITLES[name] ?? name));
    const model = this.studio.model();
    if (model && model.input.kind !== "image") {
      const title = `From the model ${visible(model.name)}: the real numbers of a head`;
      options.push(make("option", { value: FROM_MODEL }, title));
    }
    this.preset.replaceChildren(...options);
    this.preset.value = isModel ? FROM_MODEL : (parts.x ?? "projection");
  }

  /** What the model is asked: the very question of the Ask page. @param {Parts} parts */
  request(parts) {
    const model = this.studio.model();
    if (!model) return null;
    const state = readState(parts);
    const typed = parts.t ?? typedExamples(model)[0] ?? "";
    const [input, options] = [inputOf(model, typed), optionsOf(model, state)];
    const asked = { input, options, which: state.which, ...editsOf(state) };
    return { model: model.name, typed, asked };
  }

  choosePreset() {
    const { value } = this.preset;
    const nothing = { ...NO_EDITS, ...NO_CHANGES, ...NOTHING };
    this.chosen(value === FROM_MODEL ? { ...nothing, from: FROM_MODEL } : { ...nothing, x: value });
  }

  chooseHead() {
    const place = this.head.value.lastIndexOf(":");
    this.takeHead(this.head.value.slice(0, place), this.head.value.slice(place + 1));
  }

  /** @param {string} name @param {string} head */
  takeHead(name, head) {
    this.chosen({ ...NO_EDITS, a: name, h: head, t: this.text.value });
  }
}

/**
 * The row that was chosen on the Ask page: of a word, that of its first piece.
 * @param {Look} look @param {string} name @param {Parts} parts
 */
function chosenRow(look, name, parts) {
  const axis = look.axes[look.attentions.find((one) => one.name === name)?.rows ?? ""];
  const row = wholeNumber(parts.row, 0);
  const token = parts.w === "1" && axis ? axis.words.indexOf(row) : row;
  return axis && token >= 0 && token < axis.tokens.length ? token : 0;
}
