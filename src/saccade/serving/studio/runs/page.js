// Runs: curves of trainings as they go, and the alignment of one sentence as it forms.

import { wholeNumber } from "../shared/address.js";
import { events, get, inPath, isStopped, query } from "../shared/api.js";
import { Curve } from "./curves.js";
import { seriesOf, speedOf, stateOf, stepOf } from "./series.js";
import { make, number, reveal, visible, within } from "../shared/dom.js";
import { HeatMap } from "../shared/heatmap.js";
import { Readout } from "../shared/readout.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").RunDetails} RunDetails
 * @typedef {import("../shared/types.js").Metric} Metric
 * @typedef {import("../shared/types.js").Probe} Probe
 */

const PAUSE = 3000; // milliseconds until a stream that broke off, or the list of trainings, is asked for again

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new RunsPage(studio);
  place.append(page.element);
  return page;
}

class RunsPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.list = make("ul", { class: "run-list", "aria-label": "Trainings" });
    this.title = make("h2", { class: "run-title" });
    this.said = make("p", { class: "quiet" });
    this.curves = make("div", { class: "curves" });
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
    this.sentence = make("p", { class: "probe-text" });
    this.probe = this.probeSection();
    this.details = make("div", { class: "run" }, make("div", {}, this.title, this.said, this.curves), this.probe);
    this.element = make("div", { class: "runs" }, make("h1", { class: "unseen" }, "Runs"), this.list, this.details);
    /** @type {RunDetails | null} */
    this.run = null;
    /** @type {Map<string, Curve>} */
    this.drawn = new Map();
    /** @type {AbortController | null} */
    this.live = null;
    /** @type {Map<string, Probe>} */
    this.probes = new Map();
    this.listed = ""; // as it was told last
    this.isLost = false; // the server does not answer
    this.timer = window.setInterval(() => void this.listAgain(), PAUSE);
    this.keys = { "← →": { does: "checkpoint before, after (on the slider)", run: () => undefined } };
  }

  probeSection() {
    return make(
      "section",
      { class: "probe", "aria-label": "One sentence over the training" },
      make("h2", {}, "One sentence, as it forms"),
      make("div", { class: "row" }, this.back, this.slider, this.on, this.step),
      this.sentence,
      this.map.element,
      this.readout.element,
    );
  }

  /** @param {string} sign @param {string} label @param {number} by */
  turner(sign, label, by) {
    const turn = () => this.choose(Number(this.slider.value) + by);
    return make("button", { type: "button", class: "small", "aria-label": label, onclick: turn }, sign);
  }

  /** @param {Parts} parts */
  async show(parts) {
    const count = await this.studio.status.during("Loading the runs", async (signal) => {
      /** @type {Run[]} */
      const runs = await get("/api/runs", signal);
      this.showList(runs, parts.run ?? runs[0]?.name);
      const chosen = runs.find((one) => one.name === parts.run) ?? runs[0];
      reveal(this.details, Boolean(chosen));
      if (!chosen) return 0;
      if (this.run?.name !== chosen.name) {
        this.run = await get(`/api/runs/${inPath(chosen.name)}`, signal);
        this.drawn.clear();
        this.watch();
      }
      this.draw();
      await this.showProbe(this.studio.parts()); // a checkpoint may have been chosen while the run was read
      return runs.length;
    });
    if (count === 0) this.studio.status.say("There are no runs yet; start one with `saccade train`.");
  }

  /** A training may have been started, or the server ended, while the page is open. */
  async listAgain() {
    if (document.visibilityState !== "visible" || this.studio.status.controller) return;
    try {
      /** @type {Run[]} */
      const runs = await get("/api/runs");
      if (this.isLost) this.studio.status.say(null);
      this.isLost = false;
      if (!this.run && runs.length) await this.show(this.studio.parts());
      else this.showList(runs, this.run?.name);
    } catch (error) {
      this.isLost = true;
      this.studio.status.fail(error);
    }
  }

  /** @param {Run[]} runs @param {string | undefined} chosen */
  showList(runs, chosen) {
    const listed = JSON.stringify([runs, chosen]);
    if (listed === this.listed) return; // what has the focus keeps it
    this.listed = listed;
    this.list.replaceChildren(
      ...runs.map((run) => {
        const state = run.finished ? "finished" : `${stateOf(run)}, ${stepOf(run.step, run.steps)}`;
        const score =
          run.metric && run.scores?.[run.metric] !== undefined
            ? ` · ${run.part} ${run.metric} ${number(run.scores[run.metric], 1)}`
            : "";
        const button = make(
          "button",
          { type: "button", "aria-pressed": String(run.name === chosen), onclick: () => this.open(run.name) },
          make("b", {}, visible(run.name)),
          make("small", {}, `${run.task} · ${state}${score}`),
        );
        return make("li", {}, button);
      }),
    );
  }

  /** @param {string} name */
  open(name) {
    this.studio.go({ run: name, step: null }, "push");
    void this.show(this.studio.parts());
  }

  /** Follows a training that is not finished. */
  watch() {
    this.live?.abort();
    if (!this.run || this.run.finished) return;
    this.live = new AbortController();
    void this.follow(this.run, this.live.signal);
  }

  /** @param {RunDetails} run @param {AbortSignal} signal */
  async follow(run, signal) {
    while (!signal.aborted && !run.finished) {
      try {
        const path = `/api/runs/${inPath(run.name)}/events?${query({ after: run.place })}`;
        for await (const told of events(path, undefined, signal)) {
          if (told.finished) run.finished = true;
          if (told.metric) run.metrics.push(told.metric);
          if (told.metric?.validation) await this.readProbes(run);
          this.draw();
        }
        if (!run.finished) Object.assign(run, await get(`/api/runs/${inPath(run.name)}`, signal)); // it broke off
      } catch (error) {
        if (isStopped(error)) return;
      }
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
  }

  /** A validation may have left another look at the sentence. @param {RunDetails} run */
  async readProbes(run) {
    const wasLast = this.probeIndex(this.studio.parts()) === run.probes.length - 1;
    run.probes = (await get(`/api/runs/${inPath(run.name)}`)).probes;
    if (wasLast && run === this.run) await this.showProbe(this.studio.parts());
  }

  draw() {
    const { run } = this;
    if (!run) return;
    const last = run.metrics.at(-1);
    this.title.textContent = run.name;
    const minutes = last?.seconds ? [`${number(last.seconds / 60, 1)} minutes`] : [];
    const progress = [run.task, stateOf(run), stepOf(last?.step ?? 0, run.steps), ...minutes];
    this.said.textContent = [...progress, ...speedOf(run.metrics)].join(" · ");
    const marked = run.probes[this.probeIndex(this.studio.parts())] ?? 0;
    for (const [name, points] of seriesOf(run.metrics)) {
      let curve = this.drawn.get(name);
      if (!curve) {
        curve = new Curve(name, (step) => this.chooseNear(step));
        this.drawn.set(name, curve);
      }
      curve.show(points, run.steps ?? 0, marked);
    }
    const shown = [...this.drawn.values()].map((curve) => curve.element);
    if (
      shown.some((element, place) => this.curves.children[place] !== element) ||
      this.curves.children.length !== shown.length
    )
      this.curves.replaceChildren(...shown);
  }

  // --- the sentence over the checkpoints ---

  /** @param {Parts} parts */
  probeIndex(parts) {
    const probes = this.run?.probes ?? [];
    const wanted = wholeNumber(parts.step, -1);
    const place = probes.indexOf(wanted);
    return place < 0 ? probes.length - 1 : place;
  }

  /** @param {number} step */
  chooseNear(step) {
    const probes = this.run?.probes ?? [];
    const near = probes.reduce(
      (best, one, place) => (Math.abs(one - step) < Math.abs(probes[best] - step) ? place : best),
      0,
    );
    this.choose(near);
  }

  /** @param {number} place */
  choose(place) {
    const probes = this.run?.probes ?? [];
    const kept = within(place, 0, probes.length - 1);
    if (!probes.length) return;
    this.studio.go({ step: kept === probes.length - 1 ? null : String(probes[kept]) });
    this.draw();
    void this.showProbe(this.studio.parts()).catch((error) => this.studio.status.fail(error));
  }

  /** @param {Parts} parts */
  async showProbe(parts) {
    const { run } = this;
    reveal(this.probe, Boolean(run?.probes.length));
    if (!run?.probes.length) return;
    const place = this.probeIndex(parts);
    this.slider.max = String(run.probes.length - 1);
    this.slider.value = String(place);
    this.back.disabled = place <= 0;
    this.on.disabled = place >= run.probes.length - 1;
    this.step.textContent = `step ${run.probes[place].toLocaleString("en")} · ${place + 1} of ${run.probes.length}`;
    const key = `${run.name} ${run.probes[place]}`;
    const probe = this.probes.get(key) ?? (await get(`/api/runs/${inPath(run.name)}/probes/${run.probes[place]}`));
    this.probes.set(key, probe);
    if (run !== this.run || this.slider.value !== String(place)) return;
    this.drawProbe(probe);
  }

  /** @param {Probe} probe */
  drawProbe(probe) {
    this.sentence.textContent = probe.text;
    const [rows, columns] = [probe.outputs, probe.inputs];
    const weights = probe.weights ?? [];
    reveal(this.map.element, weights.length > 0);
    reveal(this.readout.element, weights.length > 0);
    if (!weights.length) return;
    const matrix = { rows: weights.length, columns: weights[0].length, values: Float64Array.from(weights.flat()) };
    const before = this.map.drawn;
    this.map.show(matrix, rows.map(visible), columns.map(visible), {
      row: before?.row ?? 0,
      column: before?.column ?? 0,
    });
    this.read();
  }

  read() {
    const { drawn } = this.map;
    if (drawn) this.readout.show(drawn.matrix, drawn.rows, drawn.columns, drawn.row, drawn.column);
  }

  leave() {
    clearInterval(this.timer);
    this.live?.abort();
    this.run = null;
  }

  redraw() {
    this.map.recolour();
    for (const curve of this.drawn.values()) curve.draw();
  }
}
