// What the Walk page starts from, as the address describes it: an example or a head of a model, and changed numbers.

/**
 * @typedef {import("../shared/types.js").WalkDocument} WalkDocument
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {object} Edit
 * @property {string} name
 * @property {number[]} place  [row, column]; of weighted values [query, row, column]
 * @property {number} value
 */

const GIVEN = "inputs source W_query W_key W_value queries keys values bias W_output W_score".split(" ");
const COMPUTED = "queries keys values compared scores scaled biased weights weighted sum output".split(" ");
const NAMES = new Set([...GIVEN, ...COMPUTED]);

/** The numbers that were changed: "inputs:0:2:1.5" joined by commas. @param {Parts} parts @returns {Edit[]} */
export function readEdits(parts) {
  return (parts.e ?? "").split(",").flatMap((text) => {
    const found = /^(\w+):(\d+(?::\d+){1,2}):(-?[\d.e+-]+)$/.exec(text);
    const value = found ? Number(found[3]) : NaN;
    return found && NAMES.has(found[1]) && Number.isFinite(value)
      ? [{ name: found[1], place: found[2].split(":").map(Number), value }]
      : [];
  });
}

/**
 * @param {Edit[]} edits @param {Edit} next
 * @returns {string} the part of the address with one number changed further
 */
export function withEdit(edits, next) {
  return writeEdits([...edits.filter((one) => !isAt(one, next.name, next.place)), next]);
}

/** @param {Edit[]} edits @returns {string} the part of the address */
export function writeEdits(edits) {
  return edits.map(({ name, place, value }) => [name, ...place, value].join(":")).join(",");
}

/** @param {Edit} edit @param {string} name @param {number[]} place */
export function isAt(edit, name, place) {
  return edit.name === name && edit.place.join() === place.join();
}

/**
 * The document with everything that the address changes: a given number where it is given, a computed one under
 * `changed`.
 * @param {WalkDocument} base @param {Parts} parts @returns {WalkDocument}
 */
export function edited(base, parts) {
  const made = structuredClone(base);
  const changed = [];
  for (const { name, place, value } of readEdits(parts)) {
    const [row, column] = place;
    if (!Array.isArray(made[name])) changed.push({ step: name, place, value });
    else if (made[name][row]?.[column] !== undefined) made[name][row][column] = value;
  }
  if (changed.length) made.changed = changed;
  if (parts.score) {
    made.score = parts.score;
    delete made.scale;
  }
  if (parts.weights) made.weights = parts.weights;
  if (parts.mask) made.mask = readMask(parts.mask);
  const temperature = Number(parts.temp);
  if (temperature > 0 && Number.isFinite(temperature)) made.temperature = temperature;
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
