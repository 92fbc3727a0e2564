// The scenes in their order: first the story of one sentence, then how attention is computed.

import { agents } from "./agents.js";
import { heads } from "./heads.js";
import { lookUp } from "./lookup.js";
import { masked } from "./masked.js";
import { patches } from "./patches.js";
import { points } from "./points.js";
import { positions } from "./positions.js";
import { residues } from "./residues.js";
import { recurrent } from "./recurrent.js";
import { steps } from "./steps.js";
import { cut, links, own } from "./story.js";
import { vector } from "./vector.js";

/** @type {import("./page.js").Scene[]} */
export const SCENES = [
  {
    name: "links",
    title: "Words look at each other",
    caption: "Point at a word to see which words it looks at.",
    open: links,
  },
  {
    name: "cut",
    title: "Cut one link, and the answer changes",
    caption: "Click the scissors.",
    experiments: ["pronoun-link", "weights-and-effects"],
    open: cut,
  },
  {
    name: "own",
    title: "Your own sentence",
    caption: "Type a sentence. The model knows only a small made-up language.",
    open: own,
  },
  {
    name: "look-up",
    title: "Softmax: attention is a soft look-up",
    caption:
      "A query is compared with every key; softmax turns the scores into shares, and so much of each value is taken. " +
      "At a low temperature this is a dictionary that finds one entry; at a high one it mixes all entries.",
    experiments: ["scaled-scores", "sparse-weights", "hard-and-soft"],
    open: lookUp,
  },
  {
    name: "attention",
    title: "From inputs to outputs: scores, softmax, sum",
    caption:
      "The numbers of the upper row are given, and all others are computed: point at one to see from which, and how. " +
      "Type over a given number, and all that is computed from it changes.",
    open: steps,
  },
  {
    name: "recurrent",
    title: "Before attention: one state that remembers",
    caption:
      "A recurrent network keeps one state; each column of colours shows it after one more word. " +
      "The bars show how much gradient reaches each word: from a word without gradient, nothing is learned.",
    experiments: ["vanishing-gradients"],
    open: recurrent,
  },
  {
    name: "vector",
    title: "One vector, or attention",
    caption:
      "Both translators are the same recurrent network, but one passes on a single vector, while the other " +
      "looks back at the sentence. " +
      "The longer the sentence, the more the vector forgets.",
    experiments: ["fixed-context", "three-ways"],
    open: vector,
  },
  {
    name: "positions",
    title: "Where a word stands",
    caption:
      "Attention does not see the order of words, so each position adds a pattern of waves of its own. " +
      "How well two positions match depends only on their distance, even in texts longer than any in training.",
    experiments: ["no-positions-no-order", "positions-beyond-training", "linear-positions"],
    open: positions,
  },
  {
    name: "mask",
    title: "No looking ahead",
    caption:
      "A model that writes word by word cannot look at later words, so half of the matrix is masked. " +
      "Each step gives every word in the vocabulary a probability; then one of these words is chosen and written.",
    experiments: ["leaking-mask"],
    open: masked,
  },
  {
    name: "heads",
    title: "Many heads, many habits",
    caption: "Each head looks in its own way: at the word before, at itself, at one word or at all of them.",
    experiments: ["several-heads"],
    open: heads,
  },
  {
    name: "patches",
    title: "An image is a sentence of patches",
    caption:
      "The image is cut into squares, and each square looks at the others like a word. " +
      "Click a square to see where it looks.",
    open: patches,
  },
  {
    name: "points",
    title: "Words are points",
    caption:
      "A model knows a word as a list of numbers, which is a point; words that are used in similar ways " +
      "end up close together. " +
      "Choose a word to see which words are nearest.",
    experiments: ["related-words"],
    open: points,
  },
  {
    name: "agents",
    title: "Agents that look at each other",
    caption:
      "Each walker looks at its own past and at others to predict where it will go: dots are moments, lines lead to " +
      "other walkers. Click a walker to see what it looks at.",
    open: agents,
  },
  {
    name: "residues",
    title: "Bases that pair",
    caption:
      "A molecule of RNA folds, and some of its bases pair; a pair looks at other pairs that share a base with it. " +
      "Click a pair to see what it looked at.",
    open: residues,
  },
];
