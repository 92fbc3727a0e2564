// Bases of an RNA that pair: the probability of every pair, what a pair looked at, and what a cut changes.

import { get, inPath, post, query } from "../shared/api.js";
import { make, number, percent, within } from "../shared/dom.js";
import { PairMatrix, pairName, probabilityOf } from "../shared/pairs.js";
import { hasModels } from "./lesson.js";

/**
 * @typedef {import("./page.js").Stage} Stage
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {{name: string, weights: number[][]}} Between
 *
 * @typedef {object} Link  from the chosen pair to another one, in one head
 * @property {string} key
 * @property {[number, number]} pair
 * @property {number} weight
 * @property {string} where
 * @property {[string, number, number]} link  as the server cuts it: in all heads, and for all bases at the other end
 * @property {string} told  what that means
 */

const LESSON = "hairpins";
const STRONGEST = 4;
const SIDE = () => 0.44 * innerHeight; // pixels

class Residues {
  /** @param {Stage} stage @param {Model} model */
  constructor(stage, model) {
    this.stage = stage;
    this.model = model;
    const molecules = model.examples.map((_, place) => make("option", { value: place + 1 }, `molecule ${place + 1}`));
    const choose = () => stage.go({ molecule: this.molecule.value, pair: null, cut: null });
    this.molecule = make("select", { "aria-label": "The molecule", onchange: choose }, ...molecules);
    this.matrix = new PairMatrix((first, second) => stage.go({ pair: `${first}-${second}`, cut: null }), SIDE);
    this.title = make("h2", {});
    this.list = make("ol", { class: "bars residue-links" });
    this.told = make("p", { class: "residue-told", "aria-live": "polite" });
    const parts = [this.molecule, this.title, this.list, this.told, this.matrix.note];
    const side = make("div", { class: "walkers-side" }, ...parts);
    stage.picture.append(make("div", { class: "residues" }, this.matrix.element, side));
  }

  async read() {
    const { stage, model } = this;
    const { molecule, pair, cut } = stage.parts();
    const place = within(Number(molecule) || 1, 1, model.examples.length);
    this.molecule.value = String(place);
    const input = model.examples[place - 1];
    const before = await this.ask(input, []);
    const chosen = pairOf(pair, before);
    const links = strongest(await this.between(before, chosen), chosen);
    const link = links.find((one) => one.key === cut) ?? null;
    const look = link ? await this.ask(input, [link.link]) : before;
    this.show(before, look, chosen, links, link);
    stage.offer("ask", { m: model.name, t: before.answer.sequence });
  }

  /** @param {unknown} input @param {[string, number, number][]} links @returns {Promise<Look>} */
  ask(input, links) {
    const asked = { input, without_links: links };
    return post(`/api/models/${inPath(this.model.name)}/looks`, asked, this.stage.signal);
  }

  /**
   * What the triangle attentions looked at for a pair.
   * @param {Look} look @param {[number, number]} pair @returns {Promise<Between[]>}
   */
  async between(look, [first, second]) {
    return get(`/api/looks/${inPath(look.id ?? "")}/between?${query({ first, second })}`, this.stage.signal);
  }

  /**
   * @param {Look} before @param {Look} look @param {[number, number]} chosen @param {Link[]} links
   * @param {Link | null} cut
   */
  show(before, look, chosen, links, cut) {
    const { sequence } = look.answer;
    const name = pairName(sequence, chosen);
    this.matrix.show({ ...pairsOf(look), chosen, seen: links });
    this.title.textContent = `Why ${name}? It looked at`;
    this.list.replaceChildren(...links.slice(0, STRONGEST).map((one) => this.itemOf(sequence, one, one === cut)));
    const [old, now] = [before, look].map((one) => percent(probabilityOf(one.probabilities ?? [], chosen)));
    this.told.textContent = cut
      ? `${cut.told} now, in all heads of this attention. The probability of ${name} goes from ${old} to ${now}.`
      : `The probability of ${name} is ${now}. Click ✂ to forbid it to look at another pair.`;
  }

  /** @param {string} sequence @param {Link} link @param {boolean} isCut */
  itemOf(sequence, { key, pair, weight, where }, isCut) {
    const name = pairName(sequence, pair);
    const onclick = () => this.stage.go({ cut: isCut ? null : key, pair: this.matrix.shown?.chosen.join("-") ?? null });
    const label = isCut ? `let it look at ${name} again` : `do not let it look at ${name}`;
    const button = make("button", { type: "button", "aria-label": label, title: label, onclick });
    button.textContent = isCut ? "undo" : "✂";
    const value = make("span", { class: "mono", "data-weight": String(weight) }, number(weight, 3));
    const told = make("span", {}, `${name} `, make("small", { class: "quiet" }, where));
    return make("li", { "--share": String(weight) }, told, value, button);
  }

  redraw() {
    this.matrix.redraw();
  }
}

/** What is drawn of a look. @param {Look} look */
function pairsOf(look) {
  const { probabilities = [], true_pairs: truth = null } = look;
  return { sequence: look.answer.sequence, probabilities, pairs: look.answer.pairs, truth };
}

/**
 * The pairs that some head looked at, the strongest first. Round the starting node, (i, j) looks at (i, k); round the
 * ending node, at (k, j).
 * @param {Between[]} found @param {[number, number]} chosen @returns {Link[]}
 */
function strongest(found, [first, second]) {
  /** @type {Link[]} */
  const every = found.flatMap(({ name, weights }) =>
    weights.flatMap((row, head) =>
      row.map((weight, base) => {
        const [kept, moved] = name.endsWith(".starting") ? [first, second] : [second, first];
        return {
          key: `${name}:${head}:${base}`,
          pair: /** @type {[number, number]} */ ([Math.min(kept, base + 1), Math.max(kept, base + 1)]),
          weight,
          where: `${name.split(".").at(-1)}, head ${head + 1}`,
          link: /** @type {[string, number, number]} */ ([name, moved - 1, base]),
          told: `No pair of base ${moved} looks at one of base ${base + 1}`,
        };
      }),
    ),
  );
  return every.sort((one, other) => other.weight - one.weight);
}

/**
 * The pair in the address, or else one in the middle of the structure.
 * @param {string | undefined} text @param {Look} look @returns {[number, number]}
 */
function pairOf(text, look) {
  const { sequence, pairs } = look.answer;
  const [first, second] = (text ?? "").split("-").map(Number);
  if (first >= 1 && second > first && second <= sequence.length) return [first, second];
  const middle = pairs[Math.floor(pairs.length / 2)];
  return middle ? [middle[0], middle[1]] : [1, sequence.length];
}

/** @param {Stage} stage */
export async function residues(stage) {
  await stage.studio.readModels();
  const model = stage.studio.models.find((one) => one.task === "base-pairs" && one.has_attention);
  if (!model) return void (await hasModels(stage, [LESSON]));
  const shown = new Residues(stage, model);
  await shown.read();
  return { redraw: () => shown.redraw(), follow: () => shown.read() };
}
