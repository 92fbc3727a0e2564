// A picture of the sinusoidal positions, and how well two positions match depending on their distance.

import { wholeNumber } from "../shared/address.js";
import { keptNumbers, query } from "../shared/api.js";
import { choice, make, number, setChoice } from "../shared/dom.js";
import { picture } from "../shared/ramp.js";

/** @typedef {import("./page.js").Stage} Stage */

const COUNT = 48;
const WIDTH = 64;
const CHOSEN = 12;
const LEGEND =
  "Left: a row for each position, a column for each wave. Right: how well each position matches the chosen one.";
/** @type {[string, string][]} */
const STARTS = [
  ["0", "0 to 47"],
  ["100", "100 to 147"],
  ["5000", "5000 to 5047"],
];

class Waves {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.starts = choice("Positions", "start", STARTS, (value) => stage.go({ first: value }));
    const range = { type: "range", min: 0, max: COUNT - 1, value: CHOSEN, "aria-label": "A position" };
    this.slider = make("input", { ...range, oninput: () => stage.go({ at: this.slider.value }) });
    this.said = make("p", { class: "mono", role: "status" });
    this.field = make("div", { class: "waves", role: "img", "aria-label": `${COUNT} positions, ${WIDTH} waves` });
    const label = "How well every position matches this one";
    this.matches = make("div", { class: "matches", role: "img", "aria-label": label });
    const knobs = [make("label", { class: "check" }, "position", this.slider), "positions", this.starts];
    const fields = make("div", { class: "two-fields" }, this.field, this.matches);
    const legend = make("p", { class: "quiet" }, LEGEND);
    stage.picture.append(make("div", { class: "row" }, ...knobs), fields, this.said, legend);
    this.first = 0;
    /** @type {number[][]} */
    this.rows = [];
  }

  async read() {
    this.first = Number(STARTS.find(([start]) => start === this.stage.parts().first)?.[0] ?? 0);
    setChoice(this.starts, String(this.first));
    this.slider.value = String(wholeNumber(this.stage.parts().at, CHOSEN));
    const asked = query({ first: this.first, count: COUNT, width: WIDTH });
    const { values } = await keptNumbers(`/api/learn/positions?${asked}`);
    this.rows = Array.from({ length: COUNT }, (_, row) => [...values.slice(row * WIDTH, (row + 1) * WIDTH)]);
    this.draw();
  }

  draw() {
    const { rows, first } = this;
    const chosen = Number(this.slider.value);
    const values = Float64Array.from(rows.flat());
    const mark = make("span", { class: "wave-mark" });
    mark.style.top = `${(100 * chosen) / COUNT}%`;
    mark.style.height = `${100 / COUNT}%`;
    const waves = picture({ rows: COUNT, columns: WIDTH, values }, { isDifference: true });
    this.field.replaceChildren(waves, mark);
    const products = rows.map((row) => dot(row, rows[chosen]));
    this.matches.replaceChildren(...products.map((product, place) => matchOf(product, place === chosen)));
    const [next, far] = [dot(rows[0], rows[1]), dot(rows[0], rows[COUNT - 1])];
    this.said.textContent =
      `position ${first + chosen}: dot product with itself ${number(products[chosen], 2)} · ` +
      `one word apart ${number(next, 2)} · ${COUNT - 1} words apart ${number(far, 2)}`;
  }
}

/** @param {Stage} stage */
export async function positions(stage) {
  const waves = new Waves(stage);
  await waves.read();
  const model = stage.studio.models.find((one) => one.has_attention && one.reads);
  if (model) stage.offer("map", { m: model.name });
  return { redraw: () => waves.draw(), follow: () => waves.read() };
}

/** @param {number} product @param {boolean} isChosen */
function matchOf(product, isChosen) {
  const bar = make("span", { "--share": String(Math.max(0, product) / (WIDTH / 2)), title: number(product, 3) });
  bar.toggleAttribute("data-chosen", isChosen);
  return bar;
}

/** @param {number[]} one @param {number[]} other */
function dot(one, other) {
  return one.reduce((sum, value, place) => sum + value * other[place], 0);
}
