// What a log of a training says: how far it is, and its measures as series of points.

/** @typedef {import("../shared/types.js").Metric} Metric */

/** @param {number} step @param {number | null} steps how many there will be, where that is known */
export function stepOf(step, steps) {
  return `step ${step.toLocaleString("en")}${steps ? ` of ${steps.toLocaleString("en")}` : ""}`;
}

/** Each measure with its points. @param {Metric[]} metrics @returns {Map<string, import("./curves.js").Point[]>} */
export function seriesOf(metrics) {
  /** @type {Map<string, import("./curves.js").Point[]>} */
  const found = new Map();
  const add = (/** @type {string} */ name, /** @type {number} */ step, /** @type {unknown} */ value) => {
    if (typeof value !== "number" || !Number.isFinite(value)) return;
    if (!found.has(name)) found.set(name, []);
    found.get(name)?.push({ step, value });
  };
  for (const { step, loss, rate, validation } of metrics) {
    add("training loss", step, loss);
    for (const [name, value] of Object.entries(validation ?? {})) add(`validation ${name}`, step, value);
    add("learning rate", step, rate);
  }
  const rates = found.get("learning rate");
  found.delete("learning rate");
  if (rates) found.set("learning rate", rates);
  return found;
}

/** @param {import("../shared/types.js").Run} run */
export function stateOf(run) {
  return run.finished ? "finished" : run.running ? "running" : "stopped";
}
