// Moments that follow each other: a slider, a step back and forth, and a button that plays them.

import { make, within } from "./dom.js";

const PAUSE = 350; // milliseconds between two moments

export class Player {
  /** @param {(moment: number) => void} moved @param {(moment: number) => string} name */
  constructor(moved, name) {
    this.moved = moved;
    this.name = name;
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ onclick) =>
      make("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    this.back = button("◀", "one moment back", () => this.step(-1));
    this.play = button("play", "play", () => this.toggle());
    this.on = button("▶", "one moment on", () => this.step(1));
    this.slider = make("input", { type: "range", "aria-label": "Moment", oninput: () => this.choose() });
    this.said = make("span", { class: "mono player-said" });
    this.element = make("div", { class: "row player" }, this.back, this.play, this.on, this.slider, this.said);
    this.timer = 0;
  }

  /** @param {number} first @param {number} last @param {number} moment */
  show(first, last, moment) {
    Object.assign(this.slider, { min: String(first), max: String(last) });
    this.slider.value = String(moment);
    this.back.disabled = moment <= first;
    this.on.disabled = moment >= last;
    this.said.textContent = this.name(moment);
  }

  get moment() {
    return Number(this.slider.value);
  }

  choose() {
    this.stop();
    this.moved(this.moment);
  }

  /** @param {number} by */
  step(by) {
    this.stop();
    this.moved(within(this.moment + by, Number(this.slider.min), Number(this.slider.max)));
  }

  /** Plays to the last moment, from the first one if that is where it stands already. */
  toggle() {
    if (this.timer) return this.stop();
    const [first, last] = [Number(this.slider.min), Number(this.slider.max)];
    const next = () => {
      if (this.moment >= last || !this.element.isConnected) return this.stop();
      return this.moved(this.moment + 1);
    };
    if (this.moment >= last) this.moved(first);
    this.timer = window.setInterval(next, PAUSE);
    return this.tell("stop");
  }

  stop() {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.tell("play");
  }

  /** @param {string} does */
  tell(does) {
    this.play.textContent = does;
    this.play.title = does;
    this.play.setAttribute("aria-label", does);
  }
}
