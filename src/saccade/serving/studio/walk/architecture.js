// The whole model as a row of blocks with their sizes; the head of the walkthrough is marked.

import { get, inPath } from "../shared/api.js";
import { make, reveal } from "../shared/dom.js";
import { headName } from "../shared/names.js";

/**
 * @typedef {{name: string, heads: number}} Layer
 * @typedef {{name: string, kind: string, parameters: number, shapes: Shapes, attentions: Layer[]}} Block
 * @typedef {Record<string, number[]>} Shapes
 * @typedef {{parameters: number, blocks: Block[]}} Architecture
 */

export class ArchitectureView {
  /** @param {(name: string, head: number) => void} chosen */
  constructor(chosen) {
    this.chosen = chosen;
    this.blocks = make("ol", { class: "architecture-blocks" });
    const label = { class: "architecture", "aria-label": "The whole model", hidden: true };
    this.element = make("section", label, this.blocks);
    this.model = "";
    /** @type {Architecture | null} */
    this.shown = null;
  }

  /** @param {string | null} model null: the numbers are not of a model @param {string} key "encoder.1.self:3" */
  async show(model, key) {
    reveal(this.element, model !== null);
    if (model === null) return;
    if (model !== this.model) this.shown = await get(`/api/models/${inPath(model)}/architecture`);
    this.model = model;
    if (!this.shown) return;
    this.blocks.replaceChildren(...this.shown.blocks.map((block) => this.block(block, key)));
    const all = `${this.shown.parameters.toLocaleString("en")} parameters in all; a dot is a head`;
    this.blocks.append(make("li", { class: "all" }, make("small", {}, all)));
  }

  /** @param {Block} block @param {string} key */
  block({ name, kind, parameters, shapes, attentions }, key) {
    const sizes = Object.entries(shapes).map(([part, shape]) => `${part} ${shape.join("×")}`);
    const heads = attentions.map((layer) => {
      const dots = Array.from({ length: layer.heads }, (_, head) => this.dot(layer.name, head, key));
      return make("span", { class: "dots" }, make("small", {}, layer.name.split(".").at(-1) ?? ""), ...dots);
    });
    const title = `${kind}: ${sizes.join(", ")}`;
    const count = make("small", { class: "mono" }, parameters.toLocaleString("en"));
    return make("li", { title }, make("b", {}, name), count, ...heads);
  }

  /** @param {string} name @param {number} head @param {string} key */
  dot(name, head, key) {
    const label = headName(name, head);
    const pressed = String(`${name}:${head}` === key);
    const open = { type: "button", class: "dot", title: label, "aria-label": label, "aria-pressed": pressed };
    return make("button", { ...open, onclick: () => this.chosen(name, head) });
  }
}
