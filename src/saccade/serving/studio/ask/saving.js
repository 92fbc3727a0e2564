// Takes away what is seen: the picture, the numbers, a page of its own, the address.

import { file, inPath, query } from "../shared/api.js";
import { npyFile, pngFile, svgFile } from "./export.js";
import { make, reveal } from "../shared/dom.js";
import { currentTheme } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/status.js").Status} Status
 * @typedef {import("./figure.js").Figure} Figure
 * @typedef {import("./state.js").Settled} Settled
 */

const FORMATS = { png: "PNG", svg: "SVG", html: "HTML", npy: "numbers" };
const KEPT = 60_000; // milliseconds that the browser has to write a file

export class Saving {
  /** @param {Status} status */
  constructor(status) {
    this.status = status;
    const buttons = Object.entries(FORMATS).map(([format, title]) => {
      return make("button", { type: "button", class: "small", onclick: () => void this.save(format) }, title);
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
      ...buttons,
      this.note,
      this.copy,
    );
    /** @type {Figure[]} */
    this.figures = [];
    this.page = "";
  }

  /** @param {Look | null} look @param {Settled | null} settled @param {Figure[]} figures what is seen, side by side */
  show(look, settled, figures) {
    reveal(this.element, look !== null && settled !== null && look.id !== null);
    this.figures = figures;
    if (!look?.id || !settled) return;
    const { name } = settled.attention;
    const head = /^(\d+|mean|max)$/.test(settled.head) ? settled.head : undefined;
    const parts = { format: "html", name, head, words: settled.words ? 1 : 0, theme: currentTheme() };
    this.page = `/api/looks/${inPath(look.id)}/export?${query(parts)}`;
    this.note.textContent = `HTML: every head of ${name}`;
    this.update();
  }

  update() {
    this.copy.textContent = "Copy the link to this view";
  }

  /** @param {string} format */
  async save(format) {
    const said = this.note.textContent;
    this.note.textContent = "saving …";
    try {
      const { name, content } = await this.fileOf(format);
      const url = URL.createObjectURL(content);
      make("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), KEPT);
    } catch (error) {
      this.status.fail(error);
    } finally {
      this.note.textContent = said;
    }
  }

  /** @param {string} format @returns {Promise<{name: string, content: Blob}>} */
  async fileOf(format) {
    if (format === "html") return file(this.page); // not followed: a link carries no key
    const last = /** @type {Figure} */ (this.figures.at(-1));
    const figure = last.isDifference ? last : this.figures[0]; // numbers are of one map
    const name = `${(figure.title.textContent ?? "").replace(/[^\p{L}\p{N}.]+/gu, "-")}.${format}`;
    if (format === "npy" && figure.matrix) return { name, content: npyFile(figure.matrix) };
    const drawn = svgFile(this.figures);
    const made = format === "png" ? await pngFile(drawn) : null;
    return { name, content: made ?? new Blob([drawn], { type: "image/svg+xml" }) };
  }

  async copyAddress() {
    await navigator.clipboard?.writeText(location.href).then(
      () => (this.copy.textContent = "Copied"),
      () => (this.copy.textContent = location.href),
    );
  }
}
