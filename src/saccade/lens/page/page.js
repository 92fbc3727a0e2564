// The page itself: the controls, the line that reads out a weight, and updates after a change.

const byId = (id) => document.getElementById(id);
const TOP_LINKS = 8;

function option(value, label) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = label;
  return made;
}

function buildChoices() {
  byId("title").textContent = content.title;
  const heads = content.attentions.reduce((count, attention) => count + attention.heads.length, 0);
  const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
  byId("summary").textContent = `${counted(content.attentions.length, "attention")}, ${counted(heads, "head")}`;
  showCoverage(counted);
  byId("attention").replaceChildren(...content.attentions.map(({ name }, place) => option(place, name)));
  byId("words-choice").hidden = content.axes.every((axis) => axis.words.length === axis.tokens.length);
  byId("gold-choice").hidden = content.gold === null;
}

/** Lists the attentions of the model that cannot be shown, or that were not seen. */
function showCoverage(counted) {
  const { coverage } = content;
  const lost = coverage?.leftOut.reduce((count, { names }) => count + names.length, 0) ?? 0;
  if (!coverage || lost + coverage.notes.length === 0) return;
  byId("coverage").hidden = false;
  byId("coverage").open = true;
  byId("coverage-summary").textContent =
    `This is not everything: ${counted(coverage.seen, "attention")} of this model could be seen` + (lost ? `, ${lost} could not` : "") + ".";
  const item = (parts) => {
    const made = document.createElement("li");
    made.append(...parts);
    return made;
  };
  byId("coverage-list").replaceChildren(
    ...coverage.leftOut.map(({ what, reason, names }) => item([names.join(", "), ` (${what}): ${reason}.`])),
    ...coverage.notes.map((note) => item([`${note}.`])),
  );
}

function showChoices() {
  const attention = currentAttention();
  const together = rolloutOf(attention) ? HEADS_TOGETHER : ["mean", "max"];
  byId("attention").value = state.attention;
  byId("head").replaceChildren(
    ...attention.heads.map(({ number }) => option(number, String(number))),
    ...together.map((how) => option(how, headName(how))),
  );
  byId("head").value = state.head;
  byId("words").checked = state.words;
  byId("gold").checked = state.gold;
  byId("stretch").checked = state.stretch;
  for (const choice of document.getElementsByName("view")) choice.checked = choice.value === state.view;
  byId("map").hidden = state.view !== "map";
  byId("arcs").hidden = state.view !== "arcs";
}

function showTheme() {
  document.documentElement.dataset.theme = state.theme;
  byId("theme").textContent = state.theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", state.theme === "dark" ? "Light colours" : "Dark colours");
  const ramp = rampBytes();
  const image = new ImageData(256, 1);
  for (let shade = 0; shade < 256; shade += 1) {
    image.data.set([ramp[3 * shade], ramp[3 * shade + 1], ramp[3 * shade + 2], 255], 4 * shade);
  }
  byId("ramp").getContext("2d").putImageData(image, 0, 0);
}

/** A token as text with its own writing direction. */
function word(label) {
  const made = document.createElement("bdi");
  made.textContent = label;
  return made;
}

function small(text) {
  const made = document.createElement("small");
  made.textContent = text;
  return made;
}

/** Reads out one weight: the cell under the pointer on the map, or the strongest link of the arcs. */
function readOut(matrix, row = state.row) {
  const labels = currentLabels();
  const column = state.view === "arcs" ? strongestColumns(matrix, row)[0] : state.column;
  const number = document.createElement("b");
  number.textContent = shown(matrix.values[row * matrix.columns + column]);
  const isGold = goldLinks().some((link) => link[0] === column && link[1] === row);
  byId("readout").replaceChildren(
    ...["from «", word(labels.rows[row]), "» to «", word(labels.columns[column]), "»: ", number, " "],
    small(`row ${row}, column ${column}${isGold ? ", a gold link" : ""}`),
  );
}

/** The columns of a row, the strongest first. */
function strongestColumns(matrix, number) {
  const row = matrix.values.subarray(number * matrix.columns, (number + 1) * matrix.columns);
  return Array.from(row.keys()).sort((one, other) => row[other] - row[one] || one - other);
}

/** The strongest links of the row, each with a bar. */
function showRow(matrix) {
  const labels = currentLabels();
  const row = matrix.values.subarray(state.row * matrix.columns, (state.row + 1) * matrix.columns);
  byId("row-title").replaceChildren("«", word(labels.rows[state.row]), `» looks at, in ${currentAttention().name}, ${headName(state.head)}`);
  byId("top").replaceChildren(
    ...strongestColumns(matrix, state.row).slice(0, TOP_LINKS).map((column) => {
      const item = document.createElement("li");
      item.style.setProperty("--weight", Math.min(1, row[column]));
      const number = document.createElement("span");
      number.className = "number";
      number.textContent = shown(row[column]);
      item.append(word(labels.columns[column]), small(String(column)), number);
      return item;
    }),
  );
}

function showTolerance() {
  const { name, note } = currentAttention();
  const assumed = state.head === "rollout" ? rolloutOf(currentAttention()).note : null;
  byId("note").hidden = note === null && assumed === null;
  byId("note").textContent = [note && `${name}: ${note}.`, assumed && `Rollout ${assumed}.`].filter(Boolean).join(" ");
  const bound = tolerance(currentAttention(), state.head, state.words);
  const exact = content.step === null ? "The page holds the model's weights in float32; they are shown" : "Weights are shown";
  byId("tolerance").textContent = `${exact} to within ${plain(bound)}.`;
}

function plain(number) {
  return number.toFixed(10).replace(/0+$/, "");
}

let asked = 0;

async function show(changed) {
  if (changed.has("theme")) showTheme();
  showChoices();
  showTolerance();
  markChosen();
  asked += 1;
  const mine = asked;
  const matrix = await weightsOf(currentAttention(), state.head, state.words);
  if (mine !== asked) return;
  const isNew = ["attention", "head", "words", "theme", "view", "zoom", "stretch"].some((key) => changed.has(key));
  viewport.setAttribute("aria-label", `Weights of ${currentAttention().name}, ${headName(state.head)}; use the arrow keys to move through them`);
  if (state.view === "arcs") await showArcs();
  else if (isNew) showMap(matrix);
  else drawMap();
  readOut(matrix);
  showRow(matrix);
  if (changed.has("theme") || changed.has("stretch")) drawGrid();
}

/** Returns the next or previous item of a list; after the last comes the first. */
function turned(list, current, step) {
  const place = list.indexOf(current);
  return list[(place + step + list.length) % list.length];
}

const KEYS = {
  "[": () => ({ head: turned(currentAttention().heads.map((one) => one.number), state.head, -1) }),
  "]": () => ({ head: turned(currentAttention().heads.map((one) => one.number), state.head, 1) }),
  ",": () => ({ attention: turned([...content.attentions.keys()], state.attention, -1) }),
  ".": () => ({ attention: turned([...content.attentions.keys()], state.attention, 1) }),
  m: () => ({ view: "map" }),
  a: () => ({ view: "arcs" }),
  w: () => ({ words: !state.words && !byId("words-choice").hidden }),
  0: () => ({ zoom: "fit" }),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
  if (event.key in KEYS) change(KEYS[event.key]());
  else if (event.key === "+" && state.view === "map") zoomBy(1.5);
  else if (event.key === "-" && state.view === "map") zoomBy(1 / 1.5);
  else if (event.key === "?") byId("help").click();
}

byId("attention").addEventListener("change", (event) => change({ attention: Number(event.target.value) }));
byId("head").addEventListener("change", ({ target }) => {
  change({ head: HEADS_TOGETHER.includes(target.value) ? target.value : Number(target.value) });
});
byId("words").addEventListener("change", (event) => {
  change({ words: event.target.checked, row: 0, column: 0, isChosen: false });
});
byId("stretch").addEventListener("change", (event) => change({ stretch: event.target.checked }));
byId("gold").addEventListener("change", (event) => change({ gold: event.target.checked }));
for (const choice of document.getElementsByName("view")) {
  choice.addEventListener("change", () => change({ view: choice.value }));
}
byId("choices").addEventListener("submit", (event) => event.preventDefault());
byId("theme").addEventListener("click", () => change({ theme: state.theme === "dark" ? "light" : "dark" }));
byId("help").addEventListener("click", () => {
  byId("keys").hidden = !byId("keys").hidden;
  byId("help").setAttribute("aria-expanded", String(!byId("keys").hidden));
});
document.addEventListener("keydown", onKey);
addEventListener("hashchange", () => change(readAddress()));

buildChoices();
buildGrid();
buildTable();
const address = readAddress();
change(address);
if (!state.isChosen || content.opens.column === null) {
  const matrix = await weightsOf(currentAttention(), state.head, state.words);
  const best = strongest(matrix, state.isChosen ? state.row : null);
  if (!state.isChosen) change({ ...best, isChosen: false });
  else if (!("column" in address)) change({ column: best.column });
}
await show(new Set(["theme", "view"]));
listeners.push(show);
document.documentElement.dataset.ready = "yes";
