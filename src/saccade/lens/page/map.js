// The heat map: only the visible part is drawn, and the tokens stay visible while the cells scroll.

const viewport = document.getElementById("viewport");
const extent = document.getElementById("extent");
const cellsCanvas = document.getElementById("cells");

const SMALLEST_CELL = 1; // pixels: no weight is ever left out
const LARGEST_CELL = 64;
const READABLE_CELL = 14;
const TILTED_CELL = 22; // pixels: cells of at least this width have room for slanted labels
const USUAL_CELL = 44; // pixels: the width of a cell if there are few tokens
const FEW_TOKENS = 128; // up to this many tokens, each has a label, and the map scrolls instead of shrinking
const CELL_WITH_NUMBER = 38;
const TALLEST_MAP = 1100;
const LABEL_FONT = 13;
const LABEL_GAP = 8;

let shownMatrix = null;
let picture = null; // the matrix, with one pixel per weight
let layout = null;

function fontOf(size, weight = 400) {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif`;
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The 256 colours of the ramp as bytes. */
function rampBytes() {
  const digits = content.ramps[state.theme];
  return Uint8Array.from({ length: 768 }, (_, place) => parseInt(digits.slice(2 * place, 2 * place + 2), 16));
}

/** The weight that has the full colour. */
function inkOf(matrix) {
  return state.stretch ? matrix.values.reduce((most, weight) => Math.max(most, weight), 0) || 1 : 1;
}

function pixelsOf(matrix) {
  const ramp = rampBytes();
  const ink = inkOf(matrix);
  const image = new ImageData(matrix.columns, matrix.rows);
  const { data } = image;
  matrix.values.forEach((weight, place) => {
    const shade = 3 * Math.round(255 * Math.min(1, Math.max(0, weight / ink)));
    for (let part = 0; part < 3; part += 1) data[4 * place + part] = ramp[shade + part];
    data[4 * place + 3] = 255;
  });
  const canvas = document.createElement("canvas");
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Shortens a label to a width, replacing its middle by …. */
function fitted(context, label, width) {
  if (context.measureText(label).width <= width) return label;
  const letters = [...new Intl.Segmenter().segment(label)].map((part) => part.segment);
  let kept = letters.length - 1;
  const cut = () => `${letters.slice(0, Math.ceil(kept / 2)).join("")}…${letters.slice(letters.length - Math.floor(kept / 2)).join("")}`;
  kept = Math.min(kept, 60);
  while (kept > 1 && context.measureText(cut()).width > width) kept -= 1;
  return cut();
}

/** The position of everything, in pixels. */
function measure() {
  const context = cellsCanvas.getContext("2d");
  context.font = fontOf(LABEL_FONT);
  const labels = currentLabels();
  const width = viewport.clientWidth;
  const longest = Math.max(56, Math.min(150, width * 0.28));
  const widest = (some) => some.reduce((most, label) => Math.max(most, Math.min(longest, context.measureText(label.slice(0, 80)).width)), 12);
  const left = Math.ceil(widest(labels.rows)) + 2 * LABEL_GAP;
  const columnWidth = widest(labels.columns);
  const leaning = Math.ceil(columnWidth * Math.SQRT1_2);
  const roomFor = (right) => Math.min(USUAL_CELL, (width - left - right) / labels.columns.length);
  const fit = roomFor(leaning) >= TILTED_CELL ? roomFor(leaning) : Math.min(TILTED_CELL - 1, roomFor(LABEL_GAP));
  let cell = state.zoom;
  if (state.zoom === "fit") cell = fit;
  if (state.zoom === "auto") cell = Math.max(fit, labels.columns.length <= FEW_TOKENS ? READABLE_CELL : SMALLEST_CELL);
  cell = cell >= 4 ? Math.floor(cell) : Math.max(SMALLEST_CELL, cell);
  const angle = columnWidth <= cell - 4 ? 0 : cell >= TILTED_CELL ? Math.PI / 4 : Math.PI / 2;
  const top = Math.ceil(angle ? columnWidth * Math.sin(angle) + LABEL_FONT : LABEL_FONT + 4) + LABEL_GAP;
  const lean = angle === Math.PI / 4 ? leaning : LABEL_GAP;
  const every = Math.max(1, Math.ceil((LABEL_FONT + 1) / cell)); // one of this many tokens is labelled
  return { labels, cell, left, top, angle, longest, lean, every };
}

function layOut() {
  layout = measure();
  const { cell, left, top, lean, labels } = layout;
  const fullWidth = left + cell * labels.columns.length + lean;
  const fullHeight = top + cell * labels.rows.length + LABEL_GAP;
  document.getElementById("labelled").textContent = layout.every > 1 ? `one token in ${layout.every} is labelled` : "";
  extent.style.width = `${Math.max(1, fullWidth)}px`;
  extent.style.height = `${fullHeight}px`;
  viewport.style.height = `${Math.min(fullHeight + 16, Math.max(TALLEST_MAP, innerHeight * 0.85))}px`;
  const [width, height] = [viewport.clientWidth, Math.min(viewport.clientHeight, fullHeight)];
  const density = devicePixelRatio || 1;
  cellsCanvas.width = Math.round(width * density);
  cellsCanvas.height = Math.round(height * density);
  cellsCanvas.style.width = `${width}px`;
  cellsCanvas.style.height = `${height}px`;
}

/** The rows or columns that are at least partly visible. */
function inSight(scroll, room, count) {
  const first = limit(Math.floor(scroll / layout.cell), count);
  return [first, Math.min(count, Math.ceil((scroll + room) / layout.cell) + 1)];
}

function drawMap() {
  if (!shownMatrix || state.view !== "map") return;
  const context = cellsCanvas.getContext("2d");
  const density = devicePixelRatio || 1;
  const [width, height] = [cellsCanvas.width / density, cellsCanvas.height / density];
  const { cell, left, top } = layout;
  const [scrollX, scrollY] = [viewport.scrollLeft, viewport.scrollTop];
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  const rows = inSight(scrollY, height - top, shownMatrix.rows);
  const columns = inSight(scrollX, width - left, shownMatrix.columns);
  context.save();
  context.beginPath();
  context.rect(left, top, width - left, height - top);
  context.clip();
  context.translate(left - scrollX, top - scrollY);
  context.imageSmoothingEnabled = false;
  const [x, y, across, down] = [columns[0], rows[0], columns[1] - columns[0], rows[1] - rows[0]];
  context.drawImage(picture, x, y, across, down, x * cell, y * cell, across * cell, down * cell);
  if (cell >= 8) drawRaster(context, rows, columns);
  if (cell >= CELL_WITH_NUMBER) drawNumbers(context, rows, columns);
  drawMarks(context);
  context.restore();
  drawLabels(context, rows, columns, width, height);
}

function drawRaster(context, rows, columns) {
  const { cell } = layout;
  context.strokeStyle = colourOf("grid");
  context.lineWidth = 1;
  context.beginPath();
  for (let row = rows[0]; row <= rows[1]; row += 1) {
    context.moveTo(columns[0] * cell, row * cell + 0.5);
    context.lineTo(columns[1] * cell, row * cell + 0.5);
  }
  for (let column = columns[0]; column <= columns[1]; column += 1) {
    context.moveTo(column * cell + 0.5, rows[0] * cell);
    context.lineTo(column * cell + 0.5, rows[1] * cell);
  }
  context.stroke();
}

function drawNumbers(context, rows, columns) {
  const { cell } = layout;
  const ink = inkOf(shownMatrix);
  context.font = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = rows[0]; row < rows[1]; row += 1) {
    for (let column = columns[0]; column < columns[1]; column += 1) {
      const weight = shownMatrix.values[row * shownMatrix.columns + column];
      if (weight < 0.005) continue;
      context.fillStyle = colourOf(weight / ink > 0.45 ? "background" : "text");
      context.fillText(weight.toFixed(2), (column + 0.5) * cell, (row + 0.5) * cell + 1);
    }
  }
}

/** Outlines the gold links and the current cell. */
function drawMarks(context) {
  const { cell } = layout;
  const inset = Math.min(2, cell / 8);
  context.strokeStyle = colourOf("gold");
  context.lineWidth = Math.max(1, Math.min(3, cell / 10));
  for (const [column, row] of goldLinks()) {
    context.strokeRect(column * cell + inset + 0.5, row * cell + inset + 0.5, cell - 2 * inset, cell - 2 * inset);
  }
  const [across, down] = [shownMatrix.columns * cell, shownMatrix.rows * cell];
  context.strokeStyle = colourOf("grid");
  context.lineWidth = 1;
  context.strokeRect(0.5, 0.5, across - 1, down - 1);
  const size = Math.max(cell, 7);
  const middle = (place) => (place + 0.5) * cell - size / 2;
  context.strokeStyle = context.fillStyle = colourOf("accent");
  if (cell < LABEL_FONT) {
    context.globalAlpha = 0.3; // a cross leads from the labels to a cell that is hard to see
    context.fillRect(0, (state.row + 0.5) * cell - 0.5, across, 1);
    context.fillRect((state.column + 0.5) * cell - 0.5, 0, 1, down);
    context.globalAlpha = 1;
  }
  context.lineWidth = 2;
  context.strokeRect(middle(state.column) + 0.5, middle(state.row) + 0.5, size, size);
}

/** Writes the tokens for which there is room, and always those of the current cell. */
function drawLabels(context, rows, columns, width, height) {
  const { cell, left, top } = layout;
  const { every } = layout;
  const apart = (place, chosen) => place === chosen || (place % every === 0 && Math.abs(place - chosen) * cell > LABEL_FONT);
  context.save();
  context.beginPath();
  context.rect(0, top - LABEL_GAP, left, height - top + LABEL_GAP);
  context.clip();
  for (let row = rows[0]; row < rows[1]; row += 1) if (apart(row, state.row)) drawRowLabel(context, row);
  context.restore();
  context.save();
  context.beginPath();
  context.rect(left - LABEL_GAP, 0, width - left + LABEL_GAP, top);
  context.clip();
  for (let column = columns[0]; column < columns[1]; column += 1) {
    if (apart(column, state.column)) drawColumnLabel(context, column);
  }
  context.restore();
}

function drawRowLabel(context, row) {
  const { cell, left, top, longest, labels } = layout;
  styleLabel(context, row === state.row);
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(fitted(context, labels.rows[row], longest), left - LABEL_GAP, top - viewport.scrollTop + (row + 0.5) * cell);
}

function drawColumnLabel(context, column) {
  const { cell, left, top, angle, longest, labels } = layout;
  styleLabel(context, column === state.column);
  context.save();
  context.translate(left - viewport.scrollLeft + (column + 0.5) * cell, top - LABEL_GAP);
  context.rotate(-angle);
  context.textAlign = angle ? "left" : "center";
  context.textBaseline = angle ? "middle" : "alphabetic";
  context.fillText(fitted(context, labels.columns[column], longest), 0, 0);
  context.restore();
}

function styleLabel(context, isChosen) {
  context.font = fontOf(LABEL_FONT, isChosen ? 700 : 400);
  context.fillStyle = colourOf(isChosen ? "accent" : "text");
}

/** The cell under the pointer, or null outside the map. */
function cellAt(event) {
  const frame = cellsCanvas.getBoundingClientRect();
  const { cell, left, top } = layout;
  const [x, y] = [event.clientX - frame.left - left, event.clientY - frame.top - top];
  if (x < 0 || y < 0) return null;
  const column = Math.floor((x + viewport.scrollLeft) / cell);
  const row = Math.floor((y + viewport.scrollTop) / cell);
  return row < shownMatrix.rows && column < shownMatrix.columns ? { row, column } : null;
}

/** Scrolls just enough to make the current cell visible. */
function bringIntoSight() {
  const { cell, left, top } = layout;
  const shift = (scroll, room, place) => Math.min(place * cell, Math.max(scroll, (place + 1) * cell - room));
  viewport.scrollLeft = shift(viewport.scrollLeft, viewport.clientWidth - left, state.column);
  viewport.scrollTop = shift(viewport.scrollTop, viewport.clientHeight - top, state.row);
}

function zoomBy(factor) {
  const cell = Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, layout.cell * factor));
  change({ zoom: Math.round(cell * 10) / 10 });
  bringIntoSight();
}

const MOVES = {
  ArrowLeft: () => ({ column: state.column - 1 }),
  ArrowRight: () => ({ column: state.column + 1 }),
  ArrowUp: () => ({ row: state.row - 1 }),
  ArrowDown: () => ({ row: state.row + 1 }),
  Home: () => ({ column: 0 }),
  End: () => ({ column: Infinity }),
  PageUp: () => ({ row: 0 }),
  PageDown: () => ({ row: Infinity }),
};

viewport.addEventListener("keydown", (event) => {
  if (!(event.key in MOVES) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  change(MOVES[event.key]());
  bringIntoSight();
});
for (const kind of ["pointermove", "pointerdown"]) {
  cellsCanvas.addEventListener(kind, (event) => {
    const found = shownMatrix && cellAt(event);
    if (found && (found.row !== state.row || found.column !== state.column)) change(found);
  });
}
viewport.addEventListener("scroll", () => requestAnimationFrame(drawMap));
new ResizeObserver(() => {
  if (!shownMatrix || state.view !== "map") return;
  layOut();
  drawMap();
}).observe(viewport.parentElement);
document.getElementById("smaller").addEventListener("click", () => zoomBy(1 / 1.5));
document.getElementById("larger").addEventListener("click", () => zoomBy(1.5));
document.getElementById("fit").addEventListener("click", () => change({ zoom: state.zoom === "fit" ? "auto" : "fit" }));

/** The position of the strongest link of the matrix or of one row. */
function strongest({ values, columns }, row) {
  const [first, end] = row === null ? [0, values.length] : [row * columns, (row + 1) * columns];
  let best = first;
  for (let place = first + 1; place < end; place += 1) if (values[place] > values[best]) best = place;
  return { row: Math.floor(best / columns), column: best % columns };
}

/** Shows another matrix, or the same matrix in other colours. */
function showMap(matrix) {
  shownMatrix = matrix;
  picture = pixelsOf(matrix);
  document.getElementById("ink").textContent = state.stretch ? shown(inkOf(matrix)) : "1";
  layOut();
  drawMap();
}
