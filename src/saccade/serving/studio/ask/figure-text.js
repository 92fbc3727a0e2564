// Text about a picture of weights: its title, what a row stands for, and the most informative cell.

import { isOfPatches } from "./pictured.js";
import { isEdited } from "./state.js";
import { shortened, visible } from "../shared/dom.js";
import { stackOf } from "../shared/api.js";
import { MARKS, headName, layerName } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 */

/** @param {Look} look @param {Settled} settled */
export function titleOf(look, { attention, head, words }) {
  if (head === "alignment") return alignmentTitle(look, attention);
  const unit = isOfPatches(look, attention) ? "patches" : words ? "words" : "pieces";
  return `${head === "rollout" ? "rollout over the layers" : headName(attention.name, head)} · ${unit}`;
}

/** @param {Look} look @param {import("../shared/types.js").Attention} attention */
function alignmentTitle({ alignment }, { name, heads }) {
  const its = alignment?.heads ?? [];
  if (its.length === heads && heads > 1) return `alignment: mean of the ${heads} heads of ${layerName(name)}`;
  const numbers = its.map((head) => head + 1).join(" and ");
  return `alignment: ${its.length > 1 ? "mean of heads" : "head"} ${numbers} of ${layerName(name)}`;
}

/** The same name in the form that the command line takes. @param {Settled} settled */
export function namedAs({ attention, head }) {
  return /^\d+$/.test(head) ? `${attention.name}:${head}` : head === "rollout" ? "" : attention.name;
}

/** What a row stands for, if that is not obvious. @param {Look} look @param {Settled} settled */
export function hintOf(look, settled) {
  if (settled.head === "alignment") {
    const { row_offset, chosen } = look.alignment ?? {};
    const when = row_offset ? "when it read the word again, to write the next" : "just before writing it";
    const whose = chosen ? "The heads were chosen on training data." : "No heads were chosen in training.";
    return `Each row is a word of the answer: what the model looked at ${when}. ${whose}`;
  }
  return writes(look, settled)
    ? "Each row is the word that was read last; what it looks at helps to choose the next."
    : "";
}

/** What it means if no difference is visible. @param {Settled} settled @param {AskState} state */
export function sameOf({ attention, head }, state) {
  if (state.isDifference || !isEdited(state)) return "No weights differ.";
  const later = "The effects of the change appear in later layers and in the answer.";
  const here = state.off.filter((key) => key.split(":")[0] === attention.name);
  return here.some((key) => !/^\d+$/.test(head) || key === `${attention.name}:${head}`)
    ? "No weights differ: a head that is switched off still looks where it did before; " +
        `only what it finds is left out. ${later}`
    : `No weights differ: the change does not reach this head. ${later}`;
}

/**
 * That heads which are switched off still count among those that are seen together.
 * @param {Look} look @param {Settled} settled @param {AskState} state
 */
export function offNote(look, { attention, head }, state) {
  const layers = head === "rollout" ? (look.stacks?.[stackOf(look, attention.name) ?? ""] ?? []) : [attention.name];
  const off = state.off.filter((key) => layers.includes(key.split(":")[0]));
  const found = "it still looks where it did before; only what it finds is left out.";
  if (/^\d+$/.test(head)) return off.includes(`${attention.name}:${head}`) ? `This head is switched off: ${found}` : "";
  const names = off.map((key) => `head ${Number(key.split(":")[1]) + 1}`).join(", ");
  return off.length ? `What is seen here counts ${names} too, though switched off: ${found}` : "";
}

/** Whether the rows are what is written, step by step. @param {Look} look @param {Settled} settled */
export function isWritten(look, settled) {
  return settled.head === "alignment" || writes(look, settled);
}

/** Whether a row is read when the next is written: of a decoder. @param {Look} look @param {Settled} settled */
function writes(look, { attention }) {
  return look.attentions.some((one) => one.kind === "causal" && one.rows === attention.rows);
}

/** @param {Look} look @param {Settled} settled @param {number} row */
export function writesNote(look, settled, row) {
  if (settled.head === "alignment" || !writes(look, settled)) return "";
  const next = settled.rows[row + 1];
  return next === undefined ? "" : `just before it wrote «${shortened(visible(next))}»`;
}

/**
 * The strongest cell that tells something: a word that looks at itself does not, nor the start of a text that is read
 * from left to right, which has nothing else to look at and is looked at for want of anything better. Between the words
 * of a text, a link to a neighbour tells less than one that reaches further, and one to a full stop tells least.
 * @param {Matrix} matrix @param {Settled} settled @param {boolean} isOfWords weights between the words of a text
 */
export function tellingCell(matrix, { attention, head, rows, columns: labels }, isOfWords) {
  const { values, columns } = matrix;
  const isSelf = attention.rows === attention.columns && head !== "alignment";
  const isCausal = isSelf && attention.kind === "causal";
  const isWord = (/** @type {string} */ label) => MARKS[label] === undefined && /[\p{L}\p{N}]/u.test(label);
  let [far, best, any] = [-1, -1, 0];
  const isMore = (/** @type {number} */ one, /** @type {number} */ other) => {
    return Math.abs(values[one]) > (other < 0 ? 0 : Math.abs(values[other]));
  };
  for (let place = 0; place < values.length; place += 1) {
    const [row, column] = [Math.floor(place / columns), place % columns];
    if (isMore(place, any)) any = place;
    if ((isSelf && row === column) || (isCausal && (row === 0 || column === 0))) continue;
    if (isMore(place, best)) best = place;
    if (!isSelf || !isOfWords || Math.abs(row - column) < 2 || !isMore(place, far)) continue;
    if (isWord(rows[row]) && isWord(labels[column])) far = place;
  }
  const chosen = far >= 0 ? far : best >= 0 ? best : any;
  return { row: Math.floor(chosen / columns), column: chosen % columns };
}

/** @param {Matrix} matrix @param {number} row */
export function bestColumn({ values, columns }, row) {
  let best = 0;
  for (let column = 1; column < columns; column += 1)
    if (values[row * columns + column] > values[row * columns + best]) best = column;
  return best;
}
