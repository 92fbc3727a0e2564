// What the model answers in the story: before a link is cut, after it, and with the link cut in one head alone.

import { differing } from "../ask/answers.js";
import { freshChances, oldChances, probabilityOf } from "../ask/headline.js";
import { weightsOf } from "../shared/api.js";
import { make, number, percent } from "../shared/dom.js";

/** @typedef {import("../shared/types.js").Look} Look */

const WHOLE = "The probability of the whole answer";
const MOST_HEADS = 8; // that are tried one by one: those with the largest weights

/** @param {Look} look @param {string} name @returns {import("../shared/types.js").Attention} */
export function attentionOf(look, name) {
  return look.attentions.find((one) => one.name === name) ?? look.attentions[0];
}

/** @param {number} heads */
export function headCount(heads) {
  return heads === 1 ? "the only head" : `all ${heads} heads`;
}

/**
 * An answer, and its probability; after a change, what that was before and is now.
 * @param {string} label @param {(string | Node)[]} text @param {(number | null)[]} chances
 */
function answerLine(label, text, chances) {
  const known = chances.flatMap((one) => (one === null ? [] : [percent(one)]));
  const said = make("span", { class: "mono" }, known.join(" → "));
  return make("p", { class: "scene-answer" }, make("small", {}, label), make("b", { dir: "auto" }, ...text), said);
}

/** What the model answers, how probable that is, and how probable the second-best answer. @param {Look} look */
export function plainAnswer({ answer, alternatives = [] }) {
  const [chance, second] = [answer, alternatives.find(({ text }) => text !== answer.text)].map(
    (one) => one && probabilityOf(one),
  );
  const told = typeof chance === "number" ? [make("span", { class: "mono" }, percent(chance)), " probability"] : [];
  if (told.length && typeof second === "number") told.push(`; second best ${percent(second)}`);
  const line = answerLine("the model answers", [String(answer.text)], []);
  const chances = make("p", { class: "quiet scene-chance", title: WHOLE }, ...told);
  return make("div", { class: "scene-answers" }, line, chances);
}

/**
 * Both answers, each with its probability before and after the cut; if they are the same, only one.
 * @param {Look} before @param {Look} after
 */
export function bothAnswers(before, after) {
  const [old, fresh] = [before, after].map(({ answer }) => String(answer.text));
  const chances = oldChances(after) ?? [probabilityOf(before.answer)];
  const note = make("p", { class: "quiet", title: WHOLE }, "Probabilities: before the cut → after it.");
  if (old === fresh) return [answerLine("as before", [old], chances), note];
  const lines = [answerLine("before", differing(fresh, old), chances)];
  lines.push(answerLine("after", differing(old, fresh), freshChances(before, after) ?? []));
  return [...lines, note];
}

/**
 * The weights of a link in each head.
 * @param {Look} look @param {string} name @param {number} row @param {number} column @returns {Promise<number[]>}
 */
export async function linkWeights(look, name, row, column) {
  const { heads } = attentionOf(look, name);
  const every = await Promise.all(
    Array.from({ length: heads }, (_, head) => weightsOf(look, name, String(head), true)),
  );
  return every.map(({ values, columns }) => values[row * columns + column]);
}

/**
 * Cuts the link in one head after the other, and tells how probable the old answer then is.
 * @param {HTMLElement} place @param {Look} before @param {number[]} weights of the link in each head
 * @param {(head: number) => Promise<Look>} without @param {() => boolean} isOver nobody wants to know any more
 */
export async function headByHead(place, before, weights, without, isOver) {
  if (weights.length < 2) return;
  const largest = weights.map((_, head) => head).sort((one, other) => weights[other] - weights[one]);
  const tried = largest.slice(0, MOST_HEADS).sort((one, other) => one - other);
  const cells = tried.map(() => make("td", { class: "mono" }, "…"));
  const found = make("p", { role: "status" });
  const about = make("p", { class: "quiet" });
  const each = make("details", {}, make("summary", {}, "each head"), tableOf(tried, weights, cells), about);
  place.replaceChildren(found, each);
  const changing = [];
  for (const [at, head] of tried.entries()) {
    const look = await without(head);
    if (isOver()) return;
    const chances = oldChances(look);
    const isOther = look.answer.text !== before.answer.text;
    cells[at].textContent = chances ? percent(chances[1] ?? 0) : isOther ? "changes" : "stays";
    cells[at].toggleAttribute("data-flips", isOther);
    if (isOther) changing.push(head);
  }
  found.textContent = foundOf(changing, tried.length < weights.length ? tried.length : 0);
  const isOther = changing.length > 0 && !changing.includes(largest[0]);
  const said = `Not head ${largest[0] + 1}, where the weight is largest: a large weight is not proof of a cause.`;
  about.textContent = isOther ? said : "";
}

/** @param {number[]} changing heads whose cut changes the answer @param {number} some how many were tried; 0: all */
function foundOf(changing, some) {
  const none = some ? `None of the ${some} heads with the largest weights` : "No head";
  if (!changing.length) return `${none} is enough alone to change the answer.`;
  return `The cut in ${changing.map((head) => `head ${head + 1}`).join(" or ")} alone is enough.`;
}

/** @param {number[]} heads @param {number[]} weights @param {HTMLElement[]} cells to be filled */
function tableOf(heads, weights, cells) {
  const row = (/** @type {string} */ name, /** @type {(string | Node)[]} */ rest) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...rest);
  const titles = heads.map((head) => make("th", { scope: "col" }, `head ${head + 1}`));
  const sizes = heads.map((head) => make("td", { class: "mono" }, number(weights[head], 2)));
  const rows = [row("weight of the link", sizes), row("probability of the answer before", cells)];
  const head = make("thead", {}, row("The link cut in one head only:", titles));
  return make("table", { class: "numbers" }, head, make("tbody", {}, ...rows));
}
