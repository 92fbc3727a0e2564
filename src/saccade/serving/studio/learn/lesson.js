// Trains a small model that a scene needs when the user presses a button, and shows the progress.

import { get, inPath, post } from "../shared/api.js";
import { make } from "../shared/dom.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Pending} Pending
 * @typedef {Record<string, {about: string, minutes: number, ready: boolean}>} Lessons
 */

const PAUSE = 700; // milliseconds between two progress checks

/**
 * Whether the models are there; if not, the picture offers to train them, and then opens the scene again.
 * @param {Stage} stage @param {string[]} names @returns {Promise<boolean>}
 */
export async function hasModels(stage, names) {
  const { studio, signal, picture } = stage;
  const missing = names.filter((name) => !studio.models.some((one) => one.name === name));
  if (!missing.length) return true;
  /** @type {Lessons} */
  const lessons = await get("/api/learn/lessons", signal);
  const minutes = missing.reduce((sum, name) => sum + lessons[name].minutes, 0);
  const what = missing.map((name) => lessons[name].about).join(", and ");
  const said = make("p", { class: "lesson-said", role: "status" }, `This scene needs ${what}.`);
  const bar = make("progress", { "aria-label": "Progress of the training", hidden: true, value: 0 });
  const time = `about ${minutes} ${minutes === 1 ? "minute" : "minutes"}`;
  const button = make("button", { type: "button" }, `Train ${missing.length > 1 ? "them" : "it"} now (${time})`);
  button.addEventListener("click", () => {
    button.disabled = true;
    bar.hidden = false;
    void trainAll(stage, missing, bar, said).catch((error) => {
      button.disabled = false;
      stage.studio.status.fail(error);
    });
  });
  picture.append(make("div", { class: "lesson" }, said, button, bar));
  const isUnderWay = (await studio.readModels()).some((one) => missing.includes(one.name) && !one.failure);
  if (isUnderWay && !signal.aborted) button.click();
  return false;
}

/** @param {Stage} stage @param {string[]} names @param {HTMLProgressElement} bar @param {HTMLElement} said */
async function trainAll(stage, names, bar, said) {
  for (const [place, name] of names.entries()) {
    await post(`/api/learn/lessons/${inPath(name)}`, {}, stage.signal);
    for (;;) {
      const waiting = (await stage.studio.readModels()).find((one) => one.name === name);
      if (stage.signal.aborted) return;
      if (!waiting) break;
      if (waiting.failure) {
        said.textContent = waiting.failure;
        return;
      }
      tell(waiting, place, names.length, bar, said);
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
  }
  stage.again();
}

/**
 * @param {Pending} waiting @param {number} place @param {number} count @param {HTMLProgressElement} bar
 * @param {HTMLElement} said
 */
function tell({ name, progress, steps }, place, count, bar, said) {
  const share = steps ? progress / steps : 0;
  bar.value = (place + share) / count;
  const which = count > 1 ? ` (${place + 1} of ${count})` : "";
  const done = steps ? `step ${progress} of ${steps}, ${Math.floor(100 * share)} %` : "preparing its data";
  said.textContent = `${name}${which} is being trained: ${done}`;
}
