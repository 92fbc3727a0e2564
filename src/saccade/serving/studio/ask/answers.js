// Shows the answer of each kind of task: a text, coloured tags, a label with the words that decided it, filled masks.

import { directionOf, make, named, number, percent, shortened, visible } from "../shared/dom.js";
import { imagePicture } from "./overlay.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/types.js").AnswerRecord} AnswerRecord
 *
 * @typedef {object} Writing  the words of a text that is written, which can be chosen
 * @property {string[]} words
 * @property {number | null} step  so many are written; null: all
 * @property {((word: number) => void) | null} chosen
 * @property {number | null} pinned
 * @property {number | null} told  the word whose change is told: the pinned one, or that of the chosen word of the text
 */

const TAG_COLOURS = 8; // in the style sheet: tag-0 ... tag-7
const MOST_SHOWN = 5;
const SURE = 0.9;
const LONGEST = 200; // letters of a word with a tag
const MARGIN = 8; // pixels between a list and the edge of the window

/**
 * @param {Model} model @param {AnswerRecord} answer @param {Look | null} look what there is to see of it
 * @param {Writing} writing
 * @returns {HTMLElement}
 */
export function answerElement(model, answer, look, writing) {
  if (model.input.kind === "json") return make("p", { class: "answer", dir: "auto" }, String(answer.text ?? ""));
  if (Array.isArray(answer.labels) && Array.isArray(answer.words)) return tags(answer);
  if (Array.isArray(answer.masks)) return holes(answer);
  if (answer.probabilities && typeof answer.label === "string") return label(answer, look);
  if (Array.isArray(answer.pixels)) return rebuilt(answer);
  const text = String(answer.text ?? "");
  const written = writing.chosen && writing.words.length ? words(text, writing) : [text];
  const prompt = typeof answer.prompt === "string" ? make("span", { class: "prompt" }, answer.prompt) : null;
  return make("p", { class: "answer", dir: "auto", lang: model.languages?.target }, prompt, ...written);
}

/**
 * A text with each of its words as a button.
 * @param {string} text
 * @param {Writing} writing
 */
function words(text, { words: labels, step, chosen, pinned }) {
  /** @type {(Node | string)[]} */
  const parts = [];
  let from = 0;
  labels.forEach((word, place) => {
    const start = word ? text.indexOf(word, from) : -1;
    if (start < 0) return;
    if (start > from) parts.push(text.slice(from, start));
    const isLater = step !== null && place >= step;
    parts.push(
      make(
        "button",
        {
          type: "button",
          class: isLater ? "word later" : "word",
          "aria-pressed": String(place === pinned),
          onclick: () => chosen?.(place),
        },
        word,
      ),
    );
    from = start + word.length;
  });
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** @param {AnswerRecord} answer */
function tags(answer) {
  const names = [...new Set(answer.labels)].sort();
  const dir = directionOf(answer.words.join(" "));
  const each = answer.words.map((/** @type {string} */ word, /** @type {number} */ place) => {
    const tag = answer.labels[place];
    const probability = answer.probabilities?.[place] ?? 1;
    const doubt = probability < SURE ? make("small", { class: "mono" }, ` ${Math.round(100 * probability)} %`) : null;
    const kind = `tag tag-${names.indexOf(tag) % TAG_COLOURS}`;
    return make(
      "li",
      { class: kind },
      make("bdi", { title: word }, shortened(visible(word), LONGEST)),
      make("span", { class: "tag-name", dir: "ltr" }, tag, doubt),
    );
  });
  return make("ol", { class: "answer tags", dir, "aria-label": "Each word with its tag" }, ...each);
}

/** @param {AnswerRecord} answer @param {Look | null} look */
function label(answer, look) {
  const surest = /** @type {[string, number][]} */ (Object.entries(answer.probabilities));
  surest.sort((one, other) => other[1] - one[1]);
  const bars = surest.slice(0, MOST_SHOWN).map(([name, probability]) => bar(named(name), probability));
  const deciding = look?.deciding ?? [];
  return make(
    "div",
    { class: "answer labelled" },
    make("p", { class: "label" }, answer.label || (Array.isArray(answer.labels) ? "no label" : "")),
    make("ol", { class: "bars", "aria-label": "Probabilities" }, ...bars),
    deciding.length > 0 && decided(deciding),
    look?.undecided ? make("p", { class: "quiet" }, look.undecided) : null,
  );
}

/**
 * @param {import("../shared/types.js").Deciding[]} deciding by what share of the attention, or by what effect on the
 *   label
 */
function decided(deciding) {
  const isEffect = deciding.some(({ effect }) => effect !== undefined);
  const sizeOf = (/** @type {import("../shared/types.js").Deciding} */ one) => one.effect ?? one.weight ?? 0;
  const most = Math.max(...deciding.map((one) => Math.abs(sizeOf(one))), 1e-9);
  const parts = deciding.flatMap((one) => {
    const shade = ((isEffect ? 0.4 : 0.9) * sizeOf(one)) / most; // text must be readable on both colours
    const title = `${isEffect ? "effect" : "share"} ${number(sizeOf(one), 3)}`;
    const kind = isDarkInk(Math.abs(shade)) ? "decided on-ink" : "decided";
    const mark = make("span", { class: kind, title }, shortened(visible(one.word)));
    mark.style.backgroundColor = colourOf(shade, isEffect);
    return [mark, " "];
  });
  const said = isEffect ? "how much each word adds to the label: " : "where the pooling looked: ";
  const scale = isEffect ? `darkest: ${number(most)} of log-odds` : `darkest: share ${number(most)}`;
  return make("p", { class: "deciding" }, make("small", {}, said), ...parts, make("small", {}, scale));
}

/** The image that an autoencoder made of the given one. @param {AnswerRecord} answer */
function rebuilt({ pixels, text }) {
  const picture = imagePicture({ height: pixels.length, width: pixels[0]?.length ?? 0, pixels });
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", "The reconstructed image");
  picture.className = "pad again";
  return make(
    "figure",
    { class: "answer rebuilt" },
    picture,
    make("figcaption", { class: "quiet" }, text ?? "built again"),
  );
}

/** @param {AnswerRecord} answer */
function holes(answer) {
  const lists = answer.masks.map(
    (/** @type {{token: string, probability: number}[]} */ some, /** @type {number} */ place) => {
      const name = answer.masks.length > 1 ? `hole ${place + 1}` : "the hole";
      const bars = some.slice(0, MOST_SHOWN).map(({ token, probability }) => bar(visible(token), probability));
      return make(
        "div",
        {},
        make("h3", {}, name),
        make("ol", { class: "bars", "aria-label": `Candidates for ${name}` }, ...bars),
      );
    },
  );
  return make(
    "div",
    { class: "answer" },
    make("p", { dir: "auto" }, answer.text),
    make("div", { class: "holes" }, ...lists),
  );
}

/** @param {string} name @param {number} probability */
function bar(name, probability) {
  const item = make("li", {}, make("bdi", {}, name), make("span", { class: "mono" }, percent(probability)));
  item.style.setProperty("--share", String(probability));
  return item;
}

/**
 * All answers, each with its own attention.
 * @param {AnswerRecord[]} answers the best first @param {number} which @param {(which: number) => void} chosen
 */
export function alternativesElement(answers, which, chosen) {
  if (answers.length < 2) return null;
  const items = answers.map((one, place) => {
    const chance = typeof one.log_probability === "number" ? percent(Math.exp(one.log_probability)) : null;
    const score = chance === null ? null : make("span", { class: "mono" }, chance);
    const button = make(
      "button",
      { type: "button", "aria-pressed": String(place === which), onclick: () => chosen(place) },
      make("bdi", {}, String(one.text)),
      score,
    );
    return make("li", {}, button);
  });
  const list = make("ol", {}, ...items);
  const summary = make("summary", {}, `${answers.length - 1} more`);
  const more = make("details", { class: "others", ontoggle: () => keepInside(list) }, summary, list);
  more.open = which > 0;
  return more;
}

/** A list opens below its title, but not beyond the edges of the window. @param {HTMLElement} list */
function keepInside(list) {
  list.style.left = "0";
  const { left, right } = list.getBoundingClientRect();
  const beyond = right + MARGIN - document.documentElement.clientWidth;
  list.style.left = `${Math.max(MARGIN - left, -Math.max(0, beyond))}px`;
}

/**
 * Two texts, and where the second differs: its words that are not in the first in this order.
 * @param {string} before @param {string} after @param {"mark" | "s"} [how] what is around these words
 */
export function differing(before, after, how = "mark") {
  const [one, other] = [before.split(/\s+/), after.split(/\s+/)];
  const common = one.map(() => new Array(other.length + 1).fill(0));
  common.push(new Array(other.length + 1).fill(0));
  for (let row = one.length - 1; row >= 0; row -= 1) {
    for (let column = other.length - 1; column >= 0; column -= 1) {
      const isSame = one[row] === other[column];
      common[row][column] = isSame
        ? common[row + 1][column + 1] + 1
        : Math.max(common[row + 1][column], common[row][column + 1]);
    }
  }
  /** @type {(Node | string)[]} */
  const parts = [];
  let row = 0;
  other.forEach((word, column) => {
    while (row < one.length && one[row] !== word && common[row + 1][column] >= common[row][column + 1]) row += 1;
    const isSame = row < one.length && one[row] === word;
    if (isSame) row += 1;
    parts.push(isSame ? word : make(how, {}, word), " ");
  });
  return parts;
}
