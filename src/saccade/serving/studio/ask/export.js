// Exports the current view: the picture as SVG or PNG, and the numbers as a NumPy file.

import { headColour } from "./arcs.js";
import { wrapped } from "./caption.js";
import { number, shortened, visible } from "../shared/dom.js";
import { layOut } from "../shared/matrix.js";
import { MARKER, imagePicture } from "./overlay.js";
import { isDarkInk, picture, styleColour } from "../shared/ramp.js";

/**
 * @typedef {import("./figure.js").Figure} Figure
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {{width: number, height: number, parts: SVGElement[]}} Drawing
 */

const NAMESPACE = "http://www.w3.org/2000/svg";
const SANS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif";
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const MARGIN = 16;
const HEAD = 34; // room for the title
const NARROWEST = 480;
const [CAPTION, CAPTION_LINE] = [13, 20]; // the size of its letters and of its lines
const LINE = 28; // of arcs
const WORDS = 190; // room for the words beside arcs
const BETWEEN = 240;
const WITH_NUMBERS = 34;
const LONGEST = 24; // letters of a label
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "paint-order"];
const SHARPNESS = 2; // pixels of the PNG for each pixel of the page

/** @param {string} name @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function svg(name, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** @param {string} label @param {number} x @param {number} y @param {Record<string, string | number>} [more] */
function text(label, x, y, more = {}) {
  const style = { "font-family": SANS, "font-size": 14, fill: styleColour("text"), "dominant-baseline": "middle" };
  return svg("text", { x, y, ...style, ...more }, label);
}

/**
 * @param {HTMLCanvasElement} pixels @param {number} x @param {number} y @param {number} width @param {number} height
 */
function image(pixels, x, y, width, height) {
  const place = { x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated" };
  return svg("image", { ...place, href: pixels.toDataURL("image/png") });
}

/**
 * Draws the figures side by side as one picture, with a caption that says where they come from.
 * @param {Figure[]} figures @param {string[]} caption @returns {string}
 */
export function svgFile(figures, caption) {
  const drawings = figures.map((figure) => titled(figure, drawingOf(figure)));
  const tallest = Math.max(...drawings.map((one) => one.height));
  const width = Math.max(NARROWEST, drawings.reduce((sum, one) => sum + one.width, 0));
  const lines = linesOf(caption, width - 2 * MARGIN);
  const height = tallest + CAPTION_LINE * lines.length + MARGIN / 2;
  const background = svg("rect", { width, height, fill: styleColour("background") });
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, background);
  let left = 0;
  for (const drawing of drawings) {
    root.append(svg("g", { transform: `translate(${left} 0)` }, ...drawing.parts));
    left += drawing.width;
  }
  lines.forEach((line, place) => {
    const style = { fill: styleColour("quiet"), "font-size": CAPTION };
    root.append(text(line, MARGIN, tallest + place * CAPTION_LINE, style));
  });
  return new XMLSerializer().serializeToString(root);
}

/** @param {string[]} caption @param {number} width */
function linesOf(caption, width) {
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  context.font = `${CAPTION}px ${SANS}`;
  return caption.flatMap((line) => wrapped(context, visible(line).replaceAll("·", " "), width));
}

/** @param {Figure} figure @param {Drawing} drawing @returns {Drawing} */
function titled({ title }, { width, height, parts }) {
  const said = text(title.textContent ?? "", MARGIN, MARGIN + 8, { fill: styleColour("quiet") });
  const moved = svg("g", { transform: `translate(${MARGIN} ${MARGIN + HEAD})` }, ...parts);
  return { width: Math.ceil(width + 2 * MARGIN), height: Math.ceil(height + HEAD + 2 * MARGIN), parts: [said, moved] };
}

/** @param {Figure} figure @returns {Drawing} */
function drawingOf(figure) {
  const { matrix, settled, look } = figure;
  if (!matrix || !settled || !look) return { width: 0, height: 0, parts: [] };
  if (settled.view === "arcs") return arcsOf(figure);
  if (settled.view === "picture" && look.image) return overlayOf(figure, matrix, look.image);
  if (settled.view === "picture" && look.answer.agents) return pathsOf(figure.pictures);
  if (settled.view === "picture") return pairsOf(figure.pictures);
  const labels = (/** @type {string[]} */ some) => some.map((label) => shortened(visible(label), LONGEST));
  return mapOf(figure, matrix, labels(settled.rows), labels(settled.columns));
}

/** @param {Figure} figure @param {Matrix} matrix @param {string[]} rows @param {string[]} columns @returns {Drawing} */
function mapOf({ map, isDifference }, matrix, rows, columns) {
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  const room = Math.max(NARROWEST, map.element.clientWidth);
  const laidOut = layOut(context, rows, columns, { width: room, height: null }, map.zoom);
  const { cell, left, top, angle, every, width, height } = laidOut;
  const [across, down] = [cell * matrix.columns, cell * matrix.rows];
  const frame = { x: left, y: top, width: across, height: down, fill: "none", stroke: styleColour("line") };
  const parts = [image(picture(matrix, { isDifference }), left, top, across, down), svg("rect", frame)];
  rows.forEach((label, row) => {
    const y = top + (row + 0.5) * cell;
    if (row % every === 0) parts.push(text(label, left - 8, y, { "text-anchor": "end" }));
  });
  columns.forEach((label, column) => {
    const [x, y] = [left + (column + 0.5) * cell, top - 8];
    const turned = {
      transform: `rotate(${(-180 * angle) / Math.PI} ${x} ${y})`,
      "text-anchor": angle ? "start" : "middle",
    };
    if (column % every === 0) parts.push(text(label, x, y, turned));
  });
  if (cell >= WITH_NUMBERS) parts.push(...numbersOf(matrix, cell, left, top));
  for (const link of map.drawn?.cut.keys() ?? []) parts.push(crossAt(link.split(",").map(Number), cell, left, top));
  return { width, height, parts };
}

/** Marks a link that is cut, as the page does. @param {number[]} place @param {number} cell @param {number} left
 * @param {number} top */
function crossAt([row, column], cell, left, top) {
  const [x, y, inset] = [left + column * cell, top + row * cell, cell / 4];
  const [start, end] = [inset, cell - inset];
  const d = `M ${x + start} ${y + start} L ${x + end} ${y + end} M ${x + end} ${y + start} L ${x + start} ${y + end}`;
  return svg("path", { d, class: "cut", fill: "none", stroke: styleColour("accent"), "stroke-width": 2 });
}

/** @param {Matrix} matrix @param {number} cell @param {number} left @param {number} top */
function numbersOf({ values, columns }, cell, left, top) {
  return [...values].flatMap((weight, place) => {
    if (Math.abs(weight) < 0.005) return [];
    const fill = styleColour(isDarkInk(Math.abs(weight)) ? "background" : "text");
    const style = { "font-family": MONO, "font-size": 12, "text-anchor": "middle", fill };
    const [x, y] = [(place % columns) + 0.5, Math.floor(place / columns) + 0.5];
    return [text(number(weight), left + x * cell, top + y * cell, style)];
  });
}

/** @param {Figure} figure @returns {Drawing} */
function arcsOf({ arcs }) {
  const { from, to, links, row } = arcs.linked();
  const middle = (/** @type {number} */ place) => (place + 0.5) * LINE;
  const [start, end] = [WORDS + 10, WORDS + BETWEEN - 10];
  const lines = links.map(({ head, place, weight }) => {
    const [y, other, bend] = [middle(row), middle(place), (start + end) / 2];
    const d = `M ${start} ${y} C ${bend} ${y} ${bend} ${other} ${end} ${other}`;
    const style = { stroke: headColour(head), "stroke-width": 1 + 4 * weight, "stroke-opacity": 0.2 + 0.8 * weight };
    return svg("path", { d, fill: "none", ...style });
  });
  const said = (/** @type {string[]} */ labels, /** @type {number} */ x, /** @type {string} */ anchor) => {
    return labels.map((label, place) => {
      const isChosen = anchor === "end" && place === row;
      const fill = styleColour(isChosen ? "accent" : "text");
      return text(shortened(visible(label), LONGEST), x, middle(place), { "text-anchor": anchor, fill });
    });
  };
  const parts = [...lines, ...said(from, WORDS, "end"), ...said(to, WORDS + BETWEEN, "start")];
  return { width: 2 * WORDS + BETWEEN, height: LINE * Math.max(from.length, to.length), parts };
}

/**
 * @param {Figure} figure @param {Matrix} matrix @param {import("../shared/types.js").ShownImage} given
 * @returns {Drawing}
 */
function overlayOf({ row }, matrix, given) {
  const scale = NARROWEST / Math.max(given.width, given.height);
  const [width, height] = [given.width * scale, given.height * scale];
  const [down, across] = given.grid;
  const first = matrix.columns - down * across;
  const weights = [...matrix.values.slice(row * matrix.columns + first, (row + 1) * matrix.columns)];
  const most = Math.max(...weights, 1e-9);
  const patches = weights.map((weight, patch) => {
    const [x, y] = [((patch % across) * width) / across, (Math.floor(patch / across) * height) / down];
    const colour = { fill: `rgb(${MARKER.replaceAll(" ", ",")})`, "fill-opacity": 0.75 * (weight / most) };
    return svg("rect", { x, y, width: width / across, height: height / down, ...colour });
  });
  const said = text(`row ${row}; the strongest colour is weight ${number(most, 3)}`, 0, height + 18);
  return { width, height: height + 30, parts: [image(imagePicture(given), 0, 0, width, height), ...patches, said] };
}

/** The plane as it is seen; a file has no style sheet, so its elements take their styles along.
 * @param {import("./pictures.js").Pictures} pictures @returns {Drawing} */
function pathsOf({ plane }) {
  const copy = /** @type {SVGElement} */ (plane.picture.cloneNode(true));
  const [seen, copied] = [plane.picture, copy].map((one) => [...one.querySelectorAll("*")]);
  seen.forEach((element, place) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) copied[place].setAttribute(name, style.getPropertyValue(name));
  });
  const [, , width, height] = (copy.getAttribute("viewBox") ?? "0 0 0 0").split(" ").map(Number);
  for (const [name, size] of Object.entries({ width, height })) copy.setAttribute(name, String(size));
  return { width, height: height + 30, parts: [copy, text(plane.said.textContent ?? "", 0, height + 18)] };
}

/** @param {import("./pictures.js").Pictures} pictures @returns {Drawing} */
function pairsOf({ pairs }) {
  const [above, side] = [pairs.arcs.clientHeight, pairs.canvas.clientWidth];
  const drawn = [image(pairs.arcs, 0, 0, side, above), image(pairs.canvas, 0, above, side, side)];
  const said = text(pairs.said.textContent ?? "", 0, above + side + 18);
  return { width: Math.max(side, NARROWEST), height: above + side + 30, parts: [...drawn, said] };
}

/** The same picture in pixels. @param {string} drawn as SVG @returns {Promise<Blob | null>} */
export async function pngFile(drawn) {
  const shown = new Image();
  const url = URL.createObjectURL(new Blob([drawn], { type: "image/svg+xml" }));
  shown.src = url;
  await shown.decode().finally(() => URL.revokeObjectURL(url));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [SHARPNESS * shown.width, SHARPNESS * shown.height];
  canvas.getContext("2d")?.drawImage(shown, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The numbers that are seen: a .npy file, version 1.0. @param {Matrix} matrix */
export function npyFile({ rows, columns, values }) {
  const said = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const header = said.padEnd(Math.ceil((said.length + 11) / 64) * 64 - 11) + "\n"; // 10 bytes come before it
  const start = new Uint8Array([
    0x93,
    ...new TextEncoder().encode("NUMPY"),
    1,
    0,
    header.length & 255,
    header.length >> 8,
  ]);
  return new Blob([start, header, Float32Array.from(values)]);
}
