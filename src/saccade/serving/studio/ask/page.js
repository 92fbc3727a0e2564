// Ask: type, read the answer, see what it rests on, change something.

import { Refused, stackOf } from "../shared/api.js";
import { Edits } from "./edits.js";
import { Saving } from "./saving.js";
import { Sentence } from "./sentence.js";
import { isComparable, isDrawnAnswer, isOfPatches, readState, settle, typedExamples } from "./state.js";
import { Tools } from "./tools.js";
import { choice, make, reveal, setChoice } from "../shared/dom.js";
import { HeadGrid } from "./heads.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./sentence.js").Given} Given
 */

/** @type {[string, string][]} */
const UNITS = [
  ["1", "words"],
  ["0", "pieces"],
];
const EMPTY = "Type a text above. The model answers when you stop typing, and its attention appears below.";
/** What is only true of words, or of pieces. */
const OF_ONE_UNIT = { row: null, col: null, pin: null };
const HEADS_TOGETHER = ["alignment", "mean", "max", "rollout"];
/** What is only true of one text or one answer. */
const OF_ONE_TEXT = { row: null, col: null, pin: null, n: null, step: null, cut: null, swap: null, show: null };

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new AskPage(studio);
  place.append(page.element);
  return page;
}

class AskPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.sentences = [this.sentence("t", "Your text"), this.sentence("t2", "The second text")];
    this.tools = new Tools({
      changed: (parts) => this.change(parts, "push"),
      tried: (example) => this.ask("t", example, true),
      second: () => this.secondText(),
    });
    this.texts = make("div", { class: "texts" }, ...this.sentences.map((one) => one.element));
    this.together = choice("Heads", "together", named(["alignment", "head", "mean", "max", "rollout"]), (value) =>
      this.chooseTogether(value),
    );
    this.unit = choice("Unit", "unit", UNITS, (value) =>
      this.change({ ...OF_ONE_UNIT, w: value === "0" ? "0" : null }),
    );
    this.view = choice("View", "view", named(["picture", "map", "arcs"]), (value) => this.change({ v: value }));
    this.heads = new HeadGrid(
      (name, head) => this.change({ a: name, h: String(head) }, "push"),
      (name, head) => this.edits.toggle(`${name}:${head}`, this.state),
    );
    this.edits = new Edits((parts, how) => this.change(parts, how));
    this.saving = new Saving(studio.status);
    this.stage = make(
      "div",
      { class: "figures" },
      ...this.sentences.flatMap((one) => [make("div", {}, one.figure.element, one.nothing)]),
    );
    const aside = [make("h2", {}, "Every head"), this.heads.element, this.edits.element];
    this.aside = make("aside", { "aria-label": "Heads and changes" }, ...aside);
    const controls = make("div", { class: "controls row" }, this.view, this.together, this.unit);
    this.seen = make("div", { class: "stage" }, make("div", {}, controls, this.stage, this.saving.element), this.aside);
    reveal(this.seen, false);
    this.empty = make("p", { class: "quiet", hidden: true }, EMPTY);
    const title = make("h1", { class: "unseen" }, "Ask");
    this.element = make("div", { class: "ask" }, title, this.texts, this.empty, this.tools.element, this.seen);
    /** @type {AskState} */
    this.state = readState({});
    this.shows = 0;
    this.keys = this.makeKeys();
  }

  /** @param {string} key @param {string} label */
  sentence(key, label) {
    return new Sentence(
      {
        asked: (given, isFinal) => this.ask(key, given, isFinal),
        changed: (parts, how) => this.change(parts, how),
        moved: (row, column) => this.moved(row, column),
        told: (sentence) => this.studio.status.say(sentence),
      },
      label,
    );
  }

  makeKeys() {
    const turn = (/** @type {number} */ by) => this.turnHead(by);
    return {
      "← ↑ → ↓": { does: "move through the map", run: () => undefined },
      "Enter Esc": { does: "pin a row, let it go", run: () => undefined },
      "+ − 0": { does: "zoom in, zoom out, fit (in the map)", run: () => undefined },
      "[": { does: "previous head", run: () => turn(-1) },
      "]": { does: "next head", run: () => turn(1) },
      ",": { does: "previous layer", run: () => this.turnLayer(-1) },
      ".": { does: "next layer", run: () => this.turnLayer(1) },
      w: {
        does: "words or pieces",
        run: () => this.change({ ...OF_ONE_UNIT, w: this.state.words ? "0" : null }),
      },
      m: { does: "map", run: () => this.change({ v: "map" }) },
      a: { does: "arcs", run: () => this.change({ v: "arcs" }) },
      x: { does: "switch the open head off or on", run: () => this.edits.toggleHead() },
      c: { does: "cut the link shown below the map", run: () => this.edits.toggleLink() },
      "/": { does: "type", run: () => this.sentences[0].inputPlace.querySelector("textarea")?.focus() },
    };
  }

  // --- the address, and what follows from it ---

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.show(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    const model = this.studio.model();
    if (!model) return this.studio.status.say("There is no model here; start one with `saccade serve RUN`.");
    this.shows += 1;
    const mine = this.shows;
    this.state = readState(parts);
    const isTwo = parts.t2 !== undefined && model.input.kind !== "image";
    this.tools.show(model, this.state, isTwo);
    this.showTwo(isTwo);
    const used = this.sentences.slice(0, isTwo ? 2 : 1);
    const given = used.map((sentence, place) => {
      sentence.use(model);
      const its = givenOf(model, parts, place ? "t2" : "t") ?? sentence.nothingGiven;
      sentence.showInput(its);
      return its;
    });
    if (isEmpty(given[0])) return this.waitForText();
    reveal(this.empty, false);
    const asked = await this.studio.status.during("Asking the model", async (signal) => {
      try {
        await this.askAll(used, given, signal);
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 404) throw error;
        for (const one of used) one.forget(); // the server keeps looks for a while only: asked for again
        await this.askAll(used, given, signal);
      }
      return true;
    });
    if (mine === this.shows) this.element.toggleAttribute("data-old", !asked);
    return undefined;
  }

  /** Nothing is asked, and what was asked before is not waited for. */
  waitForText() {
    this.studio.status.stop();
    this.studio.status.say(null);
    for (const one of this.sentences) one.clear();
    reveal(this.seen, false);
    reveal(this.empty, true);
    this.element.toggleAttribute("data-old", false);
  }

  /** @param {Sentence[]} used @param {Given[]} given @param {AbortSignal} signal */
  async askAll(used, given, signal) {
    const states = used.map((_, place) => (place ? { ...this.state, cut: [], swap: null, which: 0 } : this.state));
    for (const [place, sentence] of used.entries()) {
      if (isEmpty(given[place])) sentence.clear();
      else await sentence.ask(given[place], states[place], signal);
    }
    signal.throwIfAborted();
    this.tools.offerDifference(this.areComparable(), this.state.isDifference);
    const first = this.state.isDifference ? used[0] : null;
    const drawn = used.map((one, place) => one.draw(states[place], place ? first : null));
    const { figure } = this.sentences[0];
    const pointed = Promise.all(drawn).then(() => this.edits.point(figure.row, figure.column));
    await Promise.all([pointed, this.drawControls(used.length === 2)]);
  }

  /** @param {boolean} isTwo */
  showTwo(isTwo) {
    this.texts.toggleAttribute("data-two", isTwo);
    this.stage.toggleAttribute("data-two", isTwo);
    reveal(this.sentences[1].element, isTwo);
    reveal(/** @type {HTMLElement} */ (this.sentences[1].figure.element.parentElement), isTwo);
  }

  /** Whether the maps of the two texts have the same shape. */
  areComparable() {
    const [one, other] = this.sentences.map((sentence) => sentence.shown(this.state));
    return one !== null && other !== null && isComparable(this.state, one, other, false);
  }

  /** @param {boolean} isTwo */
  async drawControls(isTwo) {
    const [first] = this.sentences;
    const look = first.shown(this.state);
    const settled = look && look.id !== null ? settle(this.state, look) : null;
    reveal(this.seen, look !== null);
    reveal(this.aside, settled !== null);
    this.element.querySelector(".controls")?.toggleAttribute("hidden", settled === null);
    const figures = this.sentences.filter((one) => one.look !== null).map((one) => one.figure);
    this.saving.show(look, settled, isTwo ? figures : [first.figure]);
    if (!look || !settled) return;
    setChoice(this.together, HEADS_TOGETHER.includes(settled.head) ? settled.head : "head");
    setChoice(this.unit, this.state.words ? "1" : "0");
    setChoice(this.view, settled.view);
    this.enable(look, settled);
    const text =
      first.look && typeof first.look.answer.source === "string"
        ? first.look.answer.source
        : givenOf(this.studio.model(), this.studio.parts(), "t");
    this.edits.show(look, this.outcome(first), settled, this.state, typeof text === "string" ? text : null);
    await this.heads.show(look, settled.attention.name, settled.head, this.state.off);
  }

  /** @param {Sentence} sentence @returns {import("./edits.js").Outcome | null} */
  outcome({ model, look, changed }) {
    if (!model || !look || !changed) return null;
    const { state } = this;
    const isSame = isComparable(state, look, changed, !state.swap);
    return { before: look, after: changed, isComparable: isSame, isDrawn: isDrawnAnswer(model, state) };
  }

  /** Shows only what this model has. @param {Look} look @param {import("./state.js").Settled} settled */
  enable(look, settled) {
    const offer = (/** @type {Element} */ group, /** @type {string} */ value, /** @type {boolean} */ isThere) => {
      group.querySelector(`input[value="${value}"]`)?.parentElement?.toggleAttribute("hidden", !isThere);
    };
    offer(this.together, "alignment", Boolean(look.alignment));
    offer(this.together, "rollout", Boolean(stackOf(look, settled.attention.name)));
    offer(this.view, "picture", isOfPatches(look, settled.attention));
    const { rows, columns } = settled.attention;
    const hasPieces = [rows, columns].some(
      (axis) =>
        look.axes[axis].labels.length < look.axes[axis].tokens.length ||
        look.axes[axis].labels.some((label, place) => label !== look.axes[axis].tokens[place]),
    );
    reveal(this.unit, hasPieces && settled.head !== "alignment");
  }

  // --- what a person does ---

  /** @param {string} key @param {Given} given @param {boolean} isFinal */
  ask(key, given, isFinal) {
    /** @type {Record<string, string | null>} */
    const parts =
      typeof given === "string"
        ? { [key]: given }
        : "sample" in given
          ? { image: String(given.sample), png: null }
          : { png: given.png, image: null };
    this.change({ ...parts, ...(key === "t" ? OF_ONE_TEXT : {}) }, isFinal ? "push" : "replace");
  }

  secondText() {
    const model = this.studio.model();
    const first = givenOf(model, this.studio.parts(), "t");
    return (model ? typedExamples(model) : []).find((one) => one !== first) ?? String(first ?? "");
  }

  /** @param {number} row @param {number} column */
  moved(row, column) {
    for (const one of this.sentences) one.figure.point(row, column);
    this.edits.point(row, column);
    this.state.row = row;
    this.state.column = column;
    this.studio.go({ row: String(row), col: String(column) });
    this.saving.update();
  }

  /** @param {string} value */
  chooseTogether(value) {
    const look = this.sentences[0].shown(this.state);
    if (!look) return;
    const head = value === "head" ? String(look.head ?? 0) : value;
    const name = settle(this.state, look)?.attention.name ?? null;
    const isOther = (head === "alignment") !== (settle(this.state, look)?.head === "alignment");
    this.change({ h: head, a: name, ...(isOther ? { row: null, col: null, pin: null } : {}) }, "push");
  }

  /** @param {number} by */
  turnHead(by) {
    const look = this.sentences[0].shown(this.state);
    const settled = look && settle(this.state, look);
    if (!settled) return;
    const count = settled.attention.heads;
    const now = /^\d+$/.test(settled.head) ? Number(settled.head) : by > 0 ? -1 : count;
    this.change({ a: settled.attention.name, h: String((now + by + count) % count) });
  }

  /** @param {number} by */
  turnLayer(by) {
    const look = this.sentences[0].shown(this.state);
    const settled = look && settle(this.state, look);
    if (!look || !settled) return;
    const count = look.attentions.length;
    const next = look.attentions[(look.attentions.indexOf(settled.attention) + by + count) % count];
    this.change({
      a: next.name,
      h: settled.head === "alignment" ? "mean" : settled.head,
      row: null,
      col: null,
      pin: null,
    });
  }

  redraw() {
    for (const one of this.sentences) one.figure.recolour();
    this.heads.recolour();
    void this.show(this.studio.parts());
  }
}

/** @param {Model | null} model @param {Parts} parts @param {string} key @returns {Given | null} */
function givenOf(model, parts, key) {
  if (model?.input.kind !== "image") return parts[key] ?? (model ? typedExamples(model)[0] : undefined) ?? null;
  if (parts.png) return { png: parts.png };
  const sample = Number(parts.image ?? model.examples[0]?.sample);
  return sample > 0 ? { sample } : null;
}

/** @param {Given} given */
function isEmpty(given) {
  return typeof given === "string" && given.trim() === "";
}

/** Choices that are called what they are. @param {string[]} values @returns {[string, string][]} */
function named(values) {
  return values.map((value) => [value, value]);
}
