// The labels of a matrix: as many as fit, and always the two of the selected cell.

import { styleColour } from "./ramp.js";

/**
 * @typedef {import("./matrix.js").Layout} Layout
 * @typedef {import("./matrix.js").Drawn} Drawn
 */

export const SANS = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';
export const GAP = 8;

/**
 * The labels that have room, and always the two of the cell that is read out.
 * @param {CanvasRenderingContext2D} context @param {Layout} layout @param {Drawn} drawn
 * @param {{width: number, height: number, scrollX: number, scrollY: number}} frame @param {number[]} rows
 * @param {number[]} columns
 */
export function drawLabels(context, layout, drawn, frame, rows, columns) {
  const { cell, left, top, every, longest, angle, font } = layout;
  const has = (/** @type {number} */ place, /** @type {number} */ chosen) => {
    return place === chosen || (place % every === 0 && Math.abs(place - chosen) * cell >= font);
  };
  context.save();
  context.beginPath();
  context.rect(0, top - GAP, left, frame.height - top + GAP);
  context.clip();
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let row = rows[0]; row < rows[1]; row += 1) {
    if (!has(row, drawn.row)) continue;
    styleLabel(context, font, row === drawn.row || row === drawn.pinned, row >= drawn.upTo);
    context.fillText(fitted(context, drawn.rows[row], longest), left - GAP, top - frame.scrollY + (row + 0.5) * cell);
  }
  context.restore();
  context.save();
  context.beginPath();
  context.rect(left - GAP, 0, frame.width - left + GAP, top);
  context.clip();
  for (let column = columns[0]; column < columns[1]; column += 1) {
    if (!has(column, drawn.column)) continue;
    styleLabel(context, font, column === drawn.column, false);
    context.save();
    context.translate(left - frame.scrollX + (column + 0.5) * cell, top - GAP);
    context.rotate(-angle);
    context.textAlign = angle ? "left" : "center";
    context.textBaseline = angle ? "middle" : "alphabetic";
    context.fillText(fitted(context, drawn.columns[column], longest), 0, 0);
    context.restore();
  }
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context @param {number} font @param {boolean} isChosen @param {boolean} isLater
 */
function styleLabel(context, font, isChosen, isLater) {
  context.font = `${isChosen ? 700 : 400} ${font}px ${SANS}`;
  context.fillStyle = styleColour(isChosen ? "accent" : isLater ? "faint" : "text");
}

/**
 * A label that fits into a width, with … in the place of its middle.
 * @param {CanvasRenderingContext2D} context @param {string} label @param {number} width
 */
export function fitted(context, label, width) {
  if (context.measureText(label).width <= width) return label;
  const letters = [...new Intl.Segmenter().segment(label)].map((part) => part.segment);
  let kept = Math.min(letters.length - 1, 60);
  const cut = () => {
    const [first, last] = [Math.ceil(kept / 2), Math.floor(kept / 2)];
    return `${letters.slice(0, first).join("")}…${letters.slice(letters.length - last).join("")}`;
  };
  while (kept > 1 && context.measureText(cut()).width > width) kept -= 1;
  return cut();
}
