// The shell: chooses the page, the model, the theme and the keyboard shortcuts.

import {
  PAGES,
  address,
  addressOf,
  changeAddress,
  forgetVisited,
  goTo,
  visited,
  whenReturned,
} from "./shared/address.js";
import { isAnswering } from "./shared/api.js";
import { open as openAsk } from "./ask/page.js";
import { byId, make, reveal, visible } from "./shared/dom.js";
import { closePopups, showHelp } from "./shared/help.js";
import { open as openLearn } from "./learn/page.js";
import { open as openMap } from "./map/page.js";
import { open as openRuns } from "./runs/page.js";
import { Status } from "./shared/status.js";
import { startTheme } from "./shared/theme.js";
import { WITH_MODEL, listModels, madeOf, modelTitle, needsModel, usable } from "./models.js";
import { TrainingView } from "./runs/training.js";
import { open as openWalk } from "./walk/page.js";
import { open as openWords } from "./words/page.js";

/**
 * @typedef {import("./shared/types.js").PageView} PageView
 * @typedef {import("./shared/types.js").Studio} Studio
 */

/** @type {Record<string, (place: HTMLElement, studio: Studio) => PageView>} */
const OPENERS = { learn: openLearn, ask: openAsk, walk: openWalk, map: openMap, runs: openRuns, words: openWords };
const PAUSE = 700; // milliseconds between two progress checks of a model in training
const RETRY = 2000; // milliseconds between two attempts to reach the server
const SILENT = 200; // milliseconds after which a slow start is mentioned
/** @type {Record<string, string>} */
const TITLES = { learn: "Learn", ask: "Ask", walk: "Walk", map: "Map", runs: "Runs", words: "Words" };

const content = byId("content");
const chooser = /** @type {HTMLSelectElement} */ (byId("model"));
/** @type {PageView | null} */
let view = null;
let shownPage = "";
/** @type {TrainingView | null} */
let training = null;
/** @type {Promise<void>} */
let modelsRead;
let isSilent = false; // the server does not answer, and we keep trying

/** @type {Studio} */
const studio = {
  models: [],
  model: () => {
    const { page, parts } = address();
    if (parts.m === undefined) return usable(studio.models, page)[0] ?? null;
    return studio.models.find((one) => one.name === parts.m) ?? null;
  },
  status: new Status(byId("status")),
  go: (parts, how = "replace") => changeAddress(parts, how),
  open: (page, parts) => {
    goTo(page, parts, "push");
    turnPage();
  },
  parts: () => address().parts,
  readModels: async () => {
    const { ready, pending } = await listModels();
    if (JSON.stringify(ready) === JSON.stringify(studio.models)) return pending; // nothing is taken from a page
    studio.models = ready;
    showModels();
    return pending;
  },
};

function showModels() {
  const { page } = address();
  const chosen = studio.model();
  const offered = usable(studio.models, page);
  const isOffered = chosen !== null && offered.includes(chosen);
  chooser.replaceChildren(...offered.map((one) => make("option", { value: one.name }, modelTitle(one))));
  if (!isOffered) chooser.prepend(make("option", { value: "", disabled: true }, "choose a model"));
  chooser.value = isOffered ? chosen.name : "";
  chooser.title = madeOf(chosen);
  showLinks();
  reveal(byId("model-choice"), WITH_MODEL.includes(page) && studio.models.length > 0);
}

function showLinks() {
  for (const link of document.querySelectorAll("#pages a")) {
    const name = /** @type {HTMLElement} */ (link).dataset.page ?? "";
    if (name === address().page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.setAttribute("href", addressOf(name, partsOf(name)));
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
    content.replaceChildren();
    view = OPENERS[page](content, studio);
  }
  await view?.show(address().parts);
  document.documentElement.dataset.ready = page;
}

/** Shows the page that the address describes, or an error. */
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

/** Whether the address names a model that is not here. */
function isUnknownModel() {
  const { page, parts } = address();
  return needsModel(page, parts) && parts.m !== undefined && studio.models.length > 0 && studio.model() === null;
}

/**
 * Where the link to a page leads: to what was seen there last, or to the model that is seen now. The link to the page
 * that is open lets it begin anew.
 * @param {string} page @returns {import("./shared/types.js").Parts}
 */
function partsOf(page) {
  const { t, m: asked } = address().page === "ask" ? address().parts : {};
  if (page === "map" && t && isOfUse(page, asked ?? "")) return { ...(asked ? { m: asked } : {}), t };
  const last = page === address().page ? undefined : visited()[page];
  if (last && (last.m === undefined || isOfUse(page, last.m))) return last;
  const { m } = address().parts;
  return m !== undefined && page !== "runs" && isOfUse(page, m) ? { m } : {};
}

/** Whether a page has a use for a model, as far as is known by now. @param {string} page @param {string} name */
function isOfUse(page, name) {
  return !studio.models.length || usable(studio.models, page).some((one) => one.name === name);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.matches("input[type=range]") && event.key.startsWith("Arrow")) return;
  if (target.matches("select, textarea, input:not([type=radio], [type=checkbox], [type=range])")) return;
  const run = view?.keys?.[event.key]?.run;
  const page = PAGES[Number(event.key) - 1];
  if (event.key === "?") showHelp(address().page, view);
  else if (run) run();
  else if (page) studio.open(page, partsOf(page));
  else return;
  event.preventDefault();
}

function listen() {
  document.addEventListener("keydown", onKey);
  byId("help").addEventListener("click", () => showHelp(address().page, view));
  whenReturned(() => {
    closePopups();
    turnPage();
  });
  document.addEventListener("pointerdown", (event) => closePopups(/** @type {Node} */ (event.target)));
  chooser.addEventListener("change", () => {
    forgetVisited(); // the other pages follow with the model
    studio.open(address().page, { m: chooser.value });
  });
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
  const opened = () => {
    clearTimeout(opening);
    if (!training) studio.status.wait(null);
  };
  for (;;) {
    const pending = await studio.readModels().finally(opened);
    const waiting = pending.at(0);
    if (studio.models.length || !waiting || waiting.failure) {
      training?.element.remove();
      // otherwise keep what a page without a model has shown in the meantime
      if (!studio.models.length && waiting?.failure) studio.status.say(waiting.failure);
      return;
    }
    await showTraining(waiting);
    await new Promise((resume) => setTimeout(resume, PAUSE));
  }
}

/** In the place of a page that needs the model. @param {import("./runs/training.js").Training} waiting */
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

/** Calls the server until it is back, and then shows the page again; it may have other models by then. */
async function waitForServer() {
  if (isSilent) return;
  isSilent = true;
  do await new Promise((resume) => setTimeout(resume, RETRY));
  while (!(await isAnswering()));
  isSilent = false;
  studio.status.say(null);
  await begin();
}

/** Reads which models there are, and shows the page. */
function begin() {
  modelsRead = readModels();
  modelsRead.then(() => view?.redraw?.()).catch(() => undefined); // Walk offers a model as soon as it is there
  return Promise.all([showPage(), modelsRead]).catch((error) => studio.status.fail(error));
}

// embedded in another page, the view is read-only
document.documentElement.toggleAttribute("data-embed", address().parts.embed === "1");
startTheme(() => view?.redraw?.());
listen();
studio.status.whenSilent = waitForServer;
await begin();
