// The Walk page: attention number by number on one screen; if the user changes a number, all later steps follow.

import { wholeNumber } from "../shared/address.js";
import { Refused, get, isStopped, post } from "../shared/api.js";
import { make, reveal } from "../shared/dom.js";
import { ArchitectureView } from "./architecture.js";
import { arithmeticOf, pairStrips } from "./arithmetic.js";
import { WalkChoices } from "./choices.js";
import { edited, isAt, readEdits, withEdit, writeEdits, writeMask } from "./document.js";
import { Flow } from "./flow.js";
import { madeOf } from "./links.js";
import { softmaxBlock } from "./softmax.js";
import { FROM_MODEL, NO_EDITS, WalkSource } from "./source.js";
import { OF_QUERIES, StepView } from "./step.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Walkthrough} Walkthrough
 * @typedef {import("../shared/types.js").WalkDocument} WalkDocument
 */

const POINT = "Point at a number, or at a colour, to see what it is made of. Type, drag or use ↑ ↓ to change it.";
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
    this.source = new WalkSource(studio, (parts) => this.change(parts, "push"));
    this.choices = new WalkChoices(this.source.start, {
      chosen: (name, value) => this.choose(name, value),
      warmed: (temp) => this.change({ temp }),
      coded: (isShown) => {
        this.element.toggleAttribute("data-code", isShown);
        this.flow.draw();
      },
      reset: () => this.change(NO_EDITS, "push"),
    });
    this.flow = new Flow();
    this.said = make("p", { class: "arithmetic mono", role: "status" }, POINT);
    this.strips = make("div", { class: "strips-place" });
    this.panel = make("div", { class: "walk-panel", hidden: true });
    this.architecture = new ArchitectureView((name, head) => this.source.takeHead(name, String(head)));
    const title = make("h1", { class: "unseen" }, "Attention, number by number");
    const read = make("div", { class: "walk-said" }, this.strips, this.said, this.choices.reset);
    const above = [title, this.choices.element, this.source.element, this.architecture.element];
    this.element = make("div", { class: "walk" }, ...above, this.flow.element, read, this.panel);
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
    /** @type {HTMLElement | null} */
    this.powers = null;
    this.opened = ""; // the step whose numbers are in the panel
    /** @type {{name: string, row: number, column: number} | null} */
    this.pointed = null; // the number that was pointed at last
    /** @type {string | null} */
    this.accepted = null; // the changed numbers that the last walk was computed with
  }

  get keys() {
    return {
      "↑ ↓": { does: "change a number by 0.1 (with Shift: by 1)" },
      Tab: { does: "the next number" },
      r: { does: "restore all numbers", run: () => this.change(NO_EDITS, "push") },
    };
  }

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.follow(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    for (const view of this.views) view.forget(); // after going back, the user starts a new change
    await this.follow(parts);
  }

  /** @param {Parts} parts */
  async follow(parts) {
    await this.studio.status.during("Walking", async (signal) => {
      this.presets ??= await get("/api/walkthroughs", signal);
      this.source.show(parts, Object.keys(this.presets ?? {})); // also where the numbers are refused
      const isOther = await this.start(parts, signal).catch((error) => {
        if (!isStopped(error)) this.clear(); // what is shown is of something else
        throw error;
      });
      // the way out of a refusal too
      reveal(this.choices.reset, Object.keys(NO_EDITS).some((key) => parts[key]));
      const walk = await post("/api/walkthrough", edited(this.base, parts), signal).catch(async (error) => {
        if (!(error instanceof Refused)) throw error;
        await (this.walk ? this.takeBack() : this.begin(signal));
        throw error;
      });
      this.accepted = parts.e ?? null;
      this.draw(walk, parts, !isOther);
      const model = parts.from === FROM_MODEL ? (this.studio.model()?.name ?? null) : null;
      await this.architecture.show(model, this.source.key).then(() => this.flow.draw()); // below it
    });
  }

  /** The numbers as they are given, where the address asks for what cannot be. @param {AbortSignal} signal */
  async begin(signal) {
    this.studio.go(NO_EDITS);
    this.draw(await post("/api/walkthrough", this.base, signal), this.studio.parts(), false);
  }

  /** No numbers, where those of another model or head would stand under its name. */
  clear() {
    [this.walk, this.views, this.origin] = [null, [], ""];
    this.flow.clear();
    this.panel.replaceChildren();
  }

  /** A number that cannot be computed with goes back to what it was; the sentence says why. */
  takeBack() {
    this.studio.go({ e: this.accepted });
    if (this.walk) this.draw(this.walk, this.studio.parts(), false);
  }

  /** Finds the numbers that the walk starts from. @param {Parts} parts @param {AbortSignal} signal */
  async start(parts, signal) {
    const origin = this.source.originOf(parts);
    const isOther = origin !== this.origin;
    const preset = this.presets?.[origin] ?? this.presets?.projection ?? {};
    if (isOther && parts.from === FROM_MODEL) [this.base, this.block] = await this.source.take(parts, signal);
    else if (isOther) [this.base, this.block] = [preset, wholeNumber(parts.row, 0)];
    if (isOther) this.opened = "";
    this.origin = origin;
    return isOther;
  }

  /** @param {Walkthrough} walk @param {Parts} parts @param {boolean} mayGlow */
  draw(walk, parts, mayGlow) {
    this.source.show(parts, Object.keys(this.presets ?? {}));
    this.walk = walk;
    this.block = Math.min(this.block, walk.query_labels.length - 1);
    this.choices.show(walk, parts);
    const known = new Map(this.views.map((view) => [view.name, view]));
    this.views = walk.steps.map(({ name }) => known.get(name) ?? this.stepView());
    for (const [place, step] of walk.steps.entries())
      this.views[place].show(step, this.block, readEdits(parts), mayGlow, step.name === this.opened);
    const powers = softmaxBlock(walk, this.block, mayGlow ? this.powers : null);
    this.powers?.remove();
    this.powers = powers;
    this.flow.show(this.views.map(({ name, element }) => ({ name, element })));
    if (powers) this.flow.columns[3].append(powers);
    this.flow.draw();
    this.read();
    const opened = this.views.find((view) => view.name === this.opened && view.isLarge);
    this.panel.replaceChildren(...(opened ? [make("h2", {}, opened.title.textContent), opened.numbers.element] : []));
    reveal(this.panel, opened !== undefined);
  }

  stepView() {
    return new StepView({
      edited: (name, place, value, isFirst) => {
        if (OF_QUERIES.has(name)) this.studio.go({ row: String((this.block = place[0])), w: null }); // what it changes
        this.change({ e: withEdit(this.edits(), { name, place, value }) }, isFirst ? "push" : "replace");
      },
      returned: (name, place) => {
        this.change({ e: writeEdits(this.edits().filter((one) => !isAt(one, name, place))) || null });
      },
      masked: (row, column) => this.toggleMask(row, column),
      pointed: (name, row, column) => this.light(name, row, column),
      left: () => this.dim(),
      block: (block) => this.again({ block }),
      opened: (name) => this.again({ opened: name === this.opened ? "" : name }),
    });
  }

  edits() {
    return readEdits(this.studio.parts());
  }

  /** @param {string} name @param {string} value */
  choose(name, value) {
    const lost = name === "score" && value !== "scaled_dot" ? "scaled" : ""; // a step that is no longer there
    const e = writeEdits(this.edits().filter((one) => one.name !== lost)) || null;
    const temp = name === "score" && !value.includes("dot") ? null : (this.studio.parts().temp ?? null);
    if (name !== "mask" || value !== "by hand") this.change({ [name]: value, e, temp }, "push");
    else this.change({ mask: writeMask(this.allowed()) }, "push");
  }

  /** The same walk, seen otherwise. @param {{block?: number, opened?: string}} seen */
  again({ block = this.block, opened = this.opened }) {
    if (block !== this.block) this.studio.go({ row: String(block), w: null });
    [this.block, this.opened] = [block, opened];
    if (this.walk) this.draw(this.walk, this.studio.parts(), false);
  }

  /** The mask as it is now. @returns {boolean[][]} */
  allowed() {
    const find = (/** @type {string} */ name) => this.walk?.steps.find((step) => step.name === name);
    const rows = (find("masked") ?? find("weights"))?.values ?? [];
    return rows.map((row) => row.map((/** @type {number | null} */ value) => value !== null));
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
    this.pointed = { name, row, column };
    this.read();
  }

  /** Tells how the number arises that was pointed at last, as the numbers are now. */
  read() {
    const { name, row, column } = this.pointed ?? { name: "", row: 0, column: 0 };
    const steps = this.walk?.steps ?? [];
    const step = steps.find((one) => one.name === name);
    if (!step || row >= step.row_labels.length || column >= step.column_labels.length) this.pointed = null;
    this.strips.replaceChildren();
    if (!this.pointed) return this.said.replaceChildren(POINT);
    for (const part of madeOf(steps, name, row, column, this.block))
      this.views.find((view) => view.name === part.name)?.light(part.row, part.column);
    this.said.textContent = arithmeticOf(steps, name, row, column, this.block);
    const strips = pairStrips(steps, name, row, column);
    return this.strips.replaceChildren(...(strips ? [strips] : []));
  }

  dim() {
    for (const view of this.views) view.dim();
  }

  redraw() {
    this.again({});
  }
}
