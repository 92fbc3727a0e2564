// What one answer looked at: the heat map, the arcs, or the picture, with the cell that is read out.

import { addressOf } from "../shared/address.js";
import { Refused, weightsOf } from "../shared/api.js";
import { Arcs } from "./arcs.js";
import { isEdited, isOfPatches } from "./state.js";
import { make, reveal, shortened, visible, within } from "../shared/dom.js";
import { HeatMap } from "../shared/heatmap.js";
import { Legend } from "../shared/legend.js";
import { Overlay } from "./overlay.js";
import { Readout } from "../shared/readout.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Matrix} Matrix
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 *
 * @typedef {object} Seen
 * @property {string} label  what else the title says
 * @property {Look | null} before  of a difference, the other look
 * @property {number | null} written  rows that are written so far; null: all
 * @property {import("../shared/types.js").Parts | null} walked  what the Walk page would start from
 */

const MOST_TOKENS = 1024; // that the server sends at once
const UNSEEN = 5e-7; // a difference that is read out as 0
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
    this.hint = make("p", { class: "quiet" });
    this.walk = make("a", { class: "button small", "data-page": "walk" }, "Take this head apart");
    this.map = new HeatMap({
      label: "Weights; arrow keys move, Enter pins a row",
      described: id,
      moved: (row, column) => this.onMoved(row, column),
      pinned: (row) => pinned(row, this.column),
    });
    this.arcs = new Arcs((row) => pinned(row, this.column));
    this.overlay = new Overlay((row, column) => this.onPatch(row, column), id);
    this.element = make(
      "section",
      { class: "figure", "aria-label": "Attention" },
      make("div", { class: "figure-head" }, this.title, this.walk),
      this.hint,
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
   * @param {Seen} seen
   */
  async show(look, settled, state, { label, before, written, walked }) {
    this.asked += 1;
    const mine = this.asked;
    let matrix = await matrixOf(look, settled);
    const other = before && (await matrixOf(before, settled));
    const heads = settled.view === "arcs" ? await this.headsOf(look, settled, matrix) : [];
    if (mine !== this.asked) return;
    this.isDifference = other !== null;
    const weights = matrix;
    if (other) matrix = { ...matrix, values: matrix.values.map((weight, place) => weight - other.values[place]) };
    const isSame = other !== null && matrix.values.every((weight) => Math.abs(weight) < UNSEEN);
    [this.matrix, this.settled, this.look] = [matrix, settled, look];
    this.place(look, settled, state, isSame ? weights : matrix);
    const { head, attention } = settled;
    this.title.textContent = titleOf(look, settled) + (label && ` · ${label}`);
    this.hint.textContent = isSame ? sameOf(settled, state) : hintOf(look, settled);
    reveal(this.walk, walked !== null && /^\d+$/.test(head));
    this.walk.href = addressOf("walk", { from: "model", ...walked, a: attention.name, h: head });
    for (const view of this.views()) reveal(view.element, settled.view === view.name);
    reveal(this.legend.element, settled.view === "map");
    this.legend.show(1, this.isDifference);
    if (settled.view === "map") this.showMap(look, settled, state, matrix, written);
    else if (settled.view === "arcs") this.arcs.show(heads, settled.rows, settled.columns, this.row);
    else if (look.image) this.overlay.show(look.image, matrix, this.row, this.column);
    this.read();
  }

  views() {
    return [
      { name: "map", element: this.map.element },
      { name: "arcs", element: this.arcs.element },
      { name: "picture", element: this.overlay.element },
    ];
  }

  /**
   * The cell that is read out.
   * @param {Look} look @param {Settled} settled @param {AskState} state @param {Matrix} matrix
   */
  place(look, settled, state, matrix) {
    const isOfClass = look.image?.class_token && settled.view === "picture";
    const first = isOfClass ? { row: 0, column: bestColumn(matrix, 0) } : tellingCell(matrix, settled);
    const row = within(state.row ?? first.row, 0, matrix.rows - 1);
    const column = state.row === null ? first.column : (state.column ?? bestColumn(matrix, row));
    [this.row, this.column] = [row, within(column, 0, matrix.columns - 1)];
  }

  /**
   * @param {Look} look @param {Settled} settled @param {AskState} state @param {Matrix} matrix
   * @param {number | null} written
   */
  showMap(look, settled, state, matrix, written) {
    this.map.show(matrix, settled.rows.map(visible), settled.columns.map(visible), {
      isDifference: this.isDifference,
      upTo: written === null || !isWritten(look, settled) ? Infinity : written,
      row: this.row,
      column: this.column,
      pinned: state.isPinned ? this.row : null,
      cut: cutCells(look, settled, state),
    });
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

/** @param {Look} look @param {Settled} settled */
function titleOf(look, { attention, head, words }) {
  const name = attention.name;
  if (head === "alignment") return "alignment of words";
  const unit = isOfPatches(look, attention) ? "patches" : words ? "words" : "pieces";
  /** @type {Record<string, string>} */
  const together = {
    mean: `${name}, mean of heads`,
    max: `${name}, maximum of heads`,
    rollout: "rollout over the layers",
  };
  return `${together[head] ?? `${name}, head ${head}`} · ${unit}`;
}

/** What a row stands for, where that is not plain. @param {Look} look @param {Settled} settled */
function hintOf(look, settled) {
  if (settled.head === "alignment") return "A row is a word that is written: what it looked at just before.";
  return writes(look, settled) ? "A row is what was read last; what it looks at helps to write what comes next." : "";
}

/** What a difference without any ink means. @param {Settled} settled @param {AskState} state */
function sameOf({ attention, head }, state) {
  if (state.isDifference || !isEdited(state)) return "No weight differs.";
  const later = "What follows from it shows in later layers and in the answer.";
  return state.off.includes(`${attention.name}:${head}`)
    ? `No weight differs: a head that is switched off still looks as before, only what it finds is left out. ${later}`
    : `No weight differs: the change does not reach this head. ${later}`;
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
  if (settled.head === "alignment" || !writes(look, settled)) return "";
  const next = settled.rows[row + 1];
  return next === undefined ? "" : `read before «${shortened(visible(next))}» is written`;
}

/** @param {Look} look @param {Settled} settled @param {AskState} state */
function cutCells(look, { attention, head, words }, state) {
  const [rows, columns] = [look.axes[attention.rows].words, look.axes[attention.columns].words];
  const here = state.cut.filter(([name]) => name === `${attention.name}:${head}`);
  return new Set(here.map(([, row, column]) => (words ? `${rows[row]},${columns[column]}` : `${row},${column}`)));
}

/**
 * The strongest cell that tells something: a word that looks at itself does not, nor the start of a text that is read
 * from left to right, which has nothing else to look at and is looked at for want of anything better.
 * @param {Matrix} matrix @param {Settled} settled
 */
function tellingCell(matrix, { attention, head }) {
  const { values, columns } = matrix;
  const isSelf = attention.rows === attention.columns && head !== "alignment";
  const isCausal = isSelf && attention.kind === "causal";
  let [best, any] = [-1, 0];
  for (let place = 0; place < values.length; place += 1) {
    const [row, column] = [Math.floor(place / columns), place % columns];
    const size = Math.abs(values[place]);
    if (size > Math.abs(values[any])) any = place;
    if ((isSelf && row === column) || (isCausal && (row === 0 || column === 0))) continue;
    if (size > (best < 0 ? 0 : Math.abs(values[best]))) best = place;
  }
  const chosen = best < 0 ? any : best;
  return { row: Math.floor(chosen / columns), column: chosen % columns };
}

/** @param {Matrix} matrix @param {number} row */
function bestColumn({ values, columns }, row) {
  let best = 0;
  for (let column = 1; column < columns; column += 1)
    if (values[row * columns + column] > values[row * columns + best]) best = column;
  return best;
}
