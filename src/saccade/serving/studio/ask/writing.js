// Which words of an answer can be chosen, and which one is: a row of what is seen stands for it.

import { isWritten } from "./figure-text.js";
import { writtenWords } from "./written.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 */

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
  return { words, step: state.step, chosen, pinned, first, isSpelt };
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
