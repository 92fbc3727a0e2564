// The sinusoids of the positions as a picture, and how well two positions match by their distance.

import { make, number } from "../shared/dom.js";
import { picture } from "../shared/ramp.js";

/** @typedef {import("./page.js").Stage} Stage */

const POSITIONS = 48;
const WIDTH = 64;
const BASE = 10_000;
const LEGEND =
  "Left: a row for each position, a column for each wave, from −1 to 1. " +
  "Right: how well each position matches the chosen one.";

/**
 * The pattern of a position: sin and cos of the same angle side by side, each pair slower than the one before.
 * @param {number} position @param {number} width
 */
export function sinusoid(position, width) {
  return Array.from({ length: width }, (_, place) => {
    const angle = position / BASE ** ((2 * Math.floor(place / 2)) / width);
    return place % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** @param {Stage} stage */
export async function positions(stage) {
  const rows = Array.from({ length: POSITIONS }, (_, position) => sinusoid(position, WIDTH));
  const slider = make("input", { type: "range", min: 0, max: POSITIONS - 1, value: 12, "aria-label": "A position" });
  const said = make("p", { class: "mono", role: "status" });
  const field = make("div", { class: "waves", role: "img", "aria-label": `${POSITIONS} positions, ${WIDTH} waves` });
  const label = "How well every position matches this one";
  const matches = make("div", { class: "matches", role: "img", "aria-label": label });
  const draw = () => {
    const chosen = Number(slider.value);
    const values = Float64Array.from(rows.flat());
    field.replaceChildren(picture({ rows: POSITIONS, columns: WIDTH, values }, { isDifference: true }));
    const mark = make("span", { class: "wave-mark" });
    mark.style.top = `${(100 * chosen) / POSITIONS}%`;
    mark.style.height = `${100 / POSITIONS}%`;
    field.append(mark);
    const products = rows.map((row) => dot(row, rows[chosen]));
    matches.replaceChildren(
      ...products.map((product, place) => {
        const bar = make("span", { "--share": String(Math.max(0, product) / (WIDTH / 2)), title: number(product, 3) });
        bar.toggleAttribute("data-chosen", place === chosen);
        return bar;
      }),
    );
    const [same, next, far] = [products[chosen], dot(rows[0], rows[1]), dot(rows[0], rows[POSITIONS - 1])];
    said.textContent =
      `dot product with itself ${number(same, 2)} · with its neighbour ${number(next, 2)} · ` +
      `${POSITIONS - 1} words away ${number(far, 2)}`;
  };
  slider.addEventListener("input", draw);
  const legend = make("p", { class: "quiet" }, LEGEND);
  const fields = make("div", { class: "two-fields" }, field, matches);
  stage.picture.append(make("label", { class: "check" }, "position", slider), fields, said, legend);
  draw();
  return draw;
}

/** @param {number[]} one @param {number[]} other */
function dot(one, other) {
  return one.reduce((sum, value, place) => sum + value * other[place], 0);
}
