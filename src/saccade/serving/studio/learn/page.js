// The Learn page: one idea per screen, with live numbers from the served model or from the library.

import { experiment } from "./experiment.js";
import { SCENES } from "./scenes.js";
import { addressOf } from "../shared/address.js";
import { make, reveal } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 *
 * @typedef {object} Stage  what a scene is given
 * @property {Studio} studio
 * @property {HTMLElement} picture  where it draws
 * @property {AbortSignal} signal
 * @property {(sentence: string) => void} say  the caption, if it is not the scene's own
 * @property {(page: string, parts: Parts) => void} offer  where "try it yourself" leads
 * @property {() => Parts} parts  what the address says
 * @property {(parts: Record<string, string | null>) => void} go  changes the address, and the scene follows
 * @property {(share: number, what?: string) => void} progress  of what takes a while
 * @property {() => void} again  opens the scene once more: what it needs has come
 *
 * @typedef {{redraw?: () => void, follow?: () => Promise<void>}} Opened  in other colours; to another address
 *
 * @typedef {object} Scene
 * @property {string} name  in the address
 * @property {string} title
 * @property {string} caption  at most two sentences
 * @property {string[]} [experiments]  of the lab, that measure what the scene says
 * @property {(stage: Stage) => Promise<Opened | void>} open
 */

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new LearnPage(studio);
  place.append(page.element);
  return page;
}

class LearnPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.title = make("h1", {});
    this.caption = make("p", { class: "caption", "aria-live": "polite" });
    const region = { tabindex: "0", role: "region", "aria-label": "The scene" }; // it scrolls in a narrow window
    this.picture = make("div", { class: "scene-picture", ...region });
    this.back = make("button", { type: "button", onclick: () => this.turn(-1) }, "◀ previous");
    this.on = make("button", { type: "button", onclick: () => this.turn(1) }, "next ▶");
    this.try = make("a", { class: "button", hidden: true }, "Try it yourself");
    this.list = make("ol", { class: "scene-list", "aria-label": "Scenes" });
    const ways = make("div", { class: "row scene-ways" }, this.back, this.on, this.try, this.list);
    this.claims = make("div", {});
    const measured = make("summary", {}, "What we measured about this");
    this.measured = make("details", { class: "measured" }, measured, this.claims);
    this.element = make("div", { class: "learn" }, this.title, this.caption, this.picture, ways, this.measured);
    this.shown = "";
    /** @type {AbortController | null} */
    this.controller = null;
    /** @type {import("./page.js").Opened} */
    this.opened = {};
    this.keys = {
      ArrowRight: { does: "next scene", run: () => this.turn(1) },
      ArrowLeft: { does: "previous scene", run: () => this.turn(-1) },
      "1 … 9": { does: "the scene with this number" },
      ...Object.fromEntries(SCENES.slice(0, 9).map(({ name }, place) => [place + 1, this.keyTo(name)])),
    };
  }

  /** @param {string} name of a scene */
  keyTo(name) {
    return { does: "", run: () => this.studio.open("learn", { s: name }) };
  }

  /** @param {Parts} parts */
  async show(parts) {
    const named = SCENES.find((one) => one.name === parts.s);
    const scene = named ?? SCENES[0];
    if (!named && parts.s !== undefined) {
      await this.studio.readModels();
      this.studio.go({ s: null });
    }
    if (scene.name !== this.shown) await this.open(scene);
    else await this.opened.follow?.();
  }

  /** @param {Scene} scene */
  async open(scene) {
    this.shown = scene.name;
    this.controller?.abort();
    const mine = new AbortController();
    const { signal } = mine;
    this.controller = mine;
    this.title.textContent = scene.title;
    this.caption.textContent = scene.caption;
    this.picture.replaceChildren();
    this.measured.open = false;
    this.claims.replaceChildren(...(scene.experiments ?? []).map(experiment));
    reveal(this.measured, this.claims.childElementCount > 0);
    this.picture.dataset.scene = scene.name;
    delete this.picture.dataset.ready;
    this.opened = {};
    this.showWays(scene);
    await this.studio.status.during("Preparing", async (stopped, progress) => {
      stopped.addEventListener("abort", () => mine.abort());
      const opened = await scene.open(this.stage(scene, signal, progress));
      if (signal.aborted) return;
      this.opened = opened ?? {};
      this.picture.dataset.ready = "yes";
    });
  }

  /**
   * @param {Scene} scene @param {AbortSignal} signal @param {(share: number, what?: string) => void} progress
   * @returns {Stage}
   */
  stage(scene, signal, progress) {
    const { studio, picture } = this;
    return {
      studio,
      picture,
      signal,
      progress,
      say: (sentence) => (this.caption.textContent = sentence),
      offer: (page, its) => this.offer(page, its),
      parts: () => studio.parts(),
      go: (parts) => {
        studio.go({ s: scene.name, ...parts });
        this.opened.follow?.().catch((error) => studio.status.fail(error));
      },
      again: () => {
        if (!signal.aborted) void this.open(scene);
      },
    };
  }

  redraw() {
    this.opened.redraw?.();
  }

  /** @param {Scene} scene */
  showWays(scene) {
    const place = SCENES.indexOf(scene);
    this.back.disabled = place === 0;
    this.on.disabled = place === SCENES.length - 1;
    reveal(this.try, false);
    this.list.replaceChildren(
      ...SCENES.map((one, number) => {
        const href = addressOf("learn", { s: one.name });
        const current = one === scene ? "step" : null;
        const label = `${number + 1}: ${one.title}`;
        const attributes = { href, "data-page": "learn", "data-title": one.title, "aria-current": current };
        return make("li", {}, make("a", { ...attributes, "aria-label": label }, `${number + 1}`));
      }),
    );
  }

  /** @param {string} page @param {Parts} parts */
  offer(page, parts) {
    this.try.href = addressOf(page, parts);
    this.try.dataset.page = page;
    reveal(this.try, true);
  }

  /** @param {number} by */
  turn(by) {
    const next = SCENES[SCENES.findIndex((one) => one.name === this.shown) + by];
    if (next) this.studio.open("learn", { s: next.name });
  }

  leave() {
    this.controller?.abort();
  }
}
