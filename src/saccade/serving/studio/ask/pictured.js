// Whether there is a picture of what an answer is about.

/**
 * @typedef {import("../shared/types.js").Look} Look
 * @typedef {import("../shared/types.js").Attention} Attention
 */

/**
 * Whether there is a picture of what the answer is about. Paths and pairs show weights, not the difference of two.
 * @param {import("./state.js").AskState} state @param {Look} look @param {Attention} attention
 */
export function hasPicture(state, look, attention) {
  if (look.answer.agents || look.probabilities) return !state.isDifference && state.shown !== "difference";
  return isOfPatches(look, attention);
}

/** Whether the columns of an attention are the patches of the image. @param {Look} look @param {Attention} attention */
export function isOfPatches(look, attention) {
  if (!look.image) return false;
  const patches = look.image.grid[0] * look.image.grid[1];
  return [patches, patches + 1].includes(look.axes[attention.columns].tokens.length) && patches > 1;
}
