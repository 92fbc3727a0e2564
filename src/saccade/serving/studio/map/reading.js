// Reading a long text for a map: which models can read it, how the server is asked, and what the page says about it.

import { wholeNumber } from "../shared/address.js";
import { Refused, events, inPath } from "../shared/api.js";
import { make, within } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").Attention} Attention
 * @typedef {import("./page.js").Reading} Reading
 */

const USUAL = 500; // words
const MOST = 65_536;
const LONG = 6000; // words that take seconds to read,
const FIRST = 1000; // and as many as are read at once
const FINAL = [200, 400, 413]; // refused, and asking again would not help

/**
 * @param {string} name the model @param {string} text @param {AbortSignal} signal
 * @param {(share: number, what?: string) => void} progress @returns {Promise<Reading>}
 */
async function readAll(name, text, signal, progress) {
  progress(0);
  for await (const told of events(`/api/models/${inPath(name)}/maps`, { text }, signal)) {
    if (typeof told.progress === "number") progress(told.progress, `Reading: ${told.name}`);
    if (told.look) return { look: told.look, tokens: told.tokens ?? 0 };
  }
  throw new Refused("The server stopped before the text was read.", 0);
}

/**
 * The attention that is mapped: one of a single row would be a line.
 * @param {Look} look @param {string | undefined} name
 */
export function mappedAttention(look, name) {
  const wide = look.attentions.filter((one) => look.axes[one.rows].tokens.length > 1);
  return wide.find((one) => one.name === name) ?? wide.find((one) => one.name === look.layer) ?? wide.at(-1) ?? null;
}

/** Whether a map can be made with it. @param {Model} model */
export function isReader(model) {
  return model.reads !== false && model.has_attention;
}

/** How many words a text of examples has. @param {Parts} parts */
export function countOf(parts) {
  return within(wholeNumber(parts.words, USUAL), 1, MOST);
}

/** @param {Look | undefined} look */
export function longestAxis(look) {
  return Math.max(0, ...Object.values(look?.axes ?? {}).map(({ tokens }) => tokens.length));
}

/**
 * Buttons that lead to models whose maps can be drawn.
 * @param {Studio} studio @param {Model | null} but not to this one
 */
export function readersBut(studio, but) {
  return studio.models
    .filter((one) => isReader(one) && one !== but)
    .map(({ name }) => make("button", { type: "button", onclick: () => studio.open("map", { m: name }) }, name));
}

/** Where a model can be looked at that has no map. @param {Studio} studio @param {Model} model */
export function askInstead(studio, { name }) {
  const open = () => studio.open("ask", { m: name });
  return make("button", { type: "button", onclick: open }, "See what it looks at on the Ask page");
}

/**
 * Says how much of a text is shown that is too long for its model.
 * @param {Model} model @param {number} shown @param {number} tokens of the whole text
 */
export function shownOf(model, shown, tokens) {
  const [some, all] = [shown.toLocaleString("en"), tokens.toLocaleString("en")];
  const part = model.kept_part ? `the ${model.kept_part} ` : "";
  return tokens > shown ? `This is ${part}${some} of the text's ${all} tokens: the model reads no more at once.` : "";
}

/**
 * Which head is mapped, and how its weights are pooled.
 * @param {Parts} parts @param {Look} look @param {Attention} attention
 */
export function headOf(parts, look, attention) {
  const chosen = Math.min(wholeNumber(parts.h, Number(look.head ?? 0)), attention.heads - 1);
  const head = ["mean", "max"].includes(parts.h) ? parts.h : String(chosen);
  const pool = head === "mean" || (head !== "max" && parts.pool === "mean") ? "mean" : "max";
  return { head, pool };
}

/** Why a model has no map. @param {Model | null} model @param {boolean} hasOthers */
export function whyNoReader(model, hasOthers) {
  const does = model?.input.kind === "image" ? "takes images, not texts" : "does not read long texts";
  const others = hasOthers ? "These models can read long texts:" : "No model here can read long texts.";
  return model ? `${model.name} ${does}. ${others}` : others;
}

/** The place that the address names; null: all of it. @param {Parts} parts */
export function placeOf({ x, y, z }) {
  const scale = Number(z);
  return x && y && scale > 0 ? { x: Number(x) || 0, y: Number(y) || 0, scale } : null;
}

/**
 * What there is to do where a text was not read: something else, if it would be refused again.
 * @param {Studio} studio @param {Model} model @param {number} status @param {() => void} again
 */
export function waysOut(studio, model, status, again) {
  if (FINAL.includes(status)) return [askInstead(studio, model), ...readersBut(studio, model)];
  return [make("button", { type: "button", onclick: again }, "Read it")];
}

/**
 * Reads the first words of a text that takes long to read, so that there is something to see; null: it does not.
 * @param {Studio} studio @param {Model} model @param {string} text
 */
export async function readFirst(studio, model, text) {
  const words = text.split(/\s+/);
  if (words.length <= LONG) return null;
  const read = await readOrRefuse(studio, model, words.slice(0, FIRST).join(" "));
  const [some, all] = [FIRST, words.length].map((count) => count.toLocaleString("en"));
  const told = `This is the map of the first ${some} of ${all} words; the whole text is being read.`;
  return { ...read, told };
}

/**
 * Reads a text, with progress; where it is refused, says how.
 * @param {Studio} studio @param {Model} model @param {string} text
 * @returns {Promise<{found: Reading | undefined, status: number}>}
 */
export async function readOrRefuse(studio, model, text) {
  let status = 0;
  const found = await studio.status.during("Reading the text", (signal, progress) =>
    readAll(model.name, text, signal, progress).catch((error) => {
      if (error instanceof Refused) ({ status } = error);
      throw error;
    }),
  );
  return { found, status };
}
