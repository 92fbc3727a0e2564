// The interactive heat map: hover, arrow keys, click to pin a row.

import { eachFrame, make, within } from "./dom.js";
import { LARGEST_CELL, SMALLEST_CELL, draw, layOut, sized } from "./matrix.js";
import { picture } from "./ramp.js";

/**
 * @typedef {import("./types.js").Matrix} Matrix
 * @typedef {import("./matrix.js").Drawn} Drawn
 */

const TALLEST = 0.8; // of the window, where the page scrolls
/** Where everything is on one screen, as the style sheets have it; the map has the height that is left. */
const ONE_SCREEN = matchMedia("(min-width: 1000px) and (min-height: 640px)");
const STEP = 1.5;

export class HeatMap {
  /**
   * @param {object} given
   * @param {string} given.label for a screen reader
   * @param {string} given.described the id of what reads the cell out
   * @param {(row: number, column: number) => void} given.moved another cell is read out
   * @param {(row: number | null) => void} given.pinned a row is held, or none
   */
  constructor({ label, described, moved, pinned }) {
    this.moved = moved;
    this.pinned = pinned;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.extent = make("div", { class: "extent" }, this.canvas);
    const role = { role: "application", "aria-roledescription": "heat map", "aria-describedby": described };
    this.element = make("div", { class: "heatmap", tabindex: "0", ...role, "aria-label": label }, this.extent);
    /** @type {Drawn | null} */
    this.drawn = null;
    /** @type {import("./matrix.js").Layout | null} */
    this.layout = null;
    /** @type {number | null} */
    this.zoom = null;
    this.redraw = eachFrame(() => this.drawNow());
    this.element.addEventListener("scroll", this.redraw);
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event));
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  /**
   * @param {Matrix} matrix @param {string[]} rows @param {string[]} columns
   * @param {Partial<Pick<Drawn, "isDifference" | "upTo" | "row" | "column" | "pinned" | "cut">>} [options]
   */
  show(matrix, rows, columns, options = {}) {
    const { isDifference = false, upTo = Infinity, pinned = null, cut = new Map() } = options;
    const row = within(options.row ?? 0, 0, matrix.rows - 1);
    const column = within(options.column ?? 0, 0, matrix.columns - 1);
    const pixels = picture(matrix, { isDifference });
    this.drawn = { matrix, picture: pixels, rows, columns, isDifference, upTo, row, column, pinned, cut };
    this.fit();
  }

  /** Another theme. */
  recolour() {
    if (!this.drawn) return;
    this.drawn.picture = picture(this.drawn.matrix, { isDifference: this.drawn.isDifference });
    this.redraw();
  }

  fit() {
    const room = this.element.clientWidth;
    if (!this.drawn || !room) return;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const fills = ONE_SCREEN.matches && this.element.parentElement?.matches(".views");
    this.element.style.height = "";
    const height = fills ? this.element.clientHeight : null;
    this.layout = layOut(context, this.drawn.rows, this.drawn.columns, { width: room, height }, this.zoom);
    this.extent.style.width = `${Math.max(1, this.layout.width)}px`;
    this.extent.style.height = `${this.layout.height}px`;
    const tall = Math.min(this.layout.height + 18, Math.max(420, innerHeight * TALLEST));
    if (!fills) this.element.style.height = `${tall}px`;
    this.drawNow();
  }

  drawNow() {
    const { drawn, layout, element } = this;
    if (!drawn || !layout || !element.clientWidth) return;
    const [width, height] = [element.clientWidth, Math.min(element.clientHeight, layout.height)];
    const context = sized(this.canvas, width, height);
    draw(context, layout, drawn, { width, height, scrollX: element.scrollLeft, scrollY: element.scrollTop });
  }

  /** @param {number} row @param {number} column @param {boolean} [isTold] */
  point(row, column, isTold = true) {
    const { drawn } = this;
    if (!drawn) return;
    const [before, after] = [`${drawn.row},${drawn.column}`, `${row},${column}`];
    drawn.row = within(row, 0, drawn.matrix.rows - 1);
    drawn.column = within(column, 0, drawn.matrix.columns - 1);
    this.redraw();
    if (isTold && before !== after) this.moved(drawn.row, drawn.column);
  }

  /** @param {number | null} row */
  pin(row) {
    if (!this.drawn) return;
    this.drawn.pinned = row;
    if (row !== null) this.point(row, this.drawn.column);
    this.redraw();
    this.pinned(row);
  }

  /** @param {MouseEvent} event @returns {{row: number, column: number} | null} row or column −1: on a label */
  cellAt(event) {
    if (!this.drawn || !this.layout) return null;
    const frame = this.canvas.getBoundingClientRect();
    const { cell, left, top } = this.layout;
    const [x, y] = [event.clientX - frame.left - left, event.clientY - frame.top - top];
    const column = x < 0 ? -1 : Math.floor((x + this.element.scrollLeft) / cell);
    const row = y < 0 ? -1 : Math.floor((y + this.element.scrollTop) / cell);
    const { rows, columns } = this.drawn.matrix;
    return row < rows && column < columns && (row >= 0 || column >= 0) ? { row, column } : null;
  }

  /** @param {MouseEvent} event */
  onPointer(event) {
    const found = this.cellAt(event);
    if (!found || !this.drawn) return;
    const row = this.drawn.pinned ?? (found.row < 0 ? this.drawn.row : found.row);
    this.point(row, found.column < 0 ? this.drawn.column : found.column);
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const found = this.cellAt(event);
    if (!found || !this.drawn || found.row < 0) return;
    const isSame = this.drawn.pinned === found.row;
    if (found.column >= 0) this.drawn.column = found.column;
    this.pin(isSame ? null : found.row);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { drawn } = this;
    if (!drawn || event.ctrlKey || event.metaKey || event.altKey) return;
    const { row, column } = drawn;
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowLeft: () => this.point(row, column - 1),
      ArrowRight: () => this.point(row, column + 1),
      ArrowUp: () => this.move(row - 1),
      ArrowDown: () => this.move(row + 1),
      Home: () => this.point(row, 0),
      End: () => this.point(row, drawn.matrix.columns - 1),
      PageUp: () => this.move(0),
      PageDown: () => this.move(drawn.matrix.rows - 1),
      Enter: () => this.pin(drawn.pinned === row ? null : row),
      Escape: () => this.pin(null),
      "+": () => this.zoomBy(STEP),
      "-": () => this.zoomBy(1 / STEP),
      0: () => this.zoomBy(null),
    };
    const run = moves[event.key];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
    this.bringIntoSight();
  }

  /** A pinned row goes along with the arrows. @param {number} row */
  move(row) {
    if (!this.drawn) return;
    const kept = within(row, 0, this.drawn.matrix.rows - 1);
    if (this.drawn.pinned !== null) this.pin(kept);
    else this.point(kept, this.drawn.column);
  }

  /** @param {number | null} factor */
  zoomBy(factor) {
    this.zoom = factor === null ? null : within((this.layout?.cell ?? 20) * factor, SMALLEST_CELL, LARGEST_CELL);
    this.fit();
  }

  bringIntoSight() {
    if (!this.layout || !this.drawn) return;
    const { cell, left, top } = this.layout;
    const shift = (/** @type {number} */ scroll, /** @type {number} */ room, /** @type {number} */ place) => {
      return Math.min(place * cell, Math.max(scroll, (place + 1) * cell - room));
    };
    this.element.scrollLeft = shift(this.element.scrollLeft, this.element.clientWidth - left, this.drawn.column);
    this.element.scrollTop = shift(this.element.scrollTop, this.element.clientHeight - top, this.drawn.row);
  }
}
