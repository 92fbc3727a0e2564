// The story: a sentence, the links between its words, and what happens when one of them is cut.

import { inPath, post, weightsOf } from "../shared/api.js";
import { openingOf, openingParts } from "../ask/opening.js";
import { optionsOf, readState } from "../ask/state.js";
import { unknownOf } from "../ask/sentence-text.js";
import { Strip } from "../ask/strip.js";
import { afterwards, make, reveal } from "../shared/dom.js";
import { layerName, MARKS } from "../shared/names.js";
import { attentionOf, bothAnswers, headByHead, headCount, linkWeights, plainAnswer } from "./answered.js";
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
 */
function stripOf(stage, cut) {
  /** @type {{links: import("../ask/strip.js").Links | null}} */
  const now = { links: null };
  let shows = 0;
  const strip = new Strip({
    pointed: (row) => {
      if (now.links && row !== now.links.row) strip.show((now.links = { ...now.links, row, column: -1 }));
    },
    pinned: () => undefined,
    cut,
    isBrief: true,
  });
  /** @param {Look} look @param {string} name @param {number} row @param {number} column @param {string} [isCut] */
  const show = async (look, name, row, column, isCut = "") => {
    const attention = attentionOf(look, name);
    const mine = (shows += 1);
    const matrix = await weightsOf(look, attention.name, "mean", true);
    if (mine !== shows) return; // something else is shown meanwhile
    const { labels } = look.axes[attention.rows];
    /** @type {Map<string, string>} */
    const cuts = new Map(isCut ? [[isCut, name]] : []);
    const words = { rows: labels, columns: labels, isSelf: true, upTo: Infinity };
    now.links = { matrix, ...words, row, column, cut: cuts, where: [name] };
    strip.show(now.links);
  };
  /** Where the chosen word is in another text, or what is in its place. @param {Look} look @param {string} name */
  const kept = (look, name) => {
    const { labels } = look.axes[attentionOf(look, name).rows];
    const { rows = [], row = 0 } = now.links ?? {};
    const nearest = (/** @type {(label: string) => boolean} */ isWanted) =>
      labels
        .flatMap((label, place) => (isWanted(label) ? [place] : []))
        .sort((one, other) => Math.abs(one - row) - Math.abs(other - row))
        .at(0);
    return nearest((label) => label === rows[row]) ?? nearest((label) => /\p{L}/u.test(label) && !MARKS[label]) ?? 0;
  };
  stage.picture.append(strip.element);
  return { show, strip, kept };
}

/** Words and their links; the link that decides is drawn first. @param {Stage} stage */
export async function links(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const look = await ask(model, opening.input, stage.signal);
  const { show } = stripOf(stage, null);
  await show(look, opening.name, opening.row, opening.column);
  stage.picture.append(plainAnswer(look));
  const { heads } = attentionOf(look, opening.name);
  const where = `${layerName(opening.name)}${heads === 1 ? "" : `, mean of ${heads} heads`}`;
  stage.say(`Point at a word to see which words it looks at (${where}).`);
  stage.offer("ask", { m: model.name, ...openingParts(opening) });
}

/** One link is cut in all heads of its layer, and then in one head after the other. @param {Stage} stage */
export async function cut(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const { input, name, row, column } = opening;
  const before = await ask(model, input, stage.signal);
  const answers = make("div", { class: "scene-answers", "aria-live": "polite" });
  const apart = make("div", { class: "scene-heads" });
  let cutAt = ""; // "row,column" of the link that is cut
  const draw = async () => {
    const mine = cutAt;
    const [from, to] = cutAt ? cutAt.split(",").map(Number) : [row, column];
    const without = (/** @type {string} */ where) =>
      ask(model, input, stage.signal, { without_links: cutOf(before, name, where, from, to) });
    const look = cutAt ? await without(name) : before;
    if (mine !== cutAt) return;
    await show(look, name, from, to, cutAt);
    if (mine !== cutAt) return;
    answers.replaceChildren(...(cutAt ? bothAnswers(before, look) : [plainAnswer(before)]));
    apart.replaceChildren();
    stage.say(captionOf(before, look, name, from, to, cutAt !== ""));
    if (!cutAt) return;
    const weights = await linkWeights(before, name, from, to);
    await headByHead(apart, before, weights, (head) => without(`${name}:${head}`), () => mine !== cutAt);
  };
  const { show } = stripOf(stage, (from, to) => {
    cutAt = cutAt === `${from},${to}` ? "" : `${from},${to}`;
    void draw().catch((error) => stage.studio.status.fail(error));
  });
  stage.picture.append(answers, apart);
  await draw();
  stage.offer("ask", { m: model.name, ...openingParts(opening) });
}

/**
 * What can be done now, or what was done and what came of it.
 * @param {Look} before @param {Look} look @param {string} name @param {number} row @param {number} column
 * @param {boolean} isCut
 */
function captionOf(before, look, name, row, column, isCut) {
  const { rows, heads } = attentionOf(before, name);
  const [from, to] = [row, column].map((word) => `«${before.axes[rows].labels[word]}»`);
  const where = `${headCount(heads)} of ${layerName(name)}`;
  if (!isCut) return `Click the scissors between ${from} and ${to}.`;
  const isSame = look.answer.text === before.answer.text;
  return `Without the link in ${where}, the answer ${isSame ? "stays the same" : "changes"}.`;
}

/**
 * The links between the tokens of two words.
 * @param {Look} look @param {string} name @param {string} where the name, which means all heads, or one head of it
 * @param {number} row @param {number} column
 */
function cutOf(look, name, where, row, column) {
  const { words } = look.axes[attentionOf(look, name).rows];
  const tokens = (/** @type {number} */ word) => words.flatMap((one, token) => (one === word ? [token] : []));
  return tokens(row).flatMap((one) => tokens(column).map((other) => [where, one, other]));
}

/** The same with any sentence. @param {Stage} stage */
export async function own(stage) {
  const story = await storyOf(stage);
  if (!story) return;
  const { model, opening } = story;
  const field = make("input", { type: "text", class: "scene-text", "aria-label": "Your sentence" });
  stage.picture.append(field);
  const { show, strip, kept } = stripOf(stage, null);
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
    await show(look, opening.name, text === opening.input ? opening.row : kept(look, opening.name), -1);
    const note = make("p", { class: "quiet" }, unknownOf(model, look, text, opening.input));
    answer.replaceChildren(plainAnswer(look), note);
    stage.offer("ask", { m: model.name, t: text, a: opening.name, h: "mean" });
    return undefined;
  };
  field.addEventListener("input", afterwards(() => stage.go({ t: field.value }), PAUSE));
  await draw();
  return { follow: draw };
}
