// One scale for every picture: weight 0 is the background, 1 the ink. The same curves as lens/colours.py: Bézier curves
// in OKLab (Ottosson 2020), in which equal steps look equal.

/** @typedef {[number, number, number]} Colour */

const THEMES = {
  light: { background: "#ffffff", ink: "#0a1a33", up: "#1450a3", down: "#8f3700" },
  dark: { background: "#11161d", ink: "#f3f8ff", up: "#9cc9ff", down: "#ffb37a" },
};
const BEND = [-0.05, -0.2]; // the hue that weights pass through: OKLab's a and b
const CONES = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
];
const LAB = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
];

/** @param {number[][]} matrix @param {number[]} vector @returns {Colour} */
function times(matrix, vector) {
  return /** @type {Colour} */ (matrix.map((row) => row.reduce((sum, entry, place) => sum + entry * vector[place], 0)));
}

/** @param {number[][]} m The inverse of a 3×3 matrix, by cofactors. */
function inverse(m) {
  const cofactor = (/** @type {number} */ row, /** @type {number} */ column) => {
    const [r, s, c, d] = [(row + 1) % 3, (row + 2) % 3, (column + 1) % 3, (column + 2) % 3];
    return m[r][c] * m[s][d] - m[r][d] * m[s][c];
  };
  const determinant = m[0][0] * cofactor(0, 0) + m[0][1] * cofactor(0, 1) + m[0][2] * cofactor(0, 2);
  return m.map((_, row) => m.map((__, column) => cofactor(column, row) / determinant));
}

const FROM_LAB = inverse(LAB);
const FROM_CONES = inverse(CONES);

/** @param {string} hex @returns {Colour} */
function toLab(hex) {
  const linear = [1, 3, 5].map((place) => {
    const part = parseInt(hex.slice(place, place + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return times(LAB, times(CONES, linear).map(Math.cbrt));
}

/** @param {number[]} lab Bytes of red, green and blue. */
function fromLab(lab) {
  const linear = times(
    FROM_CONES,
    times(FROM_LAB, lab).map((root) => root ** 3),
  );
  return linear.map((part) => {
    const kept = Math.max(0, Math.min(1, part));
    return Math.round(255 * (kept <= 0.0031308 ? kept * 12.92 : 1.055 * kept ** (1 / 2.4) - 0.055));
  });
}

/** @param {string} start @param {string} end @param {number[]} [bend] 256 colours from one to the other, as bytes. */
function arm(start, end, bend) {
  const [first, last] = [toLab(start), toLab(end)];
  const middle = first.map((part, place) => (bend && place ? bend[place - 1] : (part + last[place]) / 2));
  const bytes = new Uint8Array(768);
  for (let shade = 0; shade < 256; shade += 1) {
    const share = shade / 255;
    const point = first.map((part, place) => {
      return (1 - share) ** 2 * part + 2 * share * (1 - share) * middle[place] + share ** 2 * last[place];
    });
    bytes.set(fromLab(point), 3 * shade);
  }
  return bytes;
}

/** @type {Map<string, Uint8Array>} */
const made = new Map();

/** @param {"weights" | "up" | "down"} kind */
function bytesOf(kind) {
  const theme = currentTheme();
  const key = `${theme} ${kind}`;
  let bytes = made.get(key);
  if (!bytes) {
    const colours = THEMES[theme];
    bytes = kind === "weights" ? arm(colours.background, colours.ink, BEND) : arm(colours.background, colours[kind]);
    made.set(key, bytes);
  }
  return bytes;
}

/** @returns {"light" | "dark"} */
export function currentTheme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

/**
 * The colour of a weight from 0 to 1, or of a difference from −1 to 1.
 * @param {number} value @param {boolean} [isDifference]
 */
export function colourOf(value, isDifference = false) {
  const bytes = isDifference ? bytesOf(value >= 0 ? "up" : "down") : bytesOf("weights");
  const shade = 3 * Math.round(255 * Math.max(0, Math.min(1, isDifference ? Math.abs(value) : value)));
  return `rgb(${bytes[shade]} ${bytes[shade + 1]} ${bytes[shade + 2]})`;
}

/**
 * The picture of a matrix, a pixel a value.
 * @param {import("./types.js").Matrix} matrix
 * @param {{isDifference?: boolean, most?: number}} [options] most: the value that has the ink
 */
export function picture(matrix, { isDifference = false, most = 1 } = {}) {
  const [up, down] = isDifference ? [bytesOf("up"), bytesOf("down")] : [bytesOf("weights"), bytesOf("weights")];
  const image = new ImageData(Math.max(1, matrix.columns), Math.max(1, matrix.rows)); // an empty answer has no rows
  const { data } = image;
  const { values } = matrix;
  for (let place = 0; place < values.length; place += 1) {
    const share = values[place] / most;
    const bytes = share < 0 ? down : up;
    const shade = 3 * Math.round(255 * Math.min(1, isDifference ? Math.abs(share) : Math.max(0, share)));
    data[4 * place] = bytes[shade];
    data[4 * place + 1] = bytes[shade + 1];
    data[4 * place + 2] = bytes[shade + 2];
    data[4 * place + 3] = 255;
  }
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** @type {Map<string, string>} */
const styled = new Map();

/** @param {string} name A colour of the style sheet. */
export function styleColour(name) {
  const key = `${currentTheme()} ${name}`;
  let colour = styled.get(key);
  if (!colour) {
    colour = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    if (colour) styled.set(key, colour); // asking the style sheet for every label of a map takes milliseconds
  }
  return colour;
}

/** Whether text on this weight has to be in the colour of the background. @param {number} share */
export function isDarkInk(share) {
  return share > 0.42;
}
