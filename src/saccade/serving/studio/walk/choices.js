// The options of a walkthrough: score, weights, mask and temperature, and whether to show its lines of code.

import { make, number } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Walkthrough} Walkthrough
 * @typedef {import("../shared/types.js").Parts} Parts
 *
 * @typedef {object} ChoicesListener
 * @property {(name: string, value: string) => void} chosen a score, weights or a mask
 * @property {(temperature: string | null) => void} warmed null: 1
 * @property {(isShown: boolean) => void} coded
 * @property {() => void} reset
 */

const CHOICES = {
  score: ["dot", "scaled_dot", "cosine", "equal"],
  weights: ["softmax", "relu", "sparsemax", "hard", "lookup"],
  mask: ["none", "causal", "window:1", "by hand"],
};
const WARMTH = { min: -3, max: 3, step: 0.25 }; // powers of two

export class WalkChoices {
  /** @param {HTMLElement} start where the numbers come from @param {ChoicesListener} listener */
  constructor(start, { chosen, warmed, coded, reset }) {
    this.selects = Object.entries(CHOICES).map(([name, values]) => {
      const options = values.map((value) => make("option", { value }, value.replaceAll("_", " ")));
      const select = make("select", { "data-name": name, "aria-label": name }, ...options);
      select.addEventListener("change", () => chosen(name, select.value));
      return select;
    });
    const warm = () => {
      const temperature = 2 ** Number(this.warmth.value);
      warmed(temperature === 1 ? null : String(Number(temperature.toFixed(4))));
    };
    this.warmth = make("input", { type: "range", ...WARMTH, value: 0, "aria-label": "Temperature", oninput: warm });
    this.warmthSaid = make("span", { class: "mono" });
    this.codes = make("input", { type: "checkbox", onchange: () => coded(this.codes.checked) });
    this.reset = make("button", { type: "button", class: "small", onclick: reset }, "As it was");
    const labelled = this.selects.map((select) => make("label", { class: "check" }, select.dataset.name ?? "", select));
    const warmth = make("label", { class: "check" }, "temperature T", this.warmth, this.warmthSaid);
    const code = make("label", { class: "check" }, this.codes, "code");
    this.element = make("div", { class: "row walk-choices" }, start, ...labelled, warmth, code);
  }

  /** @param {Walkthrough} walk @param {Parts} parts */
  show(walk, parts) {
    const [score, weights, mask] = this.selects;
    if (![...score.options].some((one) => one.value === walk.score))
      score.append(make("option", { value: walk.score }, walk.score.replaceAll("_", " ")));
    score.value = walk.score;
    weights.value = walk.weights;
    mask.value = walk.mask === "matrix" ? "by hand" : walk.mask;
    if (!mask.value) mask.value = "none";
    const temperature = Number(parts.temp ?? 1) || 1;
    this.warmth.value = String(Math.log2(temperature));
    this.warmthSaid.textContent = number(temperature, 3);
    this.warmth.disabled = !["dot", "scaled_dot"].includes(walk.score);
  }
}
