// Which numbers a number is made of: what lights up while it is pointed at.

/**
 * @typedef {import("./types.js").Step} Step
 * @typedef {{name: string, row: number | null, column: number | null}} Part  null: all of them
 */

/**
 * @param {Step[]} steps @param {string} name @param {number} row @param {number} column
 * @param {number} block the query whose
 *   weighted values are shown
 * @returns {Part[]}
 */
export function madeOf(steps, name, row, column, block) {
  const has = (/** @type {string} */ other) => steps.some((step) => step.name === other);
  const before = steps[steps.findIndex((step) => step.name === name) - 1]?.name ?? "";
  const source = has("source") ? "source" : "inputs";
  const projected = (/** @type {string} */ from, /** @type {string} */ matrix) => {
    if (!has(from)) return [];
    return has(matrix)
      ? [
          { name: from, row, column: null },
          { name: matrix, row: null, column },
        ]
      : [{ name: from, row, column }];
  };
  switch (name) {
    case "queries":
      return projected("inputs", "W_query");
    case "keys":
      return projected(source, "W_key");
    case "values":
      return projected(source, "W_value");
    case "scores":
      return [
        { name: "queries", row, column: null },
        { name: "keys", row: column, column: null },
      ];
    case "scaled":
    case "masked":
      return [{ name: before, row, column }];
    case "weights":
      return [{ name: before, row, column: null }];
    case "weighted":
      return [
        { name: "weights", row: block, column: row },
        { name: "values", row, column },
      ];
    case "sum":
      return row === block
        ? [{ name: "weighted", row: null, column }]
        : [
            { name: "weights", row, column: null },
            { name: "values", row: null, column },
          ];
    case "output":
      return projected("sum", "W_output");
    default:
      return [];
  }
}
