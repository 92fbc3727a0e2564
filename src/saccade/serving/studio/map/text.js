// Long texts: made of examples, or pasted. A pasted text is stored in the address if it fits, plain
// or compressed after the #; a longer text stays in this browser.

const IN_ADDRESS = 1500; // characters
const IN_HASH = 30_000; // characters, packed
const PACKED = "#text=";
const MADE = [500, 2000, 8000, 16_000]; // words
const MOST_TOKENS = 65_536; // that the server takes,
const MOST_CHARACTERS = 1_000_000;
const TAKEN = 0.99; // of both: the words of a short text tell only nearly how many tokens a long one has

/** The words of examples. @param {any[]} examples */
function wordsOf(examples) {
  return examples
    .filter((one) => typeof one === "string")
    .join(" ")
    .split(/\s+/)
    .filter(Boolean);
}

/** A text of so many words, of examples one after the other. @param {any[]} examples @param {number} count */
export function madeText(examples, count) {
  const words = wordsOf(examples);
  if (!words.length) return "";
  return Array.from({ length: count }, (_, place) => words[place % words.length]).join(" ");
}

/**
 * How many words of examples are offered: a few lengths, and as many as are taken once it is known how many that is.
 * @param {any[]} examples @param {number | undefined} perWord tokens
 * @returns {number[]}
 */
export function madeCounts(examples, perWord) {
  const words = wordsOf(examples);
  if (!words.length) return [];
  if (!perWord) return MADE;
  const wide = (words.join(" ").length + 1) / words.length;
  const most = Math.min(MOST_TOKENS / perWord, MOST_CHARACTERS / wide);
  const longest = Math.floor((TAKEN * most) / 100) * 100;
  return [...MADE.filter((count) => count < longest), ...(longest > 0 ? [longest] : [])];
}

/**
 * The parts of an address that lead to a text.
 * @param {string} text @returns {Record<string, string | null>}
 */
export function keepText(text) {
  if (text.length <= IN_ADDRESS) return { t: text, k: null };
  const key = nameOf(text);
  try {
    localStorage.setItem(`text ${key}`, text);
  } catch {
    for (const old of Object.keys(localStorage)) if (old.startsWith("text ")) localStorage.removeItem(old);
    try {
      localStorage.setItem(`text ${key}`, text);
    } catch {
      held.set(key, text); // too long even so: kept until the user leaves the page
    }
  }
  return { t: null, k: key };
}

/** @type {Map<string, string>} */
const held = new Map();

/** The text that an address names, if it is in it or in this browser. @param {string} key @param {string} hash */
export async function keptText(key, hash) {
  const known = held.get(key) ?? localStorage.getItem(`text ${key}`);
  if (known !== null) return known;
  const text = await unpacked(hash);
  if (text === null || nameOf(text) !== key) return null;
  keepText(text);
  return text;
}

/** A text as it stands behind the # of an address; empty where it is too long for that. @param {string} text */
export async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (bytes.length > IN_HASH) return "";
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const safe = letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return safe.length > IN_HASH ? "" : PACKED + safe;
}

/** @param {string} hash @returns {Promise<string | null>} */
async function unpacked(hash) {
  if (!hash.startsWith(PACKED) || hash.length > PACKED.length + IN_HASH) return null;
  try {
    const letters = atob(hash.slice(PACKED.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return await new Response(stream).text();
  } catch {
    return null; // an address that was cut or changed on its way
  }
}

/** A short name that another text hardly has: FNV-1a. @param {string} text */
function nameOf(text) {
  let hash = 0x811c9dc5;
  for (let place = 0; place < text.length; place += 1)
    hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193) >>> 0;
  return `${text.length}-${hash.toString(36)}`;
}
