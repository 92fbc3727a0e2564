// An image, overlaid with what one row looks at, patch by patch.

import { make, number, within } from "../shared/dom.js";
import { sized } from "../shared/matrix.js";
import { styleColour } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {import("../shared/types.js").ShownImage} ShownImage
 *
 * @typedef {object} DrawnImage
 * @property {ShownImage} image
 * @property {Matrix} matrix
 * @property {number} row
 * @property {number} column
 * @property {number} first  the column of the first patch
 * @property {boolean} isSelf  whether the rows are patches too
 */

const SIDE = 420; // pixels at most
export const MARKER = "255 128 0";

export class Overlay {
  /**
   * @param {(row: number | null, column: number) => void} chosen a patch is pointed at; with a row: it is clicked
   * @param {string} described the id of what reads the patch out
   */
  constructor(chosen, described) {
    this.chosen = chosen;
    this.canvas = make("canvas", {
      class: "overlay",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "picture",
      "aria-describedby": described,
      "aria-label":
        "The image; the patches that get the most attention are coloured. " +
        "Use the arrow keys to move, and Enter to see what a patch looks at.",
    });
    this.most = make("span", { class: "mono" });
    const ramp = make("span", { class: "ramp marker", role: "img", "aria-label": "Colours: weight 0 is not coloured" });
    const legend = make("div", { class: "legend row" }, make("span", { class: "mono" }, "0"), ramp, this.most);
    this.caption = make("p", { class: "quiet" });
    this.element = make("div", { class: "picture" }, this.canvas, legend, this.caption);
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event, false));
    this.canvas.addEventListener("click", (event) => this.onPointer(event, true));
    /** @type {DrawnImage | null} */
    this.drawn = null;
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /**
   * @param {ShownImage} image @param {Matrix} matrix @param {number} row @param {number} column
   */
  show(image, matrix, row, column) {
    const first = matrix.columns - image.grid[0] * image.grid[1]; // the class token comes before the patches
    this.drawn = { image, matrix, row, column, first, isSelf: matrix.rows === matrix.columns };
    this.redraw();
  }

  redraw() {
    if (!this.drawn || !this.element.clientWidth) return;
    const { image, matrix, row, column, first } = this.drawn;
    const scale = Math.min(SIDE, this.element.clientWidth) / Math.max(image.width, image.height);
    const [width, height] = [image.width * scale, image.height * scale];
    const context = sized(this.canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(imagePicture(image), 0, 0, width, height);
    const [down, across] = image.grid;
    const weights = Array.from(
      { length: down * across },
      (_, patch) => matrix.values[row * matrix.columns + first + patch],
    );
    const most = Math.max(...weights, 1e-9);
    const [cellX, cellY] = [width / across, height / down];
    weights.forEach((weight, patch) => {
      const [x, y] = [(patch % across) * cellX, Math.floor(patch / across) * cellY];
      context.fillStyle = `rgb(${MARKER} / ${0.75 * (weight / most)})`; // a colour is visible on black and on white
      context.fillRect(x, y, cellX + 0.5, cellY + 0.5);
    });
    context.strokeStyle = styleColour("accent");
    context.lineWidth = 2;
    const outline = (/** @type {number} */ patch) => {
      context.strokeRect((patch % across) * cellX + 1, Math.floor(patch / across) * cellY + 1, cellX - 2, cellY - 2);
    };
    if (this.drawn.isSelf && row >= first) outline(row - first);
    if (column >= first) {
      context.setLineDash([4, 3]);
      outline(column - first);
      context.setLineDash([]);
    }
    this.most.textContent = number(most, 3);
    this.caption.textContent = this.drawn.isSelf ? "Click a patch to see what it looks at." : "";
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (!this.drawn || event.ctrlKey || event.metaKey || event.altKey) return;
    const { image, first, column, isSelf } = this.drawn;
    const [down, across] = image.grid;
    const patch = Math.max(0, column - first);
    const [y, x] = [Math.floor(patch / across), patch % across];
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [y - 1, x], ArrowDown: [y + 1, x], ArrowLeft: [y, x - 1], ArrowRight: [y, x + 1] };
    const to = event.key === "Enter" ? [y, x] : moves[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const next = first + within(to[0], 0, down - 1) * across + within(to[1], 0, across - 1);
    this.chosen(event.key === "Enter" && isSelf ? next : null, next);
  }

  /** @param {PointerEvent | MouseEvent} event @param {boolean} isClick */
  onPointer(event, isClick) {
    if (!this.drawn) return;
    const frame = this.canvas.getBoundingClientRect();
    const { image, first, isSelf } = this.drawn;
    const [down, across] = image.grid;
    const column = Math.min(across - 1, Math.floor(((event.clientX - frame.left) / frame.width) * across));
    const row = Math.min(down - 1, Math.floor(((event.clientY - frame.top) / frame.height) * down));
    const patch = first + Math.max(0, row) * across + Math.max(0, column);
    this.chosen(isClick && isSelf ? patch : null, patch);
  }
}

/** An image as it is, a pixel a pixel. @param {Pick<ShownImage, "height" | "width" | "pixels">} image */
export function imagePicture(image) {
  const data = new ImageData(image.width, image.height);
  const flat = image.pixels.flat();
  const isByte = flat.some((/** @type {any} */ one) => (Array.isArray(one) ? Math.max(...one) : one) > 1);
  flat.forEach((/** @type {any} */ one, /** @type {number} */ place) => {
    const colours = Array.isArray(one) ? one : [one, one, one];
    for (let part = 0; part < 3; part += 1) data.data[4 * place + part] = colours[part] * (isByte ? 1 : 255);
    data.data[4 * place + 3] = 255;
  });
  const canvas = make("canvas", { width: image.width, height: image.height });
  canvas.getContext("2d")?.putImageData(data, 0, 0);
  return canvas;
}
