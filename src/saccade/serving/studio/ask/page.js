// The Ask page: type a text, read the answer, see what the model looked at, and change it.

import { Refused } from "../shared/api.js";
import { Changes } from "./changes.js";
import { Controls } from "./controls.js";
import { keysOf } from "./keys.js";
import { HeadGrid } from "./heads.js";
import { openedParts } from "./opening.js";
import { Saving } from "./saving.js";
import { Sentence } from "./sentence.js";
import { besideState, defined, givenOf, isEmpty, partsOf, secondModel, secondText } from "./given.js";
import { OF_ONE_TEXT, carried, strongestHead } from "./selection.js";
import { isComparable, readState, seenOf } from "./state.js";
import { Tools } from "./tools.js";
import { make, reveal } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./sentence.js").Given} Given
 */

const EMPTY = "Type a text above. The model answers when you stop typing, and its attention appears below.";

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new AskPage(studio);
  place.append(page.element);
  return page;
}

export class AskPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.sentences = [this.sentence("t", "Your text"), this.sentence("t2", "The second text")];
    this.tools = new Tools({
      changed: (parts) => this.change(parts, "push"),
      tried: (example) => this.ask("t", example, true),
      second: () => secondText(this.studio.model(), this.studio.parts()),
    });
    this.texts = make("div", { class: "texts" }, ...this.sentences.map((one) => one.element));
    this.controls = new Controls({
      together: (value) => void this.chooseTogether(value).catch((error) => studio.status.fail(error)),
      unit: (isWords) => this.change({ w: isWords ? null : "0" }),
      view: (view) => this.change({ v: view }),
    });
    this.heads = new HeadGrid(
      (name, head) => this.change({ a: name, h: String(head) }, "push"),
      (name, head) => this.changes.toggle(`${name}:${head}`, this.state),
      (by) => this.change({ by: by || null }),
    );
    this.changes = new Changes((parts, how) => this.change(parts, how));
    this.saving = new Saving(studio, this.changes);
    const figures = this.sentences.map((one) => make("div", {}, one.figure.element, one.nothing));
    this.stage = make("div", { class: "figures" }, ...figures);
    this.aside = make("aside", { "aria-label": "Every head" }, this.heads.element);
    const ways = make("div", { class: "seen-head row" }, this.controls.element, this.saving.element);
    const seen = make("div", { class: "seen" }, ways, this.stage);
    this.seen = make("div", { class: "stage", hidden: true }, seen, this.aside);
    this.empty = make("p", { class: "quiet", hidden: true }, EMPTY);
    const above = [this.tools.element, this.texts, this.empty, this.changes.element];
    this.element = make("div", { class: "ask" }, make("h1", { class: "unseen" }, "Ask"), ...above, this.seen);
    reveal(this.changes.element, false);
    /** @type {AskState} */
    this.state = readState({});
    this.shows = 0;
    this.keys = keysOf(this);
  }

  /** @param {string} key @param {string} label */
  sentence(key, label) {
    const cut = (/** @type {number} */ row, /** @type {number} */ column) => {
      this.changes.point(row, column);
      this.changes.toggleLink();
    };
    return new Sentence(
      {
        asked: (given, isFinal) => this.ask(key, given, isFinal),
        changed: (parts, how) => this.change(parts, how),
        moved: (row, column) => this.moved(row, column),
        cut: key === "t" ? cut : null,
        told: (sentence) => this.studio.status.say(sentence),
      },
      label,
    );
  }

  // --- the address, and what follows from it ---

  /**
   * Changes the address; a chosen word is taken along to what is seen then, or dropped.
   * @param {Record<string, string | null>} parts @param {"push" | "replace"} [how]
   */
  change(parts, how = "replace") {
    const look = this.sentences[0].shown(this.state);
    const { row, column } = this.state;
    const isOther = row !== null && ["a", "h", "w"].some((key) => key in parts);
    const before = isOther && look ? seenOf(this.state, look) : null;
    const next = readState({ ...this.studio.parts(), ...defined(parts) });
    const after = before && look ? seenOf(next, look) : null;
    const cell = before && after && look && row !== null ? carried(look, before, after, [row, column]) : {};
    this.studio.go({ ...cell, ...parts }, how);
    void this.show(this.studio.parts());
  }

  /** @param {Parts} given */
  async show(given) {
    const model = this.studio.model();
    if (!model) return this.studio.status.say("There is no model here; start one with `saccade serve RUN`.");
    this.shows += 1;
    const mine = this.shows;
    const parts = await openedParts(this.studio, model, given);
    if (mine !== this.shows) return undefined;
    this.state = readState(parts);
    const beside = secondModel(this.studio.models, model, parts.m2);
    const isTwo = beside !== null || (parts.t2 !== undefined && model.input.kind !== "image");
    this.tools.show(model, this.state, isTwo ? (beside?.name ?? "") : null, this.studio.models);
    this.showTwo(isTwo);
    const used = this.sentences.slice(0, isTwo ? 2 : 1);
    const texts = used.map((sentence, place) => {
      sentence.use(place && beside ? beside : model);
      sentence.showName(beside !== null, place === 0);
      const its = givenOf(model, parts, place && !beside ? "t2" : "t") ?? sentence.nothingGiven;
      sentence.showInput(its);
      return its;
    });
    if (isEmpty(texts[0])) return this.waitForText();
    reveal(this.empty, false);
    const asked = await this.studio.status.during("Asking the model", async (signal, progress) => {
      try {
        await this.askAll(used, texts, signal, progress);
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 404) throw error;
        for (const one of used) one.kept.clear(); // the server forgets looks after a while, so request it again
        await this.askAll(used, texts, signal, progress);
      }
      return true;
    });
    if (mine !== this.shows) return;
    this.element.toggleAttribute("data-old", !asked);
    this.stage.inert = this.changes.element.inert = !asked; // they are of another text
  }

  /** Clears the page and stops waiting for earlier requests. */
  waitForText() {
    this.studio.status.stop();
    this.studio.status.say(null);
    for (const one of this.sentences) one.clear();
    reveal(this.seen, false);
    reveal(this.changes.element, false);
    reveal(this.empty, true);
    this.element.toggleAttribute("data-old", false);
  }

  /**
   * @param {Sentence[]} used @param {Given[]} given @param {AbortSignal} signal
   * @param {(share: number, what?: string) => void} progress
   */
  async askAll(used, given, signal, progress) {
    const isOther = used.at(1)?.model !== used[0].model;
    const states = used.map((_, place) => (place ? besideState(this.state, isOther) : this.state));
    for (const [place, sentence] of used.entries()) {
      if (isEmpty(given[place])) sentence.clear();
      else await sentence.ask(given[place], states[place], signal);
    }
    signal.throwIfAborted();
    this.tools.offerDifference(this.areComparable(), this.state.isDifference);
    const first = this.state.isDifference ? used[0] : null;
    const drawn = used.map((one, place) => one.draw(states[place], place ? first : null));
    const { figure } = this.sentences[0];
    const pointed = Promise.all(drawn).then(() => this.changes.point(figure.row, figure.column));
    await Promise.all([pointed, this.drawControls(used.length === 2)]);
    await Promise.all(used.map((one, place) => one.measure(states[place], signal, progress)));
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
    const settled = look && seenOf(this.state, look);
    reveal(this.seen, look !== null);
    reveal(this.aside, settled !== null);
    reveal(this.changes.element, settled !== null);
    reveal(this.controls.element, settled !== null);
    const figures = this.sentences.filter((one) => one.look !== null).map((one) => one.figure);
    this.saving.show(look, settled, isTwo ? figures : [first.figure], first);
    if (!look || !settled) return;
    this.controls.show(look, settled, this.state);
    const { look: before, changed } = first;
    const source = before?.answer.source;
    const text = typeof source === "string" ? source : first.given;
    const isSame = Boolean(before && changed && isComparable(this.state, before, changed, !this.state.swap));
    const its = { look, before: before ?? look, after: changed, isComparable: isSame };
    this.changes.show(its, settled, this.state, typeof text === "string" ? text : null);
    this.heads.use(first.model);
    await this.heads.show(look, settled.attention.name, settled.head, this.state.off, this.state.by);
  }

  /** @param {string} key @param {Given} given @param {boolean} isFinal */
  ask(key, given, isFinal) {
    const parts = partsOf(key, given);
    this.change({ ...parts, ...(key === "t" ? OF_ONE_TEXT : {}) }, isFinal ? "push" : "replace");
  }

  /** @param {number} row @param {number} column */
  moved(row, column) {
    for (const one of this.sentences) one.figure.point(row, column);
    this.changes.point(row, column);
    Object.assign(this.state, { row, column });
    this.sentences[0].drawLinks(this.state);
    this.studio.go({ row: String(row), col: String(column) });
    this.saving.update();
  }

  /** All heads together, or the one with the strongest of the chosen link. @param {string} value */
  async chooseTogether(value) {
    const look = this.sentences[0].shown(this.state);
    const settled = look && seenOf(this.state, look);
    if (!look || !settled) return;
    const { row, column } = this.sentences[0].figure;
    const head = value === "head" ? await strongestHead(look, settled, [row, column]) : value;
    this.change({ h: head, a: settled.attention.name }, "push");
  }

  redraw() {
    for (const one of this.sentences) one.figure.recolour();
    this.heads.recolour();
    void this.show(this.studio.parts());
  }
}
