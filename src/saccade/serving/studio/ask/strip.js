// The words, with the links of the chosen word drawn between them; clicking a link cuts it.

import { directionOf, make, number, shortened, visible, within } from "../shared/dom.js";
import { keyNames } from "./cells.js";
import { MARKS } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Matrix} Matrix
 *
 * @typedef {object} Links  what is drawn
 * @property {Matrix} matrix
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {boolean} isSelf  rows and columns are the same words
 * @property {number} row  the word whose links are drawn
 * @property {number} column  the link that is read out, which is drawn also if it is weak
 * @property {number} upTo  rows from here on are not written yet
 * @property {Map<string, string>} cut  "row,column" of links that are cut, and in which heads
 * @property {string[]} where  in which heads a link can be cut: "encoder.1.self"; in none: a link stays
 * @property {(row: number) => string} [note]  what else is told of a row
 *
 * @typedef {object} StripListener
 * @property {(row: number, column: number | null) => void} pointed
 * @property {(row: number) => void} pinned
 * @property {((row: number, column: number) => void) | null} cut  null: links stay
 * @property {boolean} [isBrief]  only the largest weights are told, and not what a click does
 */

const NAMESPACE = "http://www.w3.org/2000/svg";
const LEAST = 0.04; // of a weight that is drawn
const MOST = 7; // links of one word

export class Strip {
  /** @param {StripListener} listener */
  constructor(listener) {
    this.listener = listener;
    this.to = make("ol", { class: "strip-words", "aria-label": "Words that the model looks at" });
    this.from = make("ol", { class: "strip-words", "aria-label": "Words; use the arrow keys to move between them" });
    this.lines = document.createElementNS(NAMESPACE, "svg");
    this.field = make("div", { class: "strip-field" }, this.to, this.from, this.lines);
    this.said = make("p", { class: "strip-said", role: "status" });
    this.scroll = make("div", { class: "strip-scroll" }, this.field);
    this.element = make("section", { class: "strip", "aria-label": "Links between the words" }, this.scroll, this.said);
    this.reached = -1; // the word that was last scrolled to
    /** @type {Links | null} */
    this.links = null;
    this.shape = "";
    this.key = ""; // of what is drawn
    this.from.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.field);
  }

  /** @param {Links} links */
  show(links) {
    this.links = links;
    const { rows, columns, isSelf } = links;
    const shape = JSON.stringify([rows, columns, isSelf]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.from.replaceChildren(...rows.map((label, row) => this.word(label, row)));
      const seen = isSelf ? [] : columns;
      this.to.replaceChildren(
        ...seen.map((label) => make("li", { title: MARKS[label] }, make("bdi", {}, visible(label)))),
      );
      this.field.dir = directionOf(columns.join(" "));
      this.field.toggleAttribute("data-self", isSelf);
    }
    [...this.from.children].forEach((item, row) => {
      const button = /** @type {HTMLElement} */ (item.firstChild);
      button.setAttribute("aria-pressed", String(row === links.row));
      button.tabIndex = row === links.row ? 0 : -1;
      button.classList.toggle("later", row >= links.upTo);
    });
    const key = JSON.stringify([shape, links.row, links.where, this.drawn()]);
    if (key === this.key) return; // what is under the pointer stays there
    this.key = key;
    this.draw();
  }

  /** @param {string} label @param {number} row */
  word(label, row) {
    const attributes = { type: "button", class: "link-word", title: MARKS[label] ?? label };
    const button = make("button", attributes, shortened(visible(label), 24));
    const pointed = () => row !== this.links?.row && this.listener.pointed(row, null);
    button.addEventListener("pointermove", pointed); // not where a word merely appears under the pointer
    button.addEventListener("focus", pointed);
    button.addEventListener("click", () => this.listener.pinned(row));
    return make("li", {}, button);
  }

  /** The links of the chosen word that are drawn, the strongest first. */
  drawn() {
    if (!this.links) return [];
    const { matrix, row, column: pointed, isSelf, cut } = this.links;
    const every = Array.from({ length: matrix.columns }, (_, column) => {
      const isCut = cut.has(`${row},${column}`);
      return { column, weight: matrix.values[row * matrix.columns + column], isCut };
    });
    return every
      .filter(({ column, weight, isCut }) => {
        return (weight >= LEAST || isCut || column === pointed) && !(isSelf && column === row);
      })
      .sort((one, other) => Number(other.isCut) - Number(one.isCut) || other.weight - one.weight)
      .filter(({ column }, place) => place < MOST || column === pointed);
  }

  draw() {
    const { links, field } = this;
    const frame = field.getBoundingClientRect();
    if (!links || !frame.width) return;
    const focused = /** @type {SVGElement | null} */ (this.lines.querySelector(":focus"))?.dataset.link;
    this.lines.setAttribute("width", String(frame.width));
    this.lines.setAttribute("height", String(frame.height));
    const start = middleOf(this.from.children[links.row], frame);
    this.lines.replaceChildren(
      ...this.drawn().flatMap(({ column, weight, isCut }) => {
        const end = middleOf((links.isSelf ? this.from : this.to).children[column], frame);
        return start && end ? this.link(start, end, column, weight, isCut) : [];
      }),
    );
    if (focused) /** @type {SVGElement | null} */ (this.lines.querySelector(`[data-link="${focused}"]`))?.focus();
    this.reach(start);
    this.tell(null);
  }

  /** Scrolls the words, in a narrow window, to the chosen one. @param {Place | null} start */
  reach(start) {
    const { scroll, links } = this;
    if (!start || this.reached === links?.row || scroll.scrollWidth <= scroll.clientWidth) return;
    this.reached = links?.row ?? -1;
    const isSeen = start.x > scroll.scrollLeft + 30 && start.x < scroll.scrollLeft + scroll.clientWidth - 30;
    if (!isSeen) scroll.scrollLeft = start.x - scroll.clientWidth / 2;
  }

  /**
   * @param {Place} start @param {Place} end @param {number} column @param {number} weight @param {boolean} isCut
   * @typedef {{x: number, top: number, bottom: number}} Place
   */
  link(start, end, column, weight, isCut) {
    const { isSelf, row, cut: cuts, where } = /** @type {Links} */ (this.links);
    const middle = (start.x + end.x) / 2;
    const rise = Math.min(start.top - 16, 12 + Math.abs(start.x - end.x) * 0.16); // what is above the words is free
    const peak = isSelf ? start.top - rise : (start.top + end.bottom) / 2;
    const d = isSelf
      ? `M ${start.x} ${start.top} Q ${middle} ${start.top - 2 * rise} ${end.x} ${start.top}`
      : `M ${start.x} ${start.top} C ${start.x} ${peak} ${end.x} ${peak} ${end.x} ${end.bottom}`;
    const style = { class: isCut ? "link is-cut" : "link", "stroke-opacity": isCut ? 1 : 0.25 + 0.75 * weight };
    const line = svg("path", { d, ...style, "stroke-width": isCut ? 2 : 1.5 + 5 * weight });
    if (!this.listener.cut || !where.length) return [line];
    const cutIn = cuts.get(`${row},${column}`);
    const heads = keyNames(cutIn ? [cutIn] : where);
    const label = `${isCut ? "Restore" : "Cut"} the link ${this.nameOf(column)} in ${heads}`;
    const sign = svg("text", { x: middle, y: peak + 5, "text-anchor": "middle" });
    sign.textContent = isCut ? "↺" : "✂";
    const handle = svg("g", { class: "handle", role: "button", tabindex: 0, "aria-label": label });
    handle.dataset.link = `${row},${column}`;
    handle.toggleAttribute("data-pointed", column === this.links?.column);
    handle.append(svg("circle", { cx: middle, cy: peak, r: 10 }), sign);
    const cut = () => this.listener.cut?.(row, column);
    handle.addEventListener("click", cut);
    handle.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") cut();
    });
    for (const kind of ["pointerenter", "focus"])
      handle.addEventListener(kind, () => {
        this.listener.pointed(row, column);
        const does = this.listener.isBrief ? "" : ` · click to ${isCut ? "restore" : "cut"} it in ${heads}`;
        this.tell(`${this.nameOf(column)} ${isCut ? "is cut" : number(weight, 2)}${does}`);
      });
    return [line, handle];
  }

  /** @param {number} column */
  nameOf(column) {
    const { rows, columns, row } = /** @type {Links} */ (this.links);
    return `«${shortened(visible(rows[row] ?? ""))}» → «${shortened(visible(columns[column] ?? ""))}»`;
  }

  /** @param {string | null} sentence null: what the word looks at */
  tell(sentence) {
    const { rows = [], columns = [], row = 0, note } = this.links ?? {};
    const { isBrief } = this.listener;
    const every = this.drawn().filter(({ isCut }) => !isCut);
    const seen = every.slice(0, isBrief ? 2 : 4);
    const listed = seen.map(({ column, weight }) => `${visible(columns[column])} ${number(weight, 2)}`).join(", ");
    const more = note?.(row);
    const word = `«${shortened(visible(rows[row] ?? ""))}»${more ? ` (${more})` : ""}`;
    const left = isBrief ? this.most(seen, every.length) : this.rest(seen);
    const all = `${word} looked at ${listed || "no other word"}${left}`;
    this.said.textContent = sentence ?? all;
  }

  /** What a brief sentence leaves out, but for a large weight of the word itself. @param {{weight: number}[]} seen
   * @param {number} count of the links that are drawn */
  most(seen, count) {
    if (!this.links) return "";
    const { matrix, row, isSelf } = this.links;
    const own = isSelf ? matrix.values[row * matrix.columns + row] : 0;
    const isLarge = own > (seen.at(-1)?.weight ?? 0);
    return `${isLarge ? `, itself ${number(own, 2)}` : ""}${count > seen.length ? ", …" : ""}`;
  }

  /** What is left of a row: at the word itself, and at the others. @param {{column: number, weight: number}[]} seen */
  rest(seen) {
    if (!this.links) return "";
    const { matrix, row, isSelf } = this.links;
    const own = isSelf ? matrix.values[row * matrix.columns + row] : 0;
    let total = 0;
    for (let column = 0; column < matrix.columns; column += 1) total += matrix.values[row * matrix.columns + column];
    const listed = seen.reduce((sum, { weight }) => sum + weight, own);
    const other = Math.abs(total - 1) < 0.01 ? total - listed : 0; // the maxima of several heads add up to nothing
    const parts = [isSelf && `itself ${number(own, 2)}`, other >= 0.005 && `all others ${number(other, 2)}`];
    return parts.filter(Boolean).map((part) => `, ${part}`).join("");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.links) return;
    event.preventDefault();
    event.stopPropagation();
    const towards = this.field.dir === "rtl" ? -step : step;
    const next = within(this.links.row + towards, 0, this.links.rows.length - 1);
    /** @type {HTMLElement} */ (this.from.children[next].firstChild).focus();
  }
}

/** @param {Element | undefined} item @param {DOMRect} frame @returns {Place | null} */
function middleOf(item, frame) {
  const box = item?.getBoundingClientRect();
  if (!box) return null;
  return { x: (box.left + box.right) / 2 - frame.left, top: box.top - frame.top, bottom: box.bottom - frame.top };
}

/** @param {string} name @param {Record<string, string | number>} attributes */
function svg(name, attributes) {
  const element = /** @type {SVGElement} */ (document.createElementNS(NAMESPACE, name));
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}
