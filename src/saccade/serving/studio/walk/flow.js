// The steps of the walkthrough on one screen: blocks in columns from left to right, joined by lines.

import { make, within } from "../shared/dom.js";

/** Which block is in which column. @type {string[][]} */
const COLUMNS = [
  ["inputs", "source"],
  ["W_query", "W_key", "W_value"],
  ["queries", "keys", "values", "W_score"],
  ["compared", "scores", "scaled", "bias", "biased", "masked", "powers"],
  ["weights", "weighted"],
  ["sum", "W_output", "output"],
];
/** What each block is made of; of several in one entry, the first that is there. @type {[string[], string][]} */
const FEEDS = [
  [["inputs"], "W_query"],
  [["source", "inputs"], "W_key"],
  [["source", "inputs"], "W_value"],
  [["W_query"], "queries"],
  [["W_key"], "keys"],
  [["W_value"], "values"],
  [["queries"], "compared"],
  [["keys"], "compared"],
  [["queries"], "scores"],
  [["keys"], "scores"],
  [["W_score"], "scores"],
  [["compared"], "scores"],
  [["scores"], "scaled"],
  [["bias"], "biased"],
  [["biased", "scaled", "scores"], "masked"],
  [["masked", "biased", "scaled", "scores"], "powers"],
  [["powers", "masked", "biased", "scaled", "scores"], "weights"],
  [["weights"], "weighted"],
  [["values"], "weighted"],
  [["weighted"], "sum"],
  [["sum"], "W_output"],
  [["W_output"], "output"],
];
/** What scores are made of only if nothing comes between. @type {Record<string, true>} */
const COMPARED = { queries: true, keys: true };
const NAMESPACE = "http://www.w3.org/2000/svg";
const SIZES = [0.8, 2]; // of type: smaller is scrolled, larger is not needed in a lecture hall
const BELOW = 84; // pixels for what is read out
const AROUND = 7; // pixels between a line and the block that it goes round

/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */

export class Flow {
  constructor() {
    this.columns = COLUMNS.map(() => make("div", { class: "flow-column" }));
    this.rest = make("div", { class: "flow-rest" }); // steps of several heads
    this.lines = document.createElementNS(NAMESPACE, "svg");
    this.lines.setAttribute("class", "flow-lines");
    this.lines.setAttribute("aria-hidden", "true");
    this.field = make("div", { class: "flow" }, ...this.columns);
    this.stage = make("div", { class: "flow-stage" }, this.lines, this.field);
    this.element = make("div", { class: "flow-place" }, this.stage, this.rest);
    this.key = "";
    this.width = 0;
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.draw()).observe(this.element);
  }

  /** @param {{name: string, element: HTMLElement}[]} blocks */
  show(blocks) {
    const key = blocks.map(({ name }) => name).join();
    if (key !== this.key) this.place(blocks);
    this.key = key;
  }

  /** @param {{name: string, element: HTMLElement}[]} blocks */
  place(blocks) {
    const isKnown = (/** @type {string} */ name) => COLUMNS.some((names) => names.includes(name));
    this.columns.forEach((column, place) => {
      const names = COLUMNS[place];
      const its = names.flatMap((name) => blocks.find((one) => one.name === name) ?? []);
      column.replaceChildren(...its.map(({ element }) => element));
      column.toggleAttribute("hidden", its.length === 0);
    });
    this.rest.replaceChildren(...blocks.filter(({ name }) => !isKnown(name)).map(({ element }) => element));
  }

  /** As large as the window has room for. */
  fit() {
    const { field, element } = this;
    this.width = element.clientWidth;
    field.style.zoom = "1";
    field.style.minWidth = "0";
    const [width, height] = [field.offsetWidth, field.offsetHeight];
    const room = innerHeight - element.getBoundingClientRect().top - scrollY - BELOW;
    const size = within(Math.min(this.width / width, room / height), SIZES[0], SIZES[1]);
    field.style.zoom = String(Math.floor(100 * size) / 100);
    field.style.minWidth = "100%";
  }

  draw() {
    this.fit();
    const frame = this.stage.getBoundingClientRect();
    const boxOf = (/** @type {string} */ name) => {
      const box = this.field.querySelector(`[data-step="${name}"], [data-block="${name}"]`)?.getBoundingClientRect();
      if (!box) return null;
      const { left, top } = frame;
      return { left: box.left - left, right: box.right - left, top: box.top - top, bottom: box.bottom - top };
    };
    const drawn = FEEDS.flatMap(([some, to]) => {
      const from = some.find((name) => boxOf(name) !== null);
      const [one, other] = [from ? boxOf(from) : null, boxOf(to)];
      if (!from || !one || !other || (to === "scores" && from in COMPARED && boxOf("compared"))) return [];
      const path = document.createElementNS(NAMESPACE, "path");
      path.setAttribute("d", lineOf(one, other, from === "values" ? boxOf("powers") : null));
      path.dataset.from = from;
      path.dataset.to = to;
      return [path];
    });
    this.lines.replaceChildren(...drawn);
  }

  clear() {
    this.key = "";
    for (const column of this.columns) column.replaceChildren();
    this.rest.replaceChildren();
    this.lines.replaceChildren();
  }
}

/**
 * From the side of one block to the side of the next; below it, from edge to edge; and round one that is in the way.
 * @param {Box} one @param {Box} other @param {Box | null} between
 */
function lineOf(one, other, between) {
  if (other.left <= one.right - 1) {
    const x = Math.min(one.right, other.right) - (Math.min(one.right, other.right) - other.left) / 2;
    return `M ${x} ${one.bottom} L ${x} ${other.top}`;
  }
  const [x, y] = [one.right, (one.top + one.bottom) / 2];
  const [end, down] = [other.left, (other.top + other.bottom) / 2];
  if (!between || between.bottom < Math.min(y, down)) return curve(x, y, end, down, "M");
  const low = between.bottom + AROUND;
  return `${curve(x, y, between.left, low, "M")} L ${between.right} ${low}${curve(between.right, low, end, down, "")}`;
}

/** @param {number} x @param {number} y @param {number} end @param {number} down @param {string} start */
function curve(x, y, end, down, start) {
  const middle = (x + end) / 2;
  return `${start && `M ${x} ${y}`} C ${middle} ${y} ${middle} ${down} ${end} ${down}`;
}
