// Draws what is on top of the tiles of a map: numbers, the frame, and the labels of rows and columns.

import { visible } from "../shared/dom.js";
import { briefly } from "../shared/legend.js";
import { fitted } from "../shared/labels.js";
import { isDarkInk, styleColour } from "../shared/ramp.js";

/**
 * @typedef {import("./view.js").MapView} MapView
 * @typedef {import("./tiles.js").Part} Part
 */

export const LEFT = 96; // room for the labels of rows
export const TOP = 72;
export const WITH_TOKENS = 13; // pixels a token
const FONT = '13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';
const MONO = '12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/**
 * The weights of all cells in sight.
 * @param {CanvasRenderingContext2D} context @param {MapView} view @param {Part} part
 */
export function drawNumbers(context, view, part) {
  const { tiles, rows, columns } = view;
  if (!tiles) return;
  context.font = MONO;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const [ink, text, quiet] = [styleColour("background"), styleColour("text"), styleColour("quiet")];
  for (let row = Math.max(0, Math.floor(part.top)); row < Math.min(rows.length, part.bottom); row += 1) {
    for (let column = Math.max(0, Math.floor(part.left)); column < Math.min(columns.length, part.right); column += 1) {
      const found = tiles.valueAt(row, column, 1);
      if (!found || Math.max(...found.cell) > 1) continue;
      const isDark = isDarkInk(found.value / tiles.ink);
      context.fillStyle = found.value === 0 ? quiet : isDark ? ink : text;
      const [x, y] = [view.toPixels(column + 0.5, part.left, LEFT), view.toPixels(row + 0.5, part.top, TOP)];
      context.fillText(briefly(found.value), x, y);
    }
  }
}

/**
 * The edge of the matrix, the row that is told beside it, and the cell that is pointed at.
 * @param {CanvasRenderingContext2D} context @param {MapView} view @param {Part} part
 */
export function drawFrame(context, view, part) {
  const { scale } = view.place;
  context.strokeStyle = styleColour("line");
  context.lineWidth = 1;
  const [x, y] = [view.toPixels(0, part.left, LEFT), view.toPixels(0, part.top, TOP)];
  context.strokeRect(x - 0.5, y - 0.5, view.columns.length * scale + 1, view.rows.length * scale + 1);
  if (view.marked >= 0) {
    context.strokeStyle = styleColour("accent");
    const top = view.toPixels(view.marked, part.top, TOP);
    context.strokeRect(x - 0.5, top - 1, view.columns.length * scale + 1, Math.max(scale, 1) + 2);
  }
  if (!view.pointed) return;
  const size = Math.max(scale, 7);
  const middle = (/** @type {number} */ at) => at + scale / 2 - size / 2;
  context.strokeStyle = styleColour("accent");
  context.lineWidth = 2;
  context.strokeRect(
    middle(view.toPixels(view.pointed.column, part.left, LEFT)),
    middle(view.toPixels(view.pointed.row, part.top, TOP)),
    size,
    size,
  );
}

/**
 * Tokens where there is room for them, else positions.
 * @param {CanvasRenderingContext2D} context @param {MapView} view @param {Part} part
 * @param {number} width @param {number} height
 */
export function drawLabels(context, view, part, width, height) {
  const hasTokens = view.place.scale >= WITH_TOKENS;
  const every = hasTokens ? 1 : niceStep(70 / view.place.scale);
  const shift = hasTokens ? 0.5 : 0;
  const style = (/** @type {boolean} */ isChosen) => (context.fillStyle = styleColour(isChosen ? "accent" : "text"));
  context.font = FONT;
  context.save();
  context.beginPath();
  context.rect(0, TOP - 8, LEFT, height - TOP + 8);
  context.clip();
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { place, text } of labelsOf(view.rows, part.top, part.bottom, every, hasTokens)) {
    style(place === view.pointed?.row);
    context.fillText(fitted(context, text, LEFT - 14), LEFT - 8, view.toPixels(place + shift, part.top, TOP));
  }
  context.restore();
  context.save();
  context.beginPath();
  context.rect(LEFT - 8, 0, width - LEFT + 8, TOP);
  context.clip();
  context.textAlign = hasTokens ? "left" : "center";
  for (const { place, text } of labelsOf(view.columns, part.left, part.right, every, hasTokens)) {
    style(place === view.pointed?.column);
    context.save();
    context.translate(view.toPixels(place + shift, part.left, LEFT), TOP - 6);
    context.rotate(hasTokens ? -Math.PI / 3 : 0);
    context.fillText(fitted(context, text, TOP), 0, 0);
    context.restore();
  }
  context.restore();
}

/**
 * @param {string[]} labels @param {number} from @param {number} to @param {number} every @param {boolean} hasTokens
 */
function* labelsOf(labels, from, to, every, hasTokens) {
  const first = Math.max(0, Math.ceil(Math.floor(from) / every) * every);
  for (let place = first; place < Math.min(labels.length, to); place += every)
    yield { place, text: hasTokens ? visible(labels[place]) : place.toLocaleString("en") };
}

/** 1, 2 or 5 times a power of ten, no less than what is given. @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least) ?? 10 * power;
}
