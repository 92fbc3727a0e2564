// The cells of the current view, and the links between tokens that they stand for.

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 */

/**
 * The tokens that a row or column stands for: itself, or the pieces of a word.
 * @param {import("../shared/types.js").Axis} axis @param {number} place @param {boolean} words
 */
export function tokensOf(axis, place, words) {
  if (!words) return [place];
  return axis.words.flatMap((word, token) => (word === place ? [token] : []));
}

/** Which words a selection is of: another attention with the same words keeps it. @param {Settled | null} settled */
export function wordsOf(settled) {
  return settled && JSON.stringify([settled.rows, settled.columns, settled.head === "alignment"]);
}

/**
 * In which heads a link is cut here: in the open one, or where heads are seen together in all of the layer.
 * @param {Settled} settled @returns {string} "encoder.1.self:3" or "encoder.1.self"
 */
export function cutKey({ attention, head }) {
  return /^\d+$/.test(head) ? `${attention.name}:${head}` : attention.name;
}

/**
 * The links between the tokens of a cell. The row of an alignment is a word that is written: what is read just before.
 * @param {Look} look @param {Settled} settled @param {number} row @param {number} column
 * @returns {[string, number, number][]}
 */
export function linksAt(look, settled, row, column) {
  const [rows, columns] = [look.axes[settled.attention.rows], look.axes[settled.attention.columns]];
  const isAlignment = settled.head === "alignment";
  const from = tokensOf(rows, row, settled.words).map((token) => token - Number(isAlignment));
  const to = tokensOf(columns, column, settled.words);
  const key = cutKey(settled);
  return from.flatMap((one) => to.map((other) => /** @type {[string, number, number]} */ ([key, one, other])));
}

/**
 * The cells of what is seen whose links are cut, as "row,column": in the open head, or in all heads.
 * @param {Look} look @param {Settled} settled @param {AskState} state
 */
export function cutCells(look, settled, state) {
  const { attention, head, words } = settled;
  const [rows, columns] = [look.axes[attention.rows].words, look.axes[attention.columns].words];
  const shift = Number(head === "alignment");
  const here = state.cut.filter(([key]) => key === attention.name || key === `${attention.name}:${head}`);
  return new Set(
    here.map(([, row, column]) => (words ? `${rows[row + shift]},${columns[column]}` : `${row},${column}`)),
  );
}
