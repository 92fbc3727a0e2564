// The address describes the whole view: page, model, text, layer, head, row, zoom.

/** @typedef {import("./types.js").Parts} Parts */

export const PAGES = ["learn", "ask", "walk", "map", "runs", "words"];
const VISITED = "visited";
const PAUSE = 120; // milliseconds: browsers refuse an address that changes with every movement of the pointer

let current = readLocation();
remember();
/** @type {number | undefined} */
let timer;

/** @returns {{page: string, parts: Parts}} */
function readLocation() {
  const name = location.pathname.split("/").filter(Boolean)[0] ?? "learn";
  const parts = Object.fromEntries(new URLSearchParams(location.search));
  return { page: PAGES.includes(name) ? name : "learn", parts };
}

/** What is seen now. */
export function address() {
  return { page: current.page, parts: { ...current.parts } };
}

/** @param {string} page @param {Parts} parts */
export function addressOf(page, parts) {
  const query = new URLSearchParams(parts).toString();
  return `/${page}${query ? `?${query}` : ""}`;
}

/**
 * Changes some parts of the address; null leaves one out.
 * @param {Record<string, string | null>} changes
 * @param {"push" | "replace"} how push: back returns to what was there before
 */
export function changeAddress(changes, how) {
  const parts = { ...current.parts };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) delete parts[key];
    else parts[key] = value;
  }
  goTo(current.page, parts, how);
}

/** @param {string} page @param {Parts} parts @param {"push" | "replace"} how */
export function goTo(page, parts, how) {
  const isOther = addressOf(page, parts) !== addressOf(current.page, current.parts);
  if (how === "push") write();
  current = { page, parts };
  if (how === "push" && isOther) {
    history.pushState(null, "", addressOf(page, parts));
    remember();
  } else if (how === "replace") timer ??= window.setTimeout(write, PAUSE);
}

function write() {
  clearTimeout(timer);
  timer = undefined;
  const wanted = addressOf(current.page, current.parts);
  if (wanted !== location.pathname + location.search) history.replaceState(null, "", wanted);
  remember();
}

/** What was seen last on every page, as this tab remembers it. @returns {Record<string, Parts>} */
export function visited() {
  return JSON.parse(sessionStorage.getItem(VISITED) ?? "{}");
}

function remember() {
  sessionStorage.setItem(VISITED, JSON.stringify({ ...visited(), [current.page]: current.parts }));
}

/** Forgets the state of every page except the visible one. */
export function forgetVisited() {
  sessionStorage.removeItem(VISITED);
  remember();
}

/** @param {() => void} run Called after back and forward. */
export function whenReturned(run) {
  addEventListener("popstate", () => {
    clearTimeout(timer);
    timer = undefined;
    current = readLocation();
    remember();
    run();
  });
  addEventListener("pagehide", write);
}

/**
 * A whole number of the address.
 * @param {string | undefined} text @param {number} otherwise
 */
export function wholeNumber(text, otherwise) {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
}
