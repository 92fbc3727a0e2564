// Small pictures of every head of every layer; the user can open a head or switch it off.

import { headPictures } from "../shared/api.js";
import { make, number } from "../shared/dom.js";
import { MEASURES, habitOf, measuresOf } from "../shared/measures.js";
import { GLOSSARY, headName, layerName } from "../shared/names.js";
import { picture } from "../shared/ramp.js";

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Attention} Attention
 */

export class HeadGrid {
  /**
   * @param {(name: string, head: number) => void} chosen
   * @param {((name: string, head: number) => void) | null} switched null: heads stay on
   * @param {(by: string) => void} sorted
   */
  constructor(chosen, switched, sorted) {
    this.chosen = chosen;
    this.switched = switched;
    this.note = make("p", { class: "quiet" });
    this.groups = make("div", {
      class: "heads",
      role: "group",
      "aria-label": "Every head; use the arrow keys to move, and Enter to open one",
    });
    this.groups.addEventListener("keydown", (event) => this.onKey(event));
    const orders = [["", "by layer"], ...MEASURES].map(([value, name]) => make("option", { value }, name));
    const order = { class: "order", "aria-label": "Order of the heads", onchange: () => sorted(this.order.value) };
    this.order = make("select", { ...order, title: GLOSSARY.entropy }, ...orders);
    this.element = make("section", { "aria-label": "Heads" }, this.groups, this.note, this.order);
    /** @type {Look | null} */
    this.look = null;
    this.by = "";
    this.made = ""; // what the model is, and what computes its answers
  }

  /**
   * @param {Look} look @param {string} name @param {string} head the one that is open
   * @param {string[]} off "encoder.0.self:2" @param {string} by what heads are sorted by
   */
  async show(look, name, head, off, by) {
    const wanted = MEASURES.some(([key]) => key === by) ? by : "";
    const isNew = look !== this.look || wanted !== this.by;
    [this.look, this.by, this.order.value] = [look, wanted, wanted];
    if (isNew && wanted) await this.buildSorted(look, wanted);
    else if (isNew) this.build(look);
    if (this.look !== look || this.by !== wanted) return;
    this.mark(name, head, off);
    if (isNew) await this.draw(look);
  }

  /** What the model is, and what computes its answers. @param {import("../shared/types.js").Model | null} model */
  use(model) {
    this.made = model?.made ? `${model.made.family}, computed by ${model.made.engine}` : "";
  }

  /** @param {Look} look */
  build(look) {
    this.groups.style.setProperty("--heads", String(Math.max(...look.attentions.map(({ heads }) => heads))));
    this.groups.style.setProperty("--layers", String(look.attentions.length)); // all of them fit in where possible
    this.groups.replaceChildren(
      ...look.attentions.map((attention) => {
        const buttons = Array.from({ length: attention.heads }, (_, head) => this.cell(attention, head));
        const label = make("h3", { title: attention.name }, layerName(attention.name));
        return make(
          "div",
          { role: "group", "aria-label": layerName(attention.name), "data-attention": attention.name },
          label,
          make("div", { class: "maps" }, ...buttons),
        );
      }),
    );
  }

  /** All heads in one group, the one with most of a measure first. @param {Look} look @param {string} by */
  async buildSorted(look, by) {
    const measures = await measuresOf(look);
    const every = look.attentions.flatMap((attention) =>
      measures[attention.name].map((its, head) => ({ attention, head, its, value: its[by] })),
    );
    every.sort((one, other) => (other.value ?? -1) - (one.value ?? -1));
    const cells = every.map(({ attention, head, its, value }) => {
      const cell = this.cell(attention, head);
      const said = value === null ? "–" : number(value, 2);
      cell.append(make("small", { class: "mono", title: `looks at ${habitOf(its)}` }, said));
      return cell;
    });
    const name = MEASURES.find(([key]) => key === by)?.[1] ?? "";
    const label = `Every head, sorted by ${name}`;
    const group = make("div", { role: "group", "aria-label": label, "data-sorted": by, "data-attention": "" });
    group.append(make("div", { class: "maps" }, ...cells));
    this.groups.style.setProperty("--heads", "6");
    this.groups.style.setProperty("--layers", "1");
    this.groups.replaceChildren(group);
  }

  /** @param {Attention} attention @param {number} head */
  cell({ name }, head) {
    const label = headName(name, head);
    const canvas = make("canvas", { width: 1, height: 1 });
    const open = make(
      "button",
      {
        type: "button",
        class: "head",
        "aria-label": label,
        title: `${label} (${name}:${head})`,
        tabindex: "-1",
        onclick: () => this.chosen(name, head),
      },
      canvas,
    );
    open.dataset.key = `${name}:${head}`;
    const off =
      this.switched &&
      make(
        "button",
        {
          type: "button",
          class: "switch",
          tabindex: "-1",
          "aria-label": `Switch ${label} off`,
          title: "Switch this head off",
          onclick: () => this.switched?.(name, head),
        },
        "×",
      );
    return make("div", { class: "cell" }, open, off);
  }

  /** @param {string} name @param {string} head @param {string[]} off */
  mark(name, head, off) {
    let reachable = null;
    for (const button of this.buttons()) {
      const key = button.dataset.key ?? "";
      const isOpen = key === `${name}:${head}`;
      const isOff = off.includes(key);
      button.setAttribute("aria-pressed", String(isOpen));
      button.tabIndex = -1;
      if (isOpen) reachable = button;
      button.parentElement?.toggleAttribute("data-off", isOff);
      const toggle = button.nextElementSibling;
      const [attention, number] = [key.slice(0, key.lastIndexOf(":")), key.slice(key.lastIndexOf(":") + 1)];
      const label = headName(attention, number);
      toggle?.setAttribute("aria-label", `Switch ${label} ${isOff ? "on" : "off"}`);
      button.setAttribute("aria-label", `${label}${isOff ? ", switched off" : ""}`);
    }
    for (const group of this.groups.children) {
      group.toggleAttribute("data-open", /** @type {HTMLElement} */ (group).dataset.attention === name);
    }
    reachable ??= this.groups.querySelector("[data-open] button.head") ?? this.buttons()[0];
    if (reachable) /** @type {HTMLElement} */ (reachable).tabIndex = 0;
  }

  /** @returns {HTMLElement[]} */
  buttons() {
    return [...this.groups.querySelectorAll("button.head")].map((one) => /** @type {HTMLElement} */ (one));
  }

  /** @param {Look} look */
  async draw(look) {
    delete this.groups.dataset.ready;
    let note = "";
    for (const attention of look.attentions) {
      const { heads, rows, columns, values, pool, cell } = await headPictures(look, attention.name);
      if (this.look !== look) return;
      for (let head = 0; head < heads; head += 1) {
        const part = values.subarray(head * rows * columns, (head + 1) * rows * columns);
        const drawn = picture({ rows, columns, values: part });
        const button = this.groups.querySelector(`[data-key="${CSS.escape(`${attention.name}:${head}`)}"]`);
        button?.firstChild?.replaceWith(drawn);
      }
      note = Math.max(...cell) > 1 ? `each dot is the ${pool} of ${cell.join("×")} weights` : "each dot is one weight";
    }
    const seen = look.left_out?.length ? look.left_out.join("; ") : "all of the model's attention layers are shown";
    this.note.textContent = `Rows look at columns; ${note}. ${this.made ? `${this.made}; ${seen}.` : ""}`;
    this.groups.dataset.ready = "yes";
  }

  /** Another theme. */
  recolour() {
    if (this.look) void this.draw(this.look).catch(() => undefined);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const group = target.closest("[data-attention]");
    if (!group || !target.matches("button.head")) return;
    const inGroup = (/** @type {Element | null} */ one) => [...(one?.querySelectorAll("button.head") ?? [])];
    const place = inGroup(group).indexOf(target);
    const every = this.buttons();
    /** @type {Record<string, Element | undefined>} */
    const found = {
      ArrowRight: every[every.indexOf(target) + 1],
      ArrowLeft: every[every.indexOf(target) - 1],
      ArrowDown: inGroup(group.nextElementSibling)[place],
      ArrowUp: inGroup(group.previousElementSibling)[place],
    };
    if (!(event.key in found)) return;
    event.preventDefault();
    /** @type {HTMLElement | undefined} */ (found[event.key])?.focus();
  }
}
