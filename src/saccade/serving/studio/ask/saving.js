// Saves or shares the current view: as a picture, as numbers, as a page, or as an address.

import { file, inPath, query } from "../shared/api.js";
import { npyFile, pngFile, svgFile } from "./export.js";
import { make, reveal } from "../shared/dom.js";
import { layerName } from "../shared/names.js";
import { currentTheme } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./figure.js").Figure} Figure
 * @typedef {import("./state.js").Settled} Settled
 */

const FORMATS = { png: "PNG", svg: "SVG", html: "HTML", npy: "numbers" };
const FRAME = "Copy HTML to embed this view";
const KEPT = 60_000; // milliseconds that the browser has to write a file

export class Saving {
  /** @param {import("../shared/types.js").Studio} studio */
  constructor(studio) {
    this.studio = studio;
    const buttons = Object.entries(FORMATS).map(([format, title]) => {
      return make("button", { type: "button", class: "small", onclick: () => void this.save(format) }, title);
    });
    this.note = make("small", {});
    this.copy = make(
      "button",
      { type: "button", class: "small", onclick: () => void this.copyAddress() },
      "Copy the link to this view",
    );
    const frame = { type: "button", class: "small", onclick: () => void this.copyFrame() };
    this.frame = make("button", frame, FRAME);
    const save = { class: "saving row", role: "group", "aria-label": "Save" };
    const all = make("div", save, this.copy, this.frame, ...buttons, this.note);
    this.element = make("details", { class: "popup share" }, make("summary", {}, "Share"), all);
    /** @type {Figure[]} */
    this.figures = [];
    /** @type {(figure: Figure) => string} */
    this.page = () => "";
  }

  /**
   * @param {Look | null} look @param {Settled | null} settled @param {Figure[]} figures what is seen, side by side
   * @param {import("./sentence.js").Sentence} sentence
   */
  show(look, settled, figures, sentence) {
    this.sentence = sentence;
    reveal(this.element, look !== null && settled !== null && look.id !== null);
    this.figures = figures;
    if (!look?.id || !settled) return;
    const { name } = settled.attention;
    const head = /^(\d+|mean|max)$/.test(settled.head) ? settled.head : undefined;
    const parts = { format: "html", name, head, words: settled.words ? 1 : 0, theme: currentTheme() };
    const isAlignment = settled.head === "alignment"; // its rows are not those of a head
    this.page = (/** @type {Figure} */ { row, column }) =>
      `/api/looks/${inPath(look.id ?? "")}/export?${query({ ...parts, ...(isAlignment ? {} : { row, column }) })}`;
    this.note.textContent = `HTML: every head of ${layerName(name)}`;
    this.update();
  }

  update() {
    this.copy.textContent = "Copy the link to this view";
    this.frame.textContent = FRAME;
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
      this.studio.status.fail(error);
    } finally {
      this.note.textContent = said;
    }
  }

  /** @param {string} format @returns {Promise<{name: string, content: Blob}>} */
  async fileOf(format) {
    if (format === "html") return file(this.page(this.figures[0])); // a plain link would not send the API key
    const last = /** @type {Figure} */ (this.figures.at(-1));
    const figure = last.isDifference ? last : this.figures[0]; // a file of numbers holds one map
    const name = `${(figure.title.textContent ?? "").replace(/[^\p{L}\p{N}.]+/gu, "-")}.${format}`;
    if (format === "npy" && figure.matrix) return { name, content: npyFile(figure.matrix) };
    const drawn = svgFile(this.figures, this.caption());
    const made = format === "png" ? await pngFile(drawn) : null;
    return { name, content: made ?? new Blob([drawn], { type: "image/svg+xml" }) };
  }

  /** The caption of a saved picture: the sentence, the answer, the model, the scale and the date. */
  caption() {
    const { given = "", model = null, look = null, changed = null } = this.sentence ?? {};
    const asked = typeof given === "string" ? given : "an image";
    const answer = String((changed ?? look)?.answer.text ?? (changed ?? look)?.answer.label ?? "");
    const isDifference = this.figures.some((figure) => figure.isDifference);
    const scale = isDifference ? "weights from −1 to 1, 0 is the background" : "weight 0 is the background, 1 the ink";
    const day = new Date().toISOString().slice(0, 10);
    return [`${asked} → ${answer}`, `model ${model?.name ?? ""}; ${scale}; ${day}`];
  }

  async copyAddress() {
    await navigator.clipboard?.writeText(location.href).then(
      () => (this.copy.textContent = "Copied"),
      () => (this.copy.textContent = location.href),
    );
  }

  /** The read-only view as a frame; the server shows it to pages of the origins that --allow-embed names. */
  async copyFrame() {
    const address = new URL(location.href);
    address.searchParams.set("embed", "1");
    const frame = make("iframe", { src: address.href, width: 960, height: 620, title: "Saccade" }).outerHTML;
    await navigator.clipboard?.writeText(frame).then(
      () => (this.frame.textContent = "Copied: needs --allow-embed"),
      () => (this.frame.textContent = frame),
    );
  }
}
