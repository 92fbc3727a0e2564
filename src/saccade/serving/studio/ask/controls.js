// Controls for how weights are shown: as a map, arcs or a picture; one head or several combined; words or pieces.

import { stackOf } from "../shared/api.js";
import { hasPicture } from "./pictured.js";
import { choice, make, reveal, setChoice } from "../shared/dom.js";
import { GLOSSARY } from "../shared/names.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("./state.js").AskState} AskState
 * @typedef {import("./state.js").Settled} Settled
 *
 * @typedef {object} ControlsListener
 * @property {(value: string) => void} together  "head", or how heads are taken together
 * @property {(isWords: boolean) => void} unit
 * @property {(view: string) => void} view
 */

export const HEADS_TOGETHER = ["alignment", "mean", "max", "rollout"];
/** @type {[string, string][]} */
const UNITS = [
  ["1", "words"],
  ["0", "pieces"],
];

export class Controls {
  /** @param {ControlsListener} listener */
  constructor(listener) {
    const together = named(["alignment", "head", "mean", "max", "rollout"]);
    this.together = choice("Heads", "together", together, listener.together);
    for (const option of this.together.querySelectorAll("label")) option.title = GLOSSARY[option.textContent ?? ""];
    this.unit = choice("Unit", "unit", UNITS, (value) => listener.unit(value === "1"));
    this.view = choice("View", "view", named(["picture", "map", "arcs"]), listener.view);
    this.element = make("div", { class: "controls row" }, this.view, this.together, this.unit);
  }

  /** Shows only what this model has. @param {Look} look @param {Settled} settled @param {AskState} state */
  show(look, settled, state) {
    setChoice(this.together, HEADS_TOGETHER.includes(settled.head) ? settled.head : "head");
    setChoice(this.unit, state.words ? "1" : "0");
    setChoice(this.view, settled.view);
    const offer = (/** @type {Element} */ group, /** @type {string} */ value, /** @type {boolean} */ isThere) => {
      group.querySelector(`input[value="${value}"]`)?.parentElement?.toggleAttribute("hidden", !isThere);
    };
    offer(this.together, "alignment", Boolean(look.alignment));
    offer(this.together, "rollout", Boolean(stackOf(look, settled.attention.name)));
    offer(this.view, "picture", hasPicture(state, look, settled.attention));
    const { rows, columns } = settled.attention;
    const hasPieces = [rows, columns].some((id) => {
      const { labels, tokens } = look.axes[id];
      return labels.length < tokens.length || labels.some((label, place) => label !== tokens[place]);
    });
    reveal(this.unit, hasPieces && settled.head !== "alignment");
  }
}

/** Choices whose labels are their values. @param {string[]} values @returns {[string, string][]} */
function named(values) {
  return values.map((value) => [value, value]);
}
