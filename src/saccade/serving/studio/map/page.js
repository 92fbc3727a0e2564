// The Map page: the whole matrix of a long text, from an overview down to single weights.

import { Refused } from "../shared/api.js";
import { afterwards, make, reveal } from "../shared/dom.js";
import { Legend } from "../shared/legend.js";
import { MapChoices } from "./choices.js";
import { GivenText } from "./given.js";
import { Inking } from "./ink.js";
import { keepText } from "./text.js";
import { askInstead, countOf, headOf, isReader, longestAxis, mappedAttention, placeOf } from "./reading.js";
import { readFirst, readOrRefuse, readersBut, shownOf, waysOut, whyNoReader } from "./reading.js";
import { Note } from "./note.js";
import { RowPanel } from "./row.js";
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
const LOST = "The text that this link refers to was pasted into another browser; paste it again here.";
const ONE_ROW = "This model has no square matrix of weights to map: it looks at the text once, with a single row.";
const NO_PLACE = { x: null, y: null, z: null, row: null };

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
    const isNew = (/** @type {string} */ text) => text !== this.readout.textContent; // a screen reader tells changes
    const tell = (/** @type {string} */ text) => isNew(text) && this.readout.replaceChildren(text);
    this.view = new MapView((place) => this.moved(place), tell);
    this.choices = new MapChoices({
      text: (value) => this.chooseText(value),
      read: (text) => this.readText(text),
      parts: (parts, how) => this.change(parts, how),
      zoom: (factor) => (factor ? this.view.zoomAt(factor) : this.view.go(this.view.whole())),
    });
    this.legend = new Legend();
    this.summary = make("p", { class: "quiet" });
    this.note = new Note();
    const below = make("div", { class: "row" }, this.legend.element, this.view.label, this.summary);
    this.row = new RowPanel(this.view, (row) => this.change({ row }), (error) => this.failed(error));
    const stage = make("div", { class: "map-stage" }, this.view.element, this.row.element);
    this.frame = make("div", { class: "map-frame" }, this.readout, stage, below);
    const above = [make("h1", { class: "unseen" }, "Map"), this.choices.element, this.choices.paste, this.note.element];
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
    this.given = new GivenText();
    this.inking = new Inking(this.view, this.legend, this.choices);
    this.guess = afterwards(() => this.chooseInk(), 150);
    this.keepHash = afterwards(() => this.element.isConnected && this.given.writeHash(studio.parts().k), PAUSE);
  }

  get keys() {
    return {
      "← ↑ → ↓ Enter": { does: "move over the map; tell its middle row" },
      "+ −": { does: "zoom in, zoom out" },
      0: { does: "all of it", run: () => this.view.go(this.view.whole()) },
    };
  }

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.show(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    const model = this.studio.model();
    reveal(this.choices.element, Boolean(model && isReader(model)));
    if (!model || !isReader(model)) return this.offerReaders(model);
    const turn = (this.turn += 1);
    const text = await this.given.textOf(parts, model);
    if (turn !== this.turn) return undefined; // another text was requested in the meantime
    this.showTexts(parts, model, text);
    if (!text?.trim()) {
      this.stop(text === null ? "" : "Paste a long text to see its map.");
      return this.studio.status.say(text === null ? LOST : null);
    }
    const key = JSON.stringify([model.name, text]);
    if (key === this.wanted) return undefined; // it is being read
    if (key !== this.read && !(await this.readLook(model, text, key))) return undefined;
    this.keepHash();
    this.showTexts(this.studio.parts(), model, text); // the number of words that fit is known now
    return this.draw(this.studio.parts(), model);
  }

  /** @param {Parts} parts @param {Model} model @param {string | null} text */
  showTexts(parts, model, text) {
    const counts = this.given.countsOf(model);
    const isOwn = parts.t !== undefined || parts.k !== undefined || !counts.length;
    this.choices.showTexts(counts, isOwn ? null : countOf(parts));
    if (isOwn && text !== null && text !== this.own) this.own = this.choices.area.value = text;
  }

  /**
   * Whether the text was read: not where it was stopped, refused, or another one is wanted meanwhile.
   * @param {Model} model @param {string} text @param {string} key
   */
  async readLook(model, text, key) {
    this.wanted = key;
    this.clear("Reading the text; its map appears after the last word.");
    const first = await readFirst(this.studio, model, text);
    if (first?.found && this.wanted === key) {
      this.reading = first.found;
      this.draw(this.studio.parts(), model, first.told);
    }
    const { found, status } = first && !first.found ? first : await readOrRefuse(this.studio, model, text);
    if (this.wanted !== key) return false;
    this.wanted = "";
    if (!found) {
      const ways = waysOut(this.studio, model, status, () => void this.show(this.studio.parts()));
      this.clear("This text was not read, so there is no map of it.", ...ways);
      return false;
    }
    [this.reading, this.read] = [found, key];
    this.given.learn(model, text, found.tokens || longestAxis(found.look));
    return true;
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
    this.readout.replaceChildren();
    this.summary.textContent = "";
    this.choices.showMap(false);
    reveal(this.frame, false);
    this.note.say(why, ...ways);
  }

  /** @param {Model | null} model one that cannot be shown here */
  offerReaders(model) {
    this.studio.status.say(null);
    const able = readersBut(this.studio, model);
    this.stop(whyNoReader(model, able.length > 0), ...able);
  }

  /** @param {Parts} parts @param {Model} model @param {string} [told] above the map */
  draw(parts, model, told = "") {
    const look = this.reading?.look;
    const attention = look && mappedAttention(look, parts.a);
    if (!look?.id || !attention) return this.clear(look?.why ?? ONE_ROW, askInstead(this.studio, model));
    const [rows, columns] = [look.axes[attention.rows].tokens, look.axes[attention.columns].tokens];
    const { head, pool } = headOf(parts, look, attention);
    const tiles = this.tilesOf(look.id, rows.length, columns.length);
    tiles.use({ name: attention.name, head, pool });
    this.choices.showLayers(look, attention, head, pool);
    this.summary.textContent = `${rows.length.toLocaleString("en")} × ${columns.length.toLocaleString("en")} weights`;
    this.note.say(told || shownOf(model, columns.length, this.reading?.tokens ?? 0));
    this.choices.showMap(true);
    reveal(this.frame, true);
    this.view.show(tiles, rows, columns, placeOf(parts));
    this.row.show(tiles, rows, columns, parts.row);
    this.chooseInk();
    return undefined;
  }

  /** @param {string} id @param {number} rows @param {number} columns */
  tilesOf(id, rows, columns) {
    const { tiles } = this;
    if (tiles?.look === id && tiles.rows === rows && tiles.columns === columns) return tiles;
    tiles?.end();
    return (this.tiles = new Tiles(id, rows, columns, () => this.arrived(), (error) => this.failed(error)));
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

  /** @param {Place} place */
  moved({ x, y, scale }) {
    this.studio.go({ x: x.toFixed(1), y: y.toFixed(1), z: scale.toPrecision(4) });
    this.keepHash();
    this.guess();
  }

  chooseInk() {
    if (this.tiles) this.inking.choose(this.tiles, this.studio.parts().ink);
  }

  arrived() {
    if (this.hasFailed) this.studio.status.say(null);
    this.hasFailed = false;
    this.view.redraw();
    if (this.tiles && this.inking.knows(this.tiles)) this.guess();
    else this.chooseInk();
  }

  /** @param {unknown} error */
  failed(error) {
    this.hasFailed = true;
    if (!(error instanceof Refused && error.status === 404)) return this.studio.status.fail(error);
    this.tiles?.end();
    this.read = ""; // the server forgets looks after a while, so read the text again
    return void this.show(this.studio.parts());
  }

  leave() {
    this.tiles?.end();
    this.read = this.wanted = "";
  }

  redraw() {
    this.tiles?.repaint();
    this.legend.draw();
    this.view.redraw();
  }
}
