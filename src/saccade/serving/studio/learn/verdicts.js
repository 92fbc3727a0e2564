// What the lab measured; docs/pictures/make_lab.py writes this file and the pictures in lab/.

/**
 * @typedef {object} Verdict
 * @property {string} claim
 * @property {"holds" | "refuted" | "undecided"} verdict
 * @property {string} method  how it was measured
 * @property {string} measure  the number that decides
 * @property {number} seeds  so many trainings
 * @property {number} mean  of the number over all trainings
 * @property {number} low  of its 95 % confidence interval
 * @property {number} high
 * @property {string} direction  of the bound: "at least" or "at most"
 * @property {number} bound  for the claim to hold
 */

/** @type {Record<string, Verdict>} */
export const VERDICTS = {
  "related-words": {
    "claim": "Words that are used in similar ways get vectors with similar directions; one-hot vectors never do.",
    "verdict": "holds",
    "method": "Each of 360 words belongs to a hidden class. A language model with one block learns to predict the next word, without being told the classes. We measure the mean cosine of two words of the same class, and of two words of different classes.",
    "measure": "cosine of embeddings, same class minus other",
    "seeds": 3,
    "mean": 0.5663,
    "low": 0.5334,
    "high": 0.5991,
    "direction": "at least",
    "bound": 0.3
  },
  "fixed-context": {
    "claim": "A decoder that gets the whole text as one vector fails on long texts; a decoder with attention does not.",
    "verdict": "holds",
    "method": "A recurrent encoder and decoder (GRU, width 64) learn to copy and to reverse random texts of up to 24 words, with and without attention. We measure the percentage of correct words for each length.",
    "measure": "accuracy at 24 words, attention minus fixed context",
    "seeds": 3,
    "mean": 53.1,
    "low": 51.81,
    "high": 54.39,
    "direction": "at least",
    "bound": 30
  },
  "pronoun-link": {
    "claim": "One head links it to its noun, and bank to the word that decides its meaning; without this link, the answer is the other one.",
    "verdict": "holds",
    "method": "An encoder with one attention layer of 2 heads tags it and they with the gender of their noun, and bank with its meaning, in sentences of the built-in corpus that have a rival: a noun of the other gender, or the deciding word of another sentence. The head that finds the deciding word most often in validation sentences is judged in test sentences: its strongest weight is at the deciding word, and the answer becomes the rival's when this one link is cut. In a quarter of the training texts the deciding word is hidden and the rival's answer is the right one, which teaches the model where to turn without it. Trained in two ways: as usual, and so that the first head learns to do without the others.",
    "measure": "in percent: the head is right and its link decides, the worse of both words",
    "seeds": 3,
    "mean": 92.67,
    "low": 84.68,
    "high": 100,
    "direction": "at least",
    "bound": 70
  },
  "weights-and-effects": {
    "claim": "Attention weights may be hard to interpret: the size of a weight does not show how much the answer depends on its link.",
    "verdict": "refuted",
    "method": "Three encoders with two layers each learn to reverse words, to predict the word two positions earlier, and to sort. In held-out texts, we cut every link of every head, one at a time, and measure how much the probabilities of the answer change. The number that decides is the rank correlation, over all links, of this change and the weight.",
    "measure": "rank correlation of weight and effect",
    "seeds": 3,
    "mean": 0.8332,
    "low": 0.7613,
    "high": 0.9052,
    "direction": "at most",
    "bound": 0.7
  },
  "vanishing-gradients": {
    "claim": "Gradients through time vanish in a plain recurrent network; in an LSTM with a forget bias of 1, far more of the gradient remains.",
    "verdict": "holds",
    "method": "Untrained cells read 50 random inputs of width 32. We measure the norm of the gradient of the last state with respect to the first input.",
    "measure": "powers of ten, lstm with forget bias 1 over rnn",
    "seeds": 3,
    "mean": 10.65,
    "low": 10.08,
    "high": 11.22,
    "direction": "at least",
    "bound": 2
  },
  "three-ways": {
    "claim": "Attention finds a word that is far back in a text; recurrent and convolutional networks of the same size do not.",
    "verdict": "holds",
    "method": "For each word of a text, three causal networks of about 40,000 parameters (an LSTM, three convolutions, two attention blocks) learn to predict the words 1, 4, 8, 16, 32 positions earlier, all at once.",
    "measure": "accuracy at distance 32, attention minus the better of the others",
    "seeds": 3,
    "mean": 86.92,
    "low": 85.6,
    "high": 88.24,
    "direction": "at least",
    "bound": 30
  },
  "cost": {
    "claim": "The cost of attention grows with the square of the length; the cost of windowed attention, recurrent networks and convolutions grows in proportion to the length.",
    "verdict": "holds",
    "method": "We count the operations of one layer, and the numbers in its largest intermediate result, for lengths from 128 to 1024, and compute the exponent with which they grow.",
    "measure": "exponent of attention minus the largest other",
    "seeds": 3,
    "mean": 1,
    "low": 1,
    "high": 1,
    "direction": "at least",
    "bound": 0.9
  },
  "linear-positions": {
    "claim": "Linear positions work for short texts and fail for long texts, for which sinusoidal positions still work.",
    "verdict": "holds",
    "method": "For each word of a text, two encoder blocks learn to predict the word two positions earlier, with linear and with sinusoidal positions. They are trained and tested on texts of the same length: 8, 32 or 64 words.",
    "measure": "accuracy at 64 words, sinusoidal minus linear",
    "seeds": 3,
    "mean": 65.61,
    "low": 45.46,
    "high": 85.77,
    "direction": "at least",
    "bound": 20
  },
  "positions-beyond-training": {
    "claim": "With sinusoidal positions, a Transformer can read texts that are longer than those it was trained on.",
    "verdict": "refuted",
    "method": "For each word of a text, two encoder blocks learn to predict the word two positions earlier, on texts of up to 32 words, with five kinds of positions. They are tested on texts of 128 words, at the positions from 32 on.",
    "measure": "accuracy of sinusoidal positions beyond training",
    "seeds": 3,
    "mean": 12.04,
    "low": 9.171,
    "high": 14.91,
    "direction": "at least",
    "bound": 80
  },
  "scaled-scores": {
    "claim": "Dividing scores by √d keeps the softmax from saturating as vectors get longer.",
    "verdict": "holds",
    "method": "Queries and 32 keys are drawn from N(0, 1). We measure the mean of the largest softmax weight, with and without the division, and the norm of the softmax's derivative.",
    "measure": "largest weight, unscaled minus scaled",
    "seeds": 3,
    "mean": 0.7865,
    "low": 0.7756,
    "high": 0.7974,
    "direction": "at least",
    "bound": 0.5
  },
  "no-positions-no-order": {
    "claim": "Without positions, permuting the inputs of self-attention only permutes its outputs.",
    "verdict": "holds",
    "method": "A Transformer encoder of two layers with random weights reads 12 words and the same words in another order. We measure by how much the output of a word changes at most, in float64.",
    "measure": "powers of ten of the change without positions",
    "seeds": 3,
    "mean": -14.79,
    "low": -15.08,
    "high": -14.49,
    "direction": "at most",
    "bound": -6
  },
  "several-heads": {
    "claim": "Several heads can find two tokens at once; one head of the same width cannot.",
    "verdict": "refuted",
    "method": "A text has eight items, each with a key and one of four values. A question names two keys, and the answer is both values in order. One attention layer of width 32 and a feed-forward layer are trained in the same way with 1, 2 and 4 heads.",
    "measure": "accuracy, 4 heads minus 1 head",
    "seeds": 3,
    "mean": 0,
    "low": 0,
    "high": 0,
    "direction": "at least",
    "bound": 20
  },
  "leaking-mask": {
    "claim": "Without the causal mask, a decoder's training loss falls almost to zero, but the text it writes is useless.",
    "verdict": "holds",
    "method": "The same network learns texts of a Markov chain of 12 words with and without the mask. We measure its loss in training, and its loss when it writes and has only the words so far.",
    "measure": "loss when writing, leaking minus causal",
    "seeds": 3,
    "mean": 3.876,
    "low": 3.084,
    "high": 4.667,
    "direction": "at least",
    "bound": 0.5
  },
  "residuals-and-norms": {
    "claim": "A stack of 12 blocks learns with residual connections and norms, but not without them.",
    "verdict": "holds",
    "method": "12 blocks of attention and feed-forward layers learn to reverse 6 words, with residual connections and norms, with only one of them, and with neither. All are trained for 1,000 updates.",
    "measure": "accuracy, both minus neither",
    "seeds": 3,
    "mean": 82.33,
    "low": 74.97,
    "high": 89.7,
    "direction": "at least",
    "bound": 50.0
  },
  "hard-and-soft": {
    "claim": "Hard attention that is trained by reinforcement has far noisier gradients than soft attention.",
    "verdict": "holds",
    "method": "A question names one of 8 keys, and the network must answer with its value. The same network either reads one value that it samples (trained by reinforcement with a baseline) or the weighted mean of all values. We measure the noise of the gradient of queries and keys over 400 batches before training, as the geometric mean of 8 networks, and the accuracy after training. The bound is a factor of 5.",
    "measure": "gradient noise in powers of ten, hard minus soft",
    "seeds": 3,
    "mean": 1.37,
    "low": 0.9142,
    "high": 1.826,
    "direction": "at least",
    "bound": 0.7
  },
  "sparse-weights": {
    "claim": "Sparsemax makes most attention weights exactly zero without losing accuracy.",
    "verdict": "holds",
    "method": "A network with 4 heads learns to find two values at once (as in several-heads), with softmax and with sparsemax. We measure the percentage of weights that are exactly zero; it only counts if the accuracy is at most 2 points lower than with softmax.",
    "measure": "zeros at equal accuracy",
    "seeds": 3,
    "mean": 84.58,
    "low": 83.15,
    "high": 86.01,
    "direction": "at least",
    "bound": 50
  },
  "masked-pretraining": {
    "claim": "A network that was first trained to fill in hidden words needs fewer labels: with 500 labels it is clearly better.",
    "verdict": "undecided",
    "method": "Each of 360 words belongs to one of 6 hidden classes. The same encoder learns the class of each word from 500 labelled words, either from scratch or after it was trained to fill in words of unlabelled texts. It is tested on other texts.",
    "measure": "accuracy, pre-trained minus from scratch",
    "seeds": 3,
    "mean": 14.45,
    "low": -13.69,
    "high": 42.59,
    "direction": "at least",
    "bound": 5
  }
};
