// A recurrent network unrolled: its state as a strip of colour for each step, and the gradient that reaches each step.

import { wholeNumber } from "../shared/address.js";
import { get, query } from "../shared/api.js";
import { choice, make, number, setChoice, within } from "../shared/dom.js";
import { picture } from "../shared/ramp.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {{cell: string, outputs: number[][], gradient: (number | null)[], cell_path: number[] | null}} Unrolled
 */

/** @type {[string, string][]} */
const CELLS = [
  ["rnn", "RNN"],
  ["lstm", "LSTM"],
  ["gru", "GRU"],
  ["mut1", "MUT1"],
  ["mut2", "MUT2"],
  ["mut3", "MUT3"],
];
const STEPS = 24;
const WIDTH = 12;
const [WEAKEST, STRONGEST] = [-6, 3]; // powers of ten at the ends of the bars

class Unrolling {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.cells = choice("The cell", "cell", CELLS, (value) => stage.go({ cell: value }));
    this.radius = make("input", { type: "range", min: 0.5, max: 1.5, step: 0.05, value: stage.parts().radius ?? 1 });
    this.radius.setAttribute("aria-label", "Size of the recurrent matrix (spectral radius)");
    this.radius.addEventListener("input", () => stage.go({ radius: this.radius.value }));
    this.at = make("input", { type: "range", min: 0, max: STEPS - 1, value: 0, "aria-label": "A step" });
    this.at.addEventListener("input", () => stage.go({ at: String(Number(this.at.value) + 1) }));
    this.size = make("span", { class: "mono" });
    this.strip = make("div", { class: "states", role: "img", "aria-label": "The state after each step" });
    this.bars = make("ol", { class: "gradients", "aria-label": "Gradient that reaches each step" });
    this.bars.addEventListener("pointermove", (event) => this.point(event));
    this.said = make("p", { class: "arithmetic", role: "status" });
    const radius = make("label", { class: "check" }, "recurrent matrix ×", this.radius, this.size);
    const step = make("label", { class: "check" }, "step", this.at);
    const below = make("div", { class: "row" }, step, this.said);
    stage.picture.append(make("div", { class: "row" }, this.cells, radius), this.strip, this.bars, below);
    /** @type {Unrolled | null} */
    this.shown = null;
    this.asked = ""; // what is shown
  }

  async read() {
    const { stage } = this;
    const cell = CELLS.some(([name]) => name === stage.parts().cell) ? stage.parts().cell : CELLS[0][0];
    setChoice(this.cells, cell);
    this.radius.value = stage.parts().radius ?? "1";
    this.at.value = String(wholeNumber(stage.parts().at, 1) - 1);
    this.size.textContent = number(Number(this.radius.value), 2);
    const asked = query({ cell, steps: STEPS, width: WIDTH, spectral_radius: this.radius.value });
    if (asked !== this.asked) this.shown = await get(`/api/learn/recurrent?${asked}`, stage.signal);
    this.asked = asked;
    this.draw();
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.bars.getBoundingClientRect();
    const step = within(Math.floor(((event.clientX - box.left) / box.width) * STEPS), 0, STEPS - 1);
    if (step !== Number(this.at.value)) this.stage.go({ at: String(step + 1) });
  }

  draw() {
    const { shown } = this;
    if (!shown) return;
    const chosen = Number(this.at.value);
    this.strip.replaceChildren(stripOf(shown));
    this.bars.replaceChildren(...shown.outputs.map((_, step) => barOf(shown, step, step === chosen)));
    this.said.textContent = sentenceOf(shown, chosen);
  }
}

/** @param {Stage} stage */
export async function recurrent(stage) {
  const unrolling = new Unrolling(stage);
  await unrolling.read();
  const model = stage.studio.models.find((one) => one.kind === "recurrent");
  if (model) stage.offer("ask", { m: model.name });
  return { redraw: () => unrolling.draw(), follow: () => unrolling.read() };
}

/** @param {Unrolled} unrolled a column for each step, a row for each number of the state */
function stripOf({ outputs }) {
  const columns = outputs.length;
  const values = new Float64Array(columns * WIDTH);
  outputs.forEach((state, step) => state.forEach((value, row) => (values[row * columns + step] = value)));
  return picture({ rows: WIDTH, columns, values }, { isDifference: true });
}

/** @param {number | null} norm null: it has grown beyond all numbers */
function heightOf(norm) {
  const power = norm === null ? STRONGEST : Math.log10(Math.max(norm, 1e-300));
  return within((power - WEAKEST) / (STRONGEST - WEAKEST), 0, 1);
}

/** @param {Unrolled} unrolled @param {number} step @param {boolean} isChosen */
function barOf({ gradient, cell_path }, step, isChosen) {
  const own = make("span", { "--share": String(heightOf(gradient[step + 1])), class: "gradient" });
  const path = cell_path && make("span", { "--share": String(heightOf(cell_path[step + 1])), class: "gradient path" });
  const item = make("li", { "data-norm": String(gradient[step + 1]) }, own, path);
  item.toggleAttribute("data-chosen", isChosen);
  return item;
}

/** @param {Unrolled} unrolled @param {number} step */
function sentenceOf({ gradient, cell_path, outputs }, step) {
  const written = (/** @type {number | null} */ norm) => {
    if (norm === null) return "∞ (too large to represent)";
    return norm >= 0.01 && norm < 1000 ? number(norm, 3) : norm.toExponential(1);
  };
  const path = cell_path ? `; along its memory c alone × ${written(cell_path[step + 1])}` : "";
  return `from step ${outputs.length} back to step ${step + 1}: gradient × ${written(gradient[step + 1])}${path}`;
}
