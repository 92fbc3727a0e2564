// Options next to the text: an example, best or sampled answers, a second text.

import { comparable } from "./given.js";
import { typedExamples } from "./state.js";
import { choice, make, reveal, setChoice } from "../shared/dom.js";

/**
 * @typedef {import("../shared/types.js").Model} Model
 * @typedef {import("./state.js").AskState} AskState
 *
 * @typedef {object} ToolsListener
 * @property {(parts: Record<string, string | null>) => void} changed
 * @property {(example: string) => void} tried
 * @property {() => string} second the text that a second one begins with
 */

const [ALONE, TEXT, MODEL] = ["alone", "text", "model:"];

/** @param {string} value @param {() => string} second @returns {Record<string, string | null>} */
function besideParts(value, second) {
  if (value === TEXT) return { t2: second(), m2: null };
  if (value.startsWith(MODEL)) return { m2: value.slice(MODEL.length), t2: null };
  return { t2: null, m2: null, d: null };
}

export class Tools {
  /** @param {ToolsListener} listener */
  constructor({ changed, tried, second }) {
    this.seed = 1;
    this.two = make("select", {
      "aria-label": "Beside it",
      onchange: () => changed(besideParts(this.two.value, second)),
    });
    this.difference = make("input", {
      type: "checkbox",
      onchange: () => changed({ d: this.difference.checked ? "1" : null }),
    });
    this.why = make("small", {});
    this.differenceLabel = make("label", { class: "check" }, this.difference, "second minus first ", this.why);
    this.examples = make("select", {
      "aria-label": "An example",
      onchange: () => this.examples.value && tried(this.examples.value),
    });
    const kinds = /** @type {[string, string][]} */ (Object.entries({ best: "best answer", draw: "sampled" }));
    this.how = choice("Answers", "how", kinds, (value) => {
      changed({ how: value === "draw" ? "draw" : null, n: null, pin: null, step: null });
    });
    const sees = /** @type {[string, string][]} */ (Object.entries({ links: "looked at", depends: "depends on" }));
    this.see = choice("What is shown for the words", "see", sees, (value) =>
      changed({ see: value === "depends" ? "depends" : null }),
    );
    const draw = () => changed({ seed: String(this.seed + 1), n: null, pin: null });
    this.again = make("button", { type: "button", class: "small", onclick: draw }, "Sample again");
    const all = [this.see, this.examples, this.how, this.again, this.two, this.differenceLabel];
    this.element = make("div", { class: "row ask-tools" }, ...all);
    new ResizeObserver(() => this.leaveRoom()).observe(this.element);
  }

  /** One text stands to the left of these options, so it has to know their width, which two texts change. */
  leaveRoom() {
    this.element.parentElement?.style.setProperty("--tools", `${this.element.offsetWidth + 20}px`);
  }

  /**
   * @param {Model} model @param {AskState} state @param {string | null} beside null: nothing; "": a second text; or the
   *   name of a second model @param {Model[]} models
   */
  show(model, state, beside, models) {
    this.seed = state.seed;
    const others = comparable(models, model).map((one) => [MODEL + one.name, `and ${one.name}`]);
    const ways = [[ALONE, "one text"], [TEXT, "two texts"], ...others];
    this.two.replaceChildren(...ways.map(([value, name]) => make("option", { value }, name)));
    this.two.value = beside === null ? ALONE : beside ? MODEL + beside : TEXT;
    reveal(this.see, model.input.kind === "text" && model.has_attention);
    setChoice(this.see, state.isMeasured ? "depends" : "links");
    reveal(this.two, model.input.kind !== "image");
    reveal(this.differenceLabel, beside !== null);
    const examples = typedExamples(model);
    reveal(this.examples, examples.length > 0);
    const options = examples.map((one) => make("option", { value: one }, one));
    const hint = model.input.kind === "json" ? "try another input …" : "try another text …";
    this.examples.replaceChildren(make("option", { value: "" }, hint), ...options);
    reveal(this.how, "tries" in model.options);
    reveal(this.again, "tries" in model.options && (state.isDrawn || model.streams));
    setChoice(this.how, state.isDrawn ? "draw" : "best");
  }

  /**
   * Offers the difference of two texts where their maps have the same shape.
   * @param {boolean} isThere @param {boolean} isOn
   */
  offerDifference(isThere, isOn) {
    this.difference.disabled = !isThere;
    this.difference.checked = isOn && isThere;
    this.why.textContent = isThere ? "" : "(not here: the maps have different sizes)";
  }
}
