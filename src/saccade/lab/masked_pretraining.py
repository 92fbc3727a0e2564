"""Filling in words of unlabelled texts prepares a network for a task with few labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.hidden_classes import CLASSES, LENGTH, WORDS, class_of, draw_texts
from saccade.lab.learning import Examples, accuracy, train
from saccade.models import EncoderOnly, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

LABELS, MASKED = 500, 0.25
CONFIG = TransformerConfig(
    width=32, num_heads=2, encoder_layers=2, feedforward_width=64, max_length=LENGTH, scaled_embedding=True
)


class Labeller(nn.Module):
    """An encoder with an output layer that predicts the class of each word."""

    def __init__(self, encoder: EncoderOnly) -> None:
        super().__init__()
        self.encoder, self.output = encoder, nn.Linear(CONFIG.width, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.output(self.encoder.features(words))
        return logits


class FillIn(nn.Module):
    """The same encoder with an output layer that predicts hidden words."""

    def __init__(self, encoder: EncoderOnly) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: Tensor) -> Tensor:
        words, places = inputs[..., 0], inputs[..., 1].bool()
        logits: Tensor = self.encoder(words.masked_fill(places, WORDS))[places]
        return logits


def measure(trial: Trial) -> Mapping[str, float]:
    def hide(count: int) -> Examples:
        words = draw_texts(count, trial.seed)
        places = torch.rand(words.shape) < MASKED
        return Examples(torch.stack([words, places.long()], dim=-1), words[places])

    labelled, held_out = draw_texts(LABELS // LENGTH, trial.seed), draw_texts(200, trial.seed)

    def some_labelled(count: int) -> Examples:
        words = labelled[torch.randint(len(labelled), (count,))]
        return Examples(words, class_of(words))

    found = {}
    for name in ("from scratch", "pre-trained"):
        encoder = EncoderOnly(CONFIG, WORDS + 1)
        if name == "pre-trained":
            train(FillIn(encoder), hide, steps=trial.choose(2500, 300), lr=1e-2)
        model = Labeller(encoder)
        train(model, some_labelled, steps=trial.choose(300, 80), batch=16, lr=1e-3)
        found[name] = accuracy(model, Examples(held_out, class_of(held_out)))
    return found | {"accuracy, pre-trained minus from scratch": found["pre-trained"] - found["from scratch"]}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    names = ("from scratch", "pre-trained")
    axes.bar(names, [found[name].mean for name in names])
    axes.set_ylabel("correct classes in percent")
    axes.set_ylim(0, 100)


EXPERIMENT = Experiment(
    name="masked-pretraining",
    lecture="004",
    claim=f"A network that was first trained to fill in hidden words needs fewer labels: with {LABELS} labels it is "
    "clearly better.",
    method=f"Each of {WORDS} words belongs to one of {CLASSES} hidden classes. The same encoder learns the class of "
    f"each word from {LABELS} labelled words, either from scratch or after it was trained to fill in words of "
    "unlabelled texts. It is tested on other texts.",
    measure=measure,
    decisive="accuracy, pre-trained minus from scratch",
    direction="at least",
    bound=5.0,
    draw=draw,
)
