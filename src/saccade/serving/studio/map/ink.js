// The weight that has the colour of the ink: one for all that is seen, chosen or after what is seen.

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
 * Colours stay as they are while one moves, as long as they show what there is.
 * @param {number} before the ink so far @param {number} usual that of what is seen now
 */
export function settledInk(before, usual) {
  return usual <= 2 * before && usual >= before / 3 ? before : usual;
}
