// The bar of changes: the link or head that can be changed, the changes made so far, and buttons to undo them.

import { cutKey, linksAt } from "./cells.js";
import { isEdited, writeLinks } from "./state.js";
import { Swap } from "./swap.js";
import { probabilityTable } from "./headline.js";
import { choice, make, reveal, setChoice, shortened, visible } from "../shared/dom.js";
import { keyName } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 * @typedef {{look: Look, settled: Settled, state: AskState}} Given
 */

const NOTHING = "Nothing is changed yet: cut a link, switch a head off, or swap a word.";
const APART = "After the change, the rows stand for different words, so there is no difference to show.";

export class Changes {
  /** @param {(parts: Record<string, string | null>, how?: "push" | "replace") => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.link = make("button", { type: "button", class: "small", onclick: () => this.toggleLink() });
    this.head = make("button", { type: "button", class: "small", onclick: () => this.toggleHead() });
    this.swap = new Swap((swap) => changed({ swap, n: null }, "push"));
    this.swapping = make("details", { class: "popup" }, make("summary", {}, "swap a word"), this.swap.element);
    this.nothing = make("span", { class: "quiet" }, NOTHING);
    this.chips = make("ul", { class: "chips", "aria-label": "What is changed" });
    this.weights = choice(
      "Weights to show",
      "weights",
      [
        ["after", "after"],
        ["before", "before"],
        ["difference", "difference"],
      ],
      (value) => changed({ show: value === "after" ? null : value }),
    );
    this.parts = make("div", { class: "parts" });
    this.table = make("details", { class: "popup" }, make("summary", {}, "each part"), this.parts);
    this.result = make("div", { class: "row", hidden: true }, this.table, this.weights);
    const tools = [this.link, this.head, this.swapping];
    this.element = make(
      "section",
      { class: "changes row", "aria-label": "Changes" },
      ...tools,
      this.nothing,
      this.chips,
      this.result,
    );
    /** @type {Given | null} */
    this.given = null;
    this.cell = { row: 0, column: 0 };
  }

  /**
   * @param {Look} look the one that is shown @param {Look | null} after the changes, if there are any
   * @param {boolean} isComparable whether weights before and after are of the same words
   * @param {Settled} settled @param {AskState} state @param {string | null} text
   */
  show(look, after, isComparable, settled, state, text) {
    this.given = { look, settled, state };
    const key = this.headKey();
    reveal(this.head, key !== null);
    this.head.textContent = `${key && state.off.includes(key) ? "Switch on" : "Switch off"} ${keyName(key ?? "")}`;
    this.swap.show(text, state.swap);
    reveal(this.swapping, this.swap.places.length > 0);
    this.point(this.cell.row, this.cell.column);
    reveal(this.nothing, !isEdited(state));
    this.showChips(look, state);
    reveal(this.result, isEdited(state));
    reveal(this.table, Boolean(after?.change?.before.tokens.length));
    if (after?.change) this.parts.replaceChildren(probabilityTable(after.change.before));
    const difference = /** @type {HTMLInputElement} */ (this.weights.querySelector("[value=difference]"));
    difference.disabled = !isComparable;
    this.weights.title = isComparable ? "" : APART;
    setChoice(this.weights, state.shown === "difference" && !isComparable ? "after" : state.shown);
  }

  /** The cell whose link is cut. @param {number} row @param {number} column */
  point(row, column) {
    this.cell = { row, column };
    const { settled } = this.given ?? {};
    reveal(this.link, Boolean(settled && settled.head !== "rollout"));
    if (!settled) return;
    const [from, to] = [settled.rows[row] ?? "", settled.columns[column] ?? ""];
    const name = `«${shortened(visible(from), 20)}» → «${shortened(visible(to), 20)}»`;
    this.link.textContent = `${this.cutHere().length ? "↺ Restore" : "✂ Cut"} ${name} in ${keyName(cutKey(settled))}`;
  }

  /** The open head as "encoder.0.self:2"; null where all heads are seen together. */
  headKey() {
    if (!this.given || !/^\d+$/.test(this.given.settled.head)) return null;
    return `${this.given.settled.attention.name}:${this.given.settled.head}`;
  }

  toggleHead() {
    const key = this.headKey();
    if (key && this.given) this.toggle(key, this.given.state);
  }

  /** @param {string} key @param {AskState} state */
  toggle(key, state) {
    const off = state.off.includes(key) ? state.off.filter((one) => one !== key) : [...state.off, key];
    this.changed({ off: off.length ? off.join(",") : null, n: null }, "push");
  }

  linksHere() {
    if (!this.given || this.given.settled.head === "rollout") return [];
    return linksAt(this.given.look, this.given.settled, this.cell.row, this.cell.column);
  }

  cutHere() {
    const here = new Set(this.linksHere().map(String));
    return this.given?.state.cut.filter((link) => here.has(String(link))) ?? [];
  }

  toggleLink() {
    if (!this.given) return;
    const cut = this.cutHere();
    const kept = this.given.state.cut.filter((link) => !cut.includes(link));
    this.changed({ cut: writeLinks(cut.length ? kept : [...kept, ...this.linksHere()]), n: null }, "push");
  }

  /** @param {Look} look @param {AskState} state */
  showChips(look, state) {
    const { off, cut, swap } = state;
    const without = (/** @type {string[]} */ some) => (some.length ? some.join(",") : null);
    this.chips.replaceChildren(
      ...off.map((key) => this.chip(`⌧ ${keyName(key)}`, { off: without(off.filter((one) => one !== key)) })),
      ...groups(look, cut).map(({ text, links }) =>
        this.chip(`✂ ${text}`, { cut: writeLinks(cut.filter((one) => !links.includes(one))) }),
      ),
      ...(swap ? [this.chip(`«${shortened(swap[1])}» for «${shortened(swap[0])}»`, { swap: null })] : []),
      ...(off.length + cut.length + Number(swap !== null) > 1
        ? [this.chip("all changes", { off: null, cut: null, swap: null })]
        : []),
    );
  }

  /** @param {string} text @param {Record<string, string | null>} parts of the address, without this change */
  chip(text, parts) {
    const undo = { type: "button", class: "small", onclick: () => this.changed(parts, "push") };
    return make("li", {}, make("button", undo, text, " · undo"));
  }
}

/**
 * Links between the pieces of the same two words in the same heads are one change.
 * @param {Look} look @param {[string, number, number][]} cut
 */
function groups(look, cut) {
  /** @type {Map<string, {text: string, links: [string, number, number][]}>} */
  const found = new Map();
  for (const link of cut) {
    const [key, row, column] = link;
    const attention = look.attentions.find(({ name }) => name === key.split(":")[0]);
    const said = (/** @type {string | undefined} */ id, /** @type {number} */ place) => {
      const axis = id === undefined ? undefined : look.axes[id];
      const word = axis?.words[place] ?? null;
      const label = word === null ? axis?.tokens[place] : axis?.labels[word];
      return shortened(visible(label ?? String(place)), 20);
    };
    const text = `${said(attention?.rows, row)} → ${said(attention?.columns, column)} in ${keyName(key)}`;
    const group = found.get(text) ?? { text, links: [] };
    group.links.push(link);
    found.set(text, group);
  }
  return [...found.values()];
}
