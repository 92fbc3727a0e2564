// What one answer looked at: the heat map, the arcs, or the picture, with the cell that is read out.

import { addressOf } from "./address.js";
import { Refused, weightsOf } from "./api.js";
import { Arcs } from "./arcs.js";
import { make, reveal, visible, within } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { Legend } from "./legend.js";
import { Overlay } from "./overlay.js";
import { Readout } from "./readout.js";

/**
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./types.js").Matrix} Matrix
 * @typedef {import("./ask-state.js").AskState} AskState
 * @typedef {import("./ask-state.js").Settled} Settled
 */

const MOST_TOKENS = 1024; // that the server sends at once
let count = 0;

export class Figure {
  /**
   * @param {(row: number, column: number) => void} moved
   * @param {(row: number | null, column: number) => void} pinned
   */
  constructor(moved, pinned) {
    const id = `readout-${(count += 1)}`;
    this.moved = moved;
    this.pinned = pinned;
    this.readout = new Readout(id);
    this.legend = new Legend();
    this.title = make("h2", {});
    this.walk = make("a", { class: "button small", "data-page": "walk" }, "Take this head apart");
    this.map = new HeatMap({
      label: "Weights; arrow keys move, Enter pins a row",
      described: id,
      moved: (row, column) => this.onMoved(row, column),
      pinned: (row) => pinned(row, this.column),
    });
    this.arcs = new Arcs((row) => pinned(row, this.column));
    this.overlay = new Overlay((row, column) => this.onPatch(row, column));
    this.element = make(
      "section",
      { class: "figure", "aria-label": "Attention" },
      make("div", { class: "figure-head" }, this.title, this.walk),
      this.overlay.element,
      this.map.element,
      this.arcs.element,
      this.readout.element,
      this.legend.element,
    );
    /** @type {Matrix | null} */
    this.matrix = null;
    /** @type {Settled | null} */
    this.settled = null;
    /** @type {Look | null} */
    this.look = null;
    this.isDifference = false;
    this.row = 0;
    this.column = 0;
    this.asked = 0;
  }

  /**
   * @param {Look} look @param {Settled} settled @param {AskState} state
   * @param {Look | null} before of a difference, the other
   * @param {{m: string, t: string} | null} walked what the Walk page would start from
   */
  async show(look, settled, state, before, walked) {
    this.asked += 1;
    const mine = this.asked;
    const { head, words } = settled;
    const name = settled.attention.name;
    let matrix = await matrixOf(look, settled);
    const other = before && (await matrixOf(before, settled));
    const heads = settled.view === "arcs" ? await this.headsOf(look, settled, matrix) : [];
    if (mine !== this.asked) return;
    this.isDifference = other !== null && other.rows === matrix.rows && other.columns === matrix.columns;
    if (other && this.isDifference)
      matrix = { ...matrix, values: matrix.values.map((weight, place) => weight - other.values[place]) };
    [this.matrix, this.settled, this.look] = [matrix, settled, look];
    const first =
      look.image?.class_token && settled.view === "picture"
        ? { row: 0, column: bestColumn(matrix, 0) }
        : strongestCell(matrix);
    const place =
      state.row === null ? first : { row: state.row, column: state.column ?? bestColumn(matrix, state.row) };
    this.row = within(place.row, 0, matrix.rows - 1);
    this.column = within(place.column, 0, matrix.columns - 1);
    this.title.textContent = titleOf(name, head, words, this.isDifference);
    reveal(this.walk, walked !== null && /^\d+$/.test(head));
    this.walk.href = addressOf("walk", { from: "model", ...walked, a: name, h: head });
    for (const [view, element] of /** @type {[string, HTMLElement][]} */ ([
      ["map", this.map.element],
      ["arcs", this.arcs.element],
      ["picture", this.overlay.element],
    ])) {
      reveal(element, settled.view === view);
    }
    reveal(this.legend.element, settled.view === "map");
    this.legend.show(1, this.isDifference);
    if (settled.view === "map") {
      const cut = cutCells(look, settled, state);
      const upTo = state.step === null || !isWritten(look, settled) ? Infinity : state.step;
      const pinned = state.isPinned ? this.row : null;
      this.map.show(matrix, settled.rows.map(visible), settled.columns.map(visible), {
        isDifference: this.isDifference,
        upTo,
        row: this.row,
        column: this.column,
        pinned,
        cut,
      });
    } else if (settled.view === "arcs") this.arcs.show(heads, settled.rows, settled.columns, this.row);
    else if (look.image) this.overlay.show(look.image, matrix, this.row, this.column);
    this.read();
  }

  /** @param {Look} look @param {Settled} settled @param {Matrix} matrix */
  async headsOf(look, { attention, head, words }, matrix) {
    if (head !== "mean" && head !== "max") return [{ head: Number(head) || 0, matrix }];
    const every = Array.from({ length: attention.heads }, (_, one) =>
      weightsOf(look, attention.name, String(one), words),
    );
    return (await Promise.all(every)).map((its, one) => ({ head: one, matrix: its }));
  }

  /** Another cell of the same matrix, without a word to anyone. @param {number} row @param {number} column */
  point(row, column) {
    if (!this.matrix) return;
    this.row = within(row, 0, this.matrix.rows - 1);
    this.column = within(column, 0, this.matrix.columns - 1);
    this.map.point(this.row, this.column, false);
    this.read();
  }

  /** @param {number} row @param {number} column */
  onMoved(row, column) {
    [this.row, this.column] = [row, column];
    this.read();
    this.moved(row, column);
  }

  /** @param {number | null} row @param {number} column */
  onPatch(row, column) {
    if (!this.matrix || !this.look?.image) return;
    this.column = column;
    if (row !== null) this.row = row;
    this.overlay.show(this.look.image, this.matrix, this.row, this.column);
    this.read();
    if (row === null) this.moved(this.row, column);
    else this.pinned(row, column);
  }

  read() {
    if (!this.matrix || !this.settled || !this.look) return;
    const note = writesNote(this.look, this.settled, this.row);
    this.readout.show(this.matrix, this.settled.rows, this.settled.columns, this.row, this.column, {
      isDifference: this.isDifference,
      note,
    });
  }

  recolour() {
    this.map.recolour();
    this.legend.draw();
    this.arcs.redraw();
    this.overlay.redraw();
  }
}

/** @param {Look} look @param {Settled} settled @returns {Promise<Matrix>} */
async function matrixOf(look, { attention, head, words }) {
  const longest = Math.max(look.axes[attention.rows].tokens.length, look.axes[attention.columns].tokens.length);
  if (longest > MOST_TOKENS) {
    throw new Refused(
      `The text has ${longest} tokens here; this page draws up to ${MOST_TOKENS}. ` +
        "The page Map shows texts of any length.",
      413,
    );
  }
  if (head !== "alignment" || !look.alignment) return weightsOf(look, attention.name, head, words);
  const { rows, columns, values } = look.alignment;
  return { rows: rows.length, columns: columns.length, values: Float64Array.from(values.flat()) };
}

/** @param {string} name @param {string} head @param {boolean} words @param {boolean} isDifference */
function titleOf(name, head, words, isDifference) {
  const unit = head === "alignment" ? "" : ` · ${words ? "words" : "pieces"}`;
  const what = {
    alignment: "alignment of words",
    mean: `${name}, mean of heads`,
    max: `${name}, maximum of heads`,
    rollout: "rollout over the layers",
  }[head];
  return `${what ?? `${name}, head ${head}`}${unit}${isDifference ? " · after less before" : ""}`;
}

/** Whether the rows are what is written, step by step. @param {Look} look @param {Settled} settled */
export function isWritten(look, settled) {
  return settled.head === "alignment" || writes(look, settled);
}

/** Whether a row is read when the next is written: of a decoder. @param {Look} look @param {Settled} settled */
function writes(look, { attention }) {
  return look.attentions.some((one) => one.kind === "causal" && one.rows === attention.rows);
}

/** @param {Look} look @param {Settled} settled @param {number} row */
function writesNote(look, settled, row) {
  if (settled.head === "alignment" || settled.words || !writes(look, settled)) return "";
  const next = settled.rows[row + 1];
  return next === undefined ? "" : `read before «${next.replace("▁", "·")}» is written`;
}

/** @param {Look} look @param {Settled} settled @param {AskState} state */
function cutCells(look, { attention, head, words }, state) {
  const [rows, columns] = [look.axes[attention.rows].words, look.axes[attention.columns].words];
  const here = state.cut.filter(([name]) => name === `${attention.name}:${head}`);
  return new Set(here.map(([, row, column]) => (words ? `${rows[row]},${columns[column]}` : `${row},${column}`)));
}

/** @param {Matrix} matrix */
function strongestCell({ values, columns }) {
  let best = 0;
  for (let place = 1; place < values.length; place += 1)
    if (Math.abs(values[place]) > Math.abs(values[best])) best = place;
  return { row: Math.floor(best / columns), column: best % columns };
}

/** @param {Matrix} matrix @param {number} row */
function bestColumn({ values, columns }, row) {
  let best = 0;
  for (let column = 1; column < columns; column += 1)
    if (values[row * columns + column] > values[row * columns + best]) best = column;
  return best;
}
