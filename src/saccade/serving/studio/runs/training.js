// What the page shows while there is no model yet: the progress of training the first one.

import { get, inPath } from "../shared/api.js";
import { Curve } from "./curves.js";
import { make } from "../shared/dom.js";

/** @typedef {{name: string, progress: number, steps: number | null}} Training */

export class TrainingView {
  constructor() {
    this.title = make("h1", {});
    this.bar = make("progress", { "aria-label": "Progress of the training" });
    this.said = make("span", { class: "mono" });
    this.curve = new Curve("training loss", () => undefined);
    const next =
      "It learns from examples, once. When it is ready, this page asks it a sentence and shows what it looked at.";
    const link = make("a", { href: "/runs", "data-page": "runs" }, "The Runs page shows more of how it learns.");
    this.element = make(
      "section",
      { class: "training", "aria-label": "Training" },
      this.title,
      make("p", { class: "intro" }, next),
      make("div", { class: "row" }, this.bar, this.said),
      this.curve.element,
      make("p", {}, link),
    );
  }

  /** @param {Training} training */
  async show({ name, progress, steps }) {
    this.title.textContent = `The model ${name} is being trained`;
    if (steps) this.bar.value = progress / steps;
    const share = steps ? ` of ${steps.toLocaleString("en")}, ${Math.floor((100 * progress) / steps)} %` : "";
    this.said.textContent = `step ${progress.toLocaleString("en")}${share}`;
    /** @type {import("../shared/types.js").RunDetails} */
    const run = await get(`/api/runs/${inPath(name)}`);
    const points = run.metrics.flatMap(({ step, loss }) => (loss === undefined ? [] : [{ step, value: loss }]));
    if (points.length) this.curve.show(points, steps ?? 0, 0);
  }
}
