// The story: a sentence, the links between its words, and what happens when one of them is cut.

import { inPath, post, weightsOf } from "../shared/api.js";
import { openingOf, openingParts } from "../ask/opening.js";
import { differing } from "../ask/answers.js";
import { freshChances, oldChances, probabilityOf } from "../ask/headline.js";
import { optionsOf, readState } from "../ask/state.js";
import { unknownOf } from "../ask/sentence-text.js";
import { Strip } from "../ask/strip.js";
import { afterwards, make, percent, reveal } from "../shared/dom.js";
import { headName, layerName } from "../shared/names.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../ask/opening.js").Opening} Opening
 * @typedef {{model: Model, opening: Opening}} Story
 */

const LESSON = "demo"; // the model of `saccade demo`
const NO_STORY = "In the models that are served here, no link was found that decides an answer.";
const PAUSE = 250; // milliseconds after the last key

/** The first model here that has a story to tell. @param {Stage} stage @returns {Promise<Story | null>} */
async function storyOf(stage) {
  for (const model of stage.studio.models) {
    const opening = await openingOf(model).catch(() => null);
    if (opening) return { model, opening };
  }
  if (await hasModels(stage, [LESSON])) stage.say(NO_STORY);
  return null;
}

/**
 * @param {Model} model @param {string} input @param {AbortSignal} signal @param {object} [edits]
 * @returns {Promise<Look>}
 */
function ask(model, input, signal, edits = {}) {
  const options = optionsOf(model, readState({}));
  return post(`/api/models/${inPath(model.name)}/looks`, { input, options, ...edits }, signal);
}

/**
 * The strip of a look, in one layer with all its heads together.
 * @param {Stage} stage @param {((row: number, column: number) => void) | null} cut
 * @param {(row: number) => void} [told] the word that is pointed at
 */
function stripOf(stage, cut, told = (/** @type {number} */ _row) => undefined) {
  /** @type {{row: number, links: import("../ask/strip.js").Links | null}} */
  const now = { row: 0, links: null };
  const strip = new Strip({
    pointed: (row) => {
      if (now.links && row !== now.links.row) strip.show((now.links = { ...now.links, row, column: -1 }));
      told(row);
    },
    pinned: () => undefined,
    cut,
  });
  /** @param {Look} look @param {string} name @param {number} row @param {number} column @param {string} [isCut] */
  const show = async (look, name, row, column, isCut = "") => {
    const attention = look.attentions.find((one) => one.name === name) ?? look.attentions[0];
    const matrix = await weightsOf(look, attention.name, "mean", true);
    const { labels } = look.axes[attention.rows];
    /** @type {Map<string, string>} */
    const cuts = new Map(isCut ? [[isCut, name]] : []);
    const words = { rows: labels, columns: labels, isSelf: true, upTo: Infinity };
    now.links = { matrix, ...words, row, column, cut: cuts, where: [name] };
    strip.show(now.links);
  };
  stage.picture.append(strip.element);
  return { show, strip };
}

/**
 * An answer, and its probability; after a change, what that was before and is now.
 * @param {string} label @param {(string | Node)[]} text @param {(number | null)[]} chances
 */
function answerLine(label, text, chances) {
  const known = chances.flatMap((one) => (one === null ? [] : [percent(one)]));
  const title = "The probability that the model gives to this whole answer";
  const said = make("span", { class: "mono", title }, known.join(" → "));
  return make("p", { class: "scene-answer" }, make("small", {}, label), make("b", { dir: "auto" }, ...text), said);
}

/** What the model answers, and how probable that is. @param {Look} look */
function plainAnswer({ answer }) {
  return answerLine("the model answers", [String(answer.text)], [probabilityOf(answer)]);
}

/** Both answers, each with its probability before and after the cut. @param {Look} before @param {Look} after */
function bothAnswers(before, after) {
  const [old, fresh] = [before, after].map(({ answer }) => String(answer.text));
  const lines = [answerLine("before", differing(fresh, old), oldChances(after) ?? [probabilityOf(before.answer)])];
  lines.push(answerLine("after", differing(old, fresh), freshChances(before, after) ?? oldChances(after) ?? []));
  const note = "Behind each answer: its probability before the cut → after it.";
  return [...lines, make("p", { class: "quiet" }, note)];
}

/** Words and their links; the link that decides is drawn first. @param {Stage} stage */
export async function links(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const look = await ask(model, opening.input, stage.signal);
  const strongest = await carrier(look, opening);
  const { show } = stripOf(stage, null, (row) => {
    strongest.style.visibility = row === opening.row ? "visible" : "hidden"; // it is of one word alone
  });
  await show(look, opening.name, opening.row, opening.column);
  stage.picture.append(plainAnswer(look), strongest);
  stage.offer("ask", { m: model.name, ...openingParts(opening) });
}

/** The head that carries a link. @param {Look} look @param {Opening} opening */
async function carrier(look, { name, row, column }) {
  const attention = look.attentions.find((one) => one.name === name) ?? look.attentions[0];
  const every = await Promise.all(
    Array.from({ length: attention.heads }, (_, head) => weightsOf(look, name, String(head), true)),
  );
  const weights = every.map(({ values, columns }) => values[row * columns + column]);
  const best = weights.indexOf(Math.max(...weights));
  const { labels } = look.axes[attention.rows];
  const said = `«${labels[row]}» → «${labels[column]}» is strongest in ${headName(name, best)}, with weight `;
  return make("p", { class: "carrier" }, said, make("span", { class: "mono" }, weights[best].toFixed(2)));
}

/** One link is cut in all heads of its layer. @param {Stage} stage */
export async function cut(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const { input, name, row, column } = opening;
  const before = await ask(model, input, stage.signal);
  const answers = make("div", { class: "scene-answers", "aria-live": "polite" });
  let cutAt = ""; // "row,column" of the link that is cut
  const draw = async () => {
    const [from, to] = cutAt ? cutAt.split(",").map(Number) : [row, column];
    const edits = { without_links: cutOf(before, name, from, to) };
    const look = cutAt ? await ask(model, input, stage.signal, edits) : before;
    await show(look, name, from, to, cutAt);
    answers.replaceChildren(...(cutAt ? bothAnswers(before, look) : [plainAnswer(before)]));
    const outcome = look.answer.text === before.answer.text ? "the answer stays the same" : "the answer is another one";
    if (cutAt) stage.say(`The link is cut in all heads of ${layerName(name)}: ${outcome}.`);
  };
  const { show } = stripOf(stage, (from, to) => {
    cutAt = cutAt === `${from},${to}` ? "" : `${from},${to}`;
    void draw().catch((error) => stage.studio.status.fail(error));
  });
  stage.picture.append(answers);
  await draw();
  const { labels } = before.axes[(before.attentions.find((one) => one.name === name) ?? before.attentions[0]).rows];
  const link = `the line from «${labels[row]}» to «${labels[column]}»`;
  stage.say(`Click the scissors on ${link}. The model answers again without this link.`);
  stage.offer("ask", { m: model.name, ...openingParts(opening) });
}

/**
 * The links between the tokens of two words.
 * @param {Look} look @param {string} name @param {number} row @param {number} column
 */
function cutOf(look, name, row, column) {
  const attention = look.attentions.find((one) => one.name === name) ?? look.attentions[0];
  const { words } = look.axes[attention.rows];
  const tokens = (/** @type {number} */ word) => words.flatMap((one, token) => (one === word ? [token] : []));
  return tokens(row).flatMap((one) => tokens(column).map((other) => [name, one, other]));
}

/** The same with any sentence. @param {Stage} stage */
export async function own(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const field = make("input", { type: "text", class: "scene-text", "aria-label": "Your sentence" });
  stage.picture.append(field);
  const { show, strip } = stripOf(stage, null);
  const answer = make("div", { class: "scene-answers", "aria-live": "polite" });
  stage.picture.append(answer);
  /** @returns {Promise<void>} */
  const draw = async () => {
    if (document.activeElement !== field) field.value = stage.parts().t ?? opening.input;
    const text = (stage.parts().t ?? opening.input).trim();
    reveal(strip.element, text !== "");
    if (!text) return answer.replaceChildren(make("p", { class: "quiet" }, "Type a sentence."));
    const look = await ask(model, text, stage.signal);
    if (text !== (stage.parts().t ?? opening.input).trim()) return draw(); // another one was typed meanwhile
    await show(look, opening.name, text === opening.input ? opening.row : 0, -1);
    const note = make("p", { class: "quiet" }, unknownOf(model, look, text));
    answer.replaceChildren(plainAnswer(look), note);
    stage.offer("ask", { m: model.name, t: text, a: opening.name, h: "mean" });
    return undefined;
  };
  field.addEventListener("input", afterwards(() => stage.go({ t: field.value }), PAUSE));
  await draw();
  return { follow: draw };
}
