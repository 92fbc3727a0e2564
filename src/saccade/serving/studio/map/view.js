// The matrix of a long text as a map: drag to move, turn the wheel to zoom, down to the number itself.

import { eachFrame, make, visible, within } from "../shared/dom.js";
import { exactly } from "../shared/legend.js";
import { LEFT, TOP, drawFrame, drawLabels, drawNumbers } from "./drawing.js";
import { Gestures } from "./gestures.js";
import { sized } from "../shared/matrix.js";
import { COARSEST } from "./tiles.js";

/**
 * @typedef {import("./tiles.js").Tiles} Tiles
 * @typedef {import("./tiles.js").Part} Part
 * @typedef {{x: number, y: number, scale: number}} Place  the token in the middle, and the pixels of a token
 */

const LARGEST = 64; // pixels a token
const WITH_NUMBERS = 46;

export class MapView {
  /** @param {(place: Place) => void} moved @param {(text: string) => void} told the cell that is read out */
  constructor(moved, told) {
    this.moved = moved;
    this.told = told;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    const role = {
      role: "application",
      "aria-roledescription": "map",
      "aria-describedby": "map-readout",
      "aria-label": "The whole matrix; use the arrow keys to move, + and − to zoom, and Enter to tell the middle row",
    };
    this.label = make("p", { class: "map-label" }); // what a cell is
    this.element = make("div", { class: "map", tabindex: "0", ...role }, this.canvas);
    /** @type {Tiles | null} */
    this.tiles = null;
    /** @type {string[]} */
    this.rows = [];
    /** @type {string[]} */
    this.columns = [];
    /** @type {Place} */
    this.place = { x: 0, y: 0, scale: 1 };
    /** @type {{row: number, column: number} | null} */
    this.pointed = null;
    /** @type {{clientX: number, clientY: number} | null} the mouse, if it is what points */
    this.pointer = null;
    /** @type {(row: number) => void} */
    this.chosen = () => undefined; // a row that was clicked
    this.marked = -1; // the row that is told beside the map
    this.waitingSince = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.redraw = eachFrame(() => this.draw());
    new Gestures(this);
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /**
   * @param {Tiles} tiles @param {string[]} rows @param {string[]} columns @param {Place | null} place null: all of it
   */
  show(tiles, rows, columns, place) {
    if (rows !== this.rows || columns !== this.columns) this.pointed = null;
    if (tiles !== this.tiles) delete this.element.dataset.ready;
    [this.tiles, this.rows, this.columns] = [tiles, rows, columns];
    this.place = place ?? this.whole();
    this.redraw();
  }

  /** Nothing is shown. */
  clear() {
    [this.tiles, this.rows, this.columns, this.pointed] = [null, [], [], null];
    this.canvas.getContext("2d")?.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.label.textContent = "";
    delete this.element.dataset.ready;
  }

  /** The pixels that cells have. */
  get room() {
    return {
      width: Math.max(50, this.element.clientWidth - LEFT),
      height: Math.max(50, this.element.clientHeight - TOP),
    };
  }

  /** @returns {Place} */
  whole() {
    const { width, height } = this.room;
    const scale = Math.min(width / this.columns.length, height / this.rows.length, LARGEST);
    return { x: width / scale / 2, y: height / scale / 2, scale };
  }

  /** Tokens along a cell that is at least a pixel: a weight that has no pixel of its own is pooled with others. */
  get level() {
    const pixels = this.place.scale * (devicePixelRatio || 1);
    return within(2 ** Math.ceil(-Math.log2(pixels) - 1e-6), 1, COARSEST);
  }

  /** The part in sight, in tokens. */
  get part() {
    const { width, height } = this.room;
    const { x, y, scale } = this.place;
    return {
      left: x - width / scale / 2,
      right: x + width / scale / 2,
      top: y - height / scale / 2,
      bottom: y + height / scale / 2,
    };
  }

  /** @param {Place} place */
  go(place) {
    if (!this.tiles) return;
    const smallest = Math.min(this.whole().scale, 1);
    const scale = within(place.scale, smallest * 0.8, LARGEST);
    const { width, height } = this.room; // a map smaller than the view is placed at its top left
    const [right, bottom] = [
      Math.max(this.columns.length, width / scale / 2),
      Math.max(this.rows.length, height / scale / 2),
    ];
    this.place = { x: within(place.x, 0, right), y: within(place.y, 0, bottom), scale };
    this.redraw();
    this.moved(this.place);
  }

  /** @param {number} factor @param {{clientX: number, clientY: number} | null} [at] the point that stays where it is */
  zoomAt(factor, at = null) {
    if (!this.tiles) return;
    const frame = this.canvas.getBoundingClientRect();
    const { width, height } = this.room;
    const [dx, dy] = at
      ? [at.clientX - frame.left - LEFT - width / 2, at.clientY - frame.top - TOP - height / 2]
      : [0, 0];
    const { x, y, scale } = this.place;
    const next = within(scale * factor, Math.min(this.whole().scale, 1) * 0.8, LARGEST);
    this.go({ x: x + dx / scale - dx / next, y: y + dy / scale - dy / next, scale: next });
  }

  /** What lies under the mouse: another cell after each movement of the mouse or of the map. @param {Part} part */
  point({ left, top }) {
    if (!this.pointer) return;
    const frame = this.canvas.getBoundingClientRect();
    const column = Math.floor(left + (this.pointer.clientX - frame.left - LEFT) / this.place.scale);
    const row = Math.floor(top + (this.pointer.clientY - frame.top - TOP) / this.place.scale);
    const isThere = row >= 0 && column >= 0 && row < this.rows.length && column < this.columns.length;
    this.pointed = isThere ? { row, column } : null;
  }

  /** @param {number} row @param {number} column */
  readOut(row, column) {
    const found = this.tiles?.valueAt(row, column, this.level);
    const word = (/** @type {string[]} */ labels, /** @type {number} */ place) => `«${visible(labels[place] ?? "")}»`;
    const link = `${word(this.rows, row)} (${row}) → ${word(this.columns, column)} (${column})`;
    if (!found) return `${link}: being computed`;
    const { value, cell, isPreview } = found;
    if (isPreview) return `${link}: ${this.previewed(cell)}: ${exactly(value)}`;
    if (Math.max(...cell) === 1) return `${link}: ${exactly(value)}`;
    return `${link}: in a cell whose ${this.tiles?.source.pool} of ${cell.join("×")} weights is ${exactly(value)}`;
  }

  /** @param {[number, number]} cell */
  previewed([rows, columns]) {
    const cells = `each cell is the ${this.tiles?.source.pool} of ${columns} weights in one row`;
    return `preview: ${cells}; only 1 row in ${rows} is computed`;
  }

  // --- drawing ---

  draw() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!this.tiles || !width) return;
    const context = sized(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    const { level, part } = this;
    const { ready, refused, all } = this.tiles.want(level, part);
    this.point(part);
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, width - LEFT, height - TOP);
    context.clip();
    this.drawTiles(context, level, part, ready === all);
    if (this.place.scale >= WITH_NUMBERS) drawNumbers(context, this, part);
    drawFrame(context, this, part);
    context.restore();
    drawLabels(context, this, part, width, height);
    this.label.textContent = this.described(level, part, ready, refused, all);
    if (this.pointed) this.told(this.readOut(this.pointed.row, this.pointed.column));
    this.element.dataset.ready = ready < all ? "no" : "yes";
    this.element.dataset.level = String(level);
  }

  /**
   * What a cell is, and how far the picture is.
   * @param {number} level @param {Part} part @param {number} ready tiles @param {number} refused @param {number} all
   */
  described(level, part, ready, refused, all) {
    const said = level === 1 ? "exact weights" : `${this.tiles?.source.pool} of ${level}×${level} weights`;
    const isWaiting = ready + refused < all;
    if (!isWaiting) this.waitingSince = 0;
    if (ready === all) return said;
    const waited = isWaiting ? this.waited() : "";
    const { preview = null, share = 0 } = this.tiles ?? {};
    const isAlone = preview && this.tiles?.drawable(level, part).every((tile) => tile === preview);
    if (!isAlone) return `${said} · ${ready} of ${all} tiles${waited}`;
    const far = share > 0 && share < 1 ? ` ${Math.floor(100 * share)} %` : "";
    return `${this.previewed(preview.cell)} · being computed: ${said}${far}${waited}`;
  }

  /** Shows how long to wait: the first picture of a long text takes a while. */
  waited() {
    this.waitingSince ||= performance.now();
    const seconds = Math.floor((performance.now() - this.waitingSince) / 1000);
    clearTimeout(this.timer);
    this.timer = window.setTimeout(this.redraw, 500);
    return seconds ? ` · ${seconds} s` : "";
  }

  /** @param {number} token @param {number} start @param {number} offset */
  toPixels(token, start, offset) {
    return offset + (token - start) * this.place.scale;
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {number} level
   * @param {Part} part
   * @param {boolean} isReady where all tiles of the level are there, the coarser ones below them are not seen
   */
  drawTiles(context, level, part, isReady) {
    context.imageSmoothingEnabled = false;
    for (const tile of this.tiles?.drawable(level, part) ?? []) {
      if (isReady && tile.level > level) continue;
      const picture = /** @type {Tiles} */ (this.tiles).pictureOf(tile);
      const [x, y] = [this.toPixels(tile.left, part.left, LEFT), this.toPixels(tile.top, part.top, TOP)];
      // The last cells of a tile may stand for fewer weights than the others.
      const across = (tile.right - tile.left) / tile.cell[1];
      const down = (tile.bottom - tile.top) / tile.cell[0];
      const { scale } = this.place;
      const size = [(tile.right - tile.left) * scale, (tile.bottom - tile.top) * scale];
      context.drawImage(picture, 0, 0, across, down, x, y, size[0], size[1]);
    }
  }
}
