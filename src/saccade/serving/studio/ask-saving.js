// Takes away what is seen: pictures, a page of its own, the numbers, the address.

import { file, inPath, query } from "./api.js";
import { make, reveal } from "./dom.js";
import { currentTheme } from "./ramp.js";

/**
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./status.js").Status} Status
 * @typedef {import("./ask-state.js").Settled} Settled
 */

const FORMATS = /** @type {[string, string][]} */ ([
  ["png", "PNG"],
  ["svg", "SVG"],
  ["html", "HTML"],
  ["npy", "numbers"],
]);
const KEPT = 60_000; // milliseconds that the browser has to write a file

export class Saving {
  /** @param {Status} status */
  constructor(status) {
    this.status = status;
    this.links = FORMATS.map(([format, title]) => {
      return make(
        "a",
        {
          class: "button small",
          "data-format": format,
          onclick: (/** @type {MouseEvent} */ event) => void this.save(event),
        },
        title,
      );
    });
    this.note = make("small", {});
    this.copy = make(
      "button",
      { type: "button", class: "small", onclick: () => void this.copyAddress() },
      "Copy the link to this view",
    );
    this.element = make(
      "div",
      { class: "saving row", role: "group", "aria-label": "Save" },
      make("span", { class: "quiet" }, "save:"),
      ...this.links,
      this.note,
      this.copy,
    );
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
      const { format } = link.dataset;
      link.href = `${base}?${query({ format, name, head, words: settled.words ? 1 : 0, theme: currentTheme() })}`;
    }
    this.note.textContent = isOne ? "" : `(of ${name}, mean of heads)`;
    this.update();
  }

  update() {
    this.copy.textContent = "Copy the link to this view";
  }

  /**
   * Fetched rather than followed: a link carries no key, and a refusal is to be a sentence here.
   * @param {MouseEvent} event
   */
  async save(event) {
    event.preventDefault();
    const { href } = /** @type {HTMLAnchorElement} */ (event.currentTarget);
    const said = this.note.textContent;
    this.note.textContent = "saving …";
    try {
      const { name, content } = await file(href);
      const url = URL.createObjectURL(content);
      make("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), KEPT);
    } catch (error) {
      this.status.fail(error);
    } finally {
      this.note.textContent = said;
    }
  }

  async copyAddress() {
    await navigator.clipboard?.writeText(location.href).then(
      () => (this.copy.textContent = "Copied"),
      () => (this.copy.textContent = location.href),
    );
  }
}
