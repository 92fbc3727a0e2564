// What the lab measured about a scene: the claim, its verdict and its picture.

import { make } from "../shared/dom.js";
import { VERDICTS } from "./verdicts.js";

const SAID = { holds: "holds", refuted: "is refuted", undecided: "is undecided" };

/** @param {string} name @returns {HTMLElement} */
export function experiment(name) {
  const { claim, verdict, numbers } = VERDICTS[name];
  const source = new URL(`./lab/${name}.png`, import.meta.url).href;
  const picture = make("img", { src: source, alt: numbers, loading: "lazy", width: 768, height: 480 });
  const run = make("p", { class: "quiet" }, "Run it yourself: ", make("code", {}, `saccade lab run ${name}`));
  const said = make("summary", {}, `“${claim}” This `, make("b", {}, SAID[verdict]), ".");
  return make("details", { class: "experiment" }, said, make("p", {}, `${numbers}.`), picture, run);
}
