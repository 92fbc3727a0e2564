// The shell: which page, which model, which theme, which keys.

import { address, addressOf, changeAddress, goTo, whenReturned } from "./address.js";
import { get } from "./api.js";
import { byId, make, reveal, visible } from "./dom.js";
import { Status } from "./status.js";
import { TrainingView } from "./training.js";

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
const SILENT = 200; // milliseconds: what takes longer says so
const WITH_MODEL = ["ask", "map", "words"];
/** @type {Record<string, string>} */
const TITLES = { ask: "Ask", walk: "Walk", map: "Map", runs: "Runs", words: "Words" };

const content = byId("content");
const chooser = /** @type {HTMLSelectElement} */ (byId("model"));
const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
/** @type {PageView | null} */
let view = null;
let shownPage = "";
/** @type {TrainingView | null} */
let training = null;

/** @type {Studio} */
const studio = {
  models: [],
  model: () => {
    const { page, parts } = address();
    const found = parts.m === undefined ? usable(page)[0] : studio.models.find((one) => one.name === parts.m);
    return found ?? null;
  },
  status: new Status(byId("status")),
  go: (parts, how = "replace") => changeAddress(parts, how),
  open: (page, parts) => {
    goTo(page, parts, "push");
    turnPage();
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
  const offered = usable(page);
  const isOffered = chosen !== null && offered.includes(chosen);
  chooser.replaceChildren(...offered.map((one) => make("option", { value: one.name }, modelTitle(one))));
  if (!isOffered) chooser.prepend(make("option", { value: "", disabled: true }, "choose a model"));
  chooser.value = isOffered ? chosen.name : "";
  showLinks();
  reveal(byId("model-choice"), WITH_MODEL.includes(page) && studio.models.length > 0);
}

/** @param {Model} model */
function modelTitle(model) {
  const languages = model.languages ? ` ${model.languages.source}→${model.languages.target}` : "";
  return `${model.name}${languages} · ${model.task.replaceAll("_", " ")}`;
}

function showLinks() {
  for (const link of document.querySelectorAll("#pages a")) {
    const name = /** @type {HTMLElement} */ (link).dataset.page ?? "";
    if (name === address().page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.setAttribute("href", addressOf(name, keptModel(name)));
  }
}

async function showPage() {
  const { page, parts } = address();
  showLinks();
  document.title = `${TITLES[page]} · Saccade`;
  if (needsModel(page, parts)) await modelsRead;
  if (address().page !== page) return;
  showModels();
  if (isUnknownModel()) leavePage(`There is no model «${visible(parts.m)}» here; choose one at the top.`);
  else if (page !== shownPage) {
    leavePage(null);
    shownPage = page;
    const module = await LOADERS[page]();
    if (shownPage !== page) return;
    content.replaceChildren();
    view = module.open(content, studio);
  }
  await view?.show(address().parts);
  document.documentElement.dataset.ready = page;
}

/** Shows what the address says by now; what goes wrong is told. */
function turnPage() {
  showPage().catch((error) => studio.status.fail(error));
}

/** Nothing is left of the page, unless a sentence why. @param {string | null} sentence */
function leavePage(sentence) {
  view?.leave?.();
  view = null;
  shownPage = "";
  studio.status.stop();
  studio.status.say(sentence);
  if (sentence !== null) content.replaceChildren();
}

/** @param {string} page @param {import("./types.js").Parts} parts */
function needsModel(page, parts) {
  return WITH_MODEL.includes(page) || (page === "walk" && parts.from === "model");
}

/** Whether the address names a model that is not here. */
function isUnknownModel() {
  const { page, parts } = address();
  return needsModel(page, parts) && parts.m !== undefined && studio.models.length > 0 && studio.model() === null;
}

/**
 * The part of another page's address that names the same model, if that page has a use for it.
 * @param {string} page @returns {import("./types.js").Parts}
 */
function keptModel(page) {
  const { m } = address().parts;
  const isOfUse = page !== "runs" && (!studio.models.length || usable(page).some((one) => one.name === m));
  return m !== undefined && isOfUse ? { m } : {};
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
  studio.open(page, keptModel(page));
}

function listen() {
  document.addEventListener("keydown", onKey);
  byId("help").addEventListener("click", showKeys);
  whenReturned(turnPage);
  chooser.addEventListener("change", () => studio.open(address().page, { m: chooser.value }));
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("a[data-page], a.name");
    if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { pathname, searchParams } = new URL(link.href);
    studio.open(pathname.slice(1), Object.fromEntries(searchParams));
  });
}

/** Reads which models there are; while the first is still being trained, shows how it learns. */
async function readModels() {
  const opening = setTimeout(() => studio.status.wait("Opening the models …"), SILENT);
  let isOpening = true;
  const opened = () => {
    clearTimeout(opening);
    if (isOpening) studio.status.wait(null);
    isOpening = false;
  };
  for (;;) {
    /** @type {(Model & {ready: boolean, progress: number, steps: number | null, failure: string | null})[]} */
    const found = await get("/api/models").finally(opened);
    studio.models = found.filter((one) => one.ready !== false);
    const waiting = found.find((one) => one.ready === false);
    if (studio.models.length || !waiting || waiting.failure) {
      training?.element.remove();
      return studio.status.say(studio.models.length ? null : (waiting?.failure ?? null));
    }
    await showTraining(waiting);
    await new Promise((resume) => setTimeout(resume, PAUSE));
  }
}

/** In the place of a page that needs the model. @param {import("./training.js").Training} waiting */
async function showTraining(waiting) {
  const { page, parts } = address();
  chooser.replaceChildren(make("option", {}, `${waiting.name} · being trained`));
  reveal(byId("model-choice"), WITH_MODEL.includes(page));
  training ??= new TrainingView();
  if (needsModel(page, parts) && !training.element.isConnected) {
    leavePage(null);
    content.replaceChildren(training.element);
  }
  await training.show(waiting).catch(() => undefined); // its log may not be there yet
}

/** Walk needs no model, but offers one as soon as it is there. */
function modelsCame() {
  showModels();
  view?.redraw?.();
}

startTheme();
listen();
const modelsRead = readModels();
modelsRead.then(modelsCame).catch(() => undefined);
try {
  await Promise.all([showPage(), modelsRead]);
} catch (error) {
  studio.status.fail(error);
}
