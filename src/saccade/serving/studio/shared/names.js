// Plain names for layers and heads: "reading, layer 2, head 4" is what the command line calls encoder.1.self:3.

const TOGETHER = { mean: "mean of all heads", max: "maximum of all heads" };

/** @param {string} name an attention, as the server names it */
export function layerName(name) {
  if (name === "decoder.cross") return "reading while writing"; // the only attention of a recurrent network
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
  head: "A head is one of several attentions side by side; each learns to look for something different.",
  layer: "A layer is one round of attention; the next one works on what this one found.",
  query: "A query is what a word looks for, as a list of numbers: one row of the matrix.",
  key: "A key is what a word can be found by, as a list of numbers: one column of the matrix.",
  weight: "A weight is the share of its attention that a word gives to another; a row adds up to 1.",
  score: "A score says how well a query matches a key: their dot product, often divided by √d and a temperature.",
  softmax: "Softmax turns scores into weights: e to the power of each score, divided by the sum of these powers.",
  temperature: "A temperature divides the scores: below 1 the largest gets more of the weight, above 1 all get alike.",
  alignment: "Alignment: the layer whose weights best show which word was translated from which. Start here.",
  mean: "Mean: the average over the heads of this layer, for an overview.",
  max: "Max: the largest weight that any head of this layer gives, so that no head is overlooked.",
  rollout: "Rollout: what reaches a word through all layers, as if attention alone mixed the words.",
  entropy: "Entropy, in bits, says how widely a head looks: 0 at one word alone, 3 at eight words alike.",
};

/** Marks that are not words of the text; the word "constructor" is none. @type {Record<string, string | undefined>} */
export const MARKS = Object.assign(Object.create(null), {
  "</s>": "</s> marks the end of the text; a head that has nothing to look for often looks at it.",
  "<s>": "<s> marks the start: the model reads it before it writes the first word.",
});

/** What each page is for. @type {Record<string, string>} */
export const ABOUT = {
  learn: "Learn tells how attention works, one idea per screen; every number is computed now.",
  ask:
    "Ask a model, and see what it looked at for its answer. Point at a word to see its links; click the scissors on " +
    "a link to cut it, and read how the answer and its probability change.",
  walk:
    "Walk computes attention number by number, from left to right. Point at a number to see what it is made of; " +
    "type another, and all later numbers follow.",
  map: "Map shows every weight of a long text at once. Zoom in until each weight is a square of its own.",
  runs:
    "Runs shows how models learn: their losses and scores at each step, and what they looked at in one sentence at " +
    "each checkpoint.",
  words: "Words shows which words a model takes to be alike: each is a list of numbers, and so a point.",
};
