"""Can recurrent, convolutional and attention networks of equal size find words at different distances?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, train
from saccade.models import (
    ConvolutionalLanguageConfig,
    ConvolutionalLanguageModel,
    DecoderOnly,
    RecurrentConfig,
    RecurrentLanguageModel,
    TransformerConfig,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WORDS, LENGTH, DISTANCES = 8, 40, (1, 4, 8, 16, 32)
OUTPUTS = WORDS * len(DISTANCES)


class Finder(nn.Module):
    """A causal network that predicts, at each position, the words at several distances before it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.network(words)[:, max(DISTANCES) :]
        return logits.reshape(*logits.shape[:2], len(DISTANCES), WORDS)


def networks() -> dict[str, nn.Module]:
    """Return three networks by name, with about 40,000 parameters each."""
    attention = TransformerConfig(
        width=40, num_heads=5, decoder_layers=2, feedforward_width=120, max_length=LENGTH, scaled_embedding=True,
        tied_output=False,
    )  # fmt: skip
    convolution = ConvolutionalLanguageConfig(width=44, decoder_layers=3, kernel=3)
    recurrent = RecurrentConfig(cell="lstm", width=80, embedding_width=24)
    return {
        "recurrent": RecurrentLanguageModel(recurrent, OUTPUTS),
        "convolution": ConvolutionalLanguageModel(convolution, OUTPUTS),
        "attention": DecoderOnly(attention, OUTPUTS),
    }


def draw_texts(count: int) -> Examples:
    words = torch.randint(WORDS, (count, LENGTH))
    places = torch.arange(max(DISTANCES), LENGTH)
    return Examples(words, torch.stack([words[:, places - distance] for distance in DISTANCES], dim=-1))


def measure(trial: Trial) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name, network in networks().items():
        model = Finder(network)
        found[f"{name}, parameters"] = sum(one.numel() for one in model.parameters())
        train(model, draw_texts, steps=trial.choose(800, 150), batch=32)
        inputs, answers = draw_texts(300)
        with torch.inference_mode():
            right = (model.eval()(inputs).argmax(-1) == answers).float().mean((0, 1))
        found |= {f"{name}, {distance}": 100 * float(share) for distance, share in zip(DISTANCES, right, strict=True)}
    far = DISTANCES[-1]
    best = max(found[f"recurrent, {far}"], found[f"convolution, {far}"])
    return found | {
        f"accuracy at distance {far}, attention minus the better of the others": found[f"attention, {far}"] - best
    }


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for name in ("recurrent", "convolution", "attention"):
        axes.plot(DISTANCES, [found[f"{name}, {distance}"].mean for distance in DISTANCES], marker="o", label=name)
    axes.axhline(100 / WORDS, color="black", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("distance in words")
    axes.set_ylabel("correct words in percent (line: chance)")
    axes.legend()


EXPERIMENT = Experiment(
    name="three-ways",
    lecture="002",
    claim="Attention finds a word that is far back in a text; recurrent and convolutional networks of the same size do "
    "not.",
    method="For each word of a text, three causal networks of about 40,000 parameters (an LSTM, three convolutions, "
    f"two attention blocks) learn to predict the words {', '.join(map(str, DISTANCES))} positions earlier, all at "
    "once.",
    measure=measure,
    decisive=f"accuracy at distance {DISTANCES[-1]}, attention minus the better of the others",
    direction="at least",
    bound=30.0,
    draw=draw,
)
