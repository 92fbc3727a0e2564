// What an answer is about, as a picture: the patches of an image, the paths of agents, or the pairs of bases.

import { bestColumn } from "./figure-text.js";
import { make, reveal, within } from "../shared/dom.js";
import { Overlay } from "./overlay.js";
import { PairMatrix } from "../shared/pairs.js";
import { Plane, firstMoments, momentName, tokenAt } from "../shared/plane.js";
import { Player } from "../shared/player.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Matrix} Matrix
 *
 * @typedef {object} Listener
 * @property {(row: number | null, column: number) => void} onPatch  of an image: pointed at, or with a row clicked
 * @property {(row: number, column: number) => void} onMoved  another token of the agents or bases is chosen
 *
 * @typedef {object} Shown
 * @property {Look} look
 * @property {string} name  of the attention
 * @property {Matrix} matrix
 * @property {number} row
 * @property {number} column
 */

const SIDE = () => 0.41 * innerHeight; // pixels of the matrix of pairs at most

export class Pictures {
  /**
   * @param {Listener} listener
   * @param {string} described the id of what reads the cell out
   */
  constructor(listener, described) {
    this.listener = listener;
    this.overlay = new Overlay((row, column) => listener.onPatch(row, column), described);
    this.plane = new Plane((agent) => this.chooseToken(agent, this.step));
    this.player = new Player((moment) => this.chooseMoment(moment), momentName);
    this.paths = make("div", { class: "walkers-plane" }, this.plane.element, this.player.element);
    this.pairs = new PairMatrix((first, second) => this.choose(first - 1, second - 1), SIDE);
    this.bases = make("div", {}, this.pairs.element, this.pairs.note);
    this.element = make("div", {}, this.overlay.element, this.paths, this.bases);
    /** @type {Shown | null} */
    this.shown = null;
  }

  /** @param {Look} look @param {string} name @param {Matrix} matrix @param {number} row @param {number} column */
  show(look, name, matrix, row, column) {
    this.shown = { look, name, matrix, row, column };
    reveal(this.overlay.element, Boolean(look.image));
    reveal(this.paths, Boolean(look.answer.agents));
    reveal(this.bases, Boolean(look.answer.pairs));
    if (look.image) this.overlay.show(look.image, matrix, row, column);
    else if (look.answer.agents) this.showPaths(this.shown);
    else if (look.answer.pairs) this.showPairs(this.shown);
  }

  /** @param {Shown} shown */
  showPaths({ look, name, matrix, row }) {
    const { agents } = look.answer;
    const [count, first] = [this.count, this.first];
    const chosen = tokenAt(row, count, first.rows);
    const seen = Array.from({ length: matrix.columns }, (_, column) => ({
      ...tokenAt(column, count, first.columns),
      weight: matrix.values[row * matrix.columns + column],
    }));
    this.plane.show({ agents, moment: chosen.moment, chosen, seen, before: null });
    this.plane.picture.setAttribute("data-attention", name);
    this.player.show(first.rows, first.rows + matrix.rows / count - 1, chosen.moment);
  }

  /** @param {Shown} shown */
  showPairs({ look, row, column }) {
    const { sequence, pairs } = look.answer;
    const { probabilities = [], true_pairs: truth = null } = look;
    const [first, second] = row < column ? [row, column] : [column, row];
    const last = second === first ? Math.min(first + 1, sequence.length - 1) : second; // a base is no pair with itself
    const chosen = /** @type {[number, number]} */ ([first === last ? last : first + 1, last + 1]);
    this.pairs.show({ sequence, probabilities, pairs, truth, chosen, seen: [] });
  }

  get count() {
    return Object.keys(this.shown?.look.answer.agents ?? {}).length;
  }

  get first() {
    const { agents } = this.shown?.look.answer ?? {};
    const past = agents ? agents[Object.keys(agents)[0]].past.length : 0;
    return firstMoments(this.shown?.name ?? "", past);
  }

  get step() {
    return Math.floor((this.shown?.row ?? 0) / this.count);
  }

  /** @param {number} moment */
  chooseMoment(moment) {
    this.chooseToken((this.shown?.row ?? 0) % this.count, moment - this.first.rows);
  }

  /** @param {number} agent @param {number} step */
  chooseToken(agent, step) {
    if (!this.shown) return;
    const { matrix } = this.shown;
    const row = within(step, 0, matrix.rows / this.count - 1) * this.count + agent;
    this.choose(row, bestColumn(matrix, row));
  }

  /** @param {number} row @param {number} column */
  choose(row, column) {
    if (!this.shown) return;
    const { look, name, matrix } = this.shown;
    this.show(look, name, matrix, row, column);
    this.listener.onMoved(row, column);
  }

  redraw() {
    this.overlay.redraw();
    this.plane.redraw();
    this.pairs.redraw();
  }
}
