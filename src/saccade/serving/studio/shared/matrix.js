// Draws a matrix with its labels on a canvas: only the visible part, and labels stay visible while cells scroll.

import { number } from "./dom.js";
import { GAP, SANS, drawLabels } from "./labels.js";
import { isDarkInk, styleColour } from "./ramp.js";

/** @typedef {import("./types.js").Matrix} Matrix */

export const SMALLEST_CELL = 1; // pixels: no weight is ever left out
export const LARGEST_CELL = 64;
const READABLE_CELL = 15;
const LEANING_CELL = 22; // from here on there is room for labels that lean
const LARGEST_FIT = 72; // of few tokens
const TALLEST_FIT = 0.62; // of the window's height
const FEW_TOKENS = 128; // up to so many, each has its label and the map scrolls instead
const CELL_WITH_NUMBER = 34;
const FONT = 14;
const SMALL_FONT = 11; // where the whole of a map is to fit into little height
const SMALL_CELL = 11;
const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/**
 * @typedef {object} Drawn  what is drawn
 * @property {Matrix} matrix
 * @property {HTMLCanvasElement} picture  a pixel a value
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {boolean} isDifference
 * @property {number} upTo  rows from here on are not written yet
 * @property {number} row  the cell that is read out
 * @property {number} column
 * @property {number | null} pinned  a row that stays
 * @property {Map<string, string>} cut  "row,column" of links that are switched off, and in which heads
 *
 * @typedef {object} Layout
 * @property {number} cell
 * @property {number} left
 * @property {number} top
 * @property {number} angle
 * @property {number} longest
 * @property {number} font  the size of a label
 * @property {number} every  tokens that share the room of one label
 * @property {number} width  of everything
 * @property {number} height
 */

/**
 * Where everything goes, in pixels of the page.
 * @param {CanvasRenderingContext2D} context @param {string[]} rows @param {string[]} columns
 * @param {{width: number, height: number | null}} given the room there is; without a height, the page scrolls
 * @param {number | null} zoom the size of a cell, or null: what fits
 * @returns {Layout}
 */
export function layOut(context, rows, columns, { width, height }, zoom) {
  context.font = `${FONT}px ${SANS}`;
  const longest = Math.max(56, Math.min(160, width * 0.28));
  const widest = (/** @type {string[]} */ some) => {
    return some.reduce(
      (most, label) => Math.max(most, Math.min(longest, context.measureText(label.slice(0, 80)).width)),
      12,
    );
  };
  const left = Math.ceil(widest(rows)) + 2 * GAP;
  const columnWidth = widest(columns);
  const leaning = Math.ceil(columnWidth * Math.SQRT1_2);
  const least = height === null ? READABLE_CELL : SMALL_CELL;
  const room = (/** @type {number} */ right, /** @type {number} */ above) => {
    const tall = height === null ? TALLEST_FIT * innerHeight : height - above - FONT - 2 * GAP - 2;
    const usual = Math.max(least, Math.min(LARGEST_FIT, tall / rows.length));
    return Math.min(usual, (width - left - right) / columns.length);
  };
  const leans = room(leaning, leaning);
  const fit = leans >= LEANING_CELL ? leans : Math.min(LEANING_CELL - 1, room(GAP, Math.ceil(columnWidth)));
  let cell = zoom ?? Math.max(fit, columns.length <= FEW_TOKENS ? least : SMALLEST_CELL);
  cell = cell >= 4 ? Math.floor(cell) : Math.max(SMALLEST_CELL, cell);
  const angle = columnWidth <= cell - 6 ? 0 : cell >= LEANING_CELL ? Math.PI / 4 : Math.PI / 2;
  const top = Math.ceil(angle ? columnWidth * Math.sin(angle) + FONT : FONT + 4) + GAP;
  const lean = angle === Math.PI / 4 ? leaning : GAP;
  const font = cell < READABLE_CELL && cell >= SMALL_CELL ? SMALL_FONT : FONT;
  const every = Math.max(1, Math.ceil(font / cell));
  const size = { width: left + cell * columns.length + lean, height: top + cell * rows.length + GAP };
  return { cell, left, top, angle, longest, every, font, ...size };
}

/**
 * @param {CanvasRenderingContext2D} context @param {Layout} layout @param {Drawn} drawn
 * @param {{width: number, height: number, scrollX: number, scrollY: number}} frame the part in sight
 */
export function draw(context, layout, drawn, frame) {
  const { cell, left, top } = layout;
  const { width, height, scrollX, scrollY } = frame;
  context.clearRect(0, 0, width, height);
  const rows = inSight(scrollY, height - top, cell, drawn.matrix.rows);
  const columns = inSight(scrollX, width - left, cell, drawn.matrix.columns);
  context.save();
  context.beginPath();
  context.rect(left - 1, top - 1, width - left + 1, height - top + 1);
  context.clip();
  context.translate(left - scrollX, top - scrollY);
  context.imageSmoothingEnabled = false;
  const down = Math.max(0, Math.min(rows[1], drawn.upTo) - rows[0]);
  const across = columns[1] - columns[0];
  if (down > 0 && across > 0) {
    const place = [columns[0] * cell, rows[0] * cell, across * cell, down * cell];
    context.drawImage(drawn.picture, columns[0], rows[0], across, down, place[0], place[1], place[2], place[3]);
  }
  if (cell >= 8) drawRaster(context, cell, rows, columns);
  if (cell >= CELL_WITH_NUMBER) drawNumbers(context, cell, drawn, rows, columns);
  drawMarks(context, cell, drawn);
  context.restore();
  drawLabels(context, layout, drawn, frame, rows, columns);
}

/**
 * @param {number} scroll @param {number} room @param {number} cell @param {number} count
 * @returns {[number, number]}
 */
function inSight(scroll, room, cell, count) {
  const first = Math.max(0, Math.min(count - 1, Math.floor(scroll / cell)));
  return [first, Math.min(count, Math.ceil((scroll + room) / cell) + 1)];
}

/** @param {CanvasRenderingContext2D} context @param {number} cell @param {number[]} rows @param {number[]} columns */
function drawRaster(context, cell, rows, columns) {
  context.strokeStyle = styleColour("grid");
  context.lineWidth = 1;
  context.beginPath();
  for (let row = rows[0]; row <= rows[1]; row += 1) {
    context.moveTo(columns[0] * cell, row * cell + 0.5);
    context.lineTo(columns[1] * cell, row * cell + 0.5);
  }
  for (let column = columns[0]; column <= columns[1]; column += 1) {
    context.moveTo(column * cell + 0.5, rows[0] * cell);
    context.lineTo(column * cell + 0.5, rows[1] * cell);
  }
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context @param {number} cell @param {Drawn} drawn @param {number[]} rows
 * @param {number[]} columns
 */
function drawNumbers(context, cell, drawn, rows, columns) {
  const [ink, text] = [styleColour("background"), styleColour("text")];
  context.font = `12px ${MONO}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = rows[0]; row < Math.min(rows[1], drawn.upTo); row += 1) {
    for (let column = columns[0]; column < columns[1]; column += 1) {
      const weight = drawn.matrix.values[row * drawn.matrix.columns + column];
      if (Math.abs(weight) < 0.005) continue;
      context.fillStyle = isDarkInk(Math.abs(weight)) ? ink : text;
      context.fillText(number(weight), (column + 0.5) * cell, (row + 0.5) * cell + 1);
    }
  }
}

/**
 * Links that are off, the frame, the pinned row, and the cell that is read out.
 * @param {CanvasRenderingContext2D} context @param {number} cell @param {Drawn} drawn
 */
function drawMarks(context, cell, drawn) {
  const { matrix, row, column, pinned } = drawn;
  const [across, down] = [matrix.columns * cell, matrix.rows * cell];
  context.strokeStyle = styleColour("line");
  context.lineWidth = 1;
  context.strokeRect(0.5, 0.5, across - 1, down - 1);
  const accent = styleColour("accent");
  context.strokeStyle = context.fillStyle = accent;
  for (const link of drawn.cut.keys()) drawCut(context, cell, link.split(",").map(Number));
  if (pinned !== null && pinned < matrix.rows) {
    context.lineWidth = 1.5;
    context.strokeRect(0.75, pinned * cell + 0.75, across - 1.5, cell - 1.5);
  }
  if (cell < FONT) {
    context.globalAlpha = 0.3; // a cross leads from the labels to a cell that is hard to see
    context.fillRect(0, (row + 0.5) * cell - 0.5, across, 1);
    context.fillRect((column + 0.5) * cell - 0.5, 0, 1, down);
    context.globalAlpha = 1;
  }
  const size = Math.max(cell, 7);
  const start = (/** @type {number} */ place) => (place + 0.5) * cell - size / 2;
  context.lineWidth = 2;
  context.strokeRect(start(column) + 0.5, start(row) + 0.5, size, size);
}

/** @param {CanvasRenderingContext2D} context @param {number} cell @param {number[]} place */
function drawCut(context, cell, [row, column]) {
  const inset = cell / 4;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(column * cell + inset, row * cell + inset);
  context.lineTo((column + 1) * cell - inset, (row + 1) * cell - inset);
  context.moveTo((column + 1) * cell - inset, row * cell + inset);
  context.lineTo(column * cell + inset, (row + 1) * cell - inset);
  context.stroke();
}

/**
 * A canvas as sharp as the screen, and its context in pixels of the page.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 */
export function sized(canvas, width, height) {
  const density = devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * density)), Math.max(1, Math.round(height * density))];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}
