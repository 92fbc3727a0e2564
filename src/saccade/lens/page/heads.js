// Every head at a glance: small maps, and a table of measures.

const grid = document.getElementById("grid");
const gridNote = document.getElementById("grid-note");
const measures = document.getElementById("measures");
const SMALL_MAP = 64; // maximum number of cells per side; a larger matrix is pooled, and the note says so

let sorting = { key: "attention", down: false };

/** Pools a matrix into at most SMALL_MAP cells per side, each the maximum of its weights. */
function pooled(matrix) {
  const side = Math.ceil(Math.max(matrix.rows, matrix.columns) / SMALL_MAP);
  const [rows, columns] = [Math.ceil(matrix.rows / side), Math.ceil(matrix.columns / side)];
  const values = new Float64Array(rows * columns);
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const place = Math.floor(row / side) * columns + Math.floor(column / side);
      values[place] = Math.max(values[place], matrix.values[row * matrix.columns + column]);
    }
  }
  return { rows, columns, values, side };
}

function buildGrid() {
  const most = Math.max(...content.attentions.map(({ heads }) => heads.length));
  grid.style.setProperty("--heads", most);
  grid.replaceChildren(
    ...content.attentions.map((attention, place) => {
      const group = document.createElement("div");
      group.role = "group";
      group.setAttribute("aria-label", attention.name);
      const name = document.createElement("h3");
      name.append(...breakable(attention.name));
      const maps = document.createElement("div");
      maps.className = "maps";
      maps.append(...attention.heads.map(({ number }) => smallMap(attention, place, number)));
      group.append(name, maps);
      return group;
    }),
  );
}

function smallMap(attention, place, number) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.attention = place;
  button.dataset.head = number;
  button.title = `${attention.name}, head ${number}`;
  button.setAttribute("aria-label", `${attention.name}, head ${number}`);
  button.append(document.createElement("canvas"));
  button.addEventListener("click", () => change({ attention: place, head: number }));
  return button;
}

/** A name that may wrap after its dots. */
function breakable(name) {
  return name.split(/(?<=\.)/).flatMap((part) => [part, document.createElement("wbr")]);
}

let drawing = 0;

/** Draws the small maps one after the other; a later call cancels an earlier one. */
async function drawGrid() {
  drawing += 1;
  const mine = drawing;
  delete grid.dataset.ready;
  const buttons = [...grid.querySelectorAll("button")];
  let side = 1;
  for (const [done, button] of buttons.entries()) {
    const attention = content.attentions[button.dataset.attention];
    const small = pooled(await weightsOf(attention, Number(button.dataset.head), false));
    if (mine !== drawing) return;
    side = Math.max(side, small.side);
    button.firstChild.replaceWith(pixelsOf(small));
    gridNote.textContent = `${done + 1} of ${buttons.length} drawn`;
    if (done % 4 === 3) await new Promise((resume) => setTimeout(resume));
  }
  const cells = side > 1 ? `each dot is the maximum of ${side}×${side} weights` : "each dot is a weight";
  const colours = state.stretch ? " The strongest weight of each map has the full colour." : "";
  gridNote.textContent = `Rows look at columns; ${cells}.${colours} Choose one to open it.`;
  grid.dataset.ready = "yes";
}

function markChosen() {
  for (const button of grid.querySelectorAll("button")) {
    const isChosen = Number(button.dataset.attention) === state.attention && Number(button.dataset.head) === state.head;
    button.setAttribute("aria-pressed", String(isChosen));
  }
  for (const line of measures.tBodies[0].rows) {
    const isChosen = Number(line.dataset.attention) === state.attention && Number(line.dataset.head) === state.head;
    line.toggleAttribute("data-chosen", isChosen);
  }
}

function measured() {
  const lines = content.attentions.flatMap((attention, place) =>
    attention.heads.map((head) => ({ place, name: attention.name, ...head })),
  );
  const keys = { attention: "place", head: "number", entropy: "entropy", distance: "distance" };
  const key = keys[sorting.key];
  const value = (line) => line[key] ?? Infinity; // cross-attention has no distance and comes last
  lines.sort((one, other) => value(one) - value(other) || one.place - other.place || one.number - other.number);
  return sorting.down ? lines.reverse() : lines;
}

function buildTable() {
  measures.tBodies[0].replaceChildren(
    ...measured().map((line) => {
      const row = document.createElement("tr");
      row.dataset.attention = line.place;
      row.dataset.head = line.number;
      const open = document.createElement("button");
      open.type = "button";
      open.append(...breakable(line.name));
      open.setAttribute("aria-label", `Open ${line.name}, head ${line.number}`);
      open.addEventListener("click", () => change({ attention: line.place, head: line.number }));
      row.insertCell().append(open);
      row.insertCell().textContent = line.number;
      row.insertCell().textContent = line.entropy.toFixed(3);
      row.insertCell().textContent = line.distance === null ? "–" : line.distance.toFixed(3);
      return row;
    }),
  );
  for (const header of measures.tHead.rows[0].cells) {
    const isSorted = header.dataset.key === sorting.key;
    header.setAttribute("aria-sort", isSorted ? (sorting.down ? "descending" : "ascending") : "none");
  }
  markChosen();
}

for (const header of measures.tHead.rows[0].cells) {
  header.firstElementChild.addEventListener("click", () => {
    const { key } = header.dataset;
    sorting = { key, down: sorting.key === key && !sorting.down };
    buildTable();
  });
}
