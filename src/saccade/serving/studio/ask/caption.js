// The caption of a saved picture: what was asked and answered, what is changed, the model, the scale and the date.

import { freshChances, oldChances, probabilityOf, textOf } from "./headline.js";
import { percent } from "../shared/dom.js";

/** @typedef {import("../shared/types.js").Look} Look */

const MOST_LINES = 5; // of one sentence of the caption

/**
 * @param {import("./sentence.js").Sentence} sentence @param {string[]} changes by name @param {boolean} isDifference
 * @returns {string[]} one line for each thing that is told
 */
export function captionOf({ given, model, look, changed }, changes, isDifference) {
  const shown = changed ?? look;
  const asked = typeof given === "string" ? given : "an image";
  const scale = isDifference ? "weights from −1 to 1, 0 is the background" : "weight 0 is the background, 1 the ink";
  const day = new Date().toISOString().slice(0, 10);
  return [
    shown ? `${asked} → ${textOf(shown.answer)}` : asked,
    ...(look ? chancesOf(look, changed) : []),
    ...(changed && changes.length ? [`changed: ${changes.join("; ")}`] : []),
    `model ${model?.name ?? ""}; ${scale}; ${day}`,
  ];
}

/** How probable the answer is, or was before the changes and is now. @param {Look} look @param {Look | null} changed */
function chancesOf(look, changed) {
  if (!changed) {
    const probability = probabilityOf(look.answer);
    return probability === null ? [] : [`probability ${percent(probability)}`];
  }
  const [old, fresh] = [oldChances(changed), freshChances(look, changed)];
  const was = old ? ` (probability ${said(old)})` : "";
  if (textOf(look.answer) === textOf(changed.answer)) return [`the same answer as before the change${was}`];
  return [...(fresh ? [`probability ${said(fresh)}`] : []), `before the change: ${textOf(look.answer)}${was}`];
}

/** @param {[number | null, number]} pair before and after */
function said([one, other]) {
  return one === null ? percent(other) : `${percent(one)} → ${percent(other)}`;
}

/**
 * A text in lines that are at most so wide.
 * @param {CanvasRenderingContext2D} context with the font of the text @param {string} text @param {number} width
 */
export function wrapped(context, text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(...pieces(context, word, width));
  }
  const kept = lines.filter(Boolean);
  return kept.length > MOST_LINES ? [...kept.slice(0, MOST_LINES - 1), `${kept[MOST_LINES - 1]} …`] : kept;
}

/** A word that is wider than a line, in parts. @param {CanvasRenderingContext2D} context @param {string} word
 * @param {number} width */
function pieces(context, word, width) {
  const parts = [""];
  for (const letter of word) {
    if (context.measureText(parts[parts.length - 1] + letter).width > width) parts.push("");
    parts[parts.length - 1] += letter;
  }
  return parts;
}
