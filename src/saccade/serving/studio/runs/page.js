// The Runs page: live curves of training runs, and how the alignment of one sentence develops.

import { events, get, inPath, isStopped, query } from "../shared/api.js";
import { Curve } from "./curves.js";
import { seriesOf, speedOf, stateOf, stepOf } from "./series.js";
import { make, number, reveal, visible } from "../shared/dom.js";
import { ProbeView } from "./probe.js";

/**
 * @typedef {import("../shared/types.js").Studio} Studio
 * @typedef {import("../shared/types.js").Parts} Parts
 * @typedef {import("../shared/types.js").PageView} PageView
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").RunDetails} RunDetails
 */

const PAUSE = 3000; // milliseconds until a stream that broke off, or the list of trainings, is asked for again

/** @param {HTMLElement} place @param {Studio} studio @returns {PageView} */
export function open(place, studio) {
  const page = new RunsPage(studio);
  place.append(page.element);
  return page;
}

const MEASURED =
  "A loss is the mean of −log p of the right answers, so less is better; in training it includes aids such as label " +
  "smoothing, which validation leaves out. Of scores such as bleu, chrf, exact or accuracy, more is better.";

class RunsPage {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.list = make("ul", { class: "run-list", "aria-label": "Trainings" });
    this.title = make("h2", { class: "run-title" });
    this.said = make("p", { class: "quiet" });
    this.curves = make("div", { class: "curves" });
    const chosen = (/** @type {string | null} */ step) => {
      studio.go({ step });
      this.draw();
      void this.showProbe().catch((error) => studio.status.fail(error));
    };
    this.probe = new ProbeView(chosen, () => studio.models);
    const about = make("p", { class: "quiet" }, MEASURED);
    const training = make("div", {}, this.title, this.said, about, this.curves);
    this.details = make("div", { class: "run" }, training, this.probe.element);
    this.element = make("div", { class: "runs" }, make("h1", { class: "unseen" }, "Runs"), this.list, this.details);
    /** @type {RunDetails | null} */
    this.run = null;
    /** @type {Map<string, Curve>} */
    this.drawn = new Map();
    /** @type {AbortController | null} */
    this.live = null;
    this.listed = ""; // as it was told last
    this.isLost = false; // the server does not answer
    this.timer = window.setInterval(() => void this.listAgain(), PAUSE);
    this.keys = { "← →": { does: "checkpoint before, after (on the slider)" } };
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
      await this.showProbe(); // a checkpoint may have been chosen while the run was read
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
    const wasLast = this.probe.indexOf(run.probes, this.studio.parts().step) === run.probes.length - 1;
    run.probes = (await get(`/api/runs/${inPath(run.name)}`)).probes;
    if (wasLast && run === this.run) await this.showProbe();
  }

  /** The sentence at the checkpoint that the address names. */
  async showProbe() {
    const { run } = this;
    if (run) await this.probe.show(run, this.studio.parts().step);
  }

  draw() {
    const { run } = this;
    if (!run) return;
    const last = run.metrics.at(-1);
    this.title.textContent = run.name;
    const minutes = last?.seconds ? [`${number(last.seconds / 60, 1)} minutes`] : [];
    const progress = [run.task, stateOf(run), stepOf(last?.step ?? 0, run.steps), ...minutes];
    this.said.textContent = [...progress, ...speedOf(run.metrics)].join(" · ");
    const marked = run.probes[this.probe.indexOf(run.probes, this.studio.parts().step)] ?? 0;
    for (const [name, points] of seriesOf(run.metrics)) {
      let curve = this.drawn.get(name);
      if (!curve) {
        curve = new Curve(name, (step) => this.probe.chooseNear(step));
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

  leave() {
    clearInterval(this.timer);
    this.live?.abort();
    this.run = null;
  }

  redraw() {
    this.probe.map.recolour();
    for (const curve of this.drawn.values()) curve.draw();
  }
}
