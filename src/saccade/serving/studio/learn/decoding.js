// A real model writes word by word: what it may look at, and the candidates for the next word.

import { wholeNumber } from "../shared/address.js";
import { get, inPath, post, weightsOf } from "../shared/api.js";
import { optionsOf, readState } from "../ask/state.js";
import { make, percent, visible } from "../shared/dom.js";
import { layerName } from "../shared/names.js";
import { colourOf } from "../shared/ramp.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Candidates} Candidates
 */

const MOST = 14; // words that are drawn

/** A token without the sign for the space before it. @param {string} token */
function plain(token) {
  return visible(token.replace(/^\u2581(?=.)/, ""));
}

/** Whether a model writes with masked attention, and has something to write. @param {Stage} stage */
export function writerOf({ studio }) {
  return studio.models.find(
    (one) => one.has_attention && one.input.kind === "text" && one.examples.length > 0 && one.writes,
  );
}

/** @param {Stage} stage @param {import("../shared/types.js").Model} model */
export async function decoding(stage, model) {
  const input = stage.parts().t ?? String(model.examples[0]);
  const asked = { input, options: optionsOf(model, readState({})) };
  /** @type {Look} */
  const look = await post(`/api/models/${inPath(model.name)}/looks`, asked, stage.signal);
  const writer = look.attentions.filter((one) => one.kind === "causal").at(-1);
  /** @type {Candidates[]} */
  const steps = await get(`/api/looks/${inPath(look.id ?? "")}/candidates`, stage.signal);
  if (!writer || !steps.length) return stage.say("This model wrote no text for this input.");
  const matrix = await weightsOf(look, writer.name, "mean", false);
  const { tokens } = look.axes[writer.rows];
  const first = Math.max(0, tokens.length - steps.length); // rows that were given, not written
  const count = Math.min(steps.length, MOST);
  const range = { type: "range", min: 1, max: count };
  const slider = make("input", { ...range, "aria-label": "Words written so far" });
  const [said, grid] = [make("span", { class: "mono" }), make("div", { class: "mask-grid" })];
  const next = make("ol", { class: "bars next-words", "aria-label": "Candidates for the next word" });
  const title = make("h2", {});
  const draw = async () => {
    const step = Math.max(1, Math.min(wholeNumber(stage.parts().step, 4), count));
    slider.value = String(step);
    said.textContent = `step ${step} of ${count}`;
    grid.replaceChildren(...rowsOf(matrix, tokens, first, step, count));
    title.textContent = `After «${plain(tokens[first + step - 1] ?? "")}»: the next word`;
    next.replaceChildren(...steps[step - 1].candidates.map((one) => candidateOf(one, steps[step - 1].token)));
  };
  slider.addEventListener("input", () => stage.go({ step: slider.value }));
  grid.style.setProperty("--count", String(count));
  const where = make("small", {}, `rows look at columns · ${layerName(writer.name)}, mean of its heads · ░ masked`);
  const left = make("div", { class: "mask-side" }, grid, where);
  const fields = make("div", { class: "two-fields" }, left, make("div", { class: "next-side" }, title, next));
  const above = [make("p", { class: "sentence-line" }, input), make("div", { class: "row" }, slider, said)];
  stage.picture.append(...above, fields);
  await draw();
  stage.offer("ask", { m: model.name, t: input, a: writer.name, h: "mean" });
  return { redraw: draw, follow: draw };
}

/**
 * The rows that are written so far; what a row may not look at is masked.
 * @param {import("../shared/types.js").Matrix} matrix @param {string[]} tokens @param {number} first
 * @param {number} step @param {number} count
 */
function rowsOf({ values, columns }, tokens, first, step, count) {
  const names = tokens.slice(first, first + count).map((token) => make("bdi", { class: "mask-column" }, plain(token)));
  const head = make("div", { class: "mask-row" }, make("bdi", {}), ...names);
  const rows = Array.from({ length: count }, (_, row) => {
    const isWritten = row < step;
    const cells = Array.from({ length: count }, (__, column) => {
      const weight = values[(first + row) * columns + first + column];
      const isMasked = column > row;
      const cell = make("span", { class: isMasked ? "masked" : "", title: isMasked ? "masked" : String(weight) });
      if (isWritten && !isMasked) cell.style.backgroundColor = colourOf(weight);
      return cell;
    });
    const name = make("bdi", {}, isWritten ? plain(tokens[first + row] ?? "") : "");
    const line = make("div", { class: "mask-row" }, name, ...cells);
    line.toggleAttribute("data-now", row === step - 1);
    return line;
  });
  return [head, ...rows];
}

/** @param {{token: string, probability: number}} candidate @param {string} written */
function candidateOf({ token, probability }, written) {
  const said = make("span", { class: "mono", "data-probability": String(probability) }, percent(probability));
  const item = make("li", { "--share": String(probability) }, make("bdi", {}, plain(token)), said);
  item.toggleAttribute("data-written", token === written);
  return item;
}
