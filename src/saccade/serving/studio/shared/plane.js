// Paths of agents on the plane: where each was, where it will go, and which moments of whom one of them looks at.

import { make, number } from "./dom.js";

/**
 * @typedef {{past: number[][], likely: number[][], drawn: number[][][]}} Path
 * @typedef {Record<string, Path>} Agents  by name
 * @typedef {{agent: number, moment: number}} Token  a moment of an agent; 0 is the last observed moment
 * @typedef {Token & {weight: number}} Seen
 *
 * @typedef {object} Scene
 * @property {Agents} agents
 * @property {number} moment  at which the agents are drawn
 * @property {Token} chosen  what looks
 * @property {Seen[]} seen  what it looks at
 * @property {Agents | null} before  the paths before a change
 */

const NAMESPACE = "http://www.w3.org/2000/svg";
const WIDTH = 620;
const HEIGHT = 400;
const PADDING = 34;
const LARGEST_DOT = 15; // pixels
const FAINTEST = 0.02; // a weight below this is not drawn

/** The agent and moment of a token: all agents of one moment come before those of the next.
 * @param {number} place @param {number} count @param {number} first the first moment @returns {Token} */
export function tokenAt(place, count, first) {
  return { agent: place % count, moment: first + Math.floor(place / count) };
}

/** The first moments of an attention's rows and columns. @param {string} name @param {number} past */
export function firstMoments(name, past) {
  const [observed, predicted] = [1 - past, 1];
  const isOfFuture = name.startsWith("decoder");
  return {
    rows: isOfFuture ? predicted : observed,
    columns: isOfFuture && name.endsWith(".self") ? predicted : observed,
  };
}

/** Where an agent is. @param {Path} path @param {number} moment */
export function positionAt(path, moment) {
  return moment > 0 ? path.likely[moment - 1] : path.past[path.past.length - 1 + moment];
}

export class Plane {
  /** @param {(agent: number) => void} chosen an agent was clicked */
  constructor(chosen) {
    this.chosen = chosen;
    const told = { role: "group", "aria-label": "Paths of the agents" };
    this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ...told });
    this.said = make("p", { class: "plane-said mono", role: "status" });
    this.element = make("div", { class: "plane" });
    this.element.append(this.picture, this.said);
    /** @type {Scene | null} */
    this.scene = null;
  }

  /** @param {Scene} scene */
  show(scene) {
    this.scene = scene;
    const focused = this.picture.querySelector(":focus")?.getAttribute("data-agent");
    const place = placesOf(scene);
    const names = Object.keys(scene.agents);
    const parts = [
      ...names.flatMap((name, agent) => pathsOf(scene, name, agent, place)),
      ...linksOf(scene, names, place),
      ...names.map((name, agent) => this.dotOf(scene, name, agent, place)),
    ];
    this.picture.replaceChildren(...parts);
    if (focused) /** @type {SVGElement | null} */ (this.picture.querySelector(`[data-agent="${focused}"]`))?.focus();
    this.said.textContent = sentenceOf(scene, names);
  }

  redraw() {
    if (this.scene) this.show(this.scene);
  }

  /** An agent where it is at the chosen moment. @param {Scene} scene @param {string} name @param {number} agent
   * @param {(position: number[]) => [number, number]} place */
  dotOf(scene, name, agent, place) {
    const [x, y] = place(positionAt(scene.agents[name], scene.moment));
    const isChosen = agent === scene.chosen.agent;
    const label = isChosen ? `agent ${name}, chosen` : `agent ${name}`;
    const group = svg("g", { class: "agent", tabindex: "0", role: "button", "data-agent": agent, "aria-label": label });
    group.setAttribute("aria-pressed", String(isChosen));
    const text = svg("text", { x: x + 12, y: y - 10 });
    text.textContent = name;
    group.append(svg("circle", { cx: x, cy: y, r: isChosen ? 9 : 7 }), text);
    group.addEventListener("click", () => this.chosen(agent));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.chosen(agent);
    });
    return group;
  }
}

/** The same scale in both directions, so that angles are true. @param {Scene} scene
 * @returns {(position: number[]) => [number, number]} */
function placesOf({ agents, before }) {
  const points = [agents, before ?? {}].flatMap((one) =>
    Object.values(one).flatMap(({ past, likely }) => [...past, ...likely]),
  );
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const room = [WIDTH - 2 * PADDING, HEIGHT - 2 * PADDING];
  const scale = Math.min(room[0] / (right - left || 1), room[1] / (high - low || 1));
  const [x0, y0] = [(WIDTH - scale * (right - left)) / 2, (HEIGHT - scale * (high - low)) / 2];
  return ([x, y]) => [x0 + scale * (x - left), HEIGHT - y0 - scale * (y - low)];
}

/** What an agent did and will do; of the chosen one also other futures that were drawn. @param {Scene} scene
 * @param {string} name @param {number} agent @param {(position: number[]) => [number, number]} place */
function pathsOf({ agents, chosen, before }, name, agent, place) {
  const { past, likely, drawn } = agents[name];
  const now = past[past.length - 1];
  const isChosen = agent === chosen.agent;
  const line = (/** @type {number[][]} */ some, /** @type {string} */ kind) => {
    const points = some.map((point) => place(point).map((one) => one.toFixed(1)).join(",")).join(" ");
    return svg("polyline", { class: `path ${kind}`, "data-chosen": isChosen ? "" : null, points });
  };
  const others = isChosen ? drawn.map((one) => line([now, ...one], "drawn")) : [];
  const old = isChosen && before ? [line([now, ...before[name].likely], "before")] : [];
  return [...others, ...old, line(past, "past"), line([now, ...likely], "likely")];
}

/** A dot on each moment that is looked at, and a line to each other agent. @param {Scene} scene
 * @param {string[]} names @param {(position: number[]) => [number, number]} place */
function linksOf({ agents, chosen, seen }, names, place) {
  const from = place(positionAt(agents[names[chosen.agent]], chosen.moment));
  const parts = [];
  for (const { agent, moment, weight } of seen) {
    if (weight < FAINTEST) continue;
    const [x, y] = place(positionAt(agents[names[agent]], moment));
    const [opacity, its] = [Math.min(1, 0.25 + weight), agent === chosen.agent ? "own" : "other"];
    const dot = svg("circle", { class: `seen ${its}`, cx: x, cy: y, r: LARGEST_DOT * Math.sqrt(weight), opacity });
    dot.append(svg("title", {}));
    dot.firstElementChild?.append(`agent ${names[agent]}, ${momentName(moment)}: ${number(weight, 3)}`);
    const ends = { x1: from[0], y1: from[1], x2: x, y2: y, "stroke-width": 1 + 8 * weight, opacity };
    if (its === "other") parts.push(svg("line", { class: "link", "data-to": agent, ...ends }));
    parts.push(dot);
  }
  return parts;
}

/** How much of its attention the chosen agent gives to each agent. @param {Scene} scene @returns {number[]} */
export function sharesOf({ agents, seen }) {
  const shares = Object.keys(agents).map(() => 0);
  for (const { agent, weight } of seen) shares[agent] += weight;
  return shares;
}

/** @param {Scene} scene @param {string[]} names */
function sentenceOf(scene, names) {
  const shares = sharesOf(scene);
  const who = names.map((name, agent) => (agent === scene.chosen.agent ? "itself" : `agent ${name}`));
  const told = who
    .map((name, agent) => ({ name, share: shares[agent] }))
    .sort((one, other) => other.share - one.share)
    .slice(0, 4)
    .map(({ name, share }) => `${name} ${number(share, 2)}`);
  return `agent ${names[scene.chosen.agent]}, ${momentName(scene.chosen.moment)}, looks at ${told.join(", ")}`;
}

/** @param {number} moment */
export function momentName(moment) {
  if (moment === 0) return "now";
  const count = `${Math.abs(moment)} ${Math.abs(moment) === 1 ? "moment" : "moments"}`;
  return moment < 0 ? `${count} before` : `${count} ahead`;
}

/** @param {string} name @param {Record<string, string | number | null>} attributes */
function svg(name, attributes) {
  const element = /** @type {SVGElement} */ (document.createElementNS(NAMESPACE, name));
  for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, String(value));
  return element;
}
