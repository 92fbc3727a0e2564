"""Learned word vectors show which words are used in similar ways; one-hot vectors cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.hidden_classes import LENGTH, WORDS, class_of, draw_texts
from saccade.lab.learning import Examples, train
from saccade.models import DecoderOnly, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

CONFIG = TransformerConfig(
    width=32, num_heads=2, decoder_layers=1, feedforward_width=64, max_length=LENGTH, scaled_embedding=True
)


def measure(trial: Trial) -> Mapping[str, float]:
    def draw(count: int) -> Examples:
        texts = draw_texts(count, trial.seed)
        return Examples(texts[:, :-1], texts[:, 1:])

    model, found = DecoderOnly(CONFIG, WORDS), {}
    train(model, draw, steps=trial.choose(1200, 250))
    kinds = class_of(torch.arange(WORDS))
    others = ~torch.eye(WORDS, dtype=torch.bool)
    alike = (kinds[:, None] == kinds) & others
    for name, vectors in (("one-hot", torch.eye(WORDS)), ("embeddings", model.state_dict()["input.words.weight"])):
        cosines = F.cosine_similarity(vectors[:, None], vectors, dim=-1)
        found[f"{name}, same class"] = float(cosines[alike].mean())
        found[f"{name}, other class"] = float(cosines[others & ~alike].mean())
    difference = found["embeddings, same class"] - found["embeddings, other class"]
    return found | {"cosine of embeddings, same class minus other": difference}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for shift, what in ((-0.2, "same class"), (0.2, "other class")):
        heights = [found[f"{name}, {what}"].mean for name in ("one-hot", "embeddings")]
        axes.bar([shift, 1 + shift], heights, 0.4, label=what)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks([0, 1], ["one-hot", "embeddings"])
    axes.set_ylabel("mean cosine of two words")
    axes.legend()


EXPERIMENT = Experiment(
    name="related-words",
    lecture="000",
    claim="Words that are used in similar ways get vectors with similar directions; one-hot vectors never do.",
    method=f"Each of {WORDS} words belongs to a hidden class. A language model with one block learns to predict the "
    "next word, without being told the classes. We measure the mean cosine of two words of the same class, and of two "
    "words of different classes.",
    measure=measure,
    decisive="cosine of embeddings, same class minus other",
    direction="at least",
    bound=0.3,
    draw=draw,
)
