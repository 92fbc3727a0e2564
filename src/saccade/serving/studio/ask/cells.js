// The cells of the current view, and the links between tokens that they stand for.

import { keyName } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Axis} Axis
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 * @typedef {[string, number, number]} Link  the heads, the row and the column, counted in tokens
 */

/**
 * In which heads a link is cut here: in the open one, or where heads are seen together in all that are. None can be cut
 * in a rollout, which is of all layers at once.
 * @param {Look} look @param {Settled} settled @returns {string[]} "encoder.1.self:3" or "encoder.1.self"
 */
export function cutKeys({ alignment }, { attention: { name, heads }, head }) {
  if (head === "rollout") return [];
  if (/^\d+$/.test(head)) return [`${name}:${head}`];
  const isOfSome = head === "alignment" && alignment && alignment.heads.length < heads;
  return isOfSome ? alignment.heads.map((one) => `${name}:${one}`) : [name];
}

/** @param {string[]} keys */
export function keyNames(keys) {
  return keys.map(keyName).join(" and ");
}

/**
 * The tokens that a word stands for.
 * @param {Axis} axis @param {number} word
 */
function piecesOf(axis, word) {
  return axis.words.flatMap((one, token) => (one === word ? [token] : []));
}

/**
 * The word of an alignment that a row of its attention belongs to, or -1. A row that reads a token predicts the next;
 * which of both the alignment takes, `row_offset` tells.
 * @param {Look} look @param {Axis} axis of the rows @param {number} row
 */
function alignedWord({ alignment }, axis, row) {
  if (!alignment) return -1;
  const word = axis.words[row + 1 - alignment.row_offset];
  return word === undefined || word === null ? -1 : word - startWords(alignment, axis);
}

/**
 * How many words the decoder reads before the first that it writes.
 * @param {import("../shared/types.js").Alignment} alignment @param {Axis} axis
 */
function startWords(alignment, axis) {
  return axis.labels.length - alignment.rows.length;
}

/**
 * The rows of an attention, counted in tokens, that a row of the view stands for.
 * @param {Look} look @param {Settled} settled @param {number} row
 */
function rowsAt(look, { attention, head, words }, row) {
  const axis = look.axes[attention.rows];
  if (head !== "alignment" || !look.alignment) return words ? piecesOf(axis, row) : [row];
  const { alignment } = look;
  return piecesOf(axis, row + startWords(alignment, axis)).map((token) => token - 1 + alignment.row_offset);
}

/**
 * The links between the tokens of a cell.
 * @param {Look} look @param {Settled} settled @param {number} row @param {number} column @returns {Link[]}
 */
export function linksAt(look, settled, row, column) {
  const axis = look.axes[settled.attention.columns];
  const to = settled.words ? piecesOf(axis, column) : [column];
  const cells = rowsAt(look, settled, row).flatMap((one) => to.map((other) => [one, other]));
  return cutKeys(look, settled).flatMap((key) => cells.map(([one, other]) => /** @type {Link} */ ([key, one, other])));
}

/**
 * The first token of the row and of the column of a cell; null: there is none.
 * @param {Look} look @param {Settled} settled @param {number} row @param {number | null} column
 * @returns {[number | null, number | null]}
 */
export function tokensAt(look, settled, row, column) {
  const axis = look.axes[settled.attention.columns];
  const to = column === null ? undefined : settled.words ? piecesOf(axis, column)[0] : column;
  return [rowsAt(look, settled, row)[0] ?? null, to ?? null];
}

/**
 * The row and column of a view that two tokens stand in.
 * @param {Look} look @param {Settled} settled @param {number} row @param {number | null} column
 * @returns {[number, number | null]}
 */
export function cellOf(look, { attention, head, words }, row, column) {
  const [rows, columns] = [look.axes[attention.rows], look.axes[attention.columns]];
  const its = head === "alignment" ? alignedWord(look, rows, row) : words ? (rows.words[row] ?? -1) : row;
  return [its, column === null || !words ? column : (columns.words[column] ?? null)];
}

/**
 * The links of a cell that are cut: in the heads that are seen, or in all of their layer.
 * @param {Look} look @param {Settled} settled @param {AskState} state @param {number} row @param {number} column
 * @returns {Link[]}
 */
export function cutAt(look, settled, state, row, column) {
  const here = linksAt(look, settled, row, column);
  return state.cut.filter(([key, one, other]) =>
    here.some(([its, from, to]) => from === one && to === other && (key === its || key === settled.attention.name)),
  );
}

/**
 * The cells of what is seen whose links are cut, as "row,column", and in which heads.
 * @param {Look} look @param {Settled} settled @param {AskState} state @returns {Map<string, string>}
 */
export function cutCells(look, settled, state) {
  const keys = cutKeys(look, settled);
  const { name } = settled.attention;
  const here = state.cut.filter(([key]) => keys.length > 0 && (key === name || keys.includes(key)));
  return new Map(here.map(([key, row, column]) => [cellOf(look, settled, row, column).join(","), key]));
}

/**
 * A cut link as the page names it: the row of an alignment by the word that it belongs to, as in the map.
 * @param {Look} look @param {Link} link @param {boolean} isAlignment @returns {[string, string]}
 */
export function wordsAt(look, [key, row, column], isAlignment) {
  const attention = look.attentions.find(({ name }) => name === key.split(":")[0]);
  const { alignment } = look;
  const said = (/** @type {string | undefined} */ id, /** @type {number} */ place) => {
    const axis = id === undefined ? undefined : look.axes[id];
    const word = axis?.words[place] ?? null;
    return (word === null ? axis?.tokens[place] : axis?.labels[word]) ?? String(place);
  };
  const isAligned = isAlignment && alignment && attention?.name === alignment.name;
  const word = isAligned ? alignedWord(look, look.axes[attention.rows], row) : -1;
  return [word >= 0 && alignment ? alignment.rows[word] : said(attention?.rows, row), said(attention?.columns, column)];
}

/**
 * The look whose words name a link: that before the changes as long as the same words were read up to its row, so that
 * a link keeps its name when the answer changes; else that after them.
 * @param {Look} before @param {Look} after @param {Link} link
 */
export function readAs(before, after, [key, row, column]) {
  const read = (/** @type {Look} */ look) => {
    const attention = look.attentions.find(({ name }) => name === key.split(":")[0]);
    const [rows, columns] = [attention?.rows, attention?.columns].map((id) => look.axes[id ?? ""]?.tokens ?? []);
    return JSON.stringify([rows.slice(0, row + 1), columns.slice(0, column + 1)]);
  };
  return read(before) === read(after) ? before : after;
}
