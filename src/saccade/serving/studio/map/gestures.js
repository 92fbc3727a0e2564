// Moving over a map: with the mouse, the wheel, one or two fingers, and the keys.

import { WITH_TOKENS } from "./drawing.js";

/** @typedef {import("./view.js").MapView} MapView */

export class Gestures {
  /** @param {MapView} view */
  constructor(view) {
    this.view = view;
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.isClick = false; // so far: the pointer was not moved
    const { canvas, element } = view;
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => (view.pointer = null));
    canvas.addEventListener("dblclick", (event) => view.zoomAt(2, event));
    element.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    element.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    event.preventDefault();
    this.view.pointer = event;
    this.view.zoomAt(2 ** (-event.deltaY / (event.deltaMode ? 6 : 240)), event);
  }

  /** @param {PointerEvent} event */
  onDown(event) {
    this.view.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.isClick = this.pointers.size === 1;
    this.view.pointer = event;
  }

  /** A click without a movement chooses a row. @param {PointerEvent} event */
  onUp(event) {
    const { view } = this;
    this.pointers.delete(event.pointerId);
    view.point(view.part);
    if (this.isClick && view.pointed) view.chosen(view.pointed.row);
  }

  /** @param {PointerEvent} event */
  onMove(event) {
    const { view } = this;
    const before = this.pointers.get(event.pointerId);
    view.pointer = event;
    if (!before) return view.redraw();
    const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
    const now = { x: event.clientX, y: event.clientY };
    this.pointers.set(event.pointerId, now);
    if (now.x !== before.x || now.y !== before.y) this.isClick = false;
    const { x, y, scale } = view.place;
    if (!other) return view.go({ x: x - (now.x - before.x) / scale, y: y - (now.y - before.y) / scale, scale });
    const far = (/** @type {{x: number, y: number}} */ one) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
    return view.zoomAt(far(now) / far(before), { clientX: (now.x + other.x) / 2, clientY: (now.y + other.y) / 2 });
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { view } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || !view.tiles) return;
    const { x, y, scale } = view.place;
    const step = scale >= WITH_TOKENS ? 1 : Math.max(1, view.room.width / scale / 8);
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowLeft: () => view.go({ x: x - step, y, scale }),
      ArrowRight: () => view.go({ x: x + step, y, scale }),
      ArrowUp: () => view.go({ x, y: y - step, scale }),
      ArrowDown: () => view.go({ x, y: y + step, scale }),
      "+": () => view.zoomAt(2),
      "=": () => view.zoomAt(2),
      "-": () => view.zoomAt(0.5),
      0: () => view.go(view.whole()),
      Enter: () => view.chosen(Math.min(view.rows.length - 1, Math.floor(y))),
    };
    const run = moves[event.key];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
    const last = (/** @type {string[]} */ labels, /** @type {number} */ at) =>
      Math.min(labels.length - 1, Math.floor(at));
    view.pointer = null;
    view.pointed = { row: last(view.rows, view.place.y), column: last(view.columns, view.place.x) };
    view.redraw();
  }
}
