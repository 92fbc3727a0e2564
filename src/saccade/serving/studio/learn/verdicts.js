// What the lab measured; docs/pictures/make_lab.py writes this file and the pictures in lab/.

/** @type {Record<string, {claim: string, verdict: "holds" | "refuted" | "undecided", numbers: string}>} */
export const VERDICTS = {
  "related-words": {
    "claim": "Words that are used in similar ways get vectors with similar directions; one-hot vectors never do.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"cosine of embeddings, same class minus other\" is 0.5663 (95% interval 0.5334 to 0.5991); for the claim to hold, it must be at least 0.3"
  },
  "fixed-context": {
    "claim": "A decoder that gets the whole text as one vector fails on long texts; a decoder with attention does not.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"accuracy at 24 words, attention minus fixed context\" is 53.1 (95% interval 51.81 to 54.39); for the claim to hold, it must be at least 30"
  },
  "pronoun-link": {
    "claim": "One head links it to its noun, and bank to the word that decides its meaning; without this link, the answer is the other one.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"in percent: the head is right and its link decides, the worse of both words\" is 92.67 (95% interval 84.68 to 100.7); for the claim to hold, it must be at least 70"
  },
  "weights-and-effects": {
    "claim": "Attention weights may be hard to interpret: the size of a weight does not show how much the answer depends on its link.",
    "verdict": "refuted",
    "numbers": "refuted: over 3 seeds, the mean of \"rank correlation of weight and effect\" is 0.8332 (95% interval 0.7613 to 0.9052); for the claim to hold, it must be at most 0.7"
  },
  "vanishing-gradients": {
    "claim": "Gradients through time vanish in a plain recurrent network; in an LSTM with a forget bias of 1, far more of the gradient remains.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"powers of ten, lstm with forget bias 1 over rnn\" is 10.65 (95% interval 10.08 to 11.22); for the claim to hold, it must be at least 2"
  },
  "three-ways": {
    "claim": "Attention finds a word that is far back in a text; recurrent and convolutional networks of the same size do not.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"accuracy at distance 32, attention minus the better of the others\" is 86.92 (95% interval 85.6 to 88.24); for the claim to hold, it must be at least 30"
  },
  "cost": {
    "claim": "The cost of attention grows with the square of the length; the cost of windowed attention, recurrent networks and convolutions grows in proportion to the length.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"exponent of attention minus the largest other\" is 1 (95% interval 1 to 1); for the claim to hold, it must be at least 0.9"
  },
  "linear-positions": {
    "claim": "Linear positions work for short texts and fail for long texts, for which sinusoidal positions still work.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"accuracy at 64 words, sinusoidal minus linear\" is 65.61 (95% interval 45.46 to 85.77); for the claim to hold, it must be at least 20"
  },
  "positions-beyond-training": {
    "claim": "With sinusoidal positions, a Transformer can read texts that are longer than those it was trained on.",
    "verdict": "refuted",
    "numbers": "refuted: over 3 seeds, the mean of \"accuracy of sinusoidal positions beyond training\" is 12.04 (95% interval 9.171 to 14.91); for the claim to hold, it must be at least 80"
  },
  "scaled-scores": {
    "claim": "Dividing scores by √d keeps the softmax from saturating as vectors get longer.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"largest weight, unscaled minus scaled\" is 0.7865 (95% interval 0.7756 to 0.7974); for the claim to hold, it must be at least 0.5"
  },
  "no-positions-no-order": {
    "claim": "Without positions, permuting the inputs of self-attention only permutes its outputs.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"powers of ten of the change without positions\" is -14.79 (95% interval -15.08 to -14.49); for the claim to hold, it must be at most -6"
  },
  "several-heads": {
    "claim": "Several heads can find two tokens at once; one head of the same width cannot.",
    "verdict": "refuted",
    "numbers": "refuted: over 3 seeds, the mean of \"accuracy, 4 heads minus 1 head\" is 0 (95% interval 0 to 0); for the claim to hold, it must be at least 20"
  },
  "leaking-mask": {
    "claim": "Without the causal mask, a decoder's training loss falls almost to zero, but the text it writes is useless.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"loss when writing, leaking minus causal\" is 3.876 (95% interval 3.084 to 4.667); for the claim to hold, it must be at least 0.5"
  },
  "residuals-and-norms": {
    "claim": "A stack of 12 blocks learns with residual connections and norms, but not without them.",
    "verdict": "undecided",
    "numbers": "undecided: over 3 seeds, the mean of \"accuracy, both minus neither\" is 41.69 (95% interval -13.79 to 97.16); for the claim to hold, it must be at least 50"
  },
  "hard-and-soft": {
    "claim": "Hard attention that is trained by reinforcement has far noisier gradients than soft attention.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"gradient noise in powers of ten, hard minus soft\" is 1.37 (95% interval 0.9142 to 1.826); for the claim to hold, it must be at least 0.7"
  },
  "sparse-weights": {
    "claim": "Sparsemax makes most attention weights exactly zero without losing accuracy.",
    "verdict": "holds",
    "numbers": "holds: over 3 seeds, the mean of \"zeros at equal accuracy\" is 84.58 (95% interval 83.15 to 86.01); for the claim to hold, it must be at least 50"
  },
  "masked-pretraining": {
    "claim": "A network that was first trained to fill in hidden words needs fewer labels: with 500 labels it is clearly better.",
    "verdict": "undecided",
    "numbers": "undecided: over 3 seeds, the mean of \"accuracy, pre-trained minus from scratch\" is 14.45 (95% interval -13.69 to 42.59); for the claim to hold, it must be at least 5"
  }
};
