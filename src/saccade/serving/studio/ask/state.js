// The state of the Ask page as read from the address, adjusted to what the model has.

import { wholeNumber } from "../shared/address.js";
import { Refused, stackOf } from "../shared/api.js";
import { keyName } from "../shared/names.js";
import { hasPicture } from "./pictured.js";

export const ANSWERS = 5;
const WRITTEN_TOKENS = 40;
const MOST_TOKENS = 1024; // that the server sends at once

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").Attention} Attention
 *
 * @typedef {object} AskState
 * @property {string | null} attention
 * @property {string | null} head  a number, "mean", "max", "rollout" or "alignment"
 * @property {boolean} words  words, not their pieces
 * @property {string | null} view  "map", "arcs" or "picture"
 * @property {number | null} row
 * @property {number | null} column
 * @property {boolean} isPinned
 * @property {number} which  0: the best answer
 * @property {boolean} isDrawn  answers are drawn, not searched for
 * @property {number} seed
 * @property {number | null} step  words of the output that are written so far; null: all
 * @property {string[]} off  heads that are switched off
 * @property {[string, number, number][]} cut  links that are cut
 * @property {[string, string] | null} swap
 * @property {boolean} isDifference  of two texts, the second less the first
 * @property {string} by  what heads are sorted by: "" is their layer
 * @property {boolean} isMeasured  what the answer depends on is shown, in the place of the links
 * @property {string} shown  weights "after" a change, "before" it, or their "difference"
 *
 * @typedef {object} Settled  the same for one look: nothing is left open
 * @property {Attention} attention
 * @property {string} head
 * @property {boolean} words
 * @property {string} view
 * @property {string[]} rows  labels
 * @property {string[]} columns
 */

/** @param {Parts} parts @returns {AskState} */
export function readState(parts) {
  const swap = (parts.swap ?? "").split("→");
  return {
    attention: parts.a ?? null,
    head: parts.h ?? null,
    words: parts.w !== "0",
    view: parts.v ?? null,
    row: parts.row === undefined ? null : wholeNumber(parts.row, 0),
    column: parts.col === undefined ? null : wholeNumber(parts.col, 0),
    isPinned: parts.pin === "1",
    which: wholeNumber(parts.n, 0),
    isDrawn: parts.how === "draw",
    seed: wholeNumber(parts.seed, 1),
    step: parts.step === undefined ? null : wholeNumber(parts.step, 1),
    off: (parts.off ?? "").split(",").filter(Boolean),
    cut: (parts.cut ?? "").split(",").flatMap((link) => readLink(link)),
    swap: swap.length === 2 && swap[0] ? [swap[0], swap[1]] : null,
    isDifference: parts.d === "1",
    by: parts.by ?? "",
    isMeasured: parts.see === "depends",
    shown: ["before", "difference"].includes(parts.show) ? parts.show : "after",
  };
}

/**
 * "encoder.0.self:2:3:4": head 2, row 3, column 4; "encoder.0.self:3:4": in all heads of the layer.
 * @param {string} text @returns {[string, number, number][]}
 */
function readLink(text) {
  const found = /^([^:]+(?::\d+)?):(\d+):(\d+)$/.exec(text);
  return found ? [[found[1], Number(found[2]), Number(found[3])]] : [];
}

/** @param {[string, number, number][]} links */
export function writeLinks(links) {
  return links.length ? links.map((link) => link.join(":")).join(",") : null;
}

/** @param {AskState} state */
export function isEdited(state) {
  return state.off.length > 0 || state.cut.length > 0 || state.swap !== null;
}

/** What is changed, as the server takes it. @param {AskState} state */
export function editsOf(state) {
  return { without_heads: state.off, without_links: state.cut, replace: state.swap };
}

/**
 * The examples of a model as they are typed: values of JSON, or texts, which may have their solution beside them.
 * @param {Model} model @returns {string[]}
 */
export function typedExamples(model) {
  if (model.input.kind === "json") return model.examples.map((one) => JSON.stringify(one));
  const textOf = (/** @type {unknown} */ one) => (one && typeof one === "object" ? Object.values(one)[0] : one);
  return model.examples.map(textOf).filter((one) => typeof one === "string");
}

/**
 * What the model is sent for what was given: a text that was typed may stand for a value of JSON.
 * @template Given @param {Model} model @param {Given} given
 */
export function inputOf(model, given) {
  if (model.input.kind !== "json" || typeof given !== "string") return given;
  try {
    return JSON.parse(given);
  } catch {
    throw new Refused("The input is not valid JSON.", 400);
  }
}

/** @param {Model} model @param {AskState} state */
export function optionsOf(model, state) {
  /** @type {Record<string, unknown>} */
  const options = {};
  const has = (/** @type {string} */ name) => name in model.options;
  if (state.isDrawn && has("tries")) Object.assign(options, { sample: true, tries: ANSWERS, seed: state.seed });
  else if (has("beam") && !model.streams) Object.assign(options, { beam: ANSWERS, n_best: ANSWERS });
  else if (has("seed")) options.seed = state.seed;
  if (has("max_tokens")) options.max_tokens = WRITTEN_TOKENS;
  return options;
}

/**
 * Whether the weights of one look can be taken from those of the other, cell by cell.
 * @param {AskState} state @param {Look} before @param {Look} after
 * @param {boolean} isSameText whether rows have to agree
 */
export function isComparable(state, before, after, isSameText) {
  const [one, other] = [before, after].map((look) => (look.id === null ? null : settle(state, look)));
  if (!one || !other || one.attention.name !== other.attention.name || one.head !== other.head) return false;
  if (one.rows.length !== other.rows.length || one.columns.length !== other.columns.length) return false;
  return !isSameText || one.rows.join("\n") === other.rows.join("\n");
}

/** Whether the answer is drawn at random, not searched for. @param {Model} model @param {AskState} state */
export function isDrawnAnswer(model, state) {
  return Boolean(optionsOf(model, state).sample ?? model.defaults?.sample);
}

/**
 * The parts of an address that lead to this answer again: of all answers which, or what is changed.
 * @param {AskState} state @param {boolean} isChanged the answer after the changes
 * @returns {Parts}
 */
export function answerParts(state, isChanged) {
  const { off, which, swap } = state;
  /** @type {Record<string, string | null>} */
  const parts = {
    how: state.isDrawn ? "draw" : null,
    seed: state.seed === 1 ? null : String(state.seed),
    n: which && !isChanged ? String(which) : null,
    off: isChanged && off.length ? off.join(",") : null,
    cut: isChanged ? writeLinks(state.cut) : null,
    swap: isChanged && swap ? swap.join("→") : null,
  };
  return /** @type {Parts} */ (Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== null)));
}

/** The same in words. @param {AskState} state @returns {string[]} */
export function answerNames(state) {
  return [
    ...(state.isDrawn ? [`sampled answers, seed ${state.seed}`] : []),
    ...(state.which ? [`answer ${state.which + 1}`] : []),
    ...state.off.map((head) => `without ${keyName(head)}`),
    ...state.cut.map(([key, row, column]) => `link ${row}→${column} cut in ${keyName(key)}`),
    ...(state.swap ? [`«${state.swap[1]}» for «${state.swap[0]}»`] : []),
  ];
}

/**
 * What is seen of a look; null: it has no attention, or too much for one picture.
 * @param {AskState} state @param {Look} look
 */
export function seenOf(state, look) {
  const settled = look.id === null ? null : settle(state, look);
  return settled && longestSide(look, settled) <= MOST_TOKENS ? settled : null;
}

/** @param {Look} look @param {Settled} settled */
function longestSide({ axes }, { attention }) {
  return Math.max(axes[attention.rows].tokens.length, axes[attention.columns].tokens.length);
}

/** Why nothing is seen of a look. @param {AskState} state @param {Look} look */
export function whyUnseen(state, look) {
  const settled = look.id === null ? null : settle(state, look);
  if (!settled) return look.why ?? "This model has no attention to show.";
  return `The text has ${longestSide(look, settled)} tokens here; this page draws up to ${MOST_TOKENS}.`;
}

/** @param {AskState} state @param {Look} look @returns {Settled | null} null: there is nothing to look at */
export function settle(state, look) {
  const named = look.attentions.find((one) => one.name === state.attention);
  const attention = named ?? look.attentions.find((one) => one.name === look.layer) ?? look.attentions.at(-1);
  if (!attention) return null;
  const head = settledHead(state, look, attention, Boolean(named));
  if (head === "alignment" && look.alignment) return settledAlignment(state, look, look.alignment);
  const view = settledView(state, look, attention);
  const [rows, columns] = [look.axes[attention.rows], look.axes[attention.columns]];
  const labels = (/** @type {import("../shared/types.js").Axis} */ axis) => (state.words ? axis.labels : axis.tokens);
  return { attention, head, words: state.words, view, rows: labels(rows), columns: labels(columns) };
}

/**
 * An alignment is of one attention, whichever was seen before.
 * @param {AskState} state @param {Look} look @param {import("../shared/types.js").Alignment} alignment
 * @returns {Settled | null}
 */
function settledAlignment(state, look, { name, rows, columns }) {
  const attention = look.attentions.find((one) => one.name === name);
  if (!attention) return null;
  return { attention, head: "alignment", words: true, view: settledView(state, look, attention), rows, columns };
}

/** @param {AskState} state @param {Look} look @param {Attention} attention @param {boolean} isNamed */
function settledHead(state, look, attention, isNamed) {
  const { head } = state;
  if (head === "alignment" && look.alignment) return head;
  if (head === "mean" || head === "max") return head;
  if (head === "rollout" && stackOf(look, attention.name)) return head;
  if (head !== null && /^\d+$/.test(head) && Number(head) < attention.heads) return head;
  if (!isNamed && look.alignment) return "alignment";
  if (!isNamed && look.head !== undefined) return String(look.head);
  return "0";
}

/** @param {AskState} state @param {Look} look @param {Attention} attention */
function settledView(state, look, attention) {
  if (state.view === "map" || state.view === "arcs") return state.view;
  return hasPicture(state, look, attention) ? "picture" : "map";
}
