// The steps of the walkthrough on one screen: blocks in columns from left to right, joined by lines.

import { make } from "../shared/dom.js";

/** Which block is in which column. @type {string[][]} */
const COLUMNS = [
  ["inputs", "source"],
  ["W_query", "W_key", "W_value"],
  ["queries", "keys", "values", "W_score", "compared"],
  ["scores", "scaled", "bias", "biased", "masked", "powers"],
  ["weights", "weighted"],
  ["sum", "W_output", "output"],
];
/** What each block is made of. @type {[string, string][]} */
const FEEDS = [
  ["inputs", "W_query"],
  ["source", "W_key"],
  ["W_query", "queries"],
  ["W_key", "keys"],
  ["W_value", "values"],
  ["queries", "scores"],
  ["keys", "scores"],
  ["scores", "weights"],
  ["values", "weighted"],
  ["weighted", "sum"],
];
const NAMESPACE = "http://www.w3.org/2000/svg";

export class Flow {
  constructor() {
    this.columns = COLUMNS.map(() => make("div", { class: "flow-column" }));
    this.rest = make("div", { class: "flow-rest" }); // steps of several heads
    this.lines = document.createElementNS(NAMESPACE, "svg");
    this.lines.setAttribute("class", "flow-lines");
    this.lines.setAttribute("aria-hidden", "true");
    this.field = make("div", { class: "flow" }, this.lines, ...this.columns);
    this.element = make("div", { class: "flow-place" }, this.field, this.rest);
    this.key = "";
    new ResizeObserver(() => this.draw()).observe(this.field);
  }

  /** @param {{name: string, element: HTMLElement}[]} blocks */
  show(blocks) {
    const key = blocks.map(({ name }) => name).join();
    if (key !== this.key) this.place(blocks);
    this.key = key;
    this.draw();
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

  draw() {
    const frame = this.field.getBoundingClientRect();
    const boxOf = (/** @type {string} */ name) => {
      const found = this.field.querySelector(`[data-step="${name}"], [data-block="${name}"]`);
      return found?.getBoundingClientRect();
    };
    const drawn = FEEDS.flatMap(([from, to]) => {
      const [one, other] = [boxOf(from), boxOf(to)];
      if (!one || !other || other.left <= one.right - 1) return [];
      const [x, y] = [one.right - frame.left, (one.top + one.bottom) / 2 - frame.top];
      const [end, down] = [other.left - frame.left, (other.top + other.bottom) / 2 - frame.top];
      const middle = (x + end) / 2;
      const path = document.createElementNS(NAMESPACE, "path");
      path.setAttribute("d", `M ${x} ${y} C ${middle} ${y} ${middle} ${down} ${end} ${down}`);
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
