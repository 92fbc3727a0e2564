// The scale of the colours, with the numbers at its ends; and weights as text, however small they are.

import { make, number } from "./dom.js";
import { GLOSSARY } from "./names.js";
import { picture } from "./ramp.js";

const SHADES = 256;

/** With six decimals, or where these would not tell much with four digits. @param {number} weight */
export function exactly(weight) {
  return weight >= 0.001 ? number(weight, 6) : small(weight, 3);
}

/** As it has room in a cell. @param {number} weight */
export function briefly(weight) {
  return weight >= 0.01 ? number(weight, 3) : small(weight, weight < 1e-9 ? 0 : 1);
}

/** @param {number} weight @param {number} decimals before the power of ten: 2.9e−5 */
function small(weight, decimals) {
  return weight === 0 ? "0" : weight.toExponential(decimals).replaceAll("-", "−");
}

export class Legend {
  constructor() {
    this.isDifference = false;
    this.low = make("span", { class: "mono" });
    this.high = make("span", { class: "mono" });
    this.ramp = make("span", { class: "ramp", role: "img", "aria-label": "Colours: weight 0 is the background" });
    this.element = make("div", { class: "legend row", title: GLOSSARY.weight }, this.low, this.ramp, this.high);
    this.show(1, false);
  }

  /** @param {number} most the weight that has the colour of the ink @param {boolean} isDifference */
  show(most, isDifference) {
    const ink = most >= 0.001 ? number(most, 3) : small(most, 0);
    this.isDifference = isDifference;
    this.low.textContent = isDifference ? "−1" : "0";
    this.high.textContent = most === 1 ? "1" : `${ink} and more`;
    this.draw();
  }

  draw() {
    const first = this.isDifference ? -1 : 0;
    const values = Float64Array.from({ length: SHADES }, (_, place) => first + ((1 - first) * place) / (SHADES - 1));
    this.ramp.replaceChildren(picture({ rows: 1, columns: SHADES, values }, { isDifference: this.isDifference }));
  }
}
