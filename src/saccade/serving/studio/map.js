// Map: the whole matrix of a long text, from all of it down to one number.

import { wholeNumber } from "./address.js";
import { Refused, events, inPath } from "./api.js";
import { afterwards, choice, make, reveal, setChoice, within } from "./dom.js";
import { Legend } from "./legend.js";
import { MapView } from "./map-view.js";
import { keepText, keptText, madeText } from "./map-text.js";
import { Tiles } from "./tiles.js";

/**
 * @typedef {import("./types.js").Studio} Studio
 * @typedef {import("./types.js").Parts} Parts
 * @typedef {import("./types.js").PageView} PageView
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./map-view.js").Place} Place
 */

const MADE = [500, 2000, 8000, 16000, 60000]; // words
const INKS = ["1", "0.5", "0.2", "0.1", "0.05", "0.02", "0.01", "0.005", "0.001"];
const SAMPLED = 7; // one cell in so many is looked at for the ink
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
    this.made = make("select", { "aria-label": "The text", onchange: () => this.chooseText() });
    this.area = make("textarea", {
      rows: 6,
      "aria-label": "Your long text",
      placeholder: "Paste a long text, up to 64k tokens",
    });
    const file = make("input", {
      type: "file",
      accept: ".txt,text/plain",
      class: "unseen",
      "aria-label": "A text file",
      onchange: () => void this.readFile(file),
    });
    this.paste = make(
      "div",
      { class: "paste", hidden: true },
      this.area,
      make(
        "div",
        { class: "row" },
        make("button", { type: "button", onclick: () => this.readText(this.area.value) }, "Read this text"),
        make("button", { type: "button", class: "small", onclick: () => file.click() }, "from a file …"),
        file,
      ),
    );
    this.layer = make("select", { onchange: () => this.change({ a: this.layer.value, h: null }, "push") });
    this.head = make("select", { onchange: () => this.change({ h: this.head.value }, "push") });
    this.pool = choice(
      "A cell shows the",
      "pool",
      [
        ["max", "max"],
        ["mean", "mean"],
      ],
      (value) => this.change({ pool: value === "mean" ? "mean" : null }),
    );
    this.ink = make("select", {
      onchange: () => this.change({ ink: this.ink.value === "auto" ? null : this.ink.value }),
    });
    this.legend = new Legend();
    this.summary = make("p", { class: "quiet" });
    const zoom = make(
      "div",
      { class: "row", role: "group", "aria-label": "Zoom" },
      this.button("−", "Smaller", () => this.view.zoomAt(0.5)),
      this.button("All", "All of it", () => this.view.go(this.view.whole())),
      this.button("+", "Larger", () => this.view.zoomAt(2)),
    );
    const labelled = (/** @type {string} */ name, /** @type {HTMLElement} */ one) =>
      make("label", { class: "check quiet" }, name, one);
    const choices = make(
      "div",
      { class: "row" },
      this.made,
      labelled("layer", this.layer),
      labelled("head", this.head),
      this.pool,
      labelled("ink at", this.ink),
      zoom,
    );
    const legend = make("div", { class: "row" }, this.legend.element, this.summary);
    this.frame = make("div", { class: "map-frame" }, this.readout, this.view.element, legend);
    this.element = make(
      "div",
      { class: "map-page" },
      make("h1", { class: "unseen" }, "Map"),
      choices,
      this.paste,
      this.frame,
    );
    /** @type {Look | null} */
    this.look = null;
    /** @type {Tiles | null} */
    this.tiles = null;
    this.read = "";
    this.hasFailed = false; // a sentence about a tile is told
    this.inked = { key: "", ink: 1 };
    this.guess = afterwards(() => this.guessInk(), 150);
    this.keys = {
      "← ↑ → ↓": { does: "move over the map", run: () => undefined },
      "+ −": { does: "closer, further away", run: () => undefined },
      0: { does: "all of it", run: () => this.view.go(this.view.whole()) },
    };
  }

  /** @param {string} text @param {string} label @param {() => void} run */
  button(text, label, run) {
    return make("button", { type: "button", class: "small", "aria-label": label, onclick: run }, text);
  }

  /** @param {Record<string, string | null>} parts @param {"push" | "replace"} [how] */
  change(parts, how = "replace") {
    this.studio.go(parts, how);
    void this.show(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    const model = this.studio.model();
    if (!model)
      return this.studio.status.say("No model here reads long texts; start one with attention: `saccade serve RUN`.");
    const text = this.textOf(parts);
    this.showTexts(parts);
    if (text === null)
      return this.studio.status.say("The text of this address was pasted in another browser; paste it again.");
    const key = JSON.stringify([model.name, text]);
    if (key !== this.read && !(await this.readLook(model.name, text, key))) return undefined;
    this.draw(parts);
    return undefined;
  }

  /** @param {Parts} parts @returns {string | null} */
  textOf(parts) {
    if (parts.t !== undefined) return parts.t;
    if (parts.k !== undefined) return keptText(parts.k);
    return madeText(this.studio.model()?.examples ?? [], wordsOf(parts));
  }

  /** @param {string} name @param {string} text @param {string} key */
  async readLook(name, text, key) {
    this.frame.toggleAttribute("data-old", true);
    const look = await this.studio.status.during("Reading the text", async (signal, progress) => {
      progress(0);
      for await (const told of events(`/api/models/${inPath(name)}/maps`, { text }, signal)) {
        if (typeof told.progress === "number") progress(told.progress, `Reading: ${told.name}`);
        if (told.look) return /** @type {Look} */ (told.look);
      }
      throw new Refused("The server stopped before the text was read.", 0);
    });
    if (!look) return false;
    this.frame.toggleAttribute("data-old", false);
    this.tiles?.end();
    [this.look, this.tiles, this.read] = [look, null, key];
    return true;
  }

  /** @param {Parts} parts */
  draw(parts) {
    const { look } = this;
    const attention =
      look?.attentions.find((one) => one.name === parts.a) ?? look?.attentions.find((one) => one.name === look.layer);
    if (!look?.id || !attention) return this.studio.status.say(look?.why ?? "This model looks at nothing.");
    const [rows, columns] = [look.axes[attention.rows].tokens, look.axes[attention.columns].tokens];
    const head = ["mean", "max"].includes(parts.h)
      ? parts.h
      : String(Math.min(wholeNumber(parts.h, Number(look.head ?? 0)), attention.heads - 1));
    const pool = head === "mean" || (head !== "max" && parts.pool === "mean") ? "mean" : "max";
    const isOther = !this.tiles || this.tiles.rows !== rows.length || this.tiles.columns !== columns.length;
    if (isOther) {
      this.tiles?.end();
      this.tiles = new Tiles(
        look.id,
        rows.length,
        columns.length,
        () => this.arrived(),
        (error) => this.failed(error),
      );
    }
    const tiles = /** @type {Tiles} */ (this.tiles);
    tiles.use({ name: attention.name, head, pool });
    this.showChoices(parts, attention.name, head, pool, attention.heads);
    this.summary.textContent = `${rows.length.toLocaleString("en")} × ${columns.length.toLocaleString("en")} weights`;
    const z = Number(parts.z);
    const place = parts.x && parts.y && z > 0 ? { x: Number(parts.x) || 0, y: Number(parts.y) || 0, scale: z } : null;
    this.view.show(tiles, rows, columns, place);
    this.guessInk();
    return undefined;
  }

  /** @param {Parts} parts */
  showTexts(parts) {
    const isOwn = parts.t !== undefined || parts.k !== undefined || parts.words === "own";
    const counts = [...new Set([...MADE, wordsOf(parts)])].sort((one, other) => one - other);
    const options = counts.map((count) =>
      make("option", { value: count }, `${count.toLocaleString("en")} words of examples`),
    );
    this.made.replaceChildren(...options, make("option", { value: "own" }, "your own text …"));
    this.made.value = isOwn ? "own" : String(wordsOf(parts));
    reveal(this.paste, isOwn);
    if (isOwn && !this.area.value) this.area.value = parts.t ?? (parts.k ? (keptText(parts.k) ?? "") : "");
  }

  /** @param {Parts} parts @param {string} name @param {string} head @param {string} pool @param {number} heads */
  showChoices(parts, name, head, pool, heads) {
    this.layer.replaceChildren(
      ...(this.look?.attentions ?? []).map((one) => make("option", { value: one.name }, one.name)),
    );
    this.layer.value = name;
    const numbers = Array.from({ length: heads }, (_, one) => make("option", { value: one }, String(one)));
    this.head.replaceChildren(
      ...numbers,
      make("option", { value: "max" }, "max of heads"),
      make("option", { value: "mean" }, "mean of heads"),
    );
    this.head.value = head;
    setChoice(this.pool, pool);
    for (const input of this.pool.querySelectorAll("input")) input.disabled = head === "mean" || head === "max";
    this.ink.replaceChildren(
      make("option", { value: "auto" }, "auto"),
      ...INKS.map((ink) => make("option", { value: ink }, ink)),
    );
    this.ink.value = INKS.includes(parts.ink) ? parts.ink : "auto";
  }

  chooseText() {
    const { value } = this.made;
    if (value !== "own") this.change({ ...NO_PLACE, words: value, t: null, k: null }, "push");
    else {
      reveal(this.paste, true);
      this.area.focus();
    }
  }

  /** @param {HTMLInputElement} file */
  async readFile(file) {
    const text = await file.files?.[0]?.text();
    if (text === undefined) return;
    this.area.value = text;
    this.readText(text);
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
  }

  arrived() {
    if (this.hasFailed) this.studio.status.say(null);
    this.hasFailed = false;
    this.view.redraw();
    this.guess();
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

  /** The ink: as it was chosen, or so that one cell in fifty has its colour. */
  guessInk() {
    if (!this.tiles) return;
    const chosen = Number(this.studio.parts().ink);
    const ink = INKS.includes(String(chosen)) ? chosen : this.settledInk(this.tiles);
    this.tiles.setInk(ink);
    this.legend.show(ink, false);
    this.view.redraw();
  }

  /** Once the first picture is there its ink stays: the colours do not change while one moves. @param {Tiles} tiles */
  settledInk(tiles) {
    const key = JSON.stringify([this.look?.id, tiles.source]);
    if (this.inked.key === key) return this.inked.ink;
    const ink = this.usualInk(tiles);
    if (this.view.element.dataset.ready === "yes") this.inked = { key, ink };
    return ink;
  }

  /** @param {Tiles} tiles */
  usualInk(tiles) {
    const first = tiles.drawable(1, { top: 0, left: 0, bottom: Infinity, right: Infinity }).slice(0, 4);
    const values = first.flatMap((tile) => [...tile.matrix.values.filter((_, place) => place % SAMPLED === 0)]);
    if (!values.length) return tiles.ink;
    values.sort((one, other) => one - other);
    const usual = values[Math.floor(0.98 * values.length)];
    return Number([...INKS].reverse().find((ink) => Number(ink) >= usual) ?? 1);
  }

  leave() {
    this.tiles?.end();
    this.read = "";
  }

  redraw() {
    this.tiles?.repaint();
    this.legend.draw();
    this.view.redraw();
  }
}

/** How many words a text of examples has. @param {Parts} parts */
function wordsOf(parts) {
  return within(wholeNumber(parts.words, MADE[0]), 1, Math.max(...MADE));
}
