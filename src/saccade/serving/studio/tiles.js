// The tiles of a large matrix: fetched when they come into sight, nearest first, kept while there is room.

import { Refused, inPath, isStopped, numbers, query } from "./api.js";
import { picture } from "./ramp.js";

/**
 * @typedef {object} Tile
 * @property {string} key
 * @property {number} level  tokens along a cell, as asked for
 * @property {number} top  the first row
 * @property {number} left
 * @property {number} bottom  after the last row
 * @property {number} right
 * @property {[number, number]} cell  weights along a cell: rows, columns
 * @property {import("./types.js").Matrix} matrix
 * @property {HTMLCanvasElement | null} picture
 *
 * @typedef {{name: string, head: string, pool: string}} Source
 */

const CELLS = 256; // along a tile
export const COARSEST = 256;
const MOST_KEPT = 700;
const AT_ONCE = 2; // the server computes the tiles of a look one after the other
const FIRST_PAUSE = 2; // seconds; twice as long after each failure that follows
const LONGEST_PAUSE = 60;
const PASSING = [0, 429, 500, 502, 503, 504]; // no answer, or one that may be another the next time

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
    /** @type {Map<string, AbortController>} */
    this.running = new Map();
    /** @type {{level: number, row: number, column: number}[]} */
    this.wanted = [];
    this.refused = new Set(); // keys of tiles that will not come
    this.failures = 0; // one after the other
    this.resumes = 0; // when the server is asked again
    this.ink = 1;
    this.isEnded = false;
  }

  /** Another head, or another way to pool. @param {Source} source */
  use(source) {
    if (JSON.stringify(source) === JSON.stringify(this.source)) return;
    this.source = source;
    this.wanted = [];
    for (const one of this.running.values()) one.abort();
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

  /**
   * The tiles of a level that a part of the matrix lies in, the nearest to its middle first.
   * @param {number} level @param {{top: number, left: number, bottom: number, right: number}} part in tokens
   */
  places(level, { top, left, bottom, right }) {
    const span = spanOf(level);
    const found = [];
    const last = (/** @type {number} */ end, /** @type {number} */ count) => Math.ceil(Math.min(end, count) / span);
    for (let row = Math.max(0, Math.floor(top / span)); row < last(bottom, this.rows); row += 1) {
      for (let column = Math.max(0, Math.floor(left / span)); column < last(right, this.columns); column += 1) {
        found.push({ level, row, column });
      }
    }
    const [middleRow, middleColumn] = [(top + bottom) / 2 / span - 0.5, (left + right) / 2 / span - 0.5];
    const distance = (/** @type {{row: number, column: number}} */ one) =>
      Math.hypot(one.row - middleRow, one.column - middleColumn);
    return found.sort((one, other) => distance(one) - distance(other));
  }

  /**
   * Asks for what is in sight; what is no longer in sight is not waited for.
   * @param {number} level @param {{top: number, left: number, bottom: number, right: number}} part
   * @returns {{ready: number, refused: number, all: number}}
   */
  want(level, part) {
    const places = this.places(level, part);
    const missing = places.filter(({ row, column }) => !this.kept.has(this.keyOf(level, row, column)));
    this.wanted = missing.filter(({ row, column }) => !this.refused.has(this.keyOf(level, row, column)));
    const keys = new Set(this.wanted.map(({ row, column }) => this.keyOf(level, row, column)));
    for (const [key, controller] of this.running) if (!keys.has(key)) controller.abort();
    this.fetchMore();
    const refused = missing.length - this.wanted.length;
    return { ready: places.length - missing.length, refused, all: places.length };
  }

  fetchMore() {
    while (this.running.size < AT_ONCE && !this.isEnded && performance.now() >= this.resumes) {
      const next = this.wanted.find(({ level, row, column }) => !this.running.has(this.keyOf(level, row, column)));
      if (!next) return;
      void this.fetch(next.level, next.row, next.column);
    }
  }

  /** @param {number} level @param {number} row @param {number} column */
  async fetch(level, row, column) {
    const key = this.keyOf(level, row, column);
    const controller = new AbortController();
    this.running.set(key, controller);
    const span = spanOf(level);
    const [top, left] = [row * span, column * span];
    const [bottom, right] = [Math.min(this.rows, top + span), Math.min(this.columns, left + span)];
    const { name, head, pool } = this.source;
    const part = { name, head, rows: `${top}:${bottom}`, columns: `${left}:${right}` };
    const base = `/api/looks/${inPath(this.look)}`;
    const path =
      level === 1 ? `${base}/tile?${query(part)}` : `${base}/overview?${query({ ...part, pool, cell: level })}`;
    try {
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

  /** Asks no more for a tile that is refused; where the server has too much to do, for none before a pause is over. */
  fail(/** @type {string} */ key, /** @type {unknown} */ error) {
    if (error instanceof Refused && PASSING.includes(error.status)) {
      const pause = error.pause || Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.failures);
      this.failures += 1;
      this.resumes = performance.now() + 1000 * pause;
    } else {
      this.refused.add(key);
      this.wanted = this.wanted.filter((one) => this.keyOf(one.level, one.row, one.column) !== key);
    }
    this.failed(error);
  }

  /** @param {Tile} tile */
  keep(tile) {
    this.kept.set(tile.key, tile);
    this.wanted = this.wanted.filter(({ level, row, column }) => this.keyOf(level, row, column) !== tile.key);
    if (this.kept.size > MOST_KEPT) this.kept.delete(/** @type {string} */ (this.kept.keys().next().value));
  }

  /**
   * What there is to draw of a part, the coarsest first.
   * @param {number} level no finer than this @param {{top: number, left: number, bottom: number, right: number}} part
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
    for (let coarser = level; coarser <= COARSEST; coarser *= 2) {
      const span = spanOf(coarser);
      const tile = this.kept.get(this.keyOf(coarser, Math.floor(row / span), Math.floor(column / span)));
      if (!tile) continue;
      const [down, across] = [
        Math.floor((row - tile.top) / tile.cell[0]),
        Math.floor((column - tile.left) / tile.cell[1]),
      ];
      return { value: tile.matrix.values[down * tile.matrix.columns + across], cell: tile.cell };
    }
    return null;
  }

  end() {
    this.isEnded = true;
    this.wanted = [];
    for (const one of this.running.values()) one.abort();
  }
}
