// The matrix of a long text as a map: drag to move, turn the wheel to zoom, down to the number itself.

import { eachFrame, make, number, visible, within } from "./dom.js";
import { fitted, sized } from "./matrix.js";
import { isDarkInk, styleColour } from "./ramp.js";
import { COARSEST } from "./tiles.js";

/**
 * @typedef {import("./tiles.js").Tiles} Tiles
 * @typedef {{x: number, y: number, scale: number}} Place  the token in the middle, and the pixels of a token
 */

const LEFT = 96; // room for the labels of rows
const TOP = 72;
const LARGEST = 64; // pixels a token
const WITH_NUMBERS = 46;
const WITH_TOKENS = 13;
const FONT = '13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';
const MONO = '12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

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
      "aria-label": "The whole matrix; arrow keys move, + and − zoom",
    };
    this.label = make("div", { class: "map-label" });
    this.element = make("div", { class: "map", tabindex: "0", ...role }, this.canvas, this.label);
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
    this.waitingSince = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.redraw = eachFrame(() => this.draw());
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.listen();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    for (const kind of ["pointerup", "pointercancel"])
      canvas.addEventListener(kind, (event) => this.pointers.delete(/** @type {PointerEvent} */ (event).pointerId));
    canvas.addEventListener("dblclick", (event) => this.zoomAt(2, event));
    this.element.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /**
   * @param {Tiles} tiles @param {string[]} rows @param {string[]} columns @param {Place | null} place null: all of it
   */
  show(tiles, rows, columns, place) {
    [this.tiles, this.rows, this.columns] = [tiles, rows, columns];
    this.place = place ?? this.whole();
    this.redraw();
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

  /** Tokens along a cell that is at least about a pixel. */
  get level() {
    return within(2 ** Math.floor(Math.log2(1 / this.place.scale) + 0.25), 1, COARSEST);
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
    const smallest = Math.min(this.whole().scale, 1);
    const scale = within(place.scale, smallest * 0.8, LARGEST);
    const { width, height } = this.room; // what is smaller than the room lies at its left and top
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
    const frame = this.canvas.getBoundingClientRect();
    const { width, height } = this.room;
    const [dx, dy] = at
      ? [at.clientX - frame.left - LEFT - width / 2, at.clientY - frame.top - TOP - height / 2]
      : [0, 0];
    const { x, y, scale } = this.place;
    const next = within(scale * factor, Math.min(this.whole().scale, 1) * 0.8, LARGEST);
    this.go({ x: x + dx / scale - dx / next, y: y + dy / scale - dy / next, scale: next });
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    event.preventDefault();
    this.zoomAt(2 ** (-event.deltaY / (event.deltaMode ? 6 : 240)), event);
  }

  /** @param {PointerEvent} event */
  onDown(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** @param {PointerEvent} event */
  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.point(event);
    const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
    const now = { x: event.clientX, y: event.clientY };
    this.pointers.set(event.pointerId, now);
    const { x, y, scale } = this.place;
    if (!other) return this.go({ x: x - (now.x - before.x) / scale, y: y - (now.y - before.y) / scale, scale });
    const far = (/** @type {{x: number, y: number}} */ one) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
    return this.zoomAt(far(now) / far(before), { clientX: (now.x + other.x) / 2, clientY: (now.y + other.y) / 2 });
  }

  /** @param {PointerEvent} event */
  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const { left, top } = this.part;
    const column = Math.floor(left + (event.clientX - frame.left - LEFT) / this.place.scale);
    const row = Math.floor(top + (event.clientY - frame.top - TOP) / this.place.scale);
    this.pointAt(row, column);
  }

  /** @param {number} row @param {number} column */
  pointAt(row, column) {
    const isThere = row >= 0 && column >= 0 && row < this.rows.length && column < this.columns.length;
    this.pointed = isThere ? { row, column } : null;
    this.redraw();
  }

  /** @param {number} row @param {number} column */
  readOut(row, column) {
    const found = this.tiles?.valueAt(row, column, this.level);
    const word = (/** @type {string[]} */ labels, /** @type {number} */ place) => `«${visible(labels[place] ?? "")}»`;
    const link = `${word(this.rows, row)} (${row}) → ${word(this.columns, column)} (${column})`;
    if (!found) return `${link}: being computed`;
    const { value, cell } = found;
    if (Math.max(...cell) === 1) return `${link}: ${number(value, 6)}`;
    return `${link}: in a cell whose ${this.tiles?.source.pool} of ${cell.join("×")} weights is ${number(value, 6)}`;
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, y, scale } = this.place;
    const step = scale >= WITH_TOKENS ? 1 : Math.max(1, this.room.width / scale / 8);
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowLeft: () => this.go({ x: x - step, y, scale }),
      ArrowRight: () => this.go({ x: x + step, y, scale }),
      ArrowUp: () => this.go({ x, y: y - step, scale }),
      ArrowDown: () => this.go({ x, y: y + step, scale }),
      "+": () => this.zoomAt(2),
      "=": () => this.zoomAt(2),
      "-": () => this.zoomAt(0.5),
      0: () => this.go(this.whole()),
    };
    const run = moves[event.key];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
    const last = (/** @type {string[]} */ labels, /** @type {number} */ at) =>
      Math.min(labels.length - 1, Math.floor(at));
    this.pointAt(last(this.rows, this.place.y), last(this.columns, this.place.x));
  }

  // --- drawing ---

  draw() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!this.tiles || !width) return;
    const context = sized(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    const { level, part } = this;
    const { ready, refused, all } = this.tiles.want(level, part);
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, width - LEFT, height - TOP);
    context.clip();
    this.drawTiles(context, level, part, ready === all);
    if (this.place.scale >= WITH_NUMBERS) this.drawNumbers(context, part);
    this.drawFrame(context, part);
    context.restore();
    this.drawLabels(context, part, width, height);
    const said = level === 1 ? "exact weights" : `${this.tiles.source.pool} of ${level}×${level} weights`;
    const isWaiting = ready + refused < all;
    if (!isWaiting) this.waitingSince = 0;
    this.label.textContent = ready < all ? `${said} · ${ready} of ${all} tiles${isWaiting ? this.waited() : ""}` : said;
    if (this.pointed) this.told(this.readOut(this.pointed.row, this.pointed.column));
    this.element.dataset.ready = ready < all ? "no" : "yes";
    this.element.dataset.level = String(level);
  }

  /** How long tiles are waited for: the first picture of a long text takes a while. */
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
   * @param {{top: number, left: number, bottom: number, right: number}} part
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
      context.drawImage(
        picture,
        0,
        0,
        across,
        down,
        x,
        y,
        (tile.right - tile.left) * this.place.scale,
        (tile.bottom - tile.top) * this.place.scale,
      );
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {{top: number, left: number, bottom: number, right: number}} part
   */
  drawNumbers(context, part) {
    const decimals = (this.tiles?.ink ?? 1) < 0.05 ? 4 : 3;
    context.font = MONO;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const [ink, text] = [styleColour("background"), styleColour("text")];
    for (let row = Math.max(0, Math.floor(part.top)); row < Math.min(this.rows.length, part.bottom); row += 1) {
      for (
        let column = Math.max(0, Math.floor(part.left));
        column < Math.min(this.columns.length, part.right);
        column += 1
      ) {
        const found = this.tiles?.valueAt(row, column, 1);
        if (!found || found.cell[0] > 1 || found.value < 0.5 * 10 ** -decimals) continue;
        context.fillStyle = isDarkInk(found.value / /** @type {Tiles} */ (this.tiles).ink) ? ink : text;
        context.fillText(
          number(found.value, decimals),
          this.toPixels(column + 0.5, part.left, LEFT),
          this.toPixels(row + 0.5, part.top, TOP),
        );
      }
    }
  }

  /**
   * The edge of the matrix, and the cell that is pointed at.
   * @param {CanvasRenderingContext2D} context @param {{top: number, left: number}} part
   */
  drawFrame(context, part) {
    const { scale } = this.place;
    context.strokeStyle = styleColour("line");
    context.lineWidth = 1;
    const [x, y] = [this.toPixels(0, part.left, LEFT), this.toPixels(0, part.top, TOP)];
    context.strokeRect(x - 0.5, y - 0.5, this.columns.length * scale + 1, this.rows.length * scale + 1);
    if (!this.pointed) return;
    const size = Math.max(scale, 7);
    const middle = (/** @type {number} */ at) => at + scale / 2 - size / 2;
    context.strokeStyle = styleColour("accent");
    context.lineWidth = 2;
    context.strokeRect(
      middle(this.toPixels(this.pointed.column, part.left, LEFT)),
      middle(this.toPixels(this.pointed.row, part.top, TOP)),
      size,
      size,
    );
  }

  /**
   * Tokens where there is room for them, else positions.
   * @param {CanvasRenderingContext2D} context @param {{top: number, left: number, bottom: number, right: number}} part
   * @param {number} width @param {number} height
   */
  drawLabels(context, part, width, height) {
    const hasTokens = this.place.scale >= WITH_TOKENS;
    const every = hasTokens ? 1 : niceStep(70 / this.place.scale);
    context.font = FONT;
    context.save();
    context.beginPath();
    context.rect(0, TOP - 8, LEFT, height - TOP + 8);
    context.clip();
    context.textAlign = "right";
    context.textBaseline = "middle";
    this.eachLabel(part.top, part.bottom, this.rows, every, (place, text) => {
      this.styleLabel(context, place === this.pointed?.row);
      context.fillText(
        fitted(context, text, LEFT - 14),
        LEFT - 8,
        this.toPixels(place + (hasTokens ? 0.5 : 0), part.top, TOP),
      );
    });
    context.restore();
    context.save();
    context.beginPath();
    context.rect(LEFT - 8, 0, width - LEFT + 8, TOP);
    context.clip();
    this.eachLabel(part.left, part.right, this.columns, every, (place, text) => {
      this.styleLabel(context, place === this.pointed?.column);
      context.save();
      context.translate(this.toPixels(place + (hasTokens ? 0.5 : 0), part.left, LEFT), TOP - 6);
      context.rotate(hasTokens ? -Math.PI / 3 : 0);
      context.textAlign = hasTokens ? "left" : "center";
      context.fillText(fitted(context, text, TOP), 0, 0);
      context.restore();
    });
    context.restore();
  }

  /**
   * @param {number} from @param {number} to @param {string[]} labels @param {number} every
   * @param {(place: number, text: string) => void} run
   */
  eachLabel(from, to, labels, every, run) {
    const first = Math.max(0, Math.ceil(Math.floor(from) / every) * every);
    for (let place = first; place < Math.min(labels.length, to); place += every) {
      run(place, every === 1 && this.place.scale >= WITH_TOKENS ? visible(labels[place]) : place.toLocaleString("en"));
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {boolean} isChosen */
  styleLabel(context, isChosen) {
    context.fillStyle = styleColour(isChosen ? "accent" : "text");
  }
}

/** 1, 2 or 5 times a power of ten, no less than what is given. @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least) ?? 10 * power;
}
