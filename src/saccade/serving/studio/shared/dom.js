// Creates elements and formats text; text is only ever inserted as a text node.

/**
 * An element with its attributes, listeners (`onclick: ...`) and children.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null | false)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" && "value" in element) /** @type {HTMLInputElement} */ (element).value = value;
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== false) element.append(child);
  return element;
}

/**
 * The element with this id, which is there.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`There is no element ${id}.`);
  return found;
}

/** @param {Element} element @param {boolean} isShown */
export function reveal(element, isShown) {
  element.toggleAttribute("hidden", !isShown);
}

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * Makes every character of a token visible: spaces as ·, an empty token as ∅, control characters as numbers.
 * @param {string} token
 */
export function visible(token) {
  if (token === "") return "∅";
  if (token === "the text") return token; // the row of a pooling, which is no token
  const spaced = token.replace(/^\u2581/, "·").replaceAll("\u2581", "·");
  return spaced
    .replace(/ /g, "·")
    .replaceAll("\n", "↵")
    .replace(INVISIBLE, (sign) => {
      return `⟨U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

/**
 * A long label with … in the place of its middle.
 * @param {string} label @param {number} [most] letters
 */
export function shortened(label, most = 40) {
  const letters = label.length > most ? [...label] : [];
  if (letters.length <= most) return label;
  return `${letters.slice(0, most / 2).join("")}…${letters.slice(-most / 2).join("")}`;
}

/** From which side a text is read: of its first letter. @param {string} text @returns {"ltr" | "rtl"} */
export function directionOf(text) {
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";
}

/**
 * A name of something, which may have spaces of its own.
 * @param {string} label
 */
export function named(label) {
  return visible(label.replaceAll(" ", "\u00a0"));
}

/**
 * A number with fixed decimals and a true minus sign.
 * @param {number} value @param {number} [decimals]
 */
export function number(value, decimals = 2) {
  const text = value.toFixed(decimals);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** A probability, as exactly as one reads it: 86 %, 9.4 %, 0.03 %. @param {number} share */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.005) return "< 0.01 %";
  const isNearOne = value > 99 && value < 100;
  const decimals = value >= 100 ? 0 : isNearOne ? 2 : value === 0 || value >= 1 ? 1 : 2;
  return `${number(value, decimals)} %`;
}

/** @param {number} value @param {number} low @param {number} high */
export function within(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/**
 * Runs a function once, some time after the last call.
 * @template {any[]} Given
 * @param {(...given: Given) => void} run @param {number} milliseconds
 * @returns {(...given: Given) => void}
 */
export function afterwards(run, milliseconds) {
  /** @type {number | undefined} */
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => run(...given), milliseconds);
  };
}

/**
 * Runs a function at most once a frame.
 * @param {() => void} run
 */
export function eachFrame(run) {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      run();
    });
  };
}

/**
 * One choice of a few, as radio buttons in a row.
 * @param {string} label @param {string} name @param {[string, string][]} choices value and text
 * @param {(value: string) => void} chosen
 */
export function choice(label, name, choices, chosen) {
  const options = choices.map(([value, text]) => {
    const input = make("input", { type: "radio", name, value, onchange: () => chosen(value) });
    return make("label", {}, input, make("span", {}, text));
  });
  return make("fieldset", { class: "choice" }, make("legend", { class: "unseen" }, label), ...options);
}

/** @param {Element} group @param {string} value */
export function setChoice(group, value) {
  for (const input of group.querySelectorAll("input")) input.checked = input.value === value;
}
