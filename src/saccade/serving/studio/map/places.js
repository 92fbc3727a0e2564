// Which tiles a part of a matrix lies in, and where the server has them.

import { inPath, query } from "../shared/api.js";

/**
 * @typedef {import("./tiles.js").Part} Part
 * @typedef {import("./tiles.js").Source} Source
 */

export const PREVIEW = Infinity; // the level of the first overview
const PREVIEW_CELLS = 128;

/**
 * The tiles that a part of the matrix lies in, the nearest to its middle first.
 * @param {Part} part @param {number} span tokens along a tile @param {number} rows @param {number} columns
 * @returns {[number, number][]}
 */
export function placesOf({ top, left, bottom, right }, span, rows, columns) {
  /** @type {[number, number][]} */
  const found = [];
  const last = (/** @type {number} */ end, /** @type {number} */ count) => Math.ceil(Math.min(end, count) / span);
  for (let row = Math.max(0, Math.floor(top / span)); row < last(bottom, rows); row += 1)
    for (let column = Math.max(0, Math.floor(left / span)); column < last(right, columns); column += 1)
      found.push([row, column]);
  const middle = [(top + bottom) / 2 / span - 0.5, (left + right) / 2 / span - 0.5];
  const distance = (/** @type {[number, number]} */ one) => Math.hypot(one[0] - middle[0], one[1] - middle[1]);
  return found.sort((one, other) => distance(one) - distance(other));
}

/** @param {string} look @param {Source} source @param {number} level @param {Part} part */
export function pathOf(look, { name, head, pool }, level, { top, left, bottom, right }) {
  const base = `/api/looks/${inPath(look)}`;
  if (level === PREVIEW) {
    const cells = /^\d+$/.test(head) ? PREVIEW_CELLS : PREVIEW_CELLS / 2; // of all heads it is made one by one
    return `${base}/overview?${query({ name, head, pool, cells, preview: 1 })}`;
  }
  const part = { name, head, rows: `${top}:${bottom}`, columns: `${left}:${right}` };
  return level === 1 ? `${base}/tile?${query(part)}` : `${base}/overview?${query({ ...part, pool, cell: level })}`;
}
