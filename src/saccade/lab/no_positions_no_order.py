"""Without positions, self-attention does not know the order of its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch

from saccade.lab.experiment import Experiment, Trial
from saccade.models import EncoderOnly, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

POSITIONS = ("none", "linear", "sinusoidal", "learned", "rotary", "alibi")
LENGTH, VOCABULARY = 12, 50
CHANGE = "powers of ten of the change without positions"


@torch.inference_mode()
def change(position: str) -> float:
    """Return how much the output for a word changes at most if the words are put into another order."""
    config = TransformerConfig(
        width=32,
        num_heads=4,
        encoder_layers=2,
        feedforward_width=64,
        dropout=0.0,
        position=cast(Any, position),
        max_length=LENGTH,
    )
    model = EncoderOnly(config, VOCABULARY).double().eval()
    words, order = torch.randint(VOCABULARY, (1, LENGTH)), torch.randperm(LENGTH)
    outputs, permuted = model.features(words), model.features(words[:, order])
    return float((permuted - outputs[:, order]).abs().max())


def measure(trial: Trial) -> Mapping[str, float]:
    found = {position: change(position) for position in POSITIONS}
    return found | {CHANGE: math.log10(max(found["none"], 1e-20))}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    axes.bar(POSITIONS, [max(found[position].mean, 1e-17) for position in POSITIONS])
    axes.set_yscale("log")
    axes.set_ylabel("largest change of an output")


EXPERIMENT = Experiment(
    name="no-positions-no-order",
    lecture="003",
    claim="Without positions, permuting the inputs of self-attention only permutes its outputs.",
    method=f"A Transformer encoder of two layers with random weights reads {LENGTH} words and the same words in "
    "another order. We measure by how much the output of a word changes at most, in float64.",
    measure=measure,
    decisive=CHANGE,
    direction="at most",
    bound=-6.0,
    draw=draw,
)
