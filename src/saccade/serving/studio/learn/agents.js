// Agents that walk: whom each looks at to know where it will go, and what happens if it cannot look at another.

import { inPath, post, weightsOf } from "../shared/api.js";
import { make, number, within } from "../shared/dom.js";
import { Plane, firstMoments, momentName, sharesOf, tokenAt } from "../shared/plane.js";
import { Player } from "../shared/player.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("../shared/plane.js").Agents} Paths
 */

const LESSON = "walkers";
const OPTIONS = { samples: 5 };
const MOST_HEADS = 16; // in which the strongest link is looked for

class Walkers {
  /** @param {Stage} stage @param {Model} model */
  constructor(stage, model) {
    this.stage = stage;
    this.model = model;
    const go = (/** @type {Record<string, string | null>} */ parts) => stage.go({ cut: null, ...parts });
    const scenes = model.examples.map((_, place) => make("option", { value: place + 1 }, `scene ${place + 1}`));
    const choose = () => go({ scene: this.scene.value, agent: null });
    this.scene = make("select", { "aria-label": "The scene", onchange: choose }, ...scenes);
    this.head = make("select", { "aria-label": "The head", onchange: () => stage.go({ head: this.head.value }) });
    this.plane = new Plane((agent) => go({ agent: String(agent) }));
    this.player = new Player((moment) => this.move(moment), momentName);
    this.others = make("ol", { class: "bars walkers-others" });
    this.told = make("p", { class: "walkers-told", "aria-live": "polite" });
    const choices = make("div", { class: "row" }, this.scene, this.head);
    const side = make("div", { class: "walkers-side" }, choices, this.others, this.told);
    const field = make("div", { class: "walkers-plane" }, this.plane.element, this.player.element);
    stage.picture.append(make("div", { class: "walkers" }, field, side));
    /** @type {number | null} */
    this.moment = null; // the middle of the future, until another one is chosen
    this.agent = 0;
    /** @type {number | null} */
    this.cut = null;
    /** @type {{look: Look, before: Look, name: string, matrix: import("../shared/types.js").Matrix} | null} */
    this.shown = null;
  }

  async read() {
    const { stage, model } = this;
    const { scene, head, agent, cut } = stage.parts();
    const place = within(Number(scene) || 1, 1, model.examples.length);
    this.scene.value = String(place);
    const input = model.examples[place - 1];
    const before = await this.ask(input, []);
    const keys = before.attentions.flatMap((one) => Array.from({ length: one.heads }, (_, at) => `${one.name}:${at}`));
    this.head.replaceChildren(...keys.map((key) => make("option", { value: key }, nameOf(key))));
    const count = countOf(before);
    const strongest = keys.includes(head) ? null : await strongestLink(before, keys, count);
    this.head.value = strongest?.key ?? head;
    const [name, number] = this.head.value.split(":");
    const first = await weightsOf(before, name, number, false);
    this.agent = agent === undefined ? linkOf(first, count).agent : within(Number(agent) || 0, 0, count - 1);
    const isCut = cut !== undefined && Number(cut) < count && Number(cut) !== this.agent;
    this.cut = isCut ? Number(cut) : null;
    const look = this.cut === null ? before : await this.ask(input, linksBetween(before, this.agent, this.cut));
    const matrix = this.cut === null ? first : await weightsOf(look, name, number, false);
    this.shown = { look, before, name, matrix };
    this.draw();
    stage.offer("ask", { m: model.name, t: JSON.stringify(input), a: name, h: number });
  }

  /** @param {unknown} input @param {[string, number, number][]} links @returns {Promise<Look>} */
  ask(input, links) {
    const asked = { input, options: OPTIONS, without_links: links };
    return post(`/api/models/${inPath(this.model.name)}/looks`, asked, this.stage.signal);
  }

  /** @param {number} moment */
  move(moment) {
    this.moment = moment;
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { look, before, name, matrix } = this.shown;
    const { agents } = look.answer;
    const count = countOf(look);
    const { past, likely } = /** @type {Paths} */ (agents)[Object.keys(agents)[0]];
    const moment = within(this.moment ?? Math.ceil(likely.length / 2), 1 - past.length, likely.length);
    const first = firstMoments(name, past.length);
    // An attention has either observed or predicted moments as rows; at others, the nearest one is shown.
    const step = within(moment - first.rows, 0, matrix.rows / count - 1);
    const row = step * count + this.agent;
    const seen = Array.from({ length: matrix.columns }, (_, column) => ({
      ...tokenAt(column, count, first.columns),
      weight: matrix.values[row * matrix.columns + column],
    }));
    const scene = { agents, moment, chosen: { agent: this.agent, moment: first.rows + step }, seen };
    this.plane.show({ ...scene, before: look === before ? null : before.answer.agents });
    this.player.show(1 - past.length, likely.length, moment);
    this.list(Object.keys(agents), sharesOf({ ...scene, before: null }));
    this.tell(Object.keys(agents));
  }

  /** The other agents, by how much the chosen one looks at them. @param {string[]} names @param {number[]} shares */
  list(names, shares) {
    const items = names
      .map((name, agent) => ({ name, agent, share: shares[agent] }))
      .filter(({ agent }) => agent !== this.agent)
      .sort((one, other) => other.share - one.share || one.agent - other.agent)
      .map(({ name, agent, share }) => {
        const isCut = agent === this.cut;
        const onclick = () => this.stage.go({ agent: String(this.agent), cut: isCut ? null : String(agent) });
        const label = isCut ? `let it look at agent ${name} again` : `do not let it look at agent ${name}`;
        const button = make("button", { type: "button", "aria-label": label, title: label, onclick });
        button.textContent = isCut ? "undo" : "✂";
        const value = make("span", { class: "mono", "data-share": String(share) }, number(share, 2));
        return make("li", { "--share": String(share) }, make("span", {}, `agent ${name}`), value, button);
      });
    this.others.replaceChildren(...items);
  }

  /** @param {string[]} names */
  tell(names) {
    if (!this.shown) return;
    const name = names[this.agent];
    if (this.cut === null) {
      this.told.textContent = names.length > 1 ? `Click ✂: agent ${name} can no longer look at that agent.` : "";
      return;
    }
    const [one, other] = [this.shown.before, this.shown.look].map((look) => look.answer.agents[name].likely.at(-1));
    const far = Math.hypot(one[0] - other[0], one[1] - other[1]);
    const who = `Without looking at agent ${names[this.cut]}, agent ${name}`;
    this.told.textContent = `${who} ends ${number(far, 2)} away from where it would have been.`;
  }
}

/** @param {Look} look */
function countOf(look) {
  return Object.keys(look.answer.agents).length;
}

/** A head in plain words. @param {string} key */
function nameOf(key) {
  const [name, head] = key.split(":");
  const [side, layer, kind] = name.split(".");
  const does = side === "encoder" ? "past to past" : kind === "self" ? "future to future" : "future to past";
  return `${does}, layer ${Number(layer) + 1}, head ${Number(head) + 1}`;
}

/**
 * The agent that looks most at a single other one, and how much, in the mean of its moments.
 * @param {import("../shared/types.js").Matrix} matrix @param {number} count
 */
function linkOf({ values, rows, columns }, count) {
  const shares = Array.from({ length: count }, () => Array.from({ length: count }, () => 0));
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      shares[row % count][column % count] += (values[row * columns + column] * count) / rows;
    }
  }
  const most = shares.map((its, agent) => Math.max(...its.map((share, other) => (other === agent ? 0 : share))));
  const share = Math.max(...most);
  return { agent: most.indexOf(share), share };
}

/**
 * The head in which the future of one agent looks most at another.
 * @param {Look} look @param {string[]} keys @param {number} count
 */
async function strongestLink(look, keys, count) {
  const tried = keys.filter((key) => key.startsWith("decoder")).slice(-MOST_HEADS);
  const links = await Promise.all(
    tried.map(async (key) => {
      const [name, head] = key.split(":");
      return { key, ...linkOf(await weightsOf(look, name, head, false), count) };
    }),
  );
  return links.sort((one, other) => other.share - one.share)[0];
}

/**
 * All links from one agent to another, in every attention.
 * @param {Look} look @param {number} from @param {number} to
 */
function linksBetween(look, from, to) {
  const count = countOf(look);
  /** @type {[string, number, number][]} */
  const links = [];
  for (const { name, rows, columns } of look.attentions) {
    const [high, wide] = [rows, columns].map((axis) => look.axes[axis].tokens.length);
    for (let row = from; row < high; row += count) {
      for (let column = to; column < wide; column += count) links.push([name, row, column]);
    }
  }
  return links;
}

/** @param {Stage} stage */
export async function agents(stage) {
  await stage.studio.readModels();
  const model = stage.studio.models.find((one) => one.task === "trajectories" && one.has_attention);
  if (!model) return void (await hasModels(stage, [LESSON]));
  const shown = new Walkers(stage, model);
  await shown.read();
  return { redraw: () => shown.draw(), follow: () => shown.read() };
}
