// Arcs: a line from each word to the words that it looks at, with one colour per head. All are faint until the user points
// at a word or chooses it; then its own arcs are bright.

const linesCanvas = document.getElementById("lines");
const fromList = document.getElementById("from");
const toList = document.getElementById("to");
const legend = document.getElementById("legend");

// Eight colours that people with colour blindness can tell apart as well as possible; each head also has its number.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a12", "#7b8494"],
  dark: ["#4da8f0", "#ff8243", "#2fc596", "#f0a0cb", "#ffc04a", "#9adcff", "#d4c355", "#b6bfca"],
};
const AROUND = 20; // words shown before and after the chosen one
const MOST_LINKED = 41;
const SMALLEST_LINK = 0.01;
const SMALLEST_FAINT_LINK = 0.05;
const SQUARE = 11;
const WIDE = 560; // pixels: from this width on, there is room for the squares

let arcRows = []; // {number, matrix} of each head that is drawn
let arcColumns = []; // the columns that are listed
let pointedAt = null; // {side: "from" or "to", place}: a row, or a place in the list of columns

function headColour(number) {
  const colours = HEAD_COLOURS[state.theme];
  return colours[number % colours.length];
}

function arcHeads() {
  const { heads } = currentAttention();
  const single = heads.filter((one) => one.number === state.head);
  return (single.length ? single : heads).map((one) => one.number);
}

async function showArcs() {
  const attention = currentAttention();
  const numbers = arcHeads();
  const matrices = await Promise.all(numbers.map((number) => weightsOf(attention, number, state.words)));
  if (attention !== currentAttention() || state.view !== "arcs") return;
  arcRows = numbers.map((number, place) => ({ number, matrix: matrices[place] }));
  showLegend(attention);
  listWords();
}

function showLegend(attention) {
  const chip = (label, head, colour) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", String(state.head === head || (head === "mean" && arcRows.length > 1)));
    if (colour) button.style.setProperty("--chip", colour);
    button.addEventListener("click", () => change({ head }));
    return button;
  };
  const each = attention.heads.map(({ number }) => chip(`head ${number}`, number, headColour(number)));
  legend.replaceChildren(chip("all heads", "mean", null), ...each);
}

/** The strongest link to a column, from the chosen row or from all listed rows if none is chosen. */
function strongestOver(column, rows) {
  const from = state.isChosen ? [state.row] : rows;
  return Math.max(...arcRows.flatMap(({ matrix }) => from.map((row) => matrix.values[row * matrix.columns + column])));
}

/** All words if there are few; otherwise those around the chosen word, and those that it looks at. */
function listWords() {
  const labels = currentLabels();
  const every = (count) => Array.from({ length: count }, (_, place) => place);
  const first = limit(state.row - AROUND, labels.rows.length);
  const rows = every(labels.rows.length).slice(first, state.row + AROUND + 1);
  arcColumns = every(labels.columns.length);
  const isCut = arcColumns.length > MOST_LINKED;
  if (isCut) {
    const strength = arcColumns.map((column) => strongestOver(column, rows));
    const linked = arcColumns.filter((column) => strength[column] >= SMALLEST_LINK);
    linked.sort((one, other) => strength[other] - strength[one]);
    arcColumns = linked.slice(0, MOST_LINKED).sort((one, other) => one - other);
  }
  const hasSquares = linesCanvas.parentElement.clientWidth >= WIDE;
  linesCanvas.parentElement.style.setProperty("--squares", `${hasSquares ? arcRows.length * (SQUARE + 2) + 8 : 0}px`);
  pointedAt = null;
  const hadFocus = fromList.contains(document.activeElement);
  fromList.replaceChildren(...rows.map((row) => fromItem(row, labels.rows[row])));
  toList.replaceChildren(...arcColumns.map((column) => toItem(labels.columns[column], isCut ? column : null)));
  document.getElementById("arcs-note").textContent =
    `Point at a word to see its links with a weight of at least ${SMALLEST_LINK}; faint lines have at least ${SMALLEST_FAINT_LINK}.` +
    (hasSquares ? " The squares beside a word show the weights of its link, one per head." : "") +
    (isCut ? ` The list shows the ${arcColumns.length} words of ${labels.columns.length} with the largest weights, and their positions.` : "");
  if (hadFocus) fromList.querySelector('[aria-pressed="true"]').focus();
  drawArcs();
}

function fromItem(row, label) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.row = row;
  button.dir = "auto";
  button.textContent = label;
  button.title = label;
  button.tabIndex = row === state.row ? 0 : -1;
  button.setAttribute("aria-pressed", String(row === state.row));
  item.append(button);
  return item;
}

function toItem(label, position) {
  const item = document.createElement("li");
  const word = document.createElement("bdi");
  word.textContent = label;
  item.title = label;
  if (position !== null) {
    const number = document.createElement("small");
    number.textContent = position;
    item.append(number);
  }
  item.append(word);
  return item;
}

/** The middle of the inner edge of each item of a list, which is a button or a word. */
function ends(list, frame, edge) {
  return [...list.children].map((item) => {
    const box = (item.querySelector("button") ?? item).getBoundingClientRect();
    return { x: box[edge] - frame.left + (edge === "right" ? 4 : -4), y: (box.top + box.bottom) / 2 - frame.top };
  });
}

function drawArcs() {
  const frame = linesCanvas.parentElement.getBoundingClientRect();
  const density = devicePixelRatio || 1;
  linesCanvas.width = Math.round(frame.width * density);
  linesCanvas.height = Math.round(frame.height * density);
  const context = linesCanvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  const rows = [...fromList.querySelectorAll("button")].map((button) => Number(button.dataset.row));
  const [starts, stops] = [ends(fromList, frame, "right"), ends(toList, frame, "left")];
  const bright = brightLinks();
  const isFocused = bright !== null;
  for (const isBright of isFocused ? [false, true] : [false]) {
    const least = isBright ? SMALLEST_LINK : SMALLEST_FAINT_LINK;
    for (const { number, matrix } of arcRows) {
      context.strokeStyle = headColour(number);
      rows.forEach((row, from) => {
        arcColumns.forEach((column, to) => {
          const weight = Math.min(1, matrix.values[row * matrix.columns + column]);
          if (weight < least || (isFocused && bright(row, to)) !== isBright) return;
          context.globalAlpha = isBright ? 0.25 + 0.75 * weight : (isFocused ? 0.12 : 0.4) * weight;
          context.lineWidth = 1 + 3 * weight;
          drawLink(context, starts[from], stops[to]);
        });
      });
    }
  }
  if (frame.width >= WIDE) drawSquares(context, stops, toList.getBoundingClientRect().right - frame.left + 8);
}

/** The row whose links are bright: the one under the pointer, or else the chosen one; null if there is neither. */
function brightLinks() {
  if (pointedAt?.side === "to") return (row, to) => to === pointedAt.place;
  const row = pointedAt?.place ?? (state.isChosen ? state.row : null);
  return row === null ? null : (other) => other === row;
}

function drawLink(context, start, end) {
  const bend = (end.x - start.x) / 2;
  context.beginPath();
  context.moveTo(start.x, start.y);
  context.bezierCurveTo(start.x + bend, start.y, end.x - bend, end.y, end.x, end.y);
  context.stroke();
}

/** Shows the weights of the row under the pointer, or of the chosen row, beside each word. */
function drawSquares(context, stops, left) {
  const row = pointedAt?.side === "from" ? pointedAt.place : state.row;
  arcRows.forEach(({ number, matrix }, order) => {
    context.strokeStyle = context.fillStyle = headColour(number);
    stops.forEach(({ y }, to) => {
      const weight = Math.min(1, matrix.values[row * matrix.columns + arcColumns[to]]);
      drawSquare(context, left + order * (SQUARE + 2), y, weight);
    });
  });
  context.globalAlpha = 1;
}

function drawSquare(context, x, y, weight) {
  context.globalAlpha = weight;
  context.fillRect(x, y - SQUARE / 2, SQUARE, SQUARE);
  context.globalAlpha = 0.35;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y - SQUARE / 2 + 0.5, SQUARE - 1, SQUARE - 1);
}

/** Brightens the links under the pointer; null returns to the chosen word. */
async function pointAt(next) {
  if (next?.side === pointedAt?.side && next?.place === pointedAt?.place) return;
  pointedAt = next;
  drawArcs();
  const matrix = await weightsOf(currentAttention(), state.head, state.words);
  if (pointedAt === next) readOut(matrix, next?.side === "from" ? next.place : state.row);
}

fromList.addEventListener("pointerover", (event) => {
  const button = event.target.closest("li")?.querySelector("button");
  if (button) pointAt({ side: "from", place: Number(button.dataset.row) });
});
toList.addEventListener("pointerover", (event) => {
  const place = [...toList.children].indexOf(event.target.closest("li"));
  if (place >= 0) pointAt({ side: "to", place });
});
for (const list of [fromList, toList]) list.addEventListener("pointerleave", () => pointAt(null));
fromList.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) change({ row: Number(button.dataset.row) });
});
fromList.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  change({ row: state.row + step });
});
new ResizeObserver(() => {
  if (state.view === "arcs" && arcRows.length) listWords();
}).observe(linesCanvas.parentElement);
