// Which numbers a number was computed from; they light up while the user points at it.

/**
 * @typedef {import("../shared/types.js").Step} Step
 * @typedef {{name: string, row: number | null, column: number | null}} Part  null: all of them
 */

/** @param {string} name @param {number} row @param {number} column @returns {Part} */
function cell(name, row, column) {
  return { name, row, column };
}

/** @param {string} name @param {number} row @returns {Part} */
function wholeRow(name, row) {
  return { name, row, column: null };
}

/** @param {string} name @param {number} column @returns {Part} */
function wholeColumn(name, column) {
  return { name, row: null, column };
}

/**
 * @param {Step[]} steps @param {string} name @param {number} row @param {number} column
 * @param {number} block the query whose weighted values are shown
 * @returns {Part[]}
 */
export function madeOf(steps, name, row, column, block) {
  const has = (/** @type {string} */ other) => steps.some((step) => step.name === other);
  const before = steps[steps.findIndex((step) => step.name === name) - 1]?.name ?? "";
  const source = has("source") ? "source" : "inputs";
  const projected = (/** @type {string} */ from, /** @type {string} */ matrix) => {
    if (!has(from)) return [];
    return has(matrix) ? [wholeRow(from, row), wholeColumn(matrix, column)] : [cell(from, row, column)];
  };
  /** @type {Record<string, () => Part[]>} */
  const makers = {
    queries: () => projected("inputs", "W_query"),
    keys: () => projected(source, "W_key"),
    values: () => projected(source, "W_value"),
    scores: () => [wholeRow("queries", row), wholeRow("keys", column)],
    scaled: () => [cell("scores", row, column)],
    biased: () => [cell(has("scaled") ? "scaled" : "scores", row, column), cell("bias", row, column)],
    masked: () => [cell(before, row, column)],
    weights: () => [wholeRow(before, row)],
    weighted: () => [cell("weights", block, row), cell("values", row, column)],
    sum: () =>
      row === block ? [wholeColumn("weighted", column)] : [wholeRow("weights", row), wholeColumn("values", column)],
    output: () => projected("sum", "W_output"),
  };
  return makers[name]?.() ?? [];
}
