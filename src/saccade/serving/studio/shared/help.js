// Explains the page, its keys and a few words of the trade; and closes what pops up.

import { byId, make } from "./dom.js";
import { ABOUT, GLOSSARY } from "./names.js";

/**
 * @param {string} page @param {import("./types.js").PageView | null} view
 */
export function showHelp(page, view) {
  const pages = `Learn, Ask, Walk, Map, Runs, Words${page === "learn" ? " (on the other pages)" : ""}`;
  const here = Object.entries(view?.keys ?? {}).map(([key, { does }]) => [key, does]);
  const listed = (/** @type {string[][]} */ lines) =>
    lines.filter(([, does]) => does).flatMap(([key, does]) => [make("dt", {}, key), make("dd", {}, does)]);
  byId("keys-about").textContent = ABOUT[page];
  byId("keys-list").replaceChildren(...listed([...here, ["1 … 6", pages], ["?", "this explanation"]]));
  byId("keys-words").replaceChildren(...listed(Object.entries(GLOSSARY)));
  /** @type {HTMLDialogElement} */ (byId("keys")).showModal();
}

/** Popups close when something else is clicked, and when another address is shown. @param {Node | null} [except] */
export function closePopups(except = null) {
  for (const popup of document.querySelectorAll("details.popup[open], details.others[open]"))
    if (!except || !popup.contains(except)) popup.removeAttribute("open");
}
