// Reads the weights from the page's own text, one matrix at a time when it is needed. pack.py describes the format.

const content = JSON.parse(document.getElementById("content").textContent);
const packed = document.getElementById("weights").textContent;

const ESCAPE = 255;
const LOWEST_POWER = -40;
const LOG2_E = 1.4426950408889634;
const LN_2 = 0.6931471805599453;
const TERMS = 11;
const MOST_KEPT = 64; // matrices that stay in memory

/** The powers 2^1, 2^0, 2^-1, ..., computed by halving, which is exact; Math.pow may not be. */
const POWERS = [2];
for (let power = 0; power >= LOWEST_POWER; power -= 1) POWERS.push(POWERS.at(-1) / 2);

/** Computes exp(x) from sums, products and floor only, with the same bits as pack.py. */
function exponential(x) {
  const power = Math.floor(x * LOG2_E + 0.5);
  if (power < LOWEST_POWER) return 0;
  const rest = x - power * LN_2;
  let series = 1;
  for (let term = TERMS; term > 0; term -= 1) series = (series * rest) / term + 1;
  return series * POWERS[1 - Math.min(power, 1)];
}

async function inflate(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads four-byte numbers, of which all first bytes come first, then all second bytes, and so on. */
function fromPlanes(bytes) {
  const count = bytes.length / 4;
  const joined = new Uint8Array(bytes.length);
  for (let place = 0; place < count; place += 1) {
    for (let plane = 0; plane < 4; plane += 1) joined[4 * place + plane] = bytes[plane * count + place];
  }
  return joined.buffer;
}

/** Reads signed whole numbers: one byte each, followed by the large ones. */
function wholeNumbers(bytes, count) {
  const large = new Uint32Array(fromPlanes(bytes.slice(count)));
  const numbers = new Int32Array(count);
  let next = 0;
  for (let place = 0; place < count; place += 1) {
    const folded = bytes[place] === ESCAPE ? large[next++] : bytes[place];
    numbers[place] = folded % 2 ? -(folded + 1) / 2 : folded / 2;
  }
  return numbers;
}

/** Adds the prediction from the two factors of the scores to the stored residuals. */
function addForetold(codes, offsets, allowed, factors, stored, rows, columns, perStep) {
  const { rank, grain } = stored;
  const right = factors.subarray(rank * rows);
  const scores = new Float64Array(columns);
  for (let row = 0; row < rows; row += 1) {
    scores.fill(0);
    for (let part = 0; part < rank; part += 1) {
      const left = factors[part * rows + row];
      const start = part * columns;
      if (left) for (let column = 0; column < columns; column += 1) scores[column] += left * right[start + column];
    }
    for (let column = 0; column < columns; column += 1) {
      const place = row * columns + column;
      if (allowed[place >> 3] & (128 >> (place & 7))) {
        codes[place] += Math.floor(exponential(scores[column] * (grain * grain) + offsets[row]) * perStep + 0.5);
      }
    }
  }
}

async function readMatrix(number, rows, columns) {
  const stored = content.stored[number];
  const bytes = await inflate(packed.slice(stored.from, stored.to));
  const count = rows * columns;
  if (content.step === null) return new Float32Array(fromPlanes(bytes));
  const perStep = Math.round(1 / content.step);
  let codes;
  if (stored.grain === 0) { // nothing is predicted
    codes = wholeNumbers(bytes, count);
  } else {
    const mask = 4 * rows;
    const start = mask + Math.ceil(count / 8);
    const numFactors = stored.rank * (rows + columns);
    const numbers = wholeNumbers(bytes.subarray(start), numFactors + count);
    codes = numbers.subarray(numFactors);
    const offsets = new Float32Array(bytes.slice(0, mask).buffer);
    addForetold(codes, offsets, bytes.subarray(mask, start), numbers, stored, rows, columns, perStep);
  }
  return Float32Array.from(codes, (code) => code / perStep);
}

/** Merges pieces into words: the weight a word receives is summed over its pieces, the weight it gives averaged. */
function mergeWords(matrix, rowAxis, columnAxis) {
  const rows = rowAxis.words.length;
  const columns = columnAxis.words.length;
  const total = new Float64Array(rows * columns);
  const pieces = new Float64Array(rows);
  rowAxis.wordOf.forEach((word, row) => {
    pieces[word] += 1;
    columnAxis.wordOf.forEach((other, column) => {
      total[word * columns + other] += matrix.values[row * matrix.columns + column];
    });
  });
  return { rows, columns, values: total.map((sum, place) => sum / pieces[Math.floor(place / columns)]) };
}

/** The mean or the maximum of several matrices. */
function reduceMatrices(matrices, how) {
  const total = new Float64Array(matrices[0].values.length);
  for (const { values } of matrices) {
    for (let place = 0; place < total.length; place += 1) {
      total[place] = how === "mean" ? total[place] + values[place] : Math.max(total[place], values[place]);
    }
  }
  if (how === "mean") for (let place = 0; place < total.length; place += 1) total[place] /= matrices.length;
  return { ...matrices[0], values: total };
}

const kept = new Map();

/** Returns make()'s result for this key from a cache of limited size. */
function remembered(key, make) {
  const known = kept.get(key) ?? make();
  kept.delete(key);
  kept.set(key, known);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return known;
}

function rolloutOf(attention) {
  return content.rollouts.find((rollout) => rollout.layers.includes(attention.name));
}

/** The matrix {rows, columns, values} of one head, of the "mean" or "max" of all heads, or of the stack's "rollout". */
function weightsOf(attention, head, words) {
  const rowAxis = content.axes[attention.rows];
  const columnAxis = content.axes[attention.columns];
  return remembered(JSON.stringify([attention.name, head, words]), async () => {
    if (head === "mean" || head === "max") {
      const every = attention.heads.map((one) => weightsOf(attention, one.number, words));
      return reduceMatrices(await Promise.all(every), head);
    }
    const number =
      head === "rollout" ? rolloutOf(attention).matrix : attention.heads.find((one) => one.number === head).matrix;
    const [rows, columns] = [rowAxis.tokens.length, columnAxis.tokens.length];
    const matrix = { rows, columns, values: await readMatrix(number, rows, columns) };
    return words ? mergeWords(matrix, rowAxis, columnAxis) : matrix;
  });
}

const DECIMALS = content.step === null ? 6 : Math.ceil(-Math.log10(content.step) - 1e-9);

function shown(weight) {
  return weight.toFixed(DECIMALS);
}

/** The largest error of a shown number: half a step for each piece of a word, plus the rounding of the number itself. */
function tolerance(attention, head, words) {
  const rounding = 0.5 * 10 ** -DECIMALS;
  if (content.step === null) return rounding;
  const merged = words && content.axes[attention.columns].words.length < content.axes[attention.columns].tokens.length;
  const pieces = merged ? mostPieces(content.axes[attention.columns]) : 1;
  const isStored = !merged && head !== "mean" && !words;
  return isStored ? content.step / 2 : (pieces * content.step) / 2 + rounding;
}

function mostPieces(axis) {
  const count = new Array(axis.words.length).fill(0);
  for (const word of axis.wordOf) count[word] += 1;
  return Math.max(...count);
}
