// The links of one word: a line to each word that it looks at, with one colour per head.

import { make, visible, within } from "../shared/dom.js";
import { sized } from "../shared/matrix.js";
import { currentTheme } from "../shared/ramp.js";

/** @typedef {import("../shared/types.js").Matrix} Matrix */

// As distinct for colour-blind readers as eight colours can be; the number of the head is also shown.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a12", "#7b8494"],
  dark: ["#4da8f0", "#ff8243", "#2fc596", "#f0a0cb", "#ffc04a", "#9adcff", "#d4c355", "#b6bfca"],
};
const AROUND = 20; // words shown before and after the chosen one
const MOST_LINKED = 41;
const SMALLEST_LINK = 0.01;

/** @param {number} head */
export function headColour(head) {
  return HEAD_COLOURS[currentTheme()][head % 8];
}

export class Arcs {
  /** @param {(row: number) => void} chosen @param {(column: number) => void} pointed */
  constructor(chosen, pointed) {
    this.chosen = chosen;
    this.pointed = pointed;
    this.lines = make("canvas", { "aria-hidden": "true" });
    this.from = make("ol", { class: "from", "aria-label": "From" });
    this.to = make("ol", { class: "to", "aria-label": "To" });
    this.frame = make("div", { class: "links" }, this.lines, this.from, this.to);
    this.note = make("p", { class: "quiet" });
    this.legend = make("ul", { class: "arc-heads", "aria-label": "The colour of each head" });
    this.element = make("div", { class: "arcs" }, this.frame, this.note, this.legend);
    /** @type {{heads: {head: number, matrix: Matrix}[], rows: string[], columns: string[], row: number} | null} */
    this.drawn = null;
    /** @type {number[]} */
    this.listed = [];
    this.column = 0;
    this.from.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.redraw()).observe(this.frame);
  }

  /**
   * @param {{head: number, matrix: Matrix}[]} heads @param {string[]} rows @param {string[]} columns
   * @param {number} row @param {number} column the link that is read out
   */
  show(heads, rows, columns, row, column) {
    this.drawn = { heads, rows, columns, row };
    this.column = column;
    const first = Math.max(0, row - AROUND);
    const hadFocus = this.from.contains(document.activeElement);
    this.from.replaceChildren(
      ...rows.slice(first, row + AROUND + 1).map((label, place) => this.fromItem(label, first + place)),
    );
    this.listed = columns.map((_, column) => column);
    const isCut = columns.length > MOST_LINKED;
    if (isCut) {
      const most = this.listed.map((column) =>
        Math.max(...heads.map(({ matrix }) => matrix.values[row * matrix.columns + column])),
      );
      const linked = this.listed.filter((column) => most[column] >= SMALLEST_LINK);
      linked.sort((one, other) => most[other] - most[one]);
      this.listed = linked.slice(0, MOST_LINKED).sort((one, other) => one - other);
    }
    this.to.replaceChildren(...this.listed.map((other) => this.toItem(columns[other], other)));
    const most = `the ${this.listed.length} with the largest weights are listed.`;
    const cut = isCut ? ` Of ${columns.length} words, ${most}` : "";
    const colours = heads.length > 1 ? ", a colour a head" : "";
    this.note.textContent = `Lines show links with a weight of at least ${SMALLEST_LINK}${colours}.${cut}`;
    this.listHeads();
    if (hadFocus) /** @type {HTMLElement | null} */ (this.from.querySelector('[aria-pressed="true"]'))?.focus();
    this.redraw();
  }

  /** Which colour is whose. */
  listHeads() {
    const heads = this.drawn?.heads ?? [];
    const named = heads.map(({ head }) => make("li", { "--colour": headColour(head) }, `head ${head + 1}`));
    this.legend.replaceChildren(...(heads.length > 1 ? named : []));
  }

  /** @param {string} label @param {number} row */
  fromItem(label, row) {
    const isChosen = row === this.drawn?.row;
    const button = make(
      "button",
      {
        type: "button",
        class: "word",
        tabindex: isChosen ? "0" : "-1",
        "aria-pressed": String(isChosen),
        onclick: () => this.chosen(row),
      },
      visible(label),
    );
    return make("li", {}, button);
  }

  /** A word that is looked at; pointing at it tells how much. @param {string} label @param {number} column */
  toItem(label, column) {
    const point = () => {
      if (column === this.column) return;
      this.column = column;
      this.pointed(column);
      this.redraw();
    };
    return make("li", { onpointerenter: point, "data-column": column }, make("bdi", {}, visible(label)));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || !this.drawn) return;
    event.preventDefault();
    this.chosen(within(this.drawn.row + step, 0, this.drawn.rows.length - 1));
  }

  /** What is drawn: the words on both sides, the place of the chosen one, and its links to places on the other side. */
  linked() {
    if (!this.drawn) return { from: [], to: [], links: [], row: 0 };
    const { heads, rows, columns, row } = this.drawn;
    const first = Math.max(0, row - AROUND);
    const links = heads.flatMap(({ head, matrix }) => {
      return this.listed.map((column, place) => {
        return { head, place, weight: Math.min(1, matrix.values[row * matrix.columns + column]) };
      });
    });
    return {
      from: rows.slice(first, row + AROUND + 1),
      to: this.listed.map((column) => columns[column]),
      links: links.filter(({ weight }) => weight >= SMALLEST_LINK),
      row: row - first,
    };
  }

  redraw() {
    this.listHeads(); // in another theme
    const chosen = this.from.querySelector('[aria-pressed="true"]');
    const frame = this.frame.getBoundingClientRect();
    if (!this.drawn || !chosen || !frame.width) return;
    const context = sized(this.lines, frame.width, frame.height);
    context.clearRect(0, 0, frame.width, frame.height);
    const box = chosen.getBoundingClientRect();
    const start = { x: box.right - frame.left + 4, y: (box.top + box.bottom) / 2 - frame.top };
    [...this.to.children].forEach((item, place) => {
      item.toggleAttribute("data-pointed", this.listed[place] === this.column);
      const its = item.getBoundingClientRect();
      const end = { x: its.left - frame.left - 4, y: (its.top + its.bottom) / 2 - frame.top };
      for (const { head, matrix } of this.drawn?.heads ?? []) {
        const weight = Math.min(1, matrix.values[(this.drawn?.row ?? 0) * matrix.columns + this.listed[place]]);
        const isPointed = this.listed[place] === this.column;
        if (weight >= SMALLEST_LINK) drawLink(context, start, end, weight, headColour(head), isPointed);
      }
    });
  }
}

/**
 * @param {CanvasRenderingContext2D} context @param {{x: number, y: number}} start @param {{x: number, y: number}} end
 * @param {number} weight @param {string} colour @param {boolean} isPointed
 */
function drawLink(context, start, end, weight, colour, isPointed) {
  const bend = (end.x - start.x) / 2;
  context.strokeStyle = colour;
  context.globalAlpha = isPointed ? 1 : 0.2 + 0.8 * weight;
  context.lineWidth = (isPointed ? 3 : 1) + 4 * weight;
  context.beginPath();
  context.moveTo(start.x, start.y);
  context.bezierCurveTo(start.x + bend, start.y, end.x - bend, end.y, end.x, end.y);
  context.stroke();
  context.globalAlpha = 1;
}
