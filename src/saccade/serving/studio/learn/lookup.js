// A look-up from hard to soft: the numbers of the lecture, with a temperature.

import { wholeNumber } from "../shared/address.js";
import { get, post } from "../shared/api.js";
import { make, number } from "../shared/dom.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Walkthrough} Walkthrough
 */

const COLDEST = -3; // powers of two
const WARMEST = 3;

/** @param {Stage} stage */
export async function lookUp(stage) {
  const { retrieval } = await get("/api/walkthroughs", stage.signal);
  const slider = make("input", { type: "range", min: COLDEST, max: WARMEST, step: 0.25, value: 0 });
  slider.setAttribute("aria-label", "Temperature, from hard to soft");
  const said = make("span", { class: "mono temperature" });
  const chooser = make("select", { "aria-label": "The query" });
  retrieval.queries.forEach((/** @type {number[]} */ query, /** @type {number} */ place) => {
    const numbers = query.map((one) => number(one, 1)).join("  ");
    chooser.append(make("option", { value: place }, `query ${place + 1}: ${numbers}`));
  });
  const bars = make("table", { class: "numbers lookup" });
  const knobs = make("label", { class: "check" }, "hard", slider, "soft");
  stage.picture.append(make("div", { class: "row" }, chooser, knobs, said), formulaOf(retrieval), bars);
  let asked = 0;
  const draw = async () => {
    asked += 1;
    const mine = asked;
    chooser.value = String(Math.min(wholeNumber(stage.parts().q, 1), retrieval.queries.length) - 1);
    slider.value = String(Math.log2(Number(stage.parts().temp) || 1));
    const temperature = 2 ** Number(slider.value);
    const walk = await post("/api/walkthrough", { ...retrieval, temperature }, stage.signal);
    if (mine !== asked) return;
    said.textContent = `temperature T = ${number(temperature, 3)}`;
    bars.replaceChildren(...rowsOf(walk, retrieval, Number(chooser.value)));
    const warmth = temperature === 1 ? {} : { temp: String(temperature) };
    stage.offer("walk", /** @type {Record<string, string>} */ ({ x: "retrieval", row: chooser.value, ...warmth }));
  };
  const temperatureOf = () => String(Number((2 ** Number(slider.value)).toFixed(4)));
  slider.addEventListener("input", () => stage.go({ temp: temperatureOf() }));
  chooser.addEventListener("change", () => stage.go({ q: String(Number(chooser.value) + 1) }));
  await draw();
  return { follow: draw };
}

/** How a score is computed. @param {import("../shared/types.js").WalkDocument} given */
function formulaOf({ keys }) {
  const formula = make("span", { class: "equation" }, "score = q·k / (√d · T)");
  return make("p", {}, formula, `, with d = ${keys[0].length}, as many numbers as a key has; T is the temperature.`);
}

/** @param {number} power */
function powerText(power) {
  if (power >= 1e-3 && power < 1e5) return number(power, 3);
  return power.toExponential(2).replace("e+", "e").replace("e-", "e−");
}

/** @param {Walkthrough} walk @param {import("../shared/types.js").WalkDocument} given @param {number} query */
function rowsOf(walk, given, query) {
  const step = (/** @type {string} */ name) => walk.steps.find((one) => one.name === name)?.values[query] ?? [];
  const [weights, sum] = [step("weights"), step("sum")];
  const [products, scores] = [step("scores"), step("scaled")];
  const powers = scores.map((/** @type {number} */ score) => Math.exp(score));
  const total = powers.reduce((/** @type {number} */ all, /** @type {number} */ power) => all + power, 0);
  const cells = (/** @type {number[]} */ some, /** @type {number} */ digits) =>
    some.map((one) => make("td", { class: "mono" }, number(one, digits)));
  const titles = ["key k", "", "", "q·k", "score", "e^score", "share of their sum", "value", "", ""];
  const head = titles.map((text) => make("th", {}, text));
  const rows = weights.map((/** @type {number} */ weight, /** @type {number} */ key) => {
    const bar = make("span", { class: "share-bar", "--share": String(weight) });
    const told = make("span", { class: "mono", "data-weight": key }, number(weight, 4));
    const share = make("td", { class: "share" }, bar, told);
    const power = make("td", { class: "mono power" }, powerText(powers[key]));
    const made = [...cells([products[key], scores[key]], 2), power];
    return make("tr", {}, ...cells(given.keys[key], 1), ...made, share, ...cells(given.values[key], 1));
  });
  const answer = make("td", { colspan: 5, class: "answer-name" }, "sum, and what the look-up gives");
  const all = make("td", { class: "mono" }, powerText(total));
  const last = make("tr", { class: "total" }, answer, all, make("td", {}), ...cells(sum, 3));
  return [make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows, last)];
}
