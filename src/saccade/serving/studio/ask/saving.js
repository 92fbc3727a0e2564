// Saves or shares the current view: as a picture, as numbers, as a page, or as an address.

import { file, inPath, query } from "../shared/api.js";
import { captionOf } from "./caption.js";
import { npyFile, pngFile, svgFile } from "./export.js";
import { make, reveal } from "../shared/dom.js";
import { headName, layerName } from "../shared/names.js";
import { currentTheme } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./figure.js").Figure} Figure
 * @typedef {import("./state.js").Settled} Settled
 */

const FORMATS = { png: "PNG", svg: "SVG", html: "HTML", npy: "numbers" };
const LINK = "Copy the link to this view";
const FRAME = "Copy HTML to embed this view";
const TOLD = 2000; // milliseconds that a button says what it did
const MOST_NOTE = 1000; // letters of what a page says of itself
const MOST_BYTES = 6000; // of them in an address, of the 8,192 that the server reads
const KEPT = 60_000; // milliseconds that the browser has to write a file

export class Saving {
  /** @param {import("../shared/types.js").Studio} studio @param {import("./changes.js").Changes} changes */
  constructor(studio, changes) {
    this.studio = studio;
    this.changes = changes;
    const buttons = Object.entries(FORMATS).map(([format, title]) => {
      return make("button", { type: "button", class: "small", onclick: () => void this.save(format) }, title);
    });
    this.note = make("small", {});
    const copy = { type: "button", class: "small", onclick: () => void this.copyAddress() };
    this.copy = make("button", copy, LINK);
    const frame = { type: "button", class: "small", onclick: () => void this.copyFrame() };
    this.frame = make("button", frame, FRAME);
    const save = { class: "saving row", role: "group", "aria-label": "Save" };
    const all = make("div", save, this.copy, this.frame, ...buttons, this.note);
    this.element = make("details", { class: "popup share" }, make("summary", {}, "Share"), all);
    /** @type {number | undefined} */
    this.told = undefined; // the timer of what a button says
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
    this.page = (/** @type {Figure} */ { row, column }) => {
      const more = this.caption().slice(1); // the page has the answer itself
      const isOne = /^\d+$/.test(settled.head);
      if (isOne) more.push(`${headName(name, settled.head)} is head ${head} of this page, which counts from 0`);
      const note = fitted(more.join(" · "));
      const cell = isAlignment ? {} : { row, column };
      return `/api/looks/${inPath(look.id ?? "")}/export?${query({ ...parts, ...cell, note })}`;
    };
    this.note.textContent = `HTML: every head of ${layerName(name)}`;
    this.update();
  }

  update() {
    this.copy.textContent = LINK;
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

  /** What a saved picture says below itself. */
  caption() {
    const isDifference = this.figures.some((figure) => figure.isDifference);
    return this.sentence ? captionOf(this.sentence, this.changes.names, isDifference) : [];
  }

  async copyAddress() {
    await this.copied(this.copy, location.href, "Copied");
  }

  /** The read-only view as a frame; the server shows it to pages of the origins that --allow-embed names. */
  async copyFrame() {
    const address = new URL(location.href);
    address.searchParams.set("embed", "1");
    const frame = make("iframe", { src: address.href, width: 960, height: 620, title: "Saccade" }).outerHTML;
    await this.copied(this.frame, frame, "Copied: needs --allow-embed");
  }

  /** Copies a text; the button tells it for a moment, and keeps its size. @param {HTMLElement} button
   * @param {string} text @param {string} said */
  async copied(button, text, said) {
    button.style.width = `${Math.ceil(button.getBoundingClientRect().width)}px`;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = said;
      clearTimeout(this.told);
      this.told = window.setTimeout(() => this.update(), TOLD);
    } catch {
      this.note.textContent = text; // to be copied by hand
    }
  }
}

/** As much of a text as an address holds: a letter may be nine bytes or more of it. @param {string} text */
function fitted(text) {
  const letters = [...text].slice(0, MOST_NOTE);
  while (query({ note: letters.join("") }).length > MOST_BYTES) letters.length = Math.floor(letters.length * 0.9);
  return letters.join("");
}
