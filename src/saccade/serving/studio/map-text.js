// Long texts: made of examples, or pasted. What is too long for an address stays in this browser.

const IN_ADDRESS = 1500; // characters

/** A text of so many words, of examples one after the other. @param {any[]} examples @param {number} count */
export function madeText(examples, count) {
  const words = examples
    .filter((one) => typeof one === "string")
    .join(" ")
    .split(/\s+/)
    .filter(Boolean);
  if (!words.length) return "";
  return Array.from({ length: count }, (_, place) => words[place % words.length]).join(" ");
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
      held.set(key, text); // no room even so: until the page is left
    }
  }
  return { t: null, k: key };
}

/** @type {Map<string, string>} */
const held = new Map();

/** @param {string} key @returns {string | null} */
export function keptText(key) {
  return held.get(key) ?? localStorage.getItem(`text ${key}`);
}

/** A short name that another text hardly has: FNV-1a. @param {string} text */
function nameOf(text) {
  let hash = 0x811c9dc5;
  for (let place = 0; place < text.length; place += 1)
    hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193) >>> 0;
  return `${text.length}-${hash.toString(36)}`;
}
