// Takes the chosen word along from one view to another: through the alignment, where the rows are other words.

import { weightsOf } from "../shared/api.js";
import { cellOf, tokensAt } from "./cells.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").Settled} Settled
 * @typedef {[number, number | null]} Cell  a row, and a column if one is chosen
 */

const NO_CELL = { row: null, col: null, pin: null };
/** Parts of the address that only make sense for one text or answer. */
export const OF_ONE_TEXT = { ...NO_CELL, n: null, step: null, cut: null, swap: null, show: null };

/**
 * The parts of the address that choose the same words in another view.
 * @param {Look} look @param {Settled} before @param {Settled} after @param {Cell} cell
 * @returns {Record<string, string | null>}
 */
export function carried(look, before, after, cell) {
  const found = sameWords(look, before, after, cell);
  if (!found || found[0] < 0) return NO_CELL;
  return { row: String(found[0]), col: found[1] === null || found[1] < 0 ? null : String(found[1]) };
}

/**
 * @param {Look} look @param {Settled} before @param {Settled} after @param {Cell} cell
 * @returns {Cell | null}
 */
function sameWords(look, before, after, [row, column]) {
  const [from, to] = tokensAt(look, before, row, column);
  if (from === null) return null;
  const [one, other] = [before.attention, after.attention];
  if (one.rows === other.rows) return cellOf(look, after, from, one.columns === other.columns ? to : null);
  if (!look.alignment) return null;
  const aligned = { ...after, head: "alignment", words: true, attention: alignedBy(look, look.alignment) };
  const { rows, columns } = aligned.attention;
  if (one.rows === columns && other.rows === rows) {
    const word = look.axes[columns].words[from] ?? 0; // of the text: the word of the answer that looked at it most
    const best = strongest(look.alignment.values.map((weights) => weights[word]));
    const [written] = tokensAt(look, aligned, best, null);
    return written === null ? null : cellOf(look, after, written, other.columns === columns ? from : null);
  }
  if (one.rows !== rows || other.rows !== columns) return null;
  const [word] = cellOf(look, aligned, from, null); // of the answer: the word of the text that it looked at
  const read = to !== null && one.columns === columns ? to : null;
  const best = strongest(look.alignment.values[Math.max(0, word)] ?? []);
  return cellOf(look, after, read ?? look.axes[columns].words.indexOf(best), null);
}

/** @param {Look} look @param {import("../shared/types.js").Alignment} alignment */
function alignedBy(look, { name }) {
  return /** @type {import("../shared/types.js").Attention} */ (look.attentions.find((one) => one.name === name));
}

/**
 * The head whose weight at a cell is the largest.
 * @param {Look} look @param {Settled} settled @param {Cell} cell
 */
export async function strongestHead(look, settled, cell) {
  const { name, heads } = settled.attention;
  const { row, col } = carried(look, settled, { ...settled, head: "mean" }, cell);
  const every = Array.from({ length: heads }, (_, head) => weightsOf(look, name, String(head), settled.words));
  const weights = (await Promise.all(every)).map(({ values, columns }) => values[Number(row) * columns + Number(col)]);
  return String(Math.max(0, strongest(weights)));
}

/** The place of the largest. @param {number[]} values */
function strongest(values) {
  return values.indexOf(Math.max(...values));
}
