// Plain names for layers and heads: "reading, layer 2, head 4" is what the command line calls encoder.1.self:3.

const TOGETHER = { mean: "mean of all heads", max: "maximum of all heads" };

/** @param {string} name an attention, as the server names it */
export function layerName(name) {
  const found = /^(encoder|decoder)\.(\d+)\.(self|cross)$/.exec(name);
  if (!found) return name;
  const [, side, layer, kind] = found;
  const does = kind === "cross" ? "reading while writing" : side === "encoder" ? "reading" : "writing";
  return `${does}, layer ${Number(layer) + 1}`;
}

/** @param {string} name @param {string | number} head a number from 0, or how heads are taken together */
export function headName(name, head) {
  const together = TOGETHER[/** @type {"mean" | "max"} */ (String(head))];
  return `${layerName(name)}, ${together ?? `head ${Number(head) + 1}`}`;
}

/** "encoder.1.self:3", or without a head: all of a layer. @param {string} key */
export function keyName(key) {
  const [name, head] = key.split(":");
  return head === undefined ? `all heads of ${layerName(name)}` : headName(name, head);
}

/** What a few words of the trade mean, told where they stand. @type {Record<string, string>} */
export const GLOSSARY = {
  head: "A head is one of several parallel copies of attention in a layer; each learns to look for something different.",
  layer: "A layer is one round of attention; the next one works on what this one found.",
  weight: "A weight is the share of its attention that a word gives to another; a row adds up to 1.",
};
