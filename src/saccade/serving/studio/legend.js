// The scale of the colours, with the numbers at its ends.

import { make, number } from "./dom.js";
import { picture } from "./ramp.js";

const SHADES = 256;

export class Legend {
  constructor() {
    this.isDifference = false;
    this.low = make("span", { class: "mono" });
    this.high = make("span", { class: "mono" });
    this.ramp = make("span", { class: "ramp", role: "img", "aria-label": "Colours: weight 0 is the background" });
    this.element = make("div", { class: "legend row" }, this.low, this.ramp, this.high);
    this.show(1, false);
  }

  /** @param {number} most the weight that has the colour of the ink @param {boolean} isDifference */
  show(most, isDifference) {
    this.isDifference = isDifference;
    this.low.textContent = isDifference ? "−1" : "0";
    this.high.textContent = most === 1 ? "1" : `${number(most, 3)} and more`;
    this.draw();
  }

  draw() {
    const first = this.isDifference ? -1 : 0;
    const values = Float64Array.from({ length: SHADES }, (_, place) => first + ((1 - first) * place) / (SHADES - 1));
    this.ramp.replaceChildren(picture({ rows: 1, columns: SHADES, values }, { isDifference: this.isDifference }));
  }
}
