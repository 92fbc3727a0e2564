// One sentence at each checkpoint of a run: what the model answered, and what it looked at.

import { addressOf, wholeNumber } from "../shared/address.js";
import { get, inPath } from "../shared/api.js";
import { make, reveal, visible, within } from "../shared/dom.js";
import { HeatMap } from "../shared/heatmap.js";
import { MARKS } from "../shared/names.js";
import { Readout } from "../shared/readout.js";

/**
 * @typedef {import("../shared/types.js").RunDetails} RunDetails
 * @typedef {import("../shared/types.js").Probe} Probe
 */

/** Tasks whose inputs are texts. */
const OF_TEXTS = "translation classification tagging masked-language-model language-model text-autoencoder".split(" ");

export class ProbeView {
  /**
   * @param {(step: string | null) => void} chosen another checkpoint; null: the last one
   * @param {() => import("../shared/types.js").Model[]} models that can be asked
   */
  constructor(chosen, models) {
    this.chosen = chosen;
    this.models = models;
    this.slider = make("input", {
      type: "range",
      min: 0,
      "aria-label": "Checkpoint",
      oninput: () => this.choose(Number(this.slider.value)),
    });
    this.back = this.turner("◀", "Checkpoint before", -1);
    this.on = this.turner("▶", "Checkpoint after", 1);
    this.step = make("span", { class: "mono" });
    this.readout = new Readout("probe-readout");
    this.map = new HeatMap({
      label: "Alignment at this checkpoint",
      described: "probe-readout",
      moved: () => this.read(),
      pinned: () => undefined,
    });
    this.source = make("span", { dir: "auto" });
    this.ask = make("a", { class: "button small", "data-page": "ask" }, "Ask this text");
    this.asked = make("p", { class: "probe-source row" }, this.source, this.ask);
    this.sentence = make("p", { class: "probe-text", dir: "auto" });
    const ways = make("div", { class: "row" }, this.back, this.slider, this.on, this.step);
    const title = make("h2", {}, "One sentence, as it forms");
    const label = { class: "probe", "aria-label": "One sentence over the training" };
    const shown = [this.asked, this.sentence, this.map.element, this.readout.element];
    this.element = make("section", label, title, ways, ...shown);
    /** @type {number[]} */
    this.probes = []; // steps
    /** @type {Map<string, Probe>} */
    this.kept = new Map();
    this.key = ""; // of what is wanted
  }

  /** @param {string} sign @param {string} label @param {number} by */
  turner(sign, label, by) {
    const turn = () => this.choose(Number(this.slider.value) + by);
    return make("button", { type: "button", class: "small", "aria-label": label, onclick: turn }, sign);
  }

  /** @param {number[]} probes @param {string | undefined} step of the address */
  indexOf(probes, step) {
    const place = probes.indexOf(wholeNumber(step, -1));
    return place < 0 ? probes.length - 1 : place;
  }

  /** @param {number} step */
  chooseNear(step) {
    const far = this.probes.map((one) => Math.abs(one - step));
    this.choose(far.indexOf(Math.min(...far)));
  }

  /** @param {number} place */
  choose(place) {
    const { probes } = this;
    const kept = within(place, 0, probes.length - 1);
    if (probes.length) this.chosen(kept === probes.length - 1 ? null : String(probes[kept]));
  }

  /** @param {RunDetails} run @param {string | undefined} step */
  async show(run, step) {
    this.probes = run.probes;
    reveal(this.element, run.probes.length > 0);
    if (!run.probes.length) return;
    const place = this.indexOf(run.probes, step);
    this.slider.max = String(run.probes.length - 1);
    this.slider.value = String(place);
    this.back.disabled = place <= 0;
    this.on.disabled = place >= run.probes.length - 1;
    this.step.textContent = `step ${run.probes[place].toLocaleString("en")} · ${place + 1} of ${run.probes.length}`;
    const key = `${run.name} ${run.probes[place]}`;
    this.key = key;
    const probe = this.kept.get(key) ?? (await get(`/api/runs/${inPath(run.name)}/probes/${run.probes[place]}`));
    this.kept.set(key, probe);
    if (key === this.key) this.draw(run, probe);
  }

  /** @param {RunDetails} run @param {Probe} probe */
  draw(run, probe) {
    const text = OF_TEXTS.includes(run.task) ? textOf(probe.inputs) : "";
    const model = this.models().find(({ name, input }) => name === run.name && input.kind === "text");
    reveal(this.asked, text !== "");
    this.source.textContent = text;
    reveal(this.ask, model !== undefined);
    if (model) this.ask.href = addressOf("ask", { m: model.name, t: text });
    this.sentence.textContent = probe.text;
    const weights = probe.weights ?? [];
    for (const one of [this.map.element, this.readout.element]) reveal(one, weights.length > 0);
    if (!weights.length) return;
    const matrix = { rows: weights.length, columns: weights[0].length, values: Float64Array.from(weights.flat()) };
    const { row = 0, column = 0 } = this.map.drawn ?? {};
    this.map.show(matrix, probe.outputs.map(visible), probe.inputs.map(visible), { row, column });
    this.read();
  }

  read() {
    const { drawn } = this.map;
    if (drawn) this.readout.show(drawn.matrix, drawn.rows, drawn.columns, drawn.row, drawn.column);
  }
}

/** What was read, from its tokens; a mark such as the end is no part of it. @param {string[]} tokens */
function textOf(tokens) {
  const read = tokens.filter((token) => MARKS[token] === undefined);
  const isOfPieces = read.some((token) => token.includes("\u2581")) || read.every((token) => [...token].length === 1);
  if (isOfPieces) return read.join("").replaceAll("\u2581", " ").trim();
  return read.join(" ").replace(/ (?=[.,;:!?)\]])/g, "");
}
