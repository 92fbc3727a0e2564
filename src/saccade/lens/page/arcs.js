// The arcs of one word: a line to each word that it looks at, a colour a head.

const linesCanvas = document.getElementById("lines");
const fromList = document.getElementById("from");
const toList = document.getElementById("to");
const legend = document.getElementById("legend");

// Told apart by every common colour blindness as far as eight colours can be; the number of the head says the rest.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a12", "#7b8494"],
  dark: ["#4da8f0", "#ff8243", "#2fc596", "#f0a0cb", "#ffc04a", "#9adcff", "#d4c355", "#b6bfca"],
};
const AROUND = 20; // words shown before and after the chosen one
const MOST_LINKED = 41;
const SMALLEST_LINK = 0.01;
const SQUARE = 11;
const WIDE = 560; // pixels: where there is room for the squares

let arcRows = []; // {number, matrix} of each head that is drawn
let arcColumns = []; // the columns that are listed

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

function strongestOver(column) {
  return Math.max(...arcRows.map(({ matrix }) => matrix.values[state.row * matrix.columns + column]));
}

/** The words around the chosen one, and those that it looks at; of few words all. */
function listWords() {
  const labels = currentLabels();
  const every = (count) => Array.from({ length: count }, (_, place) => place);
  const first = limit(state.row - AROUND, labels.rows.length);
  const rows = every(labels.rows.length).slice(first, state.row + AROUND + 1);
  arcColumns = every(labels.columns.length);
  const isCut = arcColumns.length > MOST_LINKED;
  if (isCut) {
    const linked = arcColumns.filter((column) => strongestOver(column) >= SMALLEST_LINK);
    linked.sort((one, other) => strongestOver(other) - strongestOver(one));
    arcColumns = linked.slice(0, MOST_LINKED).sort((one, other) => one - other);
  }
  const hasSquares = linesCanvas.parentElement.clientWidth >= WIDE;
  linesCanvas.parentElement.style.setProperty("--squares", `${hasSquares ? arcRows.length * (SQUARE + 2) + 8 : 0}px`);
  const hadFocus = fromList.contains(document.activeElement);
  fromList.replaceChildren(...rows.map((row) => fromItem(row, labels.rows[row])));
  toList.replaceChildren(...arcColumns.map((column) => toItem(labels.columns[column], isCut ? column : null)));
  document.getElementById("arcs-note").textContent =
    `Lines are links of ${SMALLEST_LINK} and more.` +
    (hasSquares ? " Squares beside a word are its weights, one for each head." : "") +
    (isCut ? ` Of ${labels.columns.length}, the ${arcColumns.length} that get most are listed, with their positions.` : "");
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

function drawArcs() {
  const frame = linesCanvas.parentElement.getBoundingClientRect();
  const density = devicePixelRatio || 1;
  linesCanvas.width = Math.round(frame.width * density);
  linesCanvas.height = Math.round(frame.height * density);
  const context = linesCanvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  const chosen = fromList.querySelector('[aria-pressed="true"]').getBoundingClientRect();
  const start = { x: chosen.right - frame.left + 4, y: (chosen.top + chosen.bottom) / 2 - frame.top };
  const hasSquares = frame.width >= WIDE;
  const squares = toList.getBoundingClientRect().right - frame.left + 8;
  [...toList.children].forEach((item, place) => {
    const box = item.getBoundingClientRect();
    const end = { x: box.left - frame.left - 4, y: (box.top + box.bottom) / 2 - frame.top };
    arcRows.forEach(({ number, matrix }, order) => {
      const weight = Math.min(1, matrix.values[state.row * matrix.columns + arcColumns[place]]);
      context.strokeStyle = context.fillStyle = headColour(number);
      if (weight >= SMALLEST_LINK) drawLink(context, start, end, weight);
      if (hasSquares) drawSquare(context, squares + order * (SQUARE + 2), end.y, weight);
    });
  });
  context.globalAlpha = 1;
}

function drawLink(context, start, end, weight) {
  const bend = (end.x - start.x) / 2;
  context.globalAlpha = 0.25 + 0.75 * weight;
  context.lineWidth = 1 + 3 * weight;
  context.beginPath();
  context.moveTo(start.x, start.y);
  context.bezierCurveTo(start.x + bend, start.y, end.x - bend, end.y, end.x, end.y);
  context.stroke();
}

function drawSquare(context, x, y, weight) {
  context.globalAlpha = weight;
  context.fillRect(x, y - SQUARE / 2, SQUARE, SQUARE);
  context.globalAlpha = 0.35;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y - SQUARE / 2 + 0.5, SQUARE - 1, SQUARE - 1);
}

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
