// Map: the whole matrix of a long text, from all of it down to one number.

import { wholeNumber } from "../shared/address.js";
import { Refused } from "../shared/api.js";
import { afterwards, make, reveal } from "../shared/dom.js";
import { Legend } from "../shared/legend.js";
import { MapChoices } from "./choices.js";
import { INKS, settledInk, usualInk } from "./ink.js";
import { keepText, keptText, madeCounts, madeText, packed } from "./text.js";
import { askInstead, countOf, isReader, longestAxis, mappedAttention } from "./reading.js";
import { readAll, readersBut, shownOf } from "./reading.js";
import { MapView } from "./view.js";
import { Tiles } from "./tiles.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./view.js").Place} Place
 * @typedef {{look: Look, tokens: number}} Reading  tokens: of the whole text
 */

const PAUSE = 200; // milliseconds: after the address has been written
const LOST = "The text of this link was pasted in another browser; paste it again.";
const ONE_ROW = "This model has no square of weights to map: it looks at the text once, with a single row.";
const FINAL = [200, 400, 413]; // refused, and would be again
const NO_PLACE = { x: null, y: null, z: null };

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new MapPage(studio);
  place.append(page.element);
  return page;
}

class MapPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.readout = make("p", { id: "map-readout", class: "readout", role: "status", "aria-live": "polite" });
    this.view = new MapView(
      (place) => this.moved(place),
      (text) => this.tell(text),
    );
    this.choices = new MapChoices({
      text: (value) => this.chooseText(value),
      read: (text) => this.readText(text),
      parts: (parts, how) => this.change(parts, how),
      zoom: (factor) => (factor ? this.view.zoomAt(factor) : this.view.go(this.view.whole())),
    });
    this.legend = new Legend();
    this.summary = make("p", { class: "quiet" });
    this.note = make("div", { class: "row map-note", role: "status", hidden: true });
    const legend = make("div", { class: "row" }, this.legend.element, this.summary);
    this.frame = make("div", { class: "map-frame" }, this.readout, this.view.element, legend);
    const above = [make("h1", { class: "unseen" }, "Map"), this.choices.element, this.choices.paste, this.note];
    this.element = make("div", { class: "map-page" }, ...above, this.frame);
    /** @type {Reading | null} */
    this.reading = null;
    /** @type {Tiles | null} */
    this.tiles = null;
    this.read = ""; // model and text of what is shown,
    this.wanted = ""; // and of what is being read
    this.own = ""; // the text in the field
    this.turn = 0;
    this.hasFailed = false; // a sentence about a tile is told
    this.inked = { key: "", ink: 1 };
    this.hash = { key: "", text: "" };
    /** @type {Map<string, number>} tokens a word of a model's examples */
    this.perWord = new Map();
    this.guess = afterwards(() => this.chooseInk(), 150);
    this.keepHash = afterwards(() => this.writeHash(), PAUSE);
  }

  get keys() {
    return {
      "← ↑ → ↓": { does: "move over the map", run: () => undefined },
      "+ −": { does: "zoom in, zoom out", run: () => undefined },
      0: { does: "all of it", run: () => this.view.go(this.view.whole()) },
    };
  }

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.show(this.studio.parts());
  }

  // --- the text ---

  /** @param {Parts} parts */
  async show(parts) {
    const model = this.studio.model();
    reveal(this.choices.element, Boolean(model && isReader(model)));
    if (!model || !isReader(model)) return this.offerReaders(model);
    this.turn += 1;
    const { turn } = this;
    const text = await this.textOf(parts, model);
    if (turn !== this.turn) return undefined; // another one was asked for meanwhile
    this.showTexts(parts, model, text);
    if (!text?.trim()) {
      this.stop(text === null ? "" : "Paste a long text to see its map.");
      return this.studio.status.say(text === null ? LOST : null);
    }
    const key = JSON.stringify([model.name, text]);
    if (key === this.wanted) return undefined; // it is being read
    if (key !== this.read && !(await this.readLook(model, text, key))) return undefined;
    this.keepHash();
    this.showTexts(this.studio.parts(), model, text); // how many words are taken is known now
    return this.draw(this.studio.parts(), model);
  }

  /** @param {Parts} parts @param {Model} model @returns {Promise<string | null>} */
  async textOf(parts, model) {
    if (parts.t !== undefined) return parts.t;
    if (parts.k === undefined) return madeText(model.examples, countOf(parts));
    const text = await keptText(parts.k, location.hash);
    if (text !== null && this.hash.key !== parts.k) this.hash = { key: parts.k, text: await packed(text) };
    return text;
  }

  /** @param {Parts} parts @param {Model} model @param {string | null} text */
  showTexts(parts, model, text) {
    const counts = madeCounts(model.examples, this.perWord.get(model.name));
    const isOwn = parts.t !== undefined || parts.k !== undefined || !counts.length;
    this.choices.showTexts(counts, isOwn ? null : countOf(parts));
    if (!isOwn || text === null || text === this.own) return;
    this.own = text;
    this.choices.area.value = text;
  }

  /**
   * Whether the text was read: not where it was stopped, refused, or another one is wanted meanwhile.
   * @param {Model} model @param {string} text @param {string} key
   */
  async readLook(model, text, key) {
    this.wanted = key;
    this.clear("Reading the text; its map appears after the last word.");
    let status = 0;
    const found = await this.studio.status.during("Reading the text", (signal, progress) =>
      readAll(model.name, text, signal, progress).catch((error) => {
        if (error instanceof Refused) ({ status } = error);
        throw error;
      }),
    );
    if (this.wanted !== key) return false;
    this.wanted = "";
    if (!found) {
      const again = make("button", { type: "button", onclick: () => void this.show(this.studio.parts()) }, "Read it");
      const others = [askInstead(this.studio, model), ...readersBut(this.studio, model)];
      const ways = FINAL.includes(status) ? others : [again];
      this.clear("This text was not read, so there is no map of it.", ...ways);
      return false;
    }
    [this.reading, this.read] = [found, key];
    this.learn(model, text);
    return true;
  }

  /** How many tokens the words of a model's examples have, so that no more are offered than are taken. */
  learn(/** @type {Model} */ model, /** @type {string} */ text) {
    const words = text.split(" ").length;
    const isMade = text === madeText(model.examples, words);
    const tokens = this.reading?.tokens || longestAxis(this.reading?.look);
    if (isMade && tokens >= words) this.perWord.set(model.name, tokens / words);
  }

  /** Reads nothing, and shows no map. @param {string} why @param {...HTMLElement} ways out */
  stop(why, ...ways) {
    this.studio.status.stop();
    this.wanted = "";
    this.clear(why, ...ways);
  }

  /** Shows no map, but says why. @param {string} why @param {...HTMLElement} ways out */
  clear(why, ...ways) {
    this.tiles?.end();
    [this.tiles, this.reading, this.read] = [null, null, ""];
    this.view.clear();
    this.tell("");
    this.summary.textContent = "";
    this.choices.showMap(false);
    reveal(this.frame, false);
    this.say(why, ...ways);
  }

  /** @param {string} sentence @param {...HTMLElement} ways */
  say(sentence, ...ways) {
    this.note.replaceChildren(make("span", {}, sentence), ...ways);
    reveal(this.note, sentence !== "");
  }

  /** @param {Model | null} model one that cannot be shown here */
  offerReaders(model) {
    this.studio.status.say(null);
    const able = readersBut(this.studio, model);
    const does = model?.input.kind === "image" ? "looks at images" : "does not read long texts";
    const why = model ? `${model.name} ${does}` : "";
    const others = able.length ? "These models can read long texts:" : "No model here can read long texts.";
    this.stop([why, others].filter(Boolean).join(". "), ...able);
  }

  // --- the map ---

  /** @param {Parts} parts @param {Model} model */
  draw(parts, model) {
    const look = this.reading?.look;
    const attention = look && mappedAttention(look, parts.a);
    if (!look?.id || !attention) return this.clear(look?.why ?? ONE_ROW, askInstead(this.studio, model));
    const [rows, columns] = [look.axes[attention.rows].tokens, look.axes[attention.columns].tokens];
    const head = ["mean", "max"].includes(parts.h)
      ? parts.h
      : String(Math.min(wholeNumber(parts.h, Number(look.head ?? 0)), attention.heads - 1));
    const pool = head === "mean" || (head !== "max" && parts.pool === "mean") ? "mean" : "max";
    const tiles = this.tilesOf(look.id, rows.length, columns.length);
    tiles.use({ name: attention.name, head, pool });
    const offered = look.attentions.filter((one) => look.axes[one.rows].tokens.length > 1);
    this.choices.showLayers(offered, attention, head, pool);
    this.summary.textContent = `${rows.length.toLocaleString("en")} × ${columns.length.toLocaleString("en")} weights`;
    this.say(shownOf(model, columns.length, this.reading?.tokens ?? 0));
    this.choices.showMap(true);
    reveal(this.frame, true);
    const z = Number(parts.z);
    const place = parts.x && parts.y && z > 0 ? { x: Number(parts.x) || 0, y: Number(parts.y) || 0, scale: z } : null;
    this.view.show(tiles, rows, columns, place);
    this.chooseInk();
    return undefined;
  }

  /** @param {string} id @param {number} rows @param {number} columns */
  tilesOf(id, rows, columns) {
    const { tiles } = this;
    if (tiles?.look === id && tiles.rows === rows && tiles.columns === columns) return tiles;
    tiles?.end();
    this.tiles = new Tiles(
      id,
      rows,
      columns,
      () => this.arrived(),
      (error) => this.failed(error),
    );
    return this.tiles;
  }

  /** @param {string} value */
  chooseText(value) {
    if (value !== "own") return this.change({ ...NO_PLACE, words: value, t: null, k: null }, "push");
    reveal(this.choices.paste, true);
    return this.choices.area.focus();
  }

  /** @param {string} text */
  readText(text) {
    if (text.trim()) this.change({ ...NO_PLACE, words: null, ...keepText(text) }, "push");
  }

  /** @param {string} text what a screen reader says only if it is new */
  tell(text) {
    if (this.readout.textContent !== text) this.readout.textContent = text;
  }

  /** @param {Place} place */
  moved({ x, y, scale }) {
    this.studio.go({ x: x.toFixed(1), y: y.toFixed(1), z: scale.toPrecision(4) });
    this.keepHash();
    this.guess();
  }

  /** The packed text stays behind the address whatever else of it is written. */
  writeHash() {
    const { key, text } = this.hash;
    const isThis = this.element.isConnected && this.studio.parts().k === key && location.search.includes(key);
    if (isThis && text && location.hash !== text)
      history.replaceState(history.state, "", location.pathname + location.search + text);
  }

  arrived() {
    if (this.hasFailed) this.studio.status.say(null);
    this.hasFailed = false;
    this.view.redraw();
    if (this.inked.key === this.inkKey()) this.guess();
    else this.chooseInk();
  }

  /** @param {unknown} error */
  failed(error) {
    const isGone = error instanceof Refused && error.status === 404;
    this.hasFailed = true;
    if (!isGone) return this.studio.status.fail(error);
    this.tiles?.end();
    this.read = ""; // the server keeps looks for a while only: the text is read again
    return void this.show(this.studio.parts());
  }

  // --- the ink ---

  inkKey() {
    return JSON.stringify([this.tiles?.look, this.tiles?.source]);
  }

  /** The ink as it was chosen, or after the weights that are seen. */
  chooseInk() {
    const { tiles, view } = this;
    if (!tiles) return;
    const given = this.studio.parts().ink;
    const isChosen = INKS.includes(given);
    const ink = isChosen ? Number(given) : this.seenInk(tiles);
    tiles.setInk(ink);
    this.legend.show(ink, false);
    this.choices.showInk(ink, isChosen);
    view.redraw();
  }

  /** @param {Tiles} tiles */
  seenInk(tiles) {
    const key = this.inkKey();
    const usual = usualInk(tiles.seen(this.view.level, this.view.part));
    if (usual === null) return this.inked.ink;
    this.inked = { key, ink: key === this.inked.key ? settledInk(this.inked.ink, usual) : usual };
    return this.inked.ink;
  }

  leave() {
    this.tiles?.end();
    [this.read, this.wanted] = ["", ""];
  }

  redraw() {
    this.tiles?.repaint();
    this.legend.draw();
    this.view.redraw();
  }
}
