// Words: what the model has learned of a word: its neighbours, how two words relate, and a map of many.

import { typedExamples } from "../ask/state.js";
import { addressOf } from "../shared/address.js";
import { Refused, get, inPath, query } from "../shared/api.js";
import { make, number, reveal, visible } from "../shared/dom.js";
import { Scatter } from "./scatter.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {{word: string, cosine: number}} Near
 * @typedef {{word: string, cosine: number, correlation: number}} Related
 * @typedef {{word: string, neighbours: Near[], other?: Related}} Found
 * @typedef {{words: import("./scatter.js").WordPoint[], share: number, telling: string}} Plane
 */

// Frequent words that are on the map beside those that are asked for.
const OTHERS = 100;
const MEASURE = "cosine of the angle between two word vectors: 1 if they point the same way";
const UNKNOWN = 400; // how the server refuses a word that the model does not know

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new WordsPage(studio);
  place.append(page.element);
  return page;
}

class WordsPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.word = make("input", { type: "text", "aria-label": "A word", spellcheck: "false" });
    this.other = make("input", {
      type: "text",
      "aria-label": "Another word",
      placeholder: "another word",
      spellcheck: "false",
    });
    this.side = make("select", { onchange: () => this.change({ side: this.side.value, word: null, other: null }) });
    this.sideLabel = make("label", { class: "check quiet" }, "of the", this.side);
    this.form = this.makeForm();
    this.neighbours = make("ol", { class: "bars" });
    const about = [make("h2", {}, "Nearest words"), make("p", { class: "quiet" }, MEASURE)];
    this.asked = make("a", { class: "button small", "data-page": "ask" });
    this.near = make("section", { "aria-label": "Neighbours" }, ...about, this.neighbours, this.asked);
    this.unknown = make("p", { class: "error", role: "alert", hidden: true });
    this.pair = make("section", { class: "pair", "aria-label": "Two words" });
    this.scatter = new Scatter((word) => this.change({ word }));
    this.note = make("p", { class: "quiet" });
    this.map = make(
      "section",
      { class: "word-map", "aria-label": "A map of words" },
      make("h2", {}, "Words on a plane"),
      this.scatter.element,
      this.note,
    );
    this.nothing = make("div", { class: "row", role: "status", hidden: true });
    const left = make("div", {}, this.unknown, this.pair, this.near);
    this.columns = make("div", { class: "word-columns" }, left, this.map);
    const title = make("h1", { class: "unseen" }, "Words");
    this.element = make("div", { class: "words" }, title, this.form, this.nothing, this.columns);
    this.mapOf = "";
    this.shown = ""; // the address that was shown last
    this.isTyped = false; // something since then, which must not be written over
    /** @type {string[]} */
    this.frequent = [];
    this.telling = ""; // the word to begin with
    this.keys = { "/": { does: "type a word", run: () => this.word.focus() } };
  }

  makeForm() {
    const form = make(
      "form",
      { class: "row words-form" },
      make("label", { class: "check" }, "word", this.word),
      make("label", { class: "check" }, "compared with", this.other),
      make("button", {}, "Show"),
      this.sideLabel,
    );
    form.addEventListener("input", () => (this.isTyped = true));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.change({ word: this.word.value.trim() || null, other: this.other.value.trim() || null });
    });
    return form;
  }

  /** @param {Record<string, string | null>} parts */
  change(parts) {
    this.studio.go(parts, "push");
    void this.show(this.studio.parts());
  }

  /** @param {Parts} parts */
  async show(parts) {
    const model = this.studio.model();
    const hasWords = Boolean(model?.words.length);
    for (const one of [this.form, this.columns]) reveal(one, hasWords);
    this.offer(hasWords ? null : model);
    if (!model || !hasWords) return undefined;
    this.showSides(model.words, parts.side);
    const address = JSON.stringify([model.name, parts]);
    if (this.shown !== address) this.isTyped = false;
    this.shown = address;
    const base = `/api/models/${inPath(model.name)}/words`;
    await this.studio.status.during("Comparing words", async (signal) => {
      const key = `${model.name} ${parts.side ?? ""}`;
      if (this.mapOf !== key) {
        /** @type {Plane} */
        const plane = await get(`${base}/map?${query({ side: parts.side, others: OTHERS, fixed: 1 })}`, signal);
        [this.mapOf, this.frequent] = [key, plane.words.map((point) => point.word)];
        this.telling = plane.telling;
      }
      const word = parts.word ?? this.telling;
      if (!this.isTyped) [this.word.value, this.other.value] = [word, parts.other ?? ""];
      const asked = query({ word, other: parts.other, side: parts.side, neighbours: 12 });
      /** @type {Found | Refused} */
      const found = await get(`${base}?${asked}`, signal).catch(refusalOf);
      const isKnown = !(found instanceof Refused);
      const words = isKnown ? [word, ...(parts.other ? [parts.other] : [])].join(",") : "";
      this.drawPlane(await get(`${base}/map?${query({ side: parts.side, words, others: OTHERS, fixed: 1 })}`, signal));
      this.draw(isKnown ? found : { word: "", neighbours: [] });
      this.offerAsk(model, word, parts.side);
      this.unknown.textContent = isKnown ? "" : found.message; // in the place of the neighbours
      reveal(this.unknown, !isKnown);
    });
    return undefined;
  }

  /**
   * The way to a text with the word: an example of the model, or the word alone.
   * @param {import("../shared/types.js").Model} model @param {string} word @param {string} [side]
   */
  offerAsk(model, word, side = model.words[0]) {
    const has = (/** @type {string} */ text) => text.split(/[^\p{L}\p{N}'’-]+/u).includes(word);
    const example = typedExamples(model).find(has);
    reveal(this.asked, side === model.words[0] && model.input.kind === "text");
    this.asked.href = addressOf("ask", { m: model.name, t: example ?? word });
    const name = `«${visible(word)}»`;
    this.asked.textContent = example ? `Try a text with ${name}` : `Try ${name} alone`;
  }

  /** Says that a model has no words, and which have. @param {import("../shared/types.js").Model | null} model */
  offer(model) {
    const able = this.studio.models.filter((one) => one.words.length > 0);
    const ways = able.map(({ name }) =>
      make("button", { type: "button", onclick: () => this.studio.open("words", { m: name }) }, name),
    );
    const why = model ? `${model.name} has learned no words` : "There is no model with words here";
    const others = able.length ? ". These models have:" : ".";
    this.nothing.replaceChildren(make("span", {}, why + others), ...ways);
    reveal(this.nothing, model !== null || !able.length);
    if (model) this.studio.status.say(null);
  }

  /** The vocabularies of a model, if it has more than one. @param {string[]} sides @param {string} [chosen] */
  showSides(sides, chosen = sides[0]) {
    reveal(this.sideLabel, sides.length > 1);
    this.side.replaceChildren(...sides.map((side) => make("option", { value: side }, side)));
    this.side.value = chosen;
  }

  /** @param {Plane} plane */
  drawPlane({ words, share }) {
    this.scatter.show(words, new Set(this.frequent));
    this.note.textContent =
      `The two directions in which the ${this.frequent.length} most frequent words differ most; ` +
      `they keep ${number(100 * share, 0)} % of the differences, ` +
      "so words that are close together here may be far apart in the other directions.";
  }

  /** @param {Found} found */
  draw(found) {
    reveal(this.near, found.neighbours.length > 0);
    this.neighbours.replaceChildren(
      ...found.neighbours.map(({ word, cosine }) => {
        const item = make(
          "li",
          {},
          make("button", { type: "button", class: "word", onclick: () => this.change({ word }) }, visible(word)),
          make("span", { class: "mono" }, number(cosine, 3)),
        );
        item.style.setProperty("--share", String(Math.max(0, cosine)));
        return item;
      }),
    );
    this.scatter.mark(
      [found.word, ...(found.other ? [found.other.word] : []), ...found.neighbours.map(({ word }) => word)],
      found.word,
    );
    reveal(this.pair, Boolean(found.other));
    if (!found.other) return;
    const { word, cosine, correlation } = found.other;
    this.pair.replaceChildren(
      make("h2", {}, `${visible(found.word)} and ${visible(word)}`),
      make(
        "dl",
        { class: "two" },
        make("dt", {}, "correlation"),
        make("dd", { class: "mono" }, number(correlation, 4)),
        make("dt", {}, "cosine"),
        make("dd", { class: "mono" }, number(cosine, 4)),
      ),
    );
  }

  redraw() {
    this.scatter.draw();
  }
}

/** What the server has against a word; anything else that goes wrong is thrown. @param {unknown} error */
function refusalOf(error) {
  if (error instanceof Refused && error.status === UNKNOWN) return error;
  throw error;
}
