// The shell: which page, which model, which theme, which keys.

import { address, addressOf, changeAddress, goTo, whenReturned } from "./address.js";
import { get } from "./api.js";
import { byId, make, reveal } from "./dom.js";
import { Status } from "./status.js";

/**
 * @typedef {import("./types.js").Model} Model
 * @typedef {import("./types.js").PageView} PageView
 * @typedef {import("./types.js").Studio} Studio
 */

/** @type {Record<string, () => Promise<{open: (place: HTMLElement, studio: Studio) => PageView}>>} */
const LOADERS = {
  ask: () => import("./ask.js"),
  walk: () => import("./walk.js"),
  map: () => import("./map.js"),
  runs: () => import("./runs.js"),
  words: () => import("./words.js"),
};
const PAUSE = 700; // milliseconds between two looks at a model that is being trained
const WITH_MODEL = ["ask", "map", "words"];
/** @type {Record<string, string>} */
const TITLES = { ask: "Ask", walk: "Walk", map: "Map", runs: "Runs", words: "Words" };

const content = byId("content");
const chooser = /** @type {HTMLSelectElement} */ (byId("model"));
const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
/** @type {PageView | null} */
let view = null;
let shownPage = "";

/** @type {Studio} */
const studio = {
  models: [],
  model: () => studio.models.find((one) => one.name === address().parts.m) ?? usable(address().page)[0] ?? null,
  status: new Status(byId("status")),
  go: (parts, how = "replace") => changeAddress(parts, how),
  open: (page, parts) => {
    goTo(page, parts, "push");
    void showPage();
  },
  parts: () => address().parts,
};

/** The models that a page has a use for. @param {string} page */
function usable(page) {
  if (page === "map") return studio.models.filter((one) => one.reads !== false && one.has_attention);
  if (page === "words") return studio.models.filter((one) => one.words.length > 0);
  return studio.models;
}

function showModels() {
  const { page } = address();
  const chosen = studio.model();
  chooser.replaceChildren(...usable(page).map((one) => make("option", { value: one.name }, modelTitle(one))));
  if (chosen) chooser.value = chosen.name;
  reveal(byId("model-choice"), WITH_MODEL.includes(page) && studio.models.length > 0);
}

/** @param {Model} model */
function modelTitle(model) {
  const languages = model.languages ? ` ${model.languages.source}→${model.languages.target}` : "";
  return `${model.name}${languages} · ${model.task.replaceAll("_", " ")}`;
}

async function showPage() {
  const { page, parts } = address();
  document.title = `${TITLES[page]} · Saccade`;
  for (const link of document.querySelectorAll("#pages a")) {
    const name = /** @type {HTMLElement} */ (link).dataset.page ?? "";
    if (name === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    const kept = WITH_MODEL.includes(name) && parts.m ? { m: parts.m } : {};
    link.setAttribute("href", addressOf(name, /** @type {Record<string, string>} */ (kept)));
  }
  if (WITH_MODEL.includes(page)) await modelsRead;
  if (address().page !== page) return;
  showModels();
  if (page !== shownPage) {
    view?.leave?.();
    studio.status.stop();
    studio.status.say(null);
    shownPage = page;
    view = null;
    const module = await LOADERS[page]();
    if (shownPage !== page) return;
    content.replaceChildren();
    view = module.open(content, studio);
  }
  await view?.show(address().parts);
  document.documentElement.dataset.ready = page;
}

/** @param {string} name */
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const other = name === "dark" ? "Light" : "Dark";
  byId("theme").textContent = name === "dark" ? "☀" : "☾";
  byId("theme").setAttribute("aria-label", `${other} colours`);
  view?.redraw?.();
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem("theme");
  setTheme(kept ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => {
    if (!localStorage.getItem("theme")) setTheme(system.matches ? "dark" : "light");
  });
  byId("theme").addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", name);
    setTheme(name);
  });
}

function showKeys() {
  const everywhere = { "1 … 5": "Ask, Walk, Map, Runs, Words", "?": "these keys" };
  const here = Object.entries(view?.keys ?? {}).map(([key, { does }]) => /** @type {[string, string]} */ ([key, does]));
  const lines = [...here, ...Object.entries(everywhere)];
  byId("keys-list").replaceChildren(...lines.flatMap(([key, does]) => [make("dt", {}, key), make("dd", {}, does)]));
  dialog.showModal();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.matches("select, textarea, input:not([type=radio], [type=checkbox], [type=range])")) return;
  const found = view?.keys?.[event.key];
  const page = Object.keys(LOADERS)[Number(event.key) - 1];
  if (event.key === "?") showKeys();
  else if (found) found.run();
  else if (page && /^[1-5]$/.test(event.key)) openPage(page);
  else return;
  event.preventDefault();
}

/** @param {string} page */
function openPage(page) {
  const { m } = address().parts;
  studio.open(page, m && WITH_MODEL.includes(page) ? { m } : {});
}

function listen() {
  document.addEventListener("keydown", onKey);
  byId("help").addEventListener("click", showKeys);
  whenReturned(() => void showPage());
  chooser.addEventListener("change", () => studio.open(address().page, { m: chooser.value }));
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("a[data-page], a.name");
    if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { pathname, searchParams } = new URL(link.href);
    studio.open(pathname.slice(1), Object.fromEntries(searchParams));
  });
}

/** Reads which models there are; while the first is still being trained, says how far it is. */
async function readModels() {
  for (;;) {
    /** @type {(Model & {ready: boolean, progress: number, steps: number | null, failure: string | null})[]} */
    const found = await get("/api/models");
    studio.models = found.filter((one) => one.ready !== false);
    const waiting = found.find((one) => one.ready === false);
    if (studio.models.length || !waiting || waiting.failure) {
      studio.status.wait(null);
      return studio.status.say(studio.models.length ? null : (waiting?.failure ?? null));
    }
    const { name, progress, steps } = waiting;
    const far = steps ? `: step ${progress} of ${steps}, ${Math.floor((100 * progress) / steps)} %` : "";
    studio.status.wait(
      `The model ${name} is being trained${far}. The page Runs shows how it learns.`,
      progress / (steps ?? 1),
    );
    await new Promise((resume) => setTimeout(resume, PAUSE));
  }
}

startTheme();
listen();
const modelsRead = readModels();
try {
  await Promise.all([showPage(), modelsRead]);
} catch (error) {
  studio.status.fail(error);
}
