// Reads a cell and its row out in words and numbers.

import { make, number, shortened, visible } from "./dom.js";

/** @typedef {import("./types.js").Matrix} Matrix */

const MOST_LISTED = 8;
const SMALLEST_LISTED = 0.005;

/**
 * The strongest of a row, the strongest first.
 * @param {Matrix} matrix @param {number} row
 * @returns {{column: number, weight: number}[]}
 */
export function strongest(matrix, row) {
  const all = Array.from({ length: matrix.columns }, (_, column) => {
    return { column, weight: matrix.values[row * matrix.columns + column] };
  });
  all.sort((one, other) => Math.abs(other.weight) - Math.abs(one.weight));
  return all.slice(0, MOST_LISTED).filter(({ weight }, place) => place === 0 || Math.abs(weight) >= SMALLEST_LISTED);
}

export class Readout {
  /** @param {string} id */
  constructor(id) {
    this.cell = make("p", { id, class: "readout", role: "status", "aria-live": "polite" });
    this.row = make("p", { class: "strongest" });
    this.element = make("div", { class: "reading" }, this.cell, this.row);
  }

  /**
   * @param {Matrix} matrix @param {string[]} rows @param {string[]} columns @param {number} row @param {number} column
   * @param {{isDifference?: boolean, note?: string}} [options]
   */
  show(matrix, rows, columns, row, column, { isDifference = false, note = "" } = {}) {
    const weight = matrix.values[row * matrix.columns + column];
    if (weight === undefined) return this.clear(); // an empty answer has no rows
    const word = (/** @type {string} */ label) => make("bdi", { title: label }, `«${shortened(visible(label))}»`);
    const place = make("small", { title: "counted from 0" }, `row ${row}, column ${column}${note ? ` · ${note}` : ""}`);
    const value = make("b", { class: "mono" }, number(weight, 6));
    const link = isDifference ? " differs by " : " ";
    this.cell.replaceChildren(word(rows[row] ?? ""), " → ", word(columns[column] ?? ""), link, value, " ", place);
    const isListed = (/** @type {number} */ its) => !isDifference || Math.abs(its) >= SMALLEST_LISTED;
    const found = strongest(matrix, row).filter(({ weight: its }) => isListed(its));
    const listed = found.flatMap(({ column: other, weight: its }) => {
      const item = [
        make("bdi", {}, shortened(visible(columns[other] ?? ""))),
        " ",
        make("span", { class: "mono" }, number(its)),
      ];
      return [make("span", { class: "item" }, ...item), " "];
    });
    const differs = found.length ? " differs at: " : ": no weight differs by 0.005 or more";
    const looks = isDifference ? differs : " looks at: ";
    this.row.replaceChildren(make("span", { class: "quiet" }, "row ", word(rows[row] ?? ""), looks), ...listed);
  }

  clear() {
    this.cell.replaceChildren();
    this.row.replaceChildren();
  }
}
