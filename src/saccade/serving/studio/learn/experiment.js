// What the lab measured about a scene: the claim, its verdict, how it was measured, and a picture of the numbers.

import { make, number } from "../shared/dom.js";
import { VERDICTS } from "./verdicts.js";

const SAID = { holds: "holds", refuted: "is refuted", undecided: "is undecided" };
const OTHERS = "Measured in the lab, on small networks made for this experiment, not on the model that is served here.";

/** What is measured, where its name needs an explanation. @type {Record<string, string>} */
const PLAINLY = {
  "pronoun-link":
    "The number that decides is the percentage of test sentences in which the head looks most at the word that " +
    "decides, and the answer becomes the other one if this link is cut; counted for «it» and for «bank», the lower " +
    "of both. It is that of ordered heads, the first of which was trained to do without the other; in heads trained " +
    "as usual, both may carry the link, and cutting it in one of them changes fewer answers, as the picture shows.",
  "weights-and-effects":
    "The number that decides, the rank correlation, is 1 if a link with a larger weight always matters more, and 0 " +
    "if the weight says nothing about it. It is a mean over three tasks and very many links: in a single sentence, " +
    "the link with the largest weight need not matter most, and in sorting the correlation is smaller.",
};

/** @param {string} name @returns {HTMLElement} */
export function experiment(name) {
  const { claim, verdict, method } = VERDICTS[name];
  const source = new URL(`./lab/${name}.png`, import.meta.url).href;
  const numbers = numbersOf(VERDICTS[name]);
  const picture = make("img", { src: source, alt: numbers, loading: "lazy", width: 768, height: 480 });
  const run = make("p", { class: "quiet" }, "Run it yourself: ", make("code", {}, `saccade lab run ${name}`));
  const said = make("summary", {}, `“${claim}” This `, make("b", {}, SAID[verdict]), ".");
  const plainly = PLAINLY[name] ? [make("p", {}, PLAINLY[name])] : [];
  const told = [make("p", {}, make("b", {}, OTHERS)), make("p", {}, method), ...plainly, make("p", {}, numbers)];
  return make("details", { class: "experiment" }, said, ...told, picture, run);
}

/** @param {import("./verdicts.js").Verdict} verdict */
function numbersOf({ measure, seeds, mean, low, high, direction, bound }) {
  const [one, from, to, limit] = [mean, low, high, bound].map((value) => number(value, decimalsOf(value)));
  return (
    `Result: ${measure}: ${one} (95 % confidence interval ${from} to ${to}), the mean of ${seeds} runs that ` +
    `differ only in their random numbers. The claim holds if the whole interval is ${direction} ${limit}.`
  );
}

/** Three digits, as far as there are any. @param {number} value */
function decimalsOf(value) {
  const size = Math.abs(value);
  const most = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return Math.min(most, String(value).split(".")[1]?.length ?? 0);
}
