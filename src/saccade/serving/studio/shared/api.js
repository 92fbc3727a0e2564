// All requests to the server. Every failure becomes one sentence for the page.

import { heldKey, replaceKey } from "./key.js";

/**
 * @typedef {import("./types.js").Look} Look
 * @typedef {import("./types.js").Matrix} Matrix
 */

const WANTS_KEY = 401;
export const NO_ANSWER = 0; // used instead of a status if the server cannot be reached

/** An error that a person can read. */
export class Refused extends Error {
  /** @param {string} message @param {number} status @param {number} [pause] seconds after which to ask again */
  constructor(message, status, pause = 0) {
    super(message);
    this.status = status;
    this.pause = pause;
  }
}

/** @param {unknown} error Whether the error only means that the request was cancelled. */
export function isStopped(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** @param {string} path @param {RequestInit} options @returns {Promise<Response>} */
async function ask(path, options) {
  for (;;) {
    const key = heldKey();
    const answer = await send(path, options, key);
    if (answer.ok) return answer;
    if (answer.status !== WANTS_KEY) {
      const pause = Number(answer.headers.get("retry-after")) || 0;
      throw new Refused(await sentence(answer), answer.status, pause);
    }
    if (!(await replaceKey(key)))
      throw new Refused("This server needs its API key; reload the page to enter it.", WANTS_KEY);
  }
}

/** @param {string} path @param {RequestInit} options @param {string | null} key */
async function send(path, options, key) {
  const headers = new Headers(options.headers);
  if (key !== null) headers.set("authorization", `Bearer ${key}`);
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    throw broken(error);
  }
}

/** What is told when a connection ends, unless this page has ended it. @param {unknown} error */
function broken(error) {
  if (isStopped(error)) return error;
  return new Refused("The server is not responding. Is `saccade serve` still running?", NO_ANSWER);
}

/** Whether the server is there. */
export async function isAnswering() {
  return fetch("/health").then(
    ({ ok }) => ok,
    () => false,
  );
}

/** @param {Response} answer */
async function sentence(answer) {
  const text = await answer.text().catch(() => "");
  try {
    const said = JSON.parse(text).error;
    if (typeof said === "string" && said) return said;
  } catch {
    // Not JSON: something between the page and the server answered.
  }
  if (answer.status === 429) return "The server is busy; try again in a moment.";
  return `The server answered with an error (${answer.status}).`;
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, signal) {
  return (await ask(path, { signal })).json();
}

/** @param {string} path @param {unknown} content @param {AbortSignal} [signal] */
function posted(path, content, signal) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(content), signal });
}

/** @param {string} path @param {unknown} content @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function post(path, content, signal) {
  return (await posted(path, content, signal)).json();
}

/**
 * A file, with the name that the server gives it.
 * @param {string} path
 */
export async function file(path) {
  const answer = await ask(path, {});
  const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "";
  return { name, content: await answer.blob() };
}

/** @param {string} text One part of a path. */
export function inPath(text) {
  return encodeURIComponent(text);
}

/** @param {Record<string, string | number | undefined>} parts */
export function query(parts) {
  const given = Object.entries(parts).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
}

/**
 * Numbers, with what their headers say of them.
 * @param {string} path @param {AbortSignal} [signal]
 */
export async function numbers(path, signal) {
  const answer = await ask(path, { signal });
  const bytes = await answer.arrayBuffer();
  const header = (/** @type {string} */ name) => Number(answer.headers.get(name) ?? 1);
  return {
    rows: header("X-Rows"),
    columns: header("X-Columns"),
    heads: header("X-Heads"),
    // along queries and along keys
    cell: /** @type {[number, number]} */ ((answer.headers.get("X-Cell") ?? "1x1").split("x").map(Number)),
    pool: answer.headers.get("X-Pool") ?? "",
    values: new Float32Array(bytes), // little endian, as every machine with a browser is
  };
}

/**
 * What a server tells piece by piece (server-sent events), until it ends.
 * @param {string} path @param {unknown} content what is posted; undefined: the address is only read
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* events(path, content, signal) {
  const answer = await (content === undefined ? ask(path, { signal }) : posted(path, content, signal));
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error) => {
        throw broken(error);
      });
      if (done) return;
      text += value.replaceAll("\r\n", "\n");
      const parts = text.split("\n\n");
      text = parts.pop() ?? "";
      for (const part of parts) {
        const data = part
          .split("\n")
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trim());
        if (!data.length) continue;
        const told = JSON.parse(data.join("\n"));
        if (typeof told.error === "string") throw new Refused(told.error, 200);
        yield told;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

const MOST_KEPT = 96; // matrices
/** @type {Map<string, Promise<any>>} */
const kept = new Map();

/**
 * Numbers that do not change, kept until many others have been asked for.
 * @param {string} path
 * @returns {Promise<Awaited<ReturnType<typeof numbers>>>}
 */
export function keptNumbers(path) {
  const known = kept.get(path) ?? numbers(path);
  kept.delete(path);
  kept.set(path, known);
  known.catch(() => kept.delete(path));
  if (kept.size > MOST_KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
  return known;
}

/**
 * The weights of one head, of several ("mean", "max"), or of a stack of layers ("rollout").
 * @param {Look} look @param {string} name @param {string} head @param {boolean} words
 * @returns {Promise<Matrix>}
 */
export function weightsOf(look, name, head, words) {
  const base = `/api/looks/${inPath(look.id ?? "")}`;
  const inWords = words ? 1 : 0;
  if (head === "rollout") {
    return keptNumbers(`${base}/rollout?${query({ stack: stackOf(look, name), heads: "mean", words: inWords })}`);
  }
  return keptNumbers(`${base}/matrix?${query({ name, head, words: inWords })}`);
}

/**
 * The stack of self-attentions that this one is a layer of.
 * @param {Look} look @param {string} name
 */
export function stackOf(look, name) {
  return Object.entries(look.stacks ?? {}).find(([, names]) => names.includes(name))?.[0];
}

/**
 * Small pictures of all heads of one attention.
 * @param {Look} look @param {string} name
 * @returns {Promise<import("./types.js").HeadPictures>}
 */
export function headPictures(look, name) {
  return keptNumbers(`/api/looks/${inPath(look.id ?? "")}/heads?${query({ name, cells: 32 })}`);
}
