// Takes away what is seen: pictures, a page of its own, the numbers, the address.

import { inPath, query } from "./api.js";
import { make, reveal } from "./dom.js";
import { currentTheme } from "./ramp.js";

/**
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./ask-state.js").Settled} Settled
 */

const FORMATS = /** @type {[string, string][]} */ ([["png", "PNG"], ["svg", "SVG"], ["html", "HTML"], ["npy", "numbers"]]);

export class Saving {
  constructor() {
    this.links = FORMATS.map(([format, title]) => make("a", { class: "button small", download: "", "data-format": format }, title));
    this.note = make("small", {});
    this.copy = make("button", { type: "button", class: "small", onclick: () => void this.copyAddress() }, "Copy the link to this view");
    this.element = make("div", { class: "saving row", role: "group", "aria-label": "Save" }, make("span", { class: "quiet" }, "save:"), ...this.links, this.note, this.copy);
  }

  /** @param {Look | null} look @param {Settled | null} settled */
  show(look, settled) {
    reveal(this.element, look !== null && settled !== null && look.id !== null);
    if (!look?.id || !settled) return;
    const isOne = settled.head !== "alignment" && settled.head !== "rollout";
    const head = isOne ? settled.head : "mean";
    const name = settled.head === "alignment" ? look.layer : settled.attention.name;
    const base = `/api/looks/${inPath(look.id)}/export`;
    for (const link of this.links) {
      link.href = `${base}?${query({ format: link.dataset.format, name, head, words: settled.words ? 1 : 0, theme: currentTheme() })}`;
    }
    this.note.textContent = isOne ? "" : `(of ${name}, mean of heads)`;
    this.update();
  }

  update() {
    this.copy.textContent = "Copy the link to this view";
  }

  async copyAddress() {
    await navigator.clipboard?.writeText(location.href).then(
      () => (this.copy.textContent = "Copied"),
      () => (this.copy.textContent = location.href),
    );
  }
}
