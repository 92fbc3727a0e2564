// Pairs of bases: a matrix with probabilities above the diagonal and a structure below it, and the structure as arcs.

import { make, percent, within } from "./dom.js";
import { sized } from "./matrix.js";
import { colourOf, styleColour } from "./ramp.js";

/**
 * @typedef {object} Pairs
 * @property {string} sequence
 * @property {number[][]} probabilities  symmetric
 * @property {[number, number, number][]} pairs  of the predicted structure, counted from 1, with their probabilities
 * @property {[number, number][] | null} truth  the true pairs, counted from 1, if they are known
 * @property {[number, number]} chosen  two bases, counted from 1
 * @property {{pair: [number, number], weight: number}[]} seen  the pairs that the chosen pair looked at
 */

const ARCS = 90;
const LETTERS = 9; // pixels that a cell must have for its letter to be written

export class PairMatrix {
  /**
   * @param {(first: number, second: number) => void} chosen two bases, counted from 1
   * @param {() => number} side of the matrix at most, in pixels
   */
  constructor(chosen, side) {
    this.chosen = chosen;
    this.side = side;
    this.arcs = make("canvas", { class: "pair-arcs", role: "img" });
    this.canvas = make("canvas", {
      class: "pair-matrix",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "matrix",
      "aria-label": "Pairs of bases; use the arrow keys to choose another pair",
    });
    this.said = make("p", { class: "pair-said mono", role: "status" });
    this.note = make("p", { class: "quiet pair-note" });
    this.element = make("div", { class: "pairs" }, this.arcs, this.canvas, this.said);
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event, false));
    this.canvas.addEventListener("pointerleave", () => this.tell(this.shown?.chosen));
    this.canvas.addEventListener("click", (event) => this.onPointer(event, true));
    /** @type {Pairs | null} */
    this.shown = null;
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /** @param {Pairs} shown */
  show(shown) {
    this.shown = shown;
    const told = shown.pairs.map(([first, second]) => `${first}–${second}`).join(", ");
    this.arcs.setAttribute("aria-label", `Predicted pairs: ${told || "none"}`);
    const below = shown.truth ? "the true pairs" : "the predicted pairs";
    const dots = shown.seen.length ? " Dots: what the chosen pair looked at." : "";
    const arcs = "Arcs: predicted pairs.";
    this.note.textContent = `Above the diagonal: probability of each pair. Below: ${below}. ${arcs}${dots}`;
    this.tell(shown.chosen);
    this.redraw();
  }

  redraw() {
    if (!this.shown || !this.element.clientWidth) return;
    const length = this.shown.sequence.length;
    const cell = Math.min(this.side(), this.element.clientWidth) / length;
    this.drawArcs(this.shown, cell);
    this.drawMatrix(this.shown, cell, length);
  }

  /** @param {Pairs} shown @param {number} cell @param {number} length */
  drawMatrix({ probabilities, pairs, truth, chosen, seen }, cell, length) {
    const context = sized(this.canvas, cell * length, cell * length);
    context.fillStyle = colourOf(0);
    context.fillRect(0, 0, cell * length, cell * length);
    const fill = (/** @type {number} */ row, /** @type {number} */ column, /** @type {string} */ colour) => {
      context.fillStyle = colour;
      context.fillRect(column * cell, row * cell, cell + 0.3, cell + 0.3);
    };
    for (let row = 0; row < length; row += 1) {
      for (let column = row + 1; column < length; column += 1) {
        if (probabilities[row][column] > 0.004) fill(row, column, colourOf(probabilities[row][column]));
      }
    }
    for (const [first, second] of truth ?? pairs) fill(second - 1, first - 1, colourOf(1));
    const most = Math.max(...seen.map(({ weight }) => weight), 1e-9);
    context.fillStyle = styleColour("down");
    for (const { pair, weight } of seen) {
      const radius = (cell / 2) * Math.sqrt(weight / most);
      context.beginPath();
      context.arc((pair[1] - 0.5) * cell, (pair[0] - 0.5) * cell, weight < most / 20 ? 0 : radius, 0, 2 * Math.PI);
      context.fill();
    }
    context.strokeStyle = styleColour("line");
    context.beginPath();
    context.moveTo(0, 0);
    context.lineTo(cell * length, cell * length);
    context.stroke();
    context.strokeStyle = styleColour("accent");
    context.lineWidth = 2;
    context.strokeRect((chosen[1] - 1) * cell - 1, (chosen[0] - 1) * cell - 1, cell + 2, cell + 2);
  }

  /** @param {Pairs} shown @param {number} cell */
  drawArcs({ sequence, pairs, truth, chosen }, cell) {
    const width = cell * sequence.length;
    const letters = cell >= LETTERS ? 16 : 0;
    const context = sized(this.arcs, width, ARCS + letters);
    context.clearRect(0, 0, width, ARCS + letters);
    const known = truth && new Set(truth.map((pair) => pair.join()));
    const longest = Math.max(...pairs.map(([first, second]) => second - first), 1) * cell;
    for (const [first, second] of pairs) {
      const isChosen = first === chosen[0] && second === chosen[1];
      const isRight = !known || known.has([first, second].join());
      context.strokeStyle = styleColour(isChosen ? "accent" : isRight ? "up" : "down");
      context.lineWidth = isChosen ? 3 : 1.5;
      const [middle, radius] = [((first + second - 1) / 2) * cell, ((second - first) / 2) * cell];
      context.beginPath();
      context.ellipse(middle, ARCS, radius, radius * Math.min(1, (2 * ARCS - 8) / longest), 0, Math.PI, 0);
      context.stroke();
    }
    if (!letters) return;
    context.font = `${Math.min(14, cell + 3)}px monospace`;
    context.textAlign = "center";
    [...sequence].forEach((base, place) => {
      context.fillStyle = styleColour(chosen.includes(place + 1) ? "accent" : "text");
      context.fillText(base, (place + 0.5) * cell, ARCS + 13);
    });
  }

  /** @param {[number, number] | undefined} pair */
  tell(pair) {
    if (!this.shown || !pair) return;
    const { sequence, probabilities } = this.shown;
    this.said.textContent = `${pairName(sequence, pair)}: ${percent(probabilityOf(probabilities, pair))}`;
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (!this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const [first, second] = this.shown.chosen;
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const by = moves[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const length = this.shown.sequence.length;
    const next = [within(first + by[0], 1, length - 1), within(second + by[1], 2, length)];
    if (next[0] < next[1]) this.chosen(next[0], next[1]);
  }

  /** @param {MouseEvent} event @param {boolean} isClick */
  onPointer(event, isClick) {
    if (!this.shown) return;
    const frame = this.canvas.getBoundingClientRect();
    const length = this.shown.sequence.length;
    const at = (/** @type {number} */ place, /** @type {number} */ room) =>
      within(Math.floor((place / room) * length), 0, length - 1) + 1;
    const [row, column] = [at(event.clientY - frame.top, frame.height), at(event.clientX - frame.left, frame.width)];
    /** @type {[number, number]} */
    const pair = [Math.min(row, column), Math.max(row, column)];
    if (pair[0] === pair[1]) return;
    this.tell(pair);
    if (isClick) this.chosen(pair[0], pair[1]);
  }
}

/** @param {number[][]} probabilities @param {[number, number]} pair */
export function probabilityOf(probabilities, [first, second]) {
  return probabilities[first - 1][second - 1];
}

/** @param {string} sequence @param {[number, number]} pair */
export function pairName(sequence, [first, second]) {
  return `${sequence[first - 1]}${first} – ${sequence[second - 1]}${second}`;
}
