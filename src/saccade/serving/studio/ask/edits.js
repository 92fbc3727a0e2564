// Change something and see the answer change: heads off, links cut, words swapped.

import { differing } from "./answers.js";
import { isEdited, tokensOf, writeLinks } from "./state.js";
import { Swap } from "./swap.js";
import { choice, make, number, reveal, setChoice, shortened, visible } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 *
 * @typedef {object} Outcome
 * @property {Look} before
 * @property {Look} after
 * @property {boolean} isComparable  whether weights before and after are of the same words
 * @property {boolean} isDrawn  the answers are drawn; the server compares the likeliest ones, which nobody has seen yet
 */

export class Edits {
  /** @param {(parts: Record<string, string | null>, how?: "push" | "replace") => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.head = make("button", { type: "button", class: "small", onclick: () => this.toggleHead() });
    this.link = make("button", { type: "button", class: "small", onclick: () => this.toggleLink() });
    this.hint = make("p", { class: "quiet" }, "Open a head to switch it off or to cut one of its links.");
    this.swap = new Swap((swap) => changed({ swap, n: null }, "push"));
    this.chips = make("ul", { class: "chips", "aria-label": "What is changed" });
    this.outcome = make("div", { class: "outcome", "aria-live": "polite" });
    this.weights = choice(
      "Weights",
      "weights",
      [
        ["after", "after"],
        ["before", "before"],
        ["difference", "difference"],
      ],
      (value) => changed({ show: value === "after" ? null : value }),
    );
    const apart = "After the change the rows are different words, so there is no difference to show.";
    this.apart = make("p", { class: "quiet" }, apart);
    this.result = make(
      "div",
      { hidden: true },
      this.chips,
      this.outcome,
      make("div", { class: "row" }, make("span", { class: "quiet" }, "the map shows weights"), this.weights),
      this.apart,
    );
    this.element = make(
      "section",
      { class: "edits", "aria-label": "Change something" },
      make("h2", {}, "Change something"),
      this.hint,
      make("div", { class: "row" }, this.head, this.link),
      this.swap.element,
      this.result,
    );
    /** @type {{look: Look, settled: Settled, state: AskState} | null} */
    this.given = null;
    this.cell = { row: 0, column: 0 };
  }

  /**
   * @param {Look} look the one that is shown @param {Outcome | null} outcome of the changes @param {Settled} settled
   * @param {AskState} state @param {string | null} text
   */
  show(look, outcome, settled, state, text) {
    this.given = { look, settled, state };
    const key = this.headKey();
    reveal(this.head, key !== null);
    reveal(this.hint, key === null);
    this.head.textContent = key && state.off.includes(key) ? "Switch this head on" : "Switch this head off";
    this.swap.show(text, state.swap);
    this.point(this.cell.row, this.cell.column);
    reveal(this.result, isEdited(state));
    this.showChips(state);
    this.showOutcome(outcome);
    const isComparable = outcome?.isComparable ?? false;
    const difference = /** @type {HTMLInputElement} */ (this.weights.querySelector("[value=difference]"));
    difference.disabled = !isComparable;
    reveal(this.apart, !isComparable);
    setChoice(this.weights, state.shown === "difference" && !isComparable ? "after" : state.shown);
  }

  /** The cell that a link is cut at. @param {number} row @param {number} column */
  point(row, column) {
    this.cell = { row, column };
    const isCell = this.given !== null && this.headKey() !== null && this.given.settled.view !== "arcs";
    reveal(this.link, isCell);
    if (!this.given || !isCell) return;
    const { rows, columns } = this.given.settled;
    const name = `«${shortened(visible(rows[row] ?? ""))}» → «${shortened(visible(columns[column] ?? ""))}»`;
    this.link.textContent = `${this.cutHere().length ? "Restore" : "Cut"} the link ${name}`;
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

  /** The links between the tokens of the cell. @returns {[string, number, number][]} */
  linksHere() {
    const key = this.headKey();
    if (!this.given || !key) return [];
    const { look, settled } = this.given;
    const rows = tokensOf(look.axes[settled.attention.rows], this.cell.row, settled.words);
    const columns = tokensOf(look.axes[settled.attention.columns], this.cell.column, settled.words);
    return rows.flatMap((row) => columns.map((column) => /** @type {[string, number, number]} */ ([key, row, column])));
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

  /** @param {AskState} state */
  showChips(state) {
    const chip = (/** @type {string} */ text, /** @type {Record<string, string | null>} */ parts) => {
      return make(
        "li",
        {},
        make(
          "button",
          { type: "button", class: "small", "aria-label": `Undo: ${text}`, onclick: () => this.changed(parts, "push") },
          text,
          " ×",
        ),
      );
    };
    const { off, cut, swap } = state;
    const without = (/** @type {string[]} */ some) => (some.length ? some.join(",") : null);
    this.chips.replaceChildren(
      ...off.map((head) => chip(`without head ${head}`, { off: without(off.filter((one) => one !== head)) })),
      ...cut.map((link) =>
        chip(`without link ${link.join(":")}`, { cut: writeLinks(cut.filter((one) => one !== link)) }),
      ),
      ...(swap ? [chip(`«${shortened(swap[1])}» for «${shortened(swap[0])}»`, { swap: null })] : []),
      ...(off.length + cut.length + Number(swap !== null) > 1
        ? [chip("undo all changes", { off: null, cut: null, swap: null })]
        : []),
    );
  }

  /** @param {Outcome | null} outcome */
  showOutcome(outcome) {
    const change = outcome?.after.change;
    if (!outcome || !change) return this.outcome.replaceChildren();
    const { before, after, isDrawn } = outcome;
    const [one, other] = [String(before.answer.text), String(after.answer.text)];
    const drawn = isDrawn ? twoAnswers("drawn ", one, other, one === other) : [];
    const kind = isDrawn ? "likeliest " : "";
    const lines = [...drawn, ...twoAnswers(kind, change.before.text, change.after.text, change.same)];
    const details = make(
      "details",
      {},
      make("summary", {}, `how probable each token of the ${kind}old answer is`),
      probabilities(change.before),
    );
    this.outcome.replaceChildren(make("dl", {}, ...lines), details);
    return undefined;
  }
}

/** @param {string} kind @param {string} before @param {string} after @param {boolean} isSame */
function twoAnswers(kind, before, after, isSame) {
  const said = isSame ? ["the same answer"] : differing(before, after);
  return [
    make("dt", {}, `${kind}before`),
    make("dd", { dir: "auto" }, before),
    make("dt", {}, `${kind}after`),
    make("dd", { dir: "auto", class: isSame ? "quiet" : "changed" }, ...said),
  ];
}

/**
 * How probable each token of an answer is before and after a change.
 * @param {import("../shared/types.js").Scored} scored
 */
function probabilities({ tokens, before, after }) {
  const rows = tokens.map((token, place) => {
    const [one, other] = [Math.exp(before[place]), Math.exp(after[place])];
    const cells = [one, other].map((probability) => make("td", { class: "mono" }, number(probability, 4)));
    const name = make("th", { scope: "row" }, make("bdi", {}, visible(token)));
    return make("tr", Math.abs(one - other) > 0.05 ? { class: "moved" } : {}, name, ...cells);
  });
  const head = ["token", "before", "after"].map((title) => make("th", { scope: "col" }, title));
  const caption = make("caption", { class: "unseen" }, "Probability of each token of the answer before");
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}
