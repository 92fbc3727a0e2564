// Lists the models, and which of them a page can use.

import { get } from "./shared/api.js";

/**
 * @typedef {import("./shared/types.js").Model} Model
 * @typedef {import("./shared/types.js").Pending} Pending
 */

/** Pages with a model at the top. */
export const WITH_MODEL = ["ask", "map", "words"];
/** Scenes that need a model. */
const STORY = ["links", "cut", "own", "heads", "points", undefined];

/**
 * Those that are ready, and those that are still being trained.
 * @returns {Promise<{ready: Model[], pending: Pending[]}>}
 */
export async function listModels() {
  /** @type {((Model & {ready: true}) | (Pending & {ready: false}))[]} */
  const found = await get("/api/models");
  const ready = /** @type {Model[]} */ (found.filter((one) => one.ready !== false));
  return { ready, pending: /** @type {Pending[]} */ (found.filter((one) => one.ready === false)) };
}

/** The models that a page has a use for. @param {Model[]} models @param {string} page */
export function usable(models, page) {
  if (page === "map") return models.filter((one) => one.reads !== false && one.has_attention);
  if (page === "words") return models.filter((one) => one.words.length > 0);
  return models;
}

/** @param {Model} model */
export function modelTitle(model) {
  const languages = model.languages ? ` ${model.languages.source}→${model.languages.target}` : "";
  return `${model.name}${languages} · ${model.task.replaceAll("_", " ")}`;
}

/** What a model is, and what computes its answers. @param {Model | null} model */
export function madeOf(model) {
  return model?.made ? `${model.made.family} · ${model.made.sizes} · answers by ${model.made.engine}` : "";
}

/**
 * Whether a page shows nothing without a model.
 * @param {string} page @param {import("./shared/types.js").Parts} parts
 */
export function needsModel(page, parts) {
  const isStory = page === "learn" && STORY.includes(parts.s);
  return WITH_MODEL.includes(page) || isStory || (page === "walk" && parts.from === "model");
}
