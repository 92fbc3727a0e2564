// Walk: self-attention number by number, every number to be changed, and everything below follows.

import { Refused, get, inPath, isStopped, post } from "../shared/api.js";
import { answerNames, editsOf, inputOf, optionsOf, readState, typedExamples } from "../ask/state.js";
import { make, reveal, visible } from "../shared/dom.js";
import { edited, isAt, readEdits, withEdit, writeEdits, writeMask } from "./document.js";
import { madeOf } from "./links.js";
import { wholeNumber } from "../shared/address.js";
import { keyName } from "../shared/names.js";
import { StepView } from "./step.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Walkthrough} Walkthrough
 * @typedef {import("../shared/types.js").WalkDocument} WalkDocument
 * @typedef {import("../shared/types.js").Look} Look
 */

/** @type {Record<string, string>} */
const TITLES = {
  projection: "From inputs: three words, three matrices",
  retrieval: "From queries, keys and values: three tokens",
  retrieval4: "The same with a fourth token",
  dictionary: "A dictionary: hard look-up",
  additive: "The additive score",
  heads: "Two heads, side by side and times W_O",
  channels: "A softmax for each channel: heads of width 1",
};
const INTRO =
  "Every word asks with its query, answers to its key, and gives its value. " +
  "Change a number and watch how far its effect reaches.";
const FROM_MODEL = "model";
const CHOICES = {
  score: ["dot", "scaled_dot", "cosine", "equal"],
  weights: ["softmax", "relu", "sparsemax", "hard", "lookup"],
  mask: ["none", "causal", "window:1", "by hand"],
};
const NO_EDITS = { e: null, mask: null, score: null, weights: null };
/** What was changed on the page Ask before a head was taken from there. */
const NO_CHANGES = { n: null, off: null, cut: null, swap: null };

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new WalkPage(studio);
  place.append(page.element);
  return page;
}

class WalkPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.preset = make("select", { onchange: () => this.choosePreset() });
    this.selects = Object.entries(CHOICES).map(([name, values]) => this.select(name, values));
    this.reset = make(
      "button",
      { type: "button", class: "small", onclick: () => this.change(NO_EDITS, "push") },
      "As it was",
    );
    const labelled = this.selects.map((select) => make("label", { class: "check" }, select.dataset.name ?? "", select));
    this.text = make("input", { type: "text", size: 40, "aria-label": "The text that the model reads" });
    this.changes = make("span", { class: "quiet" });
    this.head = make("select", { "aria-label": "The head", onchange: () => this.chooseHead() });
    this.source = this.makeSource();
    const start = make("label", { class: "check" }, "start", this.preset);
    const choices = make("div", { class: "row walk-choices" }, start, ...labelled, this.reset);
    this.steps = make("div", { class: "steps-list" });
    const above = [make("h1", {}, "Attention, number by number"), make("p", { class: "quiet intro" }, INTRO), choices];
    this.element = make("div", { class: "walk" }, ...above, this.source, this.steps);
    /** @type {StepView[]} */
    this.views = [];
    /** @type {Record<string, WalkDocument> | null} */
    this.presets = null;
    /** @type {WalkDocument} */
    this.base = {};
    /** @type {Walkthrough | null} */
    this.walk = null;
    this.origin = "";
    this.block = 0;
    /** @type {string | null} */
    this.accepted = null; // the changed numbers that the last walk was computed with
  }

  get keys() {
    return {
      "↑ ↓": { does: "change a number by 0.1 (with Shift: by 1)", run: () => undefined },
      Tab: { does: "the next number", run: () => undefined },
      r: { does: "restore all numbers", run: () => this.change(NO_EDITS, "push") },
    };
  }

  /** @param {string} name @param {string[]} values */
  select(name, values) {
    const options = values.map((value) => make("option", { value }, value.replaceAll("_", " ")));
    const select = make("select", { "data-name": name, "aria-label": name }, ...options);
    select.addEventListener("change", () => this.choose(name, select.value));
    return select;
  }

  makeSource() {
    const form = make(
      "form",
      { class: "row from-model", hidden: true },
      make("label", { class: "check" }, "text", this.text),
      make("button", { class: "small" }, "Read"),
      make("label", { class: "check" }, "head", this.head),
      this.changes,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.change({ ...NO_EDITS, ...NO_CHANGES, t: this.text.value, a: null, h: null }, "push");
    });
    return form;
  }

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.follow(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    for (const view of this.views) view.edited = ""; // whoever went back begins a new change
    await this.follow(parts);
  }

  /** @param {Parts} parts */
  async follow(parts) {
    await this.studio.status.during("Walking", async (signal) => {
      this.presets ??= await get("/api/walkthroughs", signal);
      this.showSource(parts); // also where the numbers are refused
      const isOther = await this.start(parts, signal).catch((error) => {
        if (!isStopped(error)) this.clear(); // what is shown is of something else
        throw error;
      });
      // the way out of a refusal too
      reveal(this.reset, Boolean(parts.e || parts.mask || parts.score || parts.weights));
      const walk = await post("/api/walkthrough", edited(this.base, parts), signal).catch((error) => {
        if (error instanceof Refused) this.takeBack();
        throw error;
      });
      this.accepted = parts.e ?? null;
      this.draw(walk, parts, !isOther);
    });
  }

  /** No numbers, where those of another model or head would stand under its name. */
  clear() {
    [this.walk, this.views, this.origin] = [null, [], ""];
    this.steps.replaceChildren();
  }

  /** A number that cannot be computed with goes back to what it was; the sentence says why. */
  takeBack() {
    this.studio.go({ e: this.accepted });
    if (this.walk) this.draw(this.walk, this.studio.parts(), false);
  }

  /** Finds the numbers that the walk starts from. @param {Parts} parts @param {AbortSignal} signal */
  async start(parts, signal) {
    const isModel = parts.from === FROM_MODEL;
    const origin = isModel ? JSON.stringify([this.request(parts), parts.a, parts.h]) : (parts.x ?? "projection");
    const isOther = origin !== this.origin;
    if (isOther)
      this.base = isModel
        ? await this.takeFromModel(parts, signal)
        : (this.presets?.[origin] ?? this.presets?.projection ?? {});
    this.origin = origin;
    return isOther;
  }

  /** The real numbers of a head. @param {Parts} parts @param {AbortSignal} signal @returns {Promise<WalkDocument>} */
  async takeFromModel(parts, signal) {
    const request = this.request(parts);
    if (!request) throw new Refused("There is no model here; start one with `saccade serve RUN`.", 404);
    /** @type {Look} */
    const look = await post(`/api/models/${inPath(request.model)}/looks`, request.asked, signal);
    const [name, head] = [parts.a ?? look.layer, Number(parts.h ?? look.head ?? 0)];
    const heads = look.attentions.flatMap((one) =>
      Array.from({ length: one.heads }, (_, number) => `${one.name}:${number}`),
    );
    this.head.replaceChildren(...heads.map((key) => make("option", { value: key }, `${keyName(key)} (${key})`)));
    this.head.value = `${name}:${head}`;
    this.block = chosenRow(look, name, parts);
    return post(`/api/looks/${inPath(look.id ?? "")}/walk`, { name, head }, signal);
  }

  /** @param {Walkthrough} walk @param {Parts} parts @param {boolean} mayGlow */
  draw(walk, parts, mayGlow) {
    this.showSource(parts);
    this.showChoices(walk);
    this.walk = walk;
    this.block = Math.min(this.block, walk.query_labels.length - 1);
    const names = walk.steps.map((step) => step.name);
    const known = new Map(this.views.map((view) => [view.name, view]));
    this.views = names.map((name) => known.get(name) ?? this.stepView());
    const edits = readEdits(parts);
    walk.steps.forEach((step, place) => this.views[place].show(step, this.block, edits, mayGlow));
    const shown = [...this.steps.children];
    if (this.views.some((view, place) => shown[place] !== view.element) || shown.length !== this.views.length) {
      this.steps.replaceChildren(...this.views.map((view) => view.element));
    }
  }

  stepView() {
    return new StepView({
      edited: (name, place, value, isFirst) => {
        this.change({ e: withEdit(this.edits(), { name, place, value }) }, isFirst ? "push" : "replace");
      },
      returned: (name, place) => this.keepEdits((one) => !isAt(one, name, place)),
      masked: (row, column) => this.toggleMask(row, column),
      pointed: (name, row, column) => this.light(name, row, column),
      left: () => this.dim(),
      block: (block) => this.chooseBlock(block),
    });
  }

  edits() {
    return readEdits(this.studio.parts());
  }

  /** @param {(edit: import("./document.js").Edit) => boolean} isKept */
  keepEdits(isKept) {
    this.change({ e: writeEdits(this.edits().filter(isKept)) || null });
  }

  /** Where the numbers come from. @param {Parts} parts */
  showSource(parts) {
    const isModel = parts.from === FROM_MODEL;
    reveal(this.source, isModel);
    if (isModel && document.activeElement !== this.text)
      this.text.value = String(this.request(parts)?.typed ?? "");
    this.changes.textContent = isModel ? answerNames(readState(parts)).join(" · ") : "";
    this.showPresets(isModel ? FROM_MODEL : (parts.x ?? "projection"));
  }

  /** What the model is asked: the very question of the page Ask. @param {Parts} parts */
  request(parts) {
    const model = this.studio.model();
    if (!model) return null;
    const state = readState(parts);
    const typed = parts.t ?? typedExamples(model)[0] ?? "";
    const [input, options] = [inputOf(model, typed), optionsOf(model, state)];
    const asked = { input, options, which: state.which, ...editsOf(state) };
    return { model: model.name, typed, asked };
  }

  /** @param {string} chosen */
  showPresets(chosen) {
    const options = Object.keys(this.presets ?? {}).map((name) =>
      make("option", { value: name }, TITLES[name] ?? name),
    );
    const model = this.studio.model();
    if (model && model.input.kind !== "image")
      options.push(
        make("option", { value: FROM_MODEL }, `From the model ${visible(model.name)}: the real numbers of a head`),
      );
    this.preset.replaceChildren(...options);
    this.preset.value = chosen;
  }

  /** @param {Walkthrough} walk */
  showChoices(walk) {
    const [score, weights, mask] = this.selects;
    score.value = walk.score;
    weights.value = walk.weights;
    mask.value = walk.mask === "matrix" ? "by hand" : walk.mask;
    if (!mask.value) mask.value = "none";
  }

  choosePreset() {
    const { value } = this.preset;
    const nothing = {
      ...NO_EDITS,
      ...NO_CHANGES,
      x: null,
      from: null,
      t: null,
      a: null,
      h: null,
      how: null,
      seed: null,
    };
    this.block = 0;
    this.change(value === FROM_MODEL ? { ...nothing, from: FROM_MODEL } : { ...nothing, x: value }, "push");
  }

  chooseHead() {
    const place = this.head.value.lastIndexOf(":");
    this.change(
      { ...NO_EDITS, a: this.head.value.slice(0, place), h: this.head.value.slice(place + 1), t: this.text.value },
      "push",
    );
  }

  /** @param {string} name @param {string} value */
  choose(name, value) {
    const lost = name === "score" && value !== "scaled_dot" ? "scaled" : ""; // a step that is no longer there
    const e = writeEdits(this.edits().filter((one) => one.name !== lost)) || null;
    if (name !== "mask" || value !== "by hand") this.change({ [name]: value, e }, "push");
    else this.change({ mask: writeMask(this.allowed()) }, "push");
  }

  /** @param {number} block */
  chooseBlock(block) {
    this.block = block;
    if (this.walk) this.walk.steps.forEach((step, place) => this.views[place].show(step, block, this.edits(), false));
  }

  /** The mask as it is now. @returns {boolean[][]} */
  allowed() {
    const masked = this.walk?.steps.find((step) => step.name === "masked");
    const weights = this.walk?.steps.find((step) => step.name === "weights");
    return (
      (masked ?? weights)?.values.map((row) => row.map((/** @type {number | null} */ value) => value !== null)) ?? []
    );
  }

  /** @param {number} row @param {number} column */
  toggleMask(row, column) {
    const mask = this.allowed();
    mask[row][column] = !mask[row][column];
    this.change({ mask: writeMask(mask) });
  }

  /** @param {string} name @param {number} row @param {number} column */
  light(name, row, column) {
    this.dim();
    if (!this.walk) return;
    for (const part of madeOf(this.walk.steps, name, row, column, this.block)) {
      this.views.find((view) => view.name === part.name)?.light(part.row, part.column);
    }
  }

  dim() {
    for (const view of this.views) view.dim();
  }

  redraw() {
    if (this.walk) this.draw(this.walk, this.studio.parts(), false);
  }
}

/**
 * The row that was chosen on the page Ask: of a word, that of its first piece.
 * @param {Look} look @param {string} name @param {Parts} parts
 */
function chosenRow(look, name, parts) {
  const axis = look.axes[look.attentions.find((one) => one.name === name)?.rows ?? ""];
  const row = wholeNumber(parts.row, 0);
  const token = parts.w === "1" && axis ? axis.words.indexOf(row) : row;
  return axis && token >= 0 && token < axis.tokens.length ? token : 0;
}
