// A sentence above the map, with ways out where there is no map.

import { make, reveal } from "../shared/dom.js";

export class Note {
  constructor() {
    this.element = make("div", { class: "row map-note", role: "status", hidden: true });
  }

  /** @param {string} sentence @param {...HTMLElement} ways */
  say(sentence, ...ways) {
    this.element.replaceChildren(make("span", {}, sentence), ...ways);
    reveal(this.element, sentence !== "");
  }
}
