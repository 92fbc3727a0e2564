// The tiles of a large matrix: fetched when they come into sight, nearest first, kept while there is room.

import { Refused, get, inPath, isStopped, numbers } from "../shared/api.js";
import { picture } from "../shared/ramp.js";
import { PREVIEW, pathOf, placesOf } from "./places.js";

/**
 * @typedef {object} Tile
 * @property {string} key
 * @property {number} level  tokens along a cell, as asked for; infinite: of the preview
 * @property {number} top  the first row
 * @property {number} left
 * @property {number} bottom  after the last row
 * @property {number} right
 * @property {[number, number]} cell  weights along a cell: rows, columns
 * @property {import("../shared/types.js").Matrix} matrix
 * @property {HTMLCanvasElement | null} picture
 *
 * @typedef {{name: string, head: string, pool: string}} Source
 * @typedef {{top: number, left: number, bottom: number, right: number}} Part  in tokens
 * @typedef {{key: string, level: number, row: number, column: number}} Wanted
 */

const CELLS = 256; // along a tile
export const COARSEST = 256;
const FROM_WHOLE = 8; // tiles of such a level and coarser ones follow from a picture of the whole,
const LONG = 4096; // which takes a while if the text is so long: a preview is asked for
const POLLS = 450; // milliseconds
const MOST_KEPT = 700;
const AT_ONCE = 2; // the server computes the tiles of a look one after the other
const FIRST_PAUSE = 2; // seconds; twice as long after each failure that follows
const LONGEST_PAUSE = 60;
export const PASSING = [0, 429, 500, 502, 503, 504]; // no answer, or an error that may not occur next time

/** The tokens along a tile of a level. @param {number} level */
export function spanOf(level) {
  return CELLS * level;
}

export class Tiles {
  /**
   * @param {string} look its id @param {number} rows @param {number} columns
   * @param {() => void} arrived @param {(error: unknown) => void} failed
   */
  constructor(look, rows, columns, arrived, failed) {
    this.look = look;
    this.rows = rows;
    this.columns = columns;
    this.arrived = arrived;
    this.failed = failed;
    /** @type {Source} */
    this.source = { name: "", head: "0", pool: "max" };
    /** @type {Map<string, Tile>} */
    this.kept = new Map();
    /** @type {Map<string, {level: number, controller: AbortController}>} */
    this.running = new Map();
    /** @type {Wanted[]} */
    this.wanted = [];
    this.refused = new Set(); // keys of tiles that the server refused
    this.failures = 0; // one after the other
    this.resumes = 0; // when the server is asked again
    this.ink = 1;
    this.share = 0; // of the picture that coarse tiles follow from; 0 or 1: not known
    this.isPolling = false;
    this.isEnded = false;
  }

  /** Another head, or another way to pool. @param {Source} source */
  use(source) {
    if (JSON.stringify(source) === JSON.stringify(this.source)) return;
    this.source = source;
    this.wanted = [];
    for (const { controller } of this.running.values()) controller.abort();
  }

  /** @param {number} ink the weight that has the colour of the ink */
  setInk(ink) {
    if (ink === this.ink) return;
    this.ink = ink;
    this.repaint();
  }

  repaint() {
    for (const tile of this.kept.values()) tile.picture = null;
  }

  /** @param {number} level @param {number} row @param {number} column */
  keyOf(level, row, column) {
    return [this.source.name, this.source.head, this.source.pool, level, row, column].join(" ");
  }

  /** The first overview, if it has arrived. */
  get preview() {
    return this.kept.get(this.keyOf(PREVIEW, 0, 0)) ?? null;
  }

  /** @param {number} level @param {Part} part @returns {Wanted[]} the nearest to the middle first */
  places(level, part) {
    return placesOf(part, spanOf(level), this.rows, this.columns).map(([row, column]) => {
      return { key: this.keyOf(level, row, column), level, row, column };
    });
  }

  /**
   * Requests the visible tiles, and cancels requests for tiles that are no longer visible.
   * @param {number} level @param {Part} part
   * @returns {{ready: number, refused: number, all: number}}
   */
  want(level, part) {
    const places = this.places(level, part);
    const missing = places.filter(({ key }) => !this.kept.has(key));
    const isAsked = (/** @type {Wanted} */ { key }) => !this.kept.has(key) && !this.refused.has(key);
    const first = { key: this.keyOf(PREVIEW, 0, 0), level: PREVIEW, row: 0, column: 0 };
    const isSlow = missing.length > 0 && level >= FROM_WHOLE && Math.max(this.rows, this.columns) > LONG;
    this.wanted = [...(isSlow ? [first] : []), ...missing].filter(isAsked);
    this.abandon(level);
    this.fetchMore();
    if (isSlow && this.preview) void this.poll();
    const refused = missing.filter(({ key }) => this.refused.has(key)).length;
    return { ready: places.length - missing.length, refused, all: places.length };
  }

  /**
   * Waits no more for what is out of sight. Coarse tiles all follow from one picture, which the server makes for the
   * first of them: that one is let go on while others want it too.
   * @param {number} level the one in sight
   */
  abandon(level) {
    const keys = new Set(this.wanted.map(({ key }) => key));
    for (const [key, running] of this.running) {
      const isShared = running.level >= FROM_WHOLE && level >= FROM_WHOLE;
      if (!keys.has(key) && !(isShared && keys.size)) running.controller.abort();
    }
  }

  /** Asks for the progress of the picture that all tiles wait for. */
  async poll() {
    if (this.isPolling || this.isEnded) return;
    this.isPolling = true;
    const found = await get(`/api/looks/${inPath(this.look)}/progress`).catch(() => ({ progress: 0 }));
    this.share = found.progress;
    setTimeout(() => (this.isPolling = false), POLLS);
  }

  fetchMore() {
    while (this.running.size < AT_ONCE && !this.isEnded && performance.now() >= this.resumes) {
      // Nothing overtakes the preview: the server makes one picture of a look after the other.
      if ([...this.running.values()].some(({ level }) => level === PREVIEW)) return;
      const next = this.wanted.find(({ key }) => !this.running.has(key));
      if (!next) return;
      void this.fetch(next);
    }
  }

  /** @param {Wanted} wanted */
  async fetch({ key, level, row, column }) {
    const controller = new AbortController();
    this.running.set(key, { level, controller });
    const isPreview = level === PREVIEW;
    const span = spanOf(level);
    const [top, left] = isPreview ? [0, 0] : [row * span, column * span];
    const [bottom, right] = [Math.min(this.rows, top + span), Math.min(this.columns, left + span)];
    try {
      const path = pathOf(this.look, this.source, level, { top, left, bottom, right });
      const found = await numbers(path, controller.signal);
      const matrix = { rows: found.rows, columns: found.columns, values: found.values };
      this.keep({ key, level, top, left, bottom, right, cell: found.cell, matrix, picture: null });
      this.failures = 0;
      if (!this.isEnded) this.arrived();
    } catch (error) {
      if (!isStopped(error) && !this.isEnded) this.fail(key, error);
    } finally {
      this.running.delete(key);
      this.fetchMore();
    }
  }

  /** Stops requesting a refused tile; if the server is busy, pauses all requests. */
  fail(/** @type {string} */ key, /** @type {unknown} */ error) {
    if (error instanceof Refused && PASSING.includes(error.status)) {
      const pause = error.pause || Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.failures);
      this.failures += 1;
      this.resumes = performance.now() + 1000 * pause;
    } else {
      this.refused.add(key);
      this.wanted = this.wanted.filter((one) => one.key !== key);
    }
    this.failed(error);
  }

  /** @param {Tile} tile */
  keep(tile) {
    this.kept.set(tile.key, tile);
    this.wanted = this.wanted.filter(({ key }) => key !== tile.key);
    if (this.kept.size > MOST_KEPT) this.kept.delete(/** @type {string} */ (this.kept.keys().next().value));
  }

  /**
   * What there is to draw of a part, the coarsest first.
   * @param {number} level no finer than this @param {Part} part
   */
  drawable(level, part) {
    const prefix = `${this.source.name} ${this.source.head} ${this.source.pool} `;
    const inSight = [...this.kept.values()].filter((tile) => {
      const isHere =
        tile.top < part.bottom && tile.bottom > part.top && tile.left < part.right && tile.right > part.left;
      return isHere && tile.level >= level && tile.key.startsWith(prefix);
    });
    return inSight.sort((one, other) => other.level - one.level);
  }

  /** @param {Tile} tile */
  pictureOf(tile) {
    tile.picture ??= picture(tile.matrix, { most: this.ink });
    return tile.picture;
  }

  /**
   * The value at a row and column as finely as it is known.
   * @param {number} row @param {number} column @param {number} level no finer
   */
  valueAt(row, column, level) {
    let tile;
    for (let coarser = level; coarser <= COARSEST && !tile; coarser *= 2) {
      const span = spanOf(coarser);
      tile = this.kept.get(this.keyOf(coarser, Math.floor(row / span), Math.floor(column / span)));
    }
    tile ??= this.preview ?? undefined;
    if (!tile) return null;
    const [down, across] = [
      Math.floor((row - tile.top) / tile.cell[0]),
      Math.floor((column - tile.left) / tile.cell[1]),
    ];
    const value = tile.matrix.values[down * tile.matrix.columns + across];
    return { value, cell: tile.cell, isPreview: tile.level === PREVIEW };
  }

  end() {
    this.isEnded = true;
    this.wanted = [];
    for (const { controller } of this.running.values()) controller.abort();
  }
}
