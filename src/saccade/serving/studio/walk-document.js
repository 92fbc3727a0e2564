// What the Walk page starts from, as the address says it: an example or a head of a model, and the numbers that were changed.

/**
 * @typedef {import("./types.js").WalkDocument} WalkDocument
 * @typedef {import("./types.js").Parts} Parts
 * @typedef {{name: string, row: number, column: number, value: number}} Edit
 */

const MATRICES = ["inputs", "source", "W_query", "W_key", "W_value", "queries", "keys", "values", "W_output"];

/** The numbers that were changed: "inputs:0:2:1.5" joined by commas. @param {Parts} parts @returns {Edit[]} */
export function readEdits(parts) {
  return (parts.e ?? "").split(",").flatMap((text) => {
    const found = /^(\w+):(\d+):(\d+):(-?[\d.e+-]+)$/.exec(text);
    const value = found ? Number(found[4]) : NaN;
    return found && MATRICES.includes(found[1]) && Number.isFinite(value)
      ? [{ name: found[1], row: Number(found[2]), column: Number(found[3]), value }]
      : [];
  });
}

/** @param {Edit[]} edits @param {Edit} next @returns {string} the part of the address with one number changed further */
export function withEdit(edits, next) {
  const others = edits.filter(({ name, row, column }) => name !== next.name || row !== next.row || column !== next.column);
  return [...others, next].map(({ name, row, column, value }) => `${name}:${row}:${column}:${value}`).join(",");
}

/**
 * The document with everything that the address changes.
 * @param {WalkDocument} base @param {Parts} parts @returns {WalkDocument}
 */
export function edited(base, parts) {
  const made = structuredClone(base);
  for (const { name, row, column, value } of readEdits(parts)) {
    if (made[name]?.[row]?.[column] !== undefined) made[name][row][column] = value;
  }
  if (parts.score) {
    made.score = parts.score;
    delete made.scale;
  }
  if (parts.weights) made.weights = parts.weights;
  if (parts.mask) made.mask = readMask(parts.mask);
  return made;
}

/** "none", "causal", "window:1", or a matrix by hand: "101.110" @param {string} text @returns {string | boolean[][]} */
function readMask(text) {
  if (!/^[01.]+$/.test(text)) return text;
  return text.split(".").map((row) => [...row].map((sign) => sign === "1"));
}

/** @param {boolean[][]} mask */
export function writeMask(mask) {
  return mask.map((row) => row.map((may) => (may ? "1" : "0")).join("")).join(".");
}
