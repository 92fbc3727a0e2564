// Curves of a training run over its steps: one small picture per measure.

import { make, number } from "../shared/dom.js";
import { sized } from "../shared/matrix.js";
import { styleColour } from "../shared/ramp.js";

/** @typedef {{step: number, value: number}} Point */

const HEIGHT = 190;
const [LEFT, RIGHT, TOP, BOTTOM] = [68, 14, 12, 26];
const FONT = '12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

export class Curve {
  /** @param {string} name @param {(step: number) => void} chosen */
  constructor(name, chosen) {
    this.name = name;
    this.title = make("h3", {}, name);
    this.last = make("span", { class: "mono" });
    this.canvas = make("canvas", { role: "img" });
    this.element = make(
      "figure",
      { class: "curve" },
      make("figcaption", { class: "row" }, this.title, this.last),
      this.canvas,
    );
    /** @type {Point[]} */
    this.points = [];
    this.marked = 0;
    /** @type {Point | null} */
    this.pointed = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", () => this.pointed && chosen(this.pointed.step));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /**
   * @param {Point[]} points @param {number} end the last step of the training
   * @param {number} marked the step of the probe
   */
  show(points, end, marked) {
    this.points = points;
    this.end = Math.max(end, points.at(-1)?.step ?? 1);
    this.marked = marked;
    this.draw();
  }

  /** @param {PointerEvent | null} event */
  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const step = event ? ((event.clientX - frame.left - LEFT) / (frame.width - LEFT - RIGHT)) * (this.end ?? 1) : NaN;
    this.pointed = event
      ? this.points.reduce(
          (best, one) => (Math.abs(one.step - step) < Math.abs(best.step - step) ? one : best),
          this.points[0],
        )
      : null;
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width || !this.points.length) return;
    const context = sized(this.canvas, width, HEIGHT);
    context.clearRect(0, 0, width, HEIGHT);
    const values = this.points.map(({ value }) => value);
    const [low, high] = padded(Math.min(...values), Math.max(...values));
    const x = (/** @type {number} */ step) => LEFT + (step / (this.end ?? 1)) * (width - LEFT - RIGHT);
    const y = (/** @type {number} */ value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    drawAxes(context, width, low, high, this.end ?? 1, x, y);
    if (this.marked) {
      context.fillStyle = styleColour("glow");
      context.fillRect(x(this.marked) - 1.5, TOP, 3, HEIGHT - TOP - BOTTOM);
    }
    context.strokeStyle = context.fillStyle = styleColour("up");
    context.lineWidth = 2;
    context.beginPath();
    this.points.forEach(({ step, value }, place) =>
      place ? context.lineTo(x(step), y(value)) : context.moveTo(x(step), y(value)),
    );
    context.stroke();
    if (this.points.length < 40) for (const { step, value } of this.points) dot(context, x(step), y(value), 2.5);
    const shown = this.pointed ?? this.points[this.points.length - 1];
    context.fillStyle = styleColour("accent");
    dot(context, x(shown.step), y(shown.value), 4);
    const value = number(shown.value, Math.min(6, 2 + ticksOf(low, high).decimals));
    this.last.textContent = `${value} at step ${shown.step.toLocaleString("en")}`;
    this.canvas.setAttribute("aria-label", `${this.name}: ${this.last.textContent}; ${this.points.length} points`);
  }
}

/** @param {number} low @param {number} high @returns {[number, number]} */
function padded(low, high) {
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  const isShare = low >= 0 && high <= 100 && high > 1; // of scores that are in percent
  return [low >= 0 ? Math.max(0, low - room) : low - room, isShare ? Math.min(100, high + room) : high + room];
}

/** Round numbers between two values, two to five of them. @param {number} low @param {number} high */
function ticksOf(low, high) {
  const most = (high - low) / 2;
  const power = Math.floor(Math.log10(most) + 1e-9);
  const step = ([5, 2].find((one) => one * 10 ** power <= most * (1 + 1e-9)) ?? 1) * 10 ** power;
  const decimals = Math.max(0, Math.min(6, -power));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return { decimals, values: Array.from({ length: count }, (_, place) => (first + place) * step) };
}

/**
 * @param {CanvasRenderingContext2D} context @param {number} width @param {number} low @param {number} high
 * @param {number} end @param {(step: number) => number} x @param {(value: number) => number} y
 */
function drawAxes(context, width, low, high, end, x, y) {
  context.font = FONT;
  context.strokeStyle = styleColour("grid");
  context.fillStyle = styleColour("quiet");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const { decimals, values } = ticksOf(low, high);
  for (const value of values) {
    context.beginPath();
    context.moveTo(LEFT, Math.round(y(value)) + 0.5);
    context.lineTo(width - RIGHT, Math.round(y(value)) + 0.5);
    context.stroke();
    context.fillText(number(value, decimals), LEFT - 6, y(value));
  }
  context.textBaseline = "top";
  for (const share of [0, 0.5, 1]) {
    context.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
    context.fillText(Math.round(share * end).toLocaleString("en"), x(share * end), HEIGHT - BOTTOM + 8);
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} radius */
function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
