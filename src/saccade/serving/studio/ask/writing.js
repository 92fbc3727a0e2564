// Which words of an answer can be chosen, and which one is: a row of what is seen stands for it.

import { isWritten } from "./figure-text.js";
import { writtenWords } from "./written.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 */

const ALIGNED = 0.3; // of a weight that says which word stands for another

/**
 * @param {Look} look whose answer is told @param {AskState} state @param {Settled | null} settled
 * @param {(parts: Record<string, string | null>, how?: "push" | "replace") => void} changed
 */
export function writingOf(look, state, settled, changed) {
  const { words, first } = writtenWords(look);
  // a decoder's first row is the start
  const start = first + (settled?.head === "alignment" || !look.alignment ? 0 : 1);
  const isOfWords = settled !== null && settled.words && isWritten(look, settled);
  const isPinned = isOfWords && state.isPinned && state.row !== null;
  const pinned = state.step !== null ? state.step - 1 : isPinned ? (state.row ?? 0) - start : null;
  const pin = (/** @type {number} */ word) => {
    if (word === pinned && state.step === null) changed({ pin: null });
    else if (isOfWords) changed({ row: String(word + start), col: null, pin: "1", step: null });
    else changed({ h: "alignment", row: String(word), col: null, pin: "1", step: null }, "push");
  };
  const isSpelt = words.every((word) => word.length === 1); // buttons for single letters are not useful
  const chosen = !isSpelt && (isOfWords || (settled && look.alignment)) ? pin : null;
  const told = pinned ?? answeredAt(look, state, settled);
  return { words, step: state.step, chosen, pinned, told, first, isSpelt };
}

/**
 * The word of an answer that stands for the chosen word of the text, by the alignment; null: none does.
 * @param {Look} look @param {AskState} state @param {Settled | null} settled
 */
function answeredAt({ alignment, attentions, axes }, { row }, settled) {
  const aligned = attentions.find(({ name }) => name === alignment?.name);
  if (!alignment || !aligned || !settled || row === null || settled.attention.rows !== aligned.columns) return null;
  const word = settled.words ? row : (axes[aligned.columns].words[row] ?? -1);
  const weights = alignment.values.map((one) => one[word] ?? 0);
  const most = Math.max(...weights);
  return most >= ALIGNED ? weights.indexOf(most) : null;
}

/**
 * The tokens of the chosen word of an answer, counted from its first; null: no word is chosen.
 * @param {Look} look @param {number | null} word
 */
export function tokensOfWord(look, word) {
  const writer = look.attentions.find((one) => one.kind === "causal");
  const { words, first } = writtenWords(look);
  if (word === null || !(word in words)) return null;
  if (!writer) return [word]; // a token is a word
  const axis = look.axes[writer.rows];
  const start = first + Number(Boolean(look.alignment));
  const before = axis.words.filter((one) => (one ?? 0) < start).length;
  return axis.words.flatMap((one, token) => (one === start + word ? [token - before] : []));
}
