// Reads the log of a run: its progress, and its measures as series of points.

/** @typedef {import("../shared/types.js").Metric} Metric */

const BEHIND = 1.5; // a process this many times slower than the others is reported as slow

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

/** How fast all processes are, and which one the others wait for. @param {Metric[]} metrics */
export function speedOf(metrics) {
  const last = metrics.findLast(({ speed }) => speed);
  if (!last?.speed) return [];
  const said = Object.entries(last.speed).map(
    ([what, each]) => `${Math.round(each).toLocaleString("en")} ${what} per second`,
  );
  const ranked = Object.entries(last.processes ?? {}).sort(([, one], [, other]) => other - one);
  if (ranked.length < 2) return said;
  const [[slowest, seconds], ...others] = ranked;
  const usual = others.reduce((sum, [, one]) => sum + one, 0) / others.length; // the mean of the others
  const isBehind = seconds > BEHIND * usual;
  const ratio = (seconds / usual).toFixed(1);
  return [
    `${ranked.length} processes`,
    ...said,
    ...(isBehind ? [`process ${slowest} is slow: it takes ${ratio} times as long as the others`] : []),
  ];
}
