// What the page shows: one record, kept in the address, so that a reload or a link shows the same thing.

const HEADS_TOGETHER = ["mean", "max", "rollout"];

const state = {
  attention: content.opens.attention,
  head: content.opens.head ?? content.attentions[content.opens.attention].heads[0].number,
  view: content.opens.view,
  row: content.opens.row ?? 0,
  column: content.opens.column ?? 0,
  isChosen: content.opens.row !== null, // whether someone chose the row
  words: content.opens.words,
  gold: true,
  stretch: false, // whether the strongest weight of a matrix gets the full colour, instead of weight 1
  zoom: "auto", // "auto", "fit", or the width of a cell in pixels
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
};
const systemTheme = state.theme;
const listeners = [];

function currentAttention() {
  return content.attentions[state.attention];
}

/** The labels of rows and columns, as words or as pieces. */
function currentLabels() {
  const { rows, columns } = currentAttention();
  const unit = state.words ? "words" : "tokens";
  return { rows: content.axes[rows][unit], columns: content.axes[columns][unit] };
}

function headName(head) {
  return HEADS_TOGETHER.includes(head) ? { mean: "mean of heads", max: "maximum of heads", rollout: "rollout" }[head] : `head ${head}`;
}

function limit(value, count) {
  return Math.max(0, Math.min(count - 1, value));
}

/** Changes parts of the state, corrects what no longer fits together, and informs the listeners. */
function change(parts) {
  const before = { ...state };
  Object.assign(state, { isChosen: state.isChosen || "row" in parts, ...parts });
  const attention = currentAttention();
  const isHead = attention.heads.some((one) => one.number === state.head);
  if (!isHead && (!HEADS_TOGETHER.includes(state.head) || (state.head === "rollout" && !rolloutOf(attention)))) {
    state.head = attention.heads[0].number;
  }
  const labels = currentLabels();
  state.row = limit(state.row, labels.rows.length);
  state.column = limit(state.column, labels.columns.length);
  writeAddress();
  const changed = new Set(Object.keys(state).filter((key) => state[key] !== before[key]));
  for (const listener of listeners) listener(changed);
}

function writeAddress() {
  const parts = new URLSearchParams({
    attention: currentAttention().name,
    head: state.head,
    view: state.view,
  });
  if (state.isChosen) for (const key of ["row", "column"]) parts.set(key, state[key]);
  if (state.words !== content.opens.words) parts.set("words", state.words ? "yes" : "no");
  if (!state.gold) parts.set("gold", "no");
  if (state.stretch) parts.set("stretch", "yes");
  if (state.zoom !== "auto") parts.set("zoom", state.zoom);
  if (state.theme !== systemTheme) parts.set("theme", state.theme);
  try {
    history.replaceState(null, "", `#${parts}`);
  } catch {
    // A frame in a notebook has no address.
  }
}

/** Reads the state from the address, ignoring values that are not valid. */
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const found = {};
  const attention = content.attentions.findIndex((one) => one.name === parts.get("attention"));
  if (attention >= 0) found.attention = attention;
  const head = parts.get("head");
  if (HEADS_TOGETHER.includes(head)) found.head = head;
  else if (/^\d+$/.test(head ?? "")) found.head = Number(head);
  for (const key of ["row", "column"]) if (/^\d+$/.test(parts.get(key) ?? "")) found[key] = Number(parts.get(key));
  if (["map", "arcs"].includes(parts.get("view"))) found.view = parts.get("view");
  if (["light", "dark"].includes(parts.get("theme"))) found.theme = parts.get("theme");
  if (parts.has("words")) found.words = parts.get("words") === "yes";
  if (parts.has("stretch")) found.stretch = parts.get("stretch") === "yes";
  if (parts.has("gold")) found.gold = parts.get("gold") === "yes";
  const zoom = parts.get("zoom");
  if (zoom === "fit") found.zoom = zoom;
  else if (Number(zoom) >= SMALLEST_CELL && Number(zoom) <= LARGEST_CELL) found.zoom = Number(zoom);
  return found;
}

/** The gold links, between words or between their pieces; only cross-attention has them. */
function goldLinks() {
  const attention = currentAttention();
  if (!content.gold || !state.gold || !attention.crosses || state.head === "rollout") return [];
  if (state.words) return content.gold;
  const [rows, columns] = [content.axes[attention.rows].wordOf, content.axes[attention.columns].wordOf];
  const places = (words, word) => words.flatMap((other, place) => (other === word ? [place] : []));
  return content.gold.flatMap(([column, row]) =>
    places(columns, column).flatMap((one) => places(rows, row).map((other) => [one, other])),
  );
}
