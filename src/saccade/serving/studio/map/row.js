// Beside the map: one row of it in words. Which tokens does this token look at, and where in the text are they?

import { wholeNumber } from "../shared/address.js";
import { Refused, inPath, numbers, query } from "../shared/api.js";
import { afterwards, make, number, visible } from "../shared/dom.js";
import { PASSING } from "./tiles.js";

/**
 * @typedef {import("./tiles.js").Tiles} Tiles
 * @typedef {import("./view.js").MapView} MapView
 * @typedef {{tiles: Tiles, rows: string[], columns: string[], row: number}} Shown
 */

const STRONGEST = 14; // weights that are listed
const AROUND = [12, 3]; // tokens on both sides of the chosen one, and of one that it looks at
const CLOSE = 24; // pixels a token, so that its name is written beside the map
const PAUSE = 60; // milliseconds: while the head is changed, or the row
const LEAST = 2; // seconds until a busy server is asked again

export class RowPanel {
  /** @param {MapView} view @param {(row: string) => void} chosen @param {(error: unknown) => void} failed */
  constructor(view, chosen, failed) {
    this.view = view;
    this.title = make("h2", {});
    this.text = make("p", { class: "row-text", dir: "auto" });
    this.list = make("ol", { class: "bars row-list" });
    this.note = make("small", {});
    const label = { class: "map-row", "aria-label": "One row of the map", "aria-live": "polite" };
    this.element = make("section", label, this.title, this.text, this.list, this.note);
    /** @type {Shown | null} */
    this.shown = null;
    this.key = ""; // of what is listed
    this.failed = failed;
    this.read = afterwards(() => void this.fetch().catch((error) => this.miss(error)), PAUSE);
    view.chosen = (row) => chosen(String(row));
  }

  /** @param {Tiles} tiles @param {string[]} rows @param {string[]} columns @param {string | undefined} chosen */
  show(tiles, rows, columns, chosen) {
    const row = Math.min(wholeNumber(chosen, Math.floor(rows.length / 2)), rows.length - 1);
    this.shown = { tiles, rows, columns, row };
    this.view.marked = row;
    this.view.redraw();
    const key = JSON.stringify([tiles.look, tiles.source, row]);
    if (key === this.key) return;
    this.key = key;
    this.read();
  }

  async fetch() {
    const { shown, key } = this;
    if (!shown) return;
    const { tiles, columns, row } = shown;
    const part = { rows: `${row}:${row + 1}`, columns: `0:${columns.length}` };
    const { name, head } = tiles.source;
    const asked = `/api/looks/${inPath(tiles.look)}/tile?${query({ name, head, ...part })}`;
    const { values } = await numbers(asked);
    if (key === this.key) this.draw(shown, values);
  }

  /** A row that is not told: the sentence stands in its place. @param {unknown} error */
  miss(error) {
    if (!(error instanceof Refused) || error.status === 404) return this.failed(error);
    this.title.textContent = this.text.textContent = "";
    this.list.replaceChildren();
    this.note.textContent = error.message;
    const isPassing = PASSING.includes(error.status) && this.element.isConnected;
    return void (isPassing && setTimeout(this.read, 1000 * Math.max(LEAST, error.pause)));
  }

  /** @param {Shown} shown @param {Float32Array} values the weights of the row */
  draw({ rows, columns, row }, values) {
    this.title.textContent = `«${nameOf(rows, row)}» (${row.toLocaleString("en")}) looks at`;
    this.text.replaceChildren(...around(rows, row, AROUND[0]));
    const places = Array.from(values.keys());
    const strongest = places.sort((one, other) => values[other] - values[one]).slice(0, STRONGEST);
    const most = values[strongest[0]] || 1;
    this.list.replaceChildren(
      ...strongest.filter((column) => values[column] > 0).map((column) => {
        const weight = values[column];
        const go = () => this.view.go({ x: column, y: row, scale: Math.max(CLOSE, this.view.place.scale) });
        const title = `Go to row ${row}, column ${column}`;
        const button = make("button", { type: "button", class: "word", title, onclick: go });
        button.append(...around(columns, column, AROUND[1]));
        const told = make("span", { class: "mono", "data-weight": column }, number(weight, 4));
        const place = make("small", { class: "mono" }, column.toLocaleString("en"));
        return make("li", { "--share": String(weight / most) }, button, place, told);
      }),
    );
    const total = strongest.reduce((sum, column) => sum + values[column], 0);
    this.note.textContent =
      `The ${this.list.childElementCount} largest of ${columns.length.toLocaleString("en")} weights, exact; ` +
      `together ${number(total, 2)}. Click the map to choose another row.`;
  }
}

/** @param {string[]} tokens @param {number} at */
function nameOf(tokens, at) {
  return visible(tokens[at] ?? "").replace(/^·(?=.)/, "");
}

/** A token in bold, and those around it. @param {string[]} tokens @param {number} at @param {number} count */
function around(tokens, at, count) {
  const [first, last] = [Math.max(0, at - count), Math.min(tokens.length, at + count + 1)];
  const joined = (/** @type {string[]} */ some) => some.map((token) => token.replace(/^[▁Ġ]/, "")).join(" ");
  const before = `${first > 0 ? "… " : ""}${joined(tokens.slice(first, at))} `;
  const after = ` ${joined(tokens.slice(at + 1, last))}${last < tokens.length ? " …" : ""}`;
  return [before, make("b", {}, nameOf(tokens, at)), after];
}
