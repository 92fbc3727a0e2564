// The weight that gets the full colour: chosen by the user, or derived from the visible weights.

import { valuesInSight } from "./values.js";

/** @typedef {import("./tiles.js").Tiles} Tiles */

const LEAST = 8; // powers of ten

/** What can be chosen: 1, 0.5, 0.2, 0.1 and so on; a long text has small weights. */
export const INKS = [
  "1",
  ...Array.from({ length: LEAST }, (_, power) => [5, 2, 1].map((digit) => String(Number(`${digit}e-${power + 1}`)))),
].flat();

/**
 * An ink that shows the usual and the strong weights: one cell in fifty has its colour, unless a few are far above all
 * others, as those of a head that looks at one place only.
 * @param {Float32Array} values @returns {number | null} null: nothing but zeros
 */
export function usualInk(values) {
  const sorted = values.slice().sort();
  const at = (/** @type {number} */ share) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  const usual = Math.max(at(0.98), at(0.999) / 20);
  if (!(usual > 0)) return null;
  return Number([...INKS].reverse().find((ink) => Number(ink) >= usual) ?? 1);
}

/**
 * Colours do not change while the user moves, as long as they fit the visible weights.
 * @param {number} before the ink so far @param {number} usual that of what is seen now
 */
export function settledInk(before, usual) {
  return usual <= 2 * before && usual >= before / 3 ? before : usual;
}

/** The full-colour weight of a map, chosen by the user or derived from the visible weights. */
export class Inking {
  /**
   * @param {import("./view.js").MapView} view @param {import("../shared/legend.js").Legend} legend
   * @param {import("./choices.js").MapChoices} choices
   */
  constructor(view, legend, choices) {
    this.view = view;
    this.legend = legend;
    this.choices = choices;
    this.key = ""; // of what the ink was found for
    this.ink = 1;
  }

  /** Whether an ink was found for this head. @param {Tiles} tiles */
  knows(tiles) {
    return this.key === keyOf(tiles);
  }

  /** @param {Tiles} tiles @param {string} given in the address */
  choose(tiles, given) {
    const isChosen = INKS.includes(given);
    const ink = isChosen ? Number(given) : this.seen(tiles);
    tiles.setInk(ink);
    this.legend.show(ink, false);
    this.choices.showInk(ink, isChosen);
    this.view.redraw();
  }

  /** @param {Tiles} tiles */
  seen(tiles) {
    const usual = usualInk(valuesInSight(tiles, this.view.level, this.view.part));
    if (usual === null) return this.ink;
    this.ink = this.knows(tiles) ? settledInk(this.ink, usual) : usual;
    this.key = keyOf(tiles);
    return this.ink;
  }
}

/** @param {Tiles} tiles */
function keyOf({ look, source }) {
  return JSON.stringify([look, source]);
}
