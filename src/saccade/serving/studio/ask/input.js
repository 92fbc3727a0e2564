// The input: a text, a JSON value, or an image that is uploaded, drawn or taken from the model's data.

import { afterwards, make, within } from "../shared/dom.js";
import { imagePicture } from "./overlay.js";

/** @typedef {import("../shared/types.js").Model} Model */

const HOW = "draw with the pointer, or with arrows and space";
const PAUSE = 150; // milliseconds after the last key until the model is asked
const TALLEST = 260; // pixels of a text; what is longer scrolls
const BRUSH = 1.6; // pixels of the model's image

export class TextInput {
  /**
   * @param {string} label @param {(text: string, isFinal: boolean) => void} changed
   * @param {string} [placeholder] @param {number} [tallest] in pixels
   */
  constructor(label, changed, placeholder = "Type a sentence", tallest = TALLEST) {
    this.tallest = tallest;
    const later = afterwards((/** @type {string} */ text) => changed(text, false), PAUSE);
    this.area = make("textarea", {
      rows: 1,
      class: "text",
      "aria-label": label,
      placeholder,
      spellcheck: "false",
      dir: "auto",
    });
    this.area.addEventListener("input", () => {
      this.grow();
      later(this.area.value);
    });
    this.area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      changed(this.area.value, true);
    });
    this.element = this.area;
    new ResizeObserver(() => this.grow()).observe(this.area);
  }

  /** @param {string} text */
  show(text) {
    if (document.activeElement !== this.area || this.area.value.trim() !== text.trim()) this.area.value = text;
    this.grow();
  }

  grow() {
    this.area.style.height = "0";
    this.area.style.height = `${Math.min(this.tallest, this.area.scrollHeight + 2)}px`;
  }
}

export class ImageInput {
  /**
   * @param {Model} model @param {(image: {sample: number} | {png: string}) => void} changed
   * @param {(sentence: string) => void} told what is wrong with a file
   */
  constructor(model, changed, told) {
    this.changed = changed;
    this.told = told;
    this.size = model.input.kind === "image" ? model.input : { height: 28, width: 28 };
    this.pad = make("canvas", {
      class: "pad",
      width: this.size.width,
      height: this.size.height,
      tabindex: "0",
      role: "application",
      "aria-roledescription": "drawing pad",
      "aria-label": "Draw here; use the arrow keys to move, and the space bar to paint",
    });
    this.cursor = { x: Math.floor(this.size.width / 2), y: Math.floor(this.size.height / 2) };
    this.mark = make("div", { class: "pad-cursor", "aria-hidden": "true" });
    const samples = model.examples.filter((one) => typeof one === "object" && one !== null && "sample" in one);
    const options = samples.map((one) => make("option", { value: one.sample }, `sample ${one.sample}`));
    this.samples = make(
      "select",
      { "aria-label": "A sample image", onchange: () => changed({ sample: Number(this.samples.value) }) },
      ...options,
    );
    this.samples.hidden = !samples.length;
    this.element = make(
      "div",
      { class: "image-input" },
      make("div", {}, make("div", { class: "pad-frame" }, this.pad, this.mark), make("p", { class: "quiet" }, HOW)),
      make("div", { class: "row" }, this.samples, ...this.buttons()),
    );
    /** @type {[number, number] | null} */
    this.last = null;
    this.send = afterwards(() => changed({ png: this.png() }), PAUSE);
    this.listen();
    this.showCursor();
    this.wipe(false);
  }

  buttons() {
    const file = make("input", {
      type: "file",
      accept: "image/png,image/jpeg",
      class: "unseen",
      "aria-label": "Upload an image",
      onchange: () => void this.upload(file),
    });
    const upload = make("button", { type: "button", onclick: () => file.click() }, "Upload …");
    return [upload, file, make("button", { type: "button", onclick: () => this.wipe() }, "Clear")];
  }

  listen() {
    this.pad.addEventListener("pointerdown", (event) => this.begin(event));
    this.pad.addEventListener("pointermove", (event) => this.stroke(event));
    this.pad.addEventListener("pointerup", () => (this.last = null));
    this.pad.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** @returns {CanvasRenderingContext2D} */
  get context() {
    return /** @type {CanvasRenderingContext2D} */ (this.pad.getContext("2d", { willReadFrequently: true }));
  }

  png() {
    return this.pad.toDataURL("image/png").split(",")[1];
  }

  /** @param {boolean} [isTold] */
  wipe(isTold = true) {
    this.context.fillStyle = "black";
    this.context.fillRect(0, 0, this.pad.width, this.pad.height);
    if (isTold) this.send();
  }

  /** @param {PointerEvent} event @returns {[number, number]} */
  place(event) {
    const frame = this.pad.getBoundingClientRect();
    const share = (/** @type {number} */ at, /** @type {number} */ start, /** @type {number} */ size) =>
      within((at - start) / size, 0, 1);
    return [
      this.pad.width * share(event.clientX, frame.left, frame.width),
      this.pad.height * share(event.clientY, frame.top, frame.height),
    ];
  }

  /** @param {PointerEvent} event */
  begin(event) {
    this.pad.setPointerCapture(event.pointerId);
    this.last = this.place(event);
    this.stroke(event);
  }

  /** @param {PointerEvent} event */
  stroke(event) {
    if (!this.last) return;
    const next = this.place(event);
    this.paint(this.last, next);
    this.last = next;
  }

  /** @param {[number, number]} from @param {[number, number]} to */
  paint(from, to) {
    const { context } = this;
    context.strokeStyle = "white";
    context.lineWidth = 2 * BRUSH;
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(to[0] + 0.01, to[1]);
    context.stroke();
    this.send();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, y } = this.cursor;
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0], " ": [0, 0] };
    const by = moves[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    this.cursor = { x: within(x + by[0], 0, this.size.width - 1), y: within(y + by[1], 0, this.size.height - 1) };
    this.showCursor();
    if (event.key === " ") this.paint([x + 0.5, y + 0.5], [x + 0.5, y + 0.5]);
  }

  showCursor() {
    const { width, height } = this.size;
    this.mark.style.left = `${(100 * this.cursor.x) / width}%`;
    this.mark.style.top = `${(100 * this.cursor.y) / height}%`;
    this.mark.style.width = `${100 / width}%`;
    this.mark.style.height = `${100 / height}%`;
  }

  /** @param {HTMLInputElement} file */
  async upload(file) {
    const chosen = file.files?.[0];
    if (!chosen) return;
    file.value = ""; // so that the same file can be chosen again
    const image = await createImageBitmap(chosen).catch(() => null);
    if (!image) return this.told(`The file ${chosen.name} is not an image that can be read; choose a PNG or a JPEG.`);
    const { width, height } = this.pad;
    const scale = Math.min(width / image.width, height / image.height);
    this.wipe(false);
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(
      image,
      (width - image.width * scale) / 2,
      (height - image.height * scale) / 2,
      image.width * scale,
      image.height * scale,
    );
    return this.changed({ png: this.png() });
  }

  /** The image that was looked at, to be drawn on. @param {import("../shared/types.js").ShownImage} image */
  showPixels(image) {
    this.context.drawImage(imagePicture(image), 0, 0, this.pad.width, this.pad.height);
  }

  /** @param {{sample?: number, png?: string}} image */
  show(image) {
    if (image.sample !== undefined) this.samples.value = String(image.sample);
    else if (image.png) void this.load(image.png);
  }

  /** @param {string} png */
  async load(png) {
    if (png === this.png()) return;
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" })).catch(() => null);
    if (image) this.context.drawImage(image, 0, 0, this.pad.width, this.pad.height);
  }
}
