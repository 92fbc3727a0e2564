// The controls of a map: text, layer, head, pooling of cells, colour scale and zoom.

import { choice, make, reveal, setChoice } from "../shared/dom.js";
import { INKS } from "./ink.js";
import { layerName } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Attention} Attention
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {object} Chosen
 * @property {(value: string) => void} text  a number of words, or "own"
 * @property {(text: string) => void} read  a text of one's own
 * @property {(parts: Record<string, string | null>, how?: "push" | "replace") => void} parts  of the address
 * @property {(factor: number) => void} zoom  0: all of it
 */

export class MapChoices {
  /** @param {Chosen} chosen */
  constructor(chosen) {
    this.chosen = chosen;
    this.made = make("select", { "aria-label": "The text", onchange: () => chosen.text(this.made.value) });
    this.layer = make("select", { onchange: () => chosen.parts({ a: this.layer.value, h: null }, "push") });
    this.head = make("select", { onchange: () => chosen.parts({ h: this.head.value }, "push") });
    this.pool = choice(
      "A cell shows the",
      "pool",
      [
        ["max", "max"],
        ["mean", "mean"],
      ],
      (value) => chosen.parts({ pool: value === "mean" ? "mean" : null }),
    );
    this.auto = make("option", { value: "auto" }, "auto");
    this.ink = make(
      "select",
      { onchange: () => chosen.parts({ ink: this.ink.value === "auto" ? null : this.ink.value }) },
      this.auto,
      ...INKS.map((ink) => make("option", { value: ink }, inkText(Number(ink)))),
    );
    const zoom = make(
      "div",
      { class: "row", role: "group", "aria-label": "Zoom" },
      button("−", "Smaller", () => chosen.zoom(0.5)),
      button("All", "All of it", () => chosen.zoom(0)),
      button("+", "Larger", () => chosen.zoom(2)),
    );
    const labelled = (/** @type {string} */ name, /** @type {HTMLElement} */ one) =>
      make("label", { class: "check quiet" }, name, one);
    const layer = labelled("layer", this.layer);
    this.ofMap = [layer, labelled("head", this.head), this.pool, labelled("darkest at", this.ink), zoom];
    this.element = make("div", { class: "row" }, this.made, ...this.ofMap);
    this.area = make("textarea", {
      rows: 6,
      "aria-label": "Your long text",
      placeholder: "Paste a long text, up to 64k tokens",
    });
    this.paste = this.pasting();
  }

  pasting() {
    const file = make("input", {
      type: "file",
      accept: ".txt,text/plain",
      class: "unseen",
      "aria-label": "A text file",
      onchange: async () => {
        this.area.value = (await file.files?.[0]?.text()) ?? this.area.value;
        this.chosen.read(this.area.value);
      },
    });
    const read = make("button", { type: "button", onclick: () => this.chosen.read(this.area.value) }, "Read this text");
    const buttons = make("div", { class: "row" }, read, button("from a file …", "", () => file.click()), file);
    return make("div", { class: "paste", hidden: true }, this.area, buttons);
  }

  /** @param {number[]} counts of words @param {number | null} count null: a text of one's own */
  showTexts(counts, count) {
    const every = [...new Set(count === null ? counts : [...counts, count])].sort((one, other) => one - other);
    const options = every.map((one) => make("option", { value: one }, `${one.toLocaleString("en")} words of examples`));
    this.made.replaceChildren(...options, make("option", { value: "own" }, "your own text …"));
    this.made.value = count === null ? "own" : String(count);
    reveal(this.paste, count === null);
  }

  /** Whether there is a map to choose something of; if not, its text has more room. @param {boolean} isThere */
  showMap(isThere) {
    for (const one of this.ofMap) reveal(one, isThere);
    this.area.rows = isThere ? 2 : 6;
  }

  /** @param {Look} look @param {Attention} attention @param {string} head @param {string} pool */
  showLayers({ attentions, axes }, attention, head, pool) {
    const offered = attentions.filter((one) => axes[one.rows].tokens.length > 1);
    this.layer.replaceChildren(...offered.map(({ name }) => make("option", { value: name }, layerName(name))));
    this.layer.value = attention.name;
    const numbers = Array.from({ length: attention.heads }, (_, one) => make("option", { value: one }, `${one + 1}`));
    this.head.replaceChildren(
      ...numbers,
      make("option", { value: "max" }, "max of heads"),
      make("option", { value: "mean" }, "mean of heads"),
    );
    this.head.value = head;
    setChoice(this.pool, pool);
    for (const input of this.pool.querySelectorAll("input")) input.disabled = head === "mean" || head === "max";
  }

  /** @param {number} ink @param {boolean} isChosen false: it follows what is seen */
  showInk(ink, isChosen) {
    this.ink.value = isChosen ? String(ink) : "auto";
    const text = isChosen ? "auto" : `auto: ${inkText(ink)}`;
    if (this.auto.textContent !== text) this.auto.textContent = text;
  }
}

/** @param {number} ink */
function inkText(ink) {
  return ink < 0.001 ? ink.toExponential(0).replace("-", "−") : String(ink);
}

/** @param {string} text @param {string} label empty: the text @param {() => void} run */
function button(text, label, run) {
  return make("button", { type: "button", class: "small", "aria-label": label || null, onclick: run }, text);
}
