// The bar of changes: the link or head that can be changed, the changes made so far, and buttons to undo them.

import { cutAt, cutKeys, keyNames, linksAt, readAs, wordsAt } from "./cells.js";
import { isEdited, writeLinks } from "./state.js";
import { Swap, wordOfText } from "./swap.js";
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
    this.swap = new Swap((swap) => {
      this.swapping.open = false;
      changed({ swap, n: null }, "push");
    });
    const summary = make("summary", { onclick: () => this.offerSwap() }, "swap a word");
    this.swapping = make("details", { class: "popup" }, summary, this.swap.element);
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
    /** @type {string[]} */
    this.names = []; // of what is changed
  }

  /**
   * @param {{look: Look, before: Look, after: Look | null, isComparable: boolean}} looks the one that is shown, that
   *   before the changes, that after them if there are any, and whether both weights are of the same words
   * @param {Settled} settled @param {AskState} state @param {string | null} text
   */
  show({ look, before, after, isComparable }, settled, state, text) {
    this.given = { look, settled, state };
    const key = this.headKey();
    reveal(this.head, key !== null);
    this.head.textContent = `${key && state.off.includes(key) ? "Switch on" : "Switch off"} ${keyName(key ?? "")}`;
    this.swap.show(text, state.swap);
    reveal(this.swapping, this.swap.places.length > 0);
    this.point(this.cell.row, this.cell.column);
    reveal(this.nothing, !isEdited(state));
    this.showChips(look, before, state, settled.head === "alignment");
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
    reveal(this.link, this.linksHere().length > 0);
    if (!this.given) return;
    const { look, settled } = this.given;
    const [from, to] = [settled.rows[row] ?? "", settled.columns[column] ?? ""];
    const name = `«${shortened(visible(from), 20)}» → «${shortened(visible(to), 20)}»`;
    const cut = [...new Set(this.cutHere().map(([key]) => key))];
    const does = cut.length ? "↺ Restore" : "✂ Cut";
    this.link.textContent = `${does} ${name} in ${keyNames(cut.length ? cut : cutKeys(look, settled))}`;
  }

  /** The open head as "encoder.0.self:2"; null where all heads are seen together. */
  headKey() {
    if (!this.given || !/^\d+$/.test(this.given.settled.head)) return null;
    return `${this.given.settled.attention.name}:${this.given.settled.head}`;
  }

  /**
   * The word that is chosen is the first that can be swapped. Called on the click that opens the list: the browser
   * sends "toggle" later, perhaps after a word was chosen in it.
   */
  offerSwap() {
    if (this.swapping.open || !this.given || this.given.state.swap) return;
    const word = wordOfText(this.given.look, this.given.settled, this.cell);
    if (word) this.swap.prefer(word);
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
    if (!this.given) return [];
    return linksAt(this.given.look, this.given.settled, this.cell.row, this.cell.column);
  }

  cutHere() {
    if (!this.given) return [];
    const { look, settled, state } = this.given;
    return cutAt(look, settled, state, this.cell.row, this.cell.column);
  }

  toggleLink() {
    if (!this.given || !this.linksHere().length) return;
    const cut = this.cutHere();
    const kept = this.given.state.cut.filter((link) => !cut.includes(link));
    const cell = { row: String(this.cell.row), col: String(this.cell.column) }; // it stays the one that is read out
    this.changed({ ...cell, cut: writeLinks(cut.length ? kept : [...kept, ...this.linksHere()]), n: null }, "push");
  }

  /**
   * @param {Look} look @param {Look} before the changes @param {AskState} state
   * @param {boolean} isAlignment what is seen, whose rows have other names
   */
  showChips(look, before, state, isAlignment) {
    const { off, cut, swap } = state;
    const named = (/** @type {import("./cells.js").Link} */ link) =>
      wordsAt(readAs(before, look, link), link, isAlignment);
    const without = (/** @type {string[]} */ some) => (some.length ? some.join(",") : null);
    const changes = [
      ...off.map((key) => ({ text: `⌧ ${keyName(key)}`, parts: { off: without(off.filter((one) => one !== key)) } })),
      ...groups(cut, named).map(({ text, links }) => {
        return { text: `✂ ${text}`, parts: { cut: writeLinks(cut.filter((one) => !links.includes(one))) } };
      }),
      ...(swap ? [{ text: `«${shortened(swap[1])}» for «${shortened(swap[0])}»`, parts: { swap: null } }] : []),
    ];
    this.names = changes.map(({ text }) => text);
    const isSeveral = off.length + cut.length + Number(swap !== null) > 1;
    const all = isSeveral ? [{ text: "all changes", parts: { off: null, cut: null, swap: null } }] : [];
    this.chips.replaceChildren(...[...changes, ...all].map(({ text, parts }) => this.chip(text, parts)));
  }

  /** @param {string} text @param {Record<string, string | null>} parts of the address, without this change */
  chip(text, parts) {
    const undo = { type: "button", class: "small", onclick: () => this.changed(parts, "push") };
    return make("li", {}, make("button", undo, text, " · undo"));
  }
}

/**
 * Links between the pieces of the same two words in the same heads are one change.
 * @param {import("./cells.js").Link[]} cut @param {(link: import("./cells.js").Link) => string[]} named
 */
function groups(cut, named) {
  /** @type {Map<string, {text: string, links: import("./cells.js").Link[]}>} */
  const found = new Map();
  for (const link of cut) {
    const words = named(link).map((word) => shortened(visible(word), 20));
    const text = `${words.join(" → ")} in ${keyName(link[0])}`;
    const group = found.get(text) ?? { text, links: [] };
    group.links.push(link);
    found.set(text, group);
  }
  return [...found.values()];
}
