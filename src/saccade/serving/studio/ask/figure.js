// Shows what the model looked at for one answer: a heat map, arcs or a picture, with one cell described in words.

import { addressOf } from "../shared/address.js";
import { weightsOf } from "../shared/api.js";
import { Arcs } from "./arcs.js";
import { bestColumn, hintOf, isWritten, namedAs, offNote } from "./figure-text.js";
import { sameOf, tellingCell, titleOf, writesNote } from "./figure-text.js";
import { cutCells } from "./cells.js";
import { make, reveal, visible, within } from "../shared/dom.js";
import { HeatMap } from "../shared/heatmap.js";
import { Legend } from "../shared/legend.js";
import { GLOSSARY } from "../shared/names.js";
import { Pictures } from "./pictures.js";
import { Readout } from "../shared/readout.js";
import { WordLink } from "./word-link.js";

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
 * @property {import("../shared/types.js").Model} model
 */

const NAMED = "as the command line names it, where layers and heads are counted from 0";
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
    this.title = make("h2", { title: `${GLOSSARY.head} ${GLOSSARY.layer}` });
    this.named = make("small", { class: "mono named-as", title: NAMED });
    this.hint = make("p", { class: "quiet" });
    this.walk = make("a", { class: "button small", "data-page": "walk" }, "Take this head apart");
    this.words = new WordLink();
    this.map = new HeatMap({
      label: "Weights; use the arrow keys to move, and Enter to pin a row",
      described: id,
      moved: (row, column) => this.onMoved(row, column),
      pinned: (row) => pinned(row, this.column),
    });
    this.arcs = new Arcs(
      (row) => pinned(row, this.column),
      (column) => this.onMoved(this.row, column),
    );
    this.pictures = new Pictures(this, id);
    const head = make("div", { class: "figure-head" }, this.title, this.named);
    const views = make("div", { class: "views" }, this.pictures.element, this.map.element, this.arcs.element);
    const ways = [this.legend.element, this.walk, this.words.element];
    const side = make("div", { class: "side" }, this.hint, this.readout.element, ...ways);
    this.element = make("section", { class: "figure", "aria-label": "Attention" }, head, views, side);
    this.matrix = /** @type {Matrix | null} */ (null); // of the picture, which may show a difference
    this.weights = /** @type {Matrix | null} */ (null);
    this.settled = /** @type {Settled | null} */ (null);
    this.look = /** @type {Look | null} */ (null);
    this.walked = /** @type {import("../shared/types.js").Parts | null} */ (null);
    this.model = /** @type {import("../shared/types.js").Model | null} */ (null);
    this.isDifference = false;
    this.upTo = Infinity; // rows from here on are not written yet
    this.row = 0;
    this.column = 0;
    this.asked = 0;
  }

  /**
   * @param {Look} look @param {Settled} settled @param {AskState} state
   * @param {Seen} seen
   */
  async show(look, settled, state, { label, before, written, walked, model }) {
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
    [this.matrix, this.weights, this.settled, this.look] = [matrix, weights, settled, look];
    this.upTo = written === null || !isWritten(look, settled) ? Infinity : written;
    this.place(look, settled, state, isSame ? weights : matrix);
    this.title.textContent = titleOf(look, settled) + (label && ` · ${label}`);
    this.named.textContent = namedAs(settled);
    const off = label === "before" ? "" : offNote(look, settled, state);
    this.hint.textContent = isSame ? sameOf(settled, state) : [hintOf(look, settled), off].filter(Boolean).join(" ");
    [this.walked, this.model] = [walked, model];
    for (const view of this.views()) reveal(view.element, settled.view === view.name);
    reveal(this.legend.element, settled.view === "map");
    this.legend.show(1, this.isDifference);
    if (settled.view === "map") this.showMap(look, settled, state, matrix);
    else if (settled.view === "arcs") this.arcs.show(heads, settled.rows, settled.columns, this.row, this.column);
    else this.pictures.show(look, settled.attention.name, matrix, this.row, this.column);
    this.read();
  }

  views() {
    return [
      { name: "map", element: this.map.element },
      { name: "arcs", element: this.arcs.element },
      { name: "picture", element: this.pictures.element },
    ];
  }

  /**
   * The cell that is read out: never of a word that is not written yet.
   * @param {Look} look @param {Settled} settled @param {AskState} state @param {Matrix} matrix
   */
  place(look, settled, state, matrix) {
    const isOfClass = look.image?.class_token && settled.view === "picture";
    const isOfWords = !look.image && !this.isDifference;
    const first = isOfClass ? { row: 0, column: bestColumn(matrix, 0) } : tellingCell(matrix, settled, isOfWords);
    const last = Math.min(matrix.rows, this.upTo) - 1;
    const wanted = Number.isFinite(this.upTo) ? last : (state.row ?? first.row); // stepping goes along
    const row = within(wanted, 0, last);
    const isChosen = state.row !== null && row === state.row && state.column !== null;
    const column = isChosen ? (state.column ?? 0) : row === first.row ? first.column : bestColumn(matrix, row);
    [this.row, this.column] = [row, within(column, 0, matrix.columns - 1)];
  }

  /** @param {Look} look @param {Settled} settled @param {AskState} state @param {Matrix} matrix */
  showMap(look, settled, state, matrix) {
    this.map.show(matrix, settled.rows.map(visible), settled.columns.map(visible), {
      isDifference: this.isDifference,
      upTo: this.upTo,
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

  /** Selects another cell without notifying the listeners. @param {number} row @param {number} column */
  point(row, column) {
    if (!this.matrix) return;
    this.row = within(row, 0, this.matrix.rows - 1);
    this.column = within(column, 0, this.matrix.columns - 1);
    this.map.point(this.row, this.column, false);
    this.read();
  }

  /** A word or a link that is pointed at elsewhere. @param {number} row @param {number | null} column */
  pointFrom(row, column) {
    if (!this.matrix || row >= this.upTo) return;
    const isSelf = this.settled && this.settled.attention.rows === this.settled.attention.columns;
    this.onMoved(row, column ?? (isSelf ? bestOther(this.matrix, row) : bestColumn(this.matrix, row)));
    this.map.point(this.row, this.column, false);
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
    this.pictures.overlay.show(this.look.image, this.matrix, this.row, this.column);
    this.read();
    if (row === null) this.moved(this.row, column);
    else this.pinned(row, column);
  }

  read() {
    const { matrix, settled, look, walked } = this;
    if (!matrix || !settled || !look) return;
    const note = writesNote(look, settled, this.row);
    this.readout.show(matrix, settled.rows, settled.columns, this.row, this.column, {
      isDifference: this.isDifference,
      note,
    });
    reveal(this.walk, Boolean(walked) && /^\d+$/.test(settled.head));
    const { attention, head, words } = settled;
    const cell = { row: String(this.row), col: String(this.column), w: words ? "1" : "0" };
    this.walk.href = addressOf("walk", { from: "model", ...walked, a: attention.name, h: head, ...cell });
    if (this.model) this.words.show(this.model, settled, this.row);
  }

  recolour() {
    this.map.recolour();
    this.legend.draw();
    this.arcs.redraw();
    this.pictures.redraw();
  }
}

/** The strongest link to another word. @param {Matrix} matrix @param {number} row */
function bestOther(matrix, row) {
  const values = matrix.values.slice();
  if (row < matrix.columns) values[row * matrix.columns + row] = -1;
  return bestColumn({ ...matrix, values }, row);
}

/** @param {Look} look @param {Settled} settled @returns {Promise<Matrix>} */
async function matrixOf(look, { attention, head, words }) {
  if (head !== "alignment" || !look.alignment) return weightsOf(look, attention.name, head, words);
  const { rows, columns, values } = look.alignment;
  return { rows: rows.length, columns: columns.length, values: Float64Array.from(values.flat()) };
}
