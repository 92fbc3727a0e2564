// The scenes in their order: first the story of one sentence, then how attention is computed.

import { heads } from "./heads.js";
import { lookUp } from "./lookup.js";
import { masked } from "./masked.js";
import { steps } from "./steps.js";
import { positions } from "./positions.js";
import { cut, links, own } from "./story.js";

/** @type {import("./page.js").Scene[]} */
export const SCENES = [
  {
    name: "links",
    title: "Words look at each other",
    caption: "Point at a word: each line leads to a word that it looks at; the thicker the line, the more it looks.",
    open: links,
  },
  {
    name: "cut",
    title: "Cut one link, and the answer changes",
    caption: "Click the scissors. The model answers again without this link.",
    open: cut,
  },
  {
    name: "own",
    title: "Your own sentence",
    caption: "Type something else, and point at its words. The model knows only the words of a small made-up language.",
    open: own,
  },
  {
    name: "look-up",
    title: "Attention is a soft look-up",
    caption:
      "A query is compared with every key; the better they match, the more of that key's value is taken. " +
      "Cold, it is a dictionary that finds one entry; warm, it mixes them all.",
    open: lookUp,
  },
  {
    name: "attention",
    title: "From inputs to outputs, step by step",
    caption: "Every number is made of others: point at one to see which, and how.",
    open: steps,
  },
  {
    name: "positions",
    title: "Where a word stands",
    caption:
      "Attention does not see the order of words, so each position adds a pattern of waves of its own. " +
      "Two positions match the better, the nearer they are.",
    open: positions,
  },
  {
    name: "mask",
    title: "No looking ahead",
    caption:
      "Whoever writes word by word cannot look at words that are not written yet: " +
      "their scores become −∞, and their weights 0.",
    open: masked,
  },
  {
    name: "heads",
    title: "Many heads, many habits",
    caption: "Each head looks in its own way: at the word before, at itself, at one word or at all of them.",
    open: heads,
  },
];
