// Writing word by word: shows the row of each step, and the masked half of the matrix. Without a model that writes,
// the numbers are those of the lecture.

import { wholeNumber } from "../shared/address.js";
import { get, post } from "../shared/api.js";
import { decoding, writerOf } from "./decoding.js";
import { make, number } from "../shared/dom.js";
import { colourOf, isDarkInk } from "../shared/ramp.js";

/** @typedef {import("./page.js").Stage} Stage */

/** @param {Stage} stage */
export async function masked(stage) {
  await stage.studio.readModels();
  const model = writerOf(stage);
  return model ? decoding(stage, model) : numbers(stage);
}

/** @param {Stage} stage */
async function numbers(stage) {
  const { retrieval4 } = await get("/api/walkthroughs", stage.signal);
  /** @type {import("../shared/types.js").Walkthrough} */
  const walk = await post("/api/walkthrough", { ...retrieval4, mask: "causal" }, stage.signal);
  const [scores, weights] = ["masked", "weights"].map((name) => walk.steps.find((step) => step.name === name)?.values);
  const count = weights?.length ?? 0;
  const written = { type: "range", min: 1, max: count, value: count, "aria-label": "Words written so far" };
  const slider = make("input", written);
  const said = make("span", { class: "mono" });
  const tables = make("div", { class: "two-fields" });
  const draw = async () => {
    slider.value = String(wholeNumber(stage.parts().n, count));
    const upTo = Number(slider.value);
    said.textContent = `${upTo} of ${count} words are written`;
    tables.replaceChildren(table("scores", scores ?? [], upTo, false), table("weights", weights ?? [], upTo, true));
  };
  slider.addEventListener("input", () => stage.go({ n: slider.value }));
  stage.picture.append(make("div", { class: "row" }, slider, said), tables);
  await draw();
  stage.offer("walk", { x: "retrieval4", mask: "causal" });
  return { redraw: draw, follow: draw };
}

/** @param {string} title @param {any[]} values @param {number} upTo @param {boolean} isInked */
function table(title, values, upTo, isInked) {
  const rows = values.map((row, at) => {
    const cells = row.map((/** @type {number | null} */ value) => {
      const cell = make("td", { class: "mono", title: value === null ? "masked" : String(value) });
      if (at < upTo) cell.textContent = value === null ? "−∞" : number(value, 3);
      if (at < upTo && isInked && value !== null) {
        cell.style.backgroundColor = colourOf(value);
        cell.toggleAttribute("data-ink", isDarkInk(value));
      }
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, `word ${at + 1}`), ...cells);
  });
  const body = make("tbody", {}, ...rows);
  return make("table", { class: "numbers", "data-step": title }, make("caption", {}, title), body);
}
