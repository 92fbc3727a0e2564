"""Does a large attention weight mean that the link between its query and its key matters? Each link is cut, and the
effect of the cut is compared with the weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from saccade.attention import edit, watch
from saccade.lab import earlier_word
from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, train
from saccade.models import EncoderOnly, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WORDS, LENGTH, TEXTS, HEADS, LAYERS = 16, 10, 8, 2, 2
CONFIG = TransformerConfig(
    width=32, num_heads=HEADS, encoder_layers=LAYERS, feedforward_width=64, max_length=LENGTH, scaled_embedding=True
)


def reverse(count: int) -> Examples:
    words = torch.randint(WORDS, (count, LENGTH))
    return Examples(words, words.flip(1))


def earlier(count: int) -> Examples:
    return earlier_word.draw_texts(count, LENGTH)


def sort_words(count: int) -> Examples:
    words = torch.randint(WORDS, (count, LENGTH))
    return Examples(words, words.sort(dim=1).values)


TASKS = {"reverse": reverse, "word before": earlier, "sort": sort_words}


@torch.inference_mode()
def weights_and_effects(model: EncoderOnly, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weight of each link of each head, and how much the probabilities of the answers change when this link
    is cut."""
    model.eval()
    with watch(model) as seen:
        before = model(texts).softmax(-1)
    weights, effects = [], []
    for layer in range(LAYERS):
        name = f"encoder.{layer}.self"
        found = seen[name].weights()
        for head in range(HEADS):
            for row in range(LENGTH):
                for column in range(LENGTH):
                    with edit(model, without_links=[(f"{name}:{head}", row, column)]):
                        moved = (model(texts).softmax(-1) - before).abs().sum(-1) / 2
                    weights.append(found[:, head, row, column])
                    effects.append(moved.mean(-1))
    return torch.cat(weights), torch.cat(effects)


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    ranks = []
    for values in (one, other):
        _, places, counts = torch.unique(values, return_inverse=True, return_counts=True)
        ranks.append((counts.cumsum(0) - (counts - 1) / 2)[places])
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for name, draw in TASKS.items():
        model = EncoderOnly(CONFIG, WORDS)
        train(model, draw, steps=trial.choose(600, 150))
        found[name] = rank_correlation(*weights_and_effects(model, draw(trial.choose(TEXTS, 2)).inputs))
    return found | {"rank correlation of weight and effect": sum(found.values()) / len(found)}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    axes.bar(list(TASKS), [found[name].mean for name in TASKS])
    axes.set_ylim(-1, 1)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylabel("rank correlation of weight and effect")


EXPERIMENT = Experiment(
    name="weights-and-effects",
    lecture="001",
    claim="Attention weights may be hard to interpret: the size of a weight does not show how much the answer depends "
    "on its link.",
    method="Three encoders with two layers each learn to reverse words, to predict the word two positions earlier, and "
    "to sort. In held-out texts, we cut every link of every head, one at a time, and measure how much the "
    "probabilities of the answer change. The number that decides is the rank correlation, over all links, of this "
    "change and the weight.",
    measure=measure,
    decisive="rank correlation of weight and effect",
    direction="at most",
    bound=0.7,
    draw=draw,
)
