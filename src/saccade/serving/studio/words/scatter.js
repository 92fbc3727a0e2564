// Words as points on a plane.

import { make, visible, within } from "../shared/dom.js";
import { sized } from "../shared/matrix.js";
import { styleColour } from "../shared/ramp.js";

/** @typedef {{word: string, x: number, y: number}} WordPoint */

const PADDING = 34;
const NEAR = 24; // pixels from the pointer
const SANS = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';

export class Scatter {
  /** @param {(word: string) => void} chosen @param {number} [font] its size in pixels */
  constructor(chosen, font = 13) {
    this.font = font;
    this.canvas = make("canvas", {
      role: "img",
      "aria-label": "Words plotted on a plane; the list next to it shows which are close",
    });
    this.element = make("div", { class: "scatter" }, this.canvas);
    /** @type {WordPoint[]} */
    this.points = [];
    /** @type {Set<string>} */
    this.marked = new Set();
    /** @type {Set<string>} */
    this.kept = new Set();
    this.chosen = "";
    /** @type {WordPoint | null} */
    this.pointed = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", () => this.pointed && chosen(this.pointed.word));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** @param {WordPoint[]} points @param {Set<string>} kept the words whose places never change */
  show(points, kept) {
    this.points = points;
    this.kept = kept;
    this.draw();
  }

  /** @param {string[]} words @param {string} chosen */
  mark(words, chosen) {
    this.marked = new Set(words);
    this.chosen = chosen;
    this.draw();
  }

  /** Where a word lies, in pixels. @returns {(point: WordPoint) => [number, number]} */
  places() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const scale = (/** @type {"x" | "y"} */ axis, /** @type {number} */ room) => {
      const values = this.points.filter(({ word }) => this.kept.has(word)).map((point) => point[axis]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return (/** @type {number} */ value) =>
        PADDING + within((value - low) / (high - low || 1), 0, 1) * (room - 2 * PADDING); // others at the edge
    };
    const [x, y] = [scale("x", width), scale("y", height)];
    return (point) => [x(point.x), height - y(point.y)];
  }

  draw() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!width || !this.points.length) return;
    const context = sized(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.font = `${this.font}px ${SANS}`;
    context.textAlign = "center";
    const place = this.places();
    /** @type {{left: number, right: number, top: number, bottom: number}[]} */
    const taken = [];
    const isFirst = (/** @type {WordPoint} */ point) =>
      Number(point.word === this.chosen) * 4 + Number(point === this.pointed) * 2 + Number(this.marked.has(point.word));
    for (const point of [...this.points].sort((one, other) => isFirst(other) - isFirst(one))) {
      const [x, y] = place(point);
      const rank = isFirst(point);
      context.fillStyle = styleColour(rank >= 2 ? "accent" : rank ? "up" : "faint");
      context.beginPath();
      context.arc(x, y, rank ? 4 : 2.5, 0, 2 * Math.PI);
      context.fill();
      const half = context.measureText(visible(point.word)).width / 2;
      const box = { left: x - half - 2, right: x + half + 2, top: y - 7 - this.font, bottom: y - 5 };
      const isFree = taken.every(
        (other) => box.left > other.right || box.right < other.left || box.top > other.bottom || box.bottom < other.top,
      );
      if (!isFree && rank < 2) continue; // its point stays; its name would cover another's
      taken.push(box);
      context.fillStyle = styleColour(rank >= 2 ? "accent" : rank ? "up" : "quiet");
      context.fillText(visible(point.word), x, y - 8);
    }
  }

  /** @param {PointerEvent | null} event */
  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const place = this.places();
    /** @type {WordPoint | null} */
    let best = null;
    let nearest = NEAR;
    for (const point of event ? this.points : []) {
      const [x, y] = place(point);
      const far = Math.hypot(x - ((event?.clientX ?? 0) - frame.left), y - ((event?.clientY ?? 0) - frame.top));
      if (far < nearest) [best, nearest] = [point, far];
    }
    if (best === this.pointed) return;
    this.pointed = best;
    this.canvas.classList.toggle("on-word", best !== null);
    this.draw();
  }
}
