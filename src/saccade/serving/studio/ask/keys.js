// The keyboard shortcuts of the Ask page, and moving from head to head and from layer to layer.

import { settle } from "./state.js";

/** @typedef {import("./page.js").AskPage} AskPage */

/** @param {AskPage} page */
export function keysOf(page) {
  return {
    "← ↑ → ↓": { does: "move through the map, or through the words" },
    "Enter Esc": { does: "pin or release a row" },
    "+ − 0": { does: "zoom in, zoom out, fit (in the map)" },
    "[": { does: "previous head", run: () => turnHead(page, -1) },
    "]": { does: "next head", run: () => turnHead(page, 1) },
    ",": { does: "previous layer", run: () => turnLayer(page, -1) },
    ".": { does: "next layer", run: () => turnLayer(page, 1) },
    w: { does: "words or pieces", run: () => page.change({ w: page.state.words ? "0" : null }) },
    m: { does: "map", run: () => page.change({ v: "map" }) },
    a: { does: "arcs", run: () => page.change({ v: "arcs" }) },
    x: { does: "switch the open head off or on", run: () => page.changes.toggleHead() },
    c: { does: "cut or restore the chosen link", run: () => page.changes.toggleLink() },
    "/": { does: "type", run: () => page.sentences[0].inputPlace.querySelector("textarea")?.focus() },
  };
}

/** @param {AskPage} page @param {number} by */
function turnHead(page, by) {
  const look = page.sentences[0].shown(page.state);
  const settled = look && settle(page.state, look);
  if (!settled) return;
  const count = settled.attention.heads;
  const now = /^\d+$/.test(settled.head) ? Number(settled.head) : by > 0 ? -1 : count;
  page.change({ a: settled.attention.name, h: String((now + by + count) % count) });
}

/** @param {AskPage} page @param {number} by */
function turnLayer(page, by) {
  const look = page.sentences[0].shown(page.state);
  const settled = look && settle(page.state, look);
  if (!look || !settled) return;
  const count = look.attentions.length;
  const next = look.attentions[(look.attentions.indexOf(settled.attention) + by + count) % count];
  page.change({ a: next.name, h: settled.head === "alignment" ? "mean" : settled.head });
}
