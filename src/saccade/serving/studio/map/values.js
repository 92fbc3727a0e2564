// The values of the cells of a map that are in sight.

/**
 * @typedef {import("./tiles.js").Tiles} Tiles
 * @typedef {import("./tiles.js").Part} Part
 */

const MOST = 20_000; // that tell which ink is usual

/**
 * Some of them where there are many; of the level in sight where there are any of it.
 * @param {Tiles} tiles @param {number} level @param {Part} part @returns {Float32Array}
 */
export function valuesInSight(tiles, level, part) {
  const all = tiles.drawable(level, part);
  const fine = all.filter((tile) => tile.level === level);
  /** @type {number[]} */
  const found = [];
  const seen = fine.length ? fine : all.slice(0, 1);
  for (const { top, left, bottom, right, cell, matrix } of seen) {
    const first = [Math.max(0, part.top - top) / cell[0], Math.max(0, part.left - left) / cell[1]].map(Math.floor);
    const last = [(Math.min(bottom, part.bottom) - top) / cell[0], (Math.min(right, part.right) - left) / cell[1]];
    const count = (last[0] - first[0]) * (last[1] - first[1]) * seen.length;
    const step = Math.max(1, Math.floor(Math.sqrt(count / MOST)));
    for (let row = first[0]; row < last[0]; row += step)
      for (let column = first[1]; column < last[1]; column += step)
        found.push(matrix.values[row * matrix.columns + column]);
  }
  return Float32Array.from(found);
}
