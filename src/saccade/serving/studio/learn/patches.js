// An image as a sentence of patches: what each patch looks at, in a real model.

import { inPath, post, weightsOf } from "../shared/api.js";
import { Overlay } from "../ask/overlay.js";
import { probabilityOf } from "../ask/headline.js";
import { isOfPatches } from "../ask/pictured.js";
import { make, named, number, percent, within } from "../shared/dom.js";
import { headName } from "../shared/names.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").Attention} Attention
 */

const LESSON = "digits";

class Patches {
  /** @param {Stage} stage @param {Model} model */
  constructor(stage, model) {
    this.stage = stage;
    this.model = model;
    const go = (/** @type {Record<string, string>} */ parts) => stage.go(parts);
    this.image = make("select", { "aria-label": "The image", onchange: () => go({ image: this.image.value }) });
    const options = model.examples.map((_, place) => make("option", { value: place + 1 }, `image ${place + 1}`));
    this.image.append(...options);
    this.head = make("select", { "aria-label": "The head", onchange: () => go({ head: this.head.value }) });
    this.answer = make("p", { class: "scene-answer" });
    this.said = make("p", { id: "patch-said", role: "status" });
    /** @type {[number, number] | null} */
    this.chosen = null; // patches that were pointed at; null: those with the strongest link
    this.overlay = new Overlay((row, column) => {
      this.chosen = [row ?? this.chosen?.[0] ?? 0, column];
      this.draw();
    }, "patch-said");
    const choices = make("div", { class: "row" }, this.image, this.head);
    const side = make("div", { class: "patch-side" }, choices, this.answer, this.said);
    stage.picture.append(make("div", { class: "two-fields" }, this.overlay.element, side));
    /** @type {{look: Look, attention: Attention, matrix: import("../shared/types.js").Matrix} | null} */
    this.shown = null;
  }

  async read() {
    const { stage, model } = this;
    const place = within(Number(stage.parts().image) || 1, 1, model.examples.length);
    const input = model.examples[place - 1];
    this.image.value = String(place);
    /** @type {Look} */
    const look = await post(`/api/models/${inPath(model.name)}/looks`, { input }, stage.signal);
    const attention = look.attentions.filter((one) => isOfPatches(look, one)).at(-1);
    if (!attention) return stage.say("The image model that is served here does not cut its images into patches.");
    const heads = ["mean", ...Array.from({ length: attention.heads }, (_, head) => String(head))];
    this.head.replaceChildren(...heads.map((one) => make("option", { value: one }, headName(attention.name, one))));
    this.head.value = heads.includes(stage.parts().head) ? stage.parts().head : "mean";
    this.shown = { look, attention, matrix: await weightsOf(look, attention.name, this.head.value, false) };
    /** @type {import("../shared/types.js").Parts} */
    const sample = input.sample ? { image: String(input.sample) } : {};
    stage.offer("ask", { m: model.name, ...sample, a: attention.name, h: this.head.value });
    return this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { matrix, look, attention } = this.shown;
    this.chosen ??= strongest(matrix);
    const [row, column] = this.chosen;
    if (look.image) this.overlay.show(look.image, matrix, row, column);
    const chance = probabilityOf(look.answer);
    const told = make("span", { class: "mono" }, chance === null ? "" : percent(chance));
    const seen = make("b", {}, String(look.answer.label ?? look.answer.text));
    this.answer.replaceChildren(make("small", {}, "the model sees"), seen, told);
    const name = (/** @type {string} */ id, /** @type {number} */ place) => named(look.axes[id].labels[place] ?? "");
    const weight = number(matrix.values[row * matrix.columns + column], 3);
    const pair = [name(attention.rows, row), name(attention.columns, column)];
    this.said.textContent = `patch ${pair[0]} looks at patch ${pair[1]} with weight ${weight}`;
  }
}

/**
 * The link between two patches that has the most weight.
 * @param {import("../shared/types.js").Matrix} matrix @returns {[number, number]}
 */
function strongest({ values, columns }) {
  const weights = values.map((weight, place) => (Math.floor(place / columns) === place % columns ? 0 : weight));
  const place = weights.indexOf(Math.max(...weights));
  return [Math.floor(place / columns), place % columns];
}

/** @param {Stage} stage */
export async function patches(stage) {
  await stage.studio.readModels();
  const isOfUse = (/** @type {Model} */ one) =>
    one.input.kind === "image" && one.has_attention && one.examples.length > 0;
  const model = stage.studio.models.find(isOfUse);
  if (!model) return void (await hasModels(stage, [LESSON]));
  const shown = new Patches(stage, model);
  await shown.read();
  return { redraw: () => shown.draw(), follow: () => shown.read() };
}
