"""Deep stacks learn with residual connections and norms, and not without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from saccade.attention import MultiHead
from saccade.attention.positions import Sinusoidal
from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, accuracy, train
from saccade.models.layers import FeedForward

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WORDS, LENGTH, WIDTH, DEPTH, STEPS = 16, 6, 32, 12, 1000
KINDS = {"residual and norm": (True, True), "residual": (True, False), "norm": (False, True), "neither": (False, False)}


class Stack(nn.Module):
    """Blocks of attention and a feed-forward layer, with or without residual connections and norms."""

    def __init__(self, depth: int, *, residual: bool, norm: bool) -> None:
        super().__init__()
        self.residual = residual
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), Sinusoidal(WIDTH)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers += [MultiHead(WIDTH, 4), FeedForward(WIDTH, 2 * WIDTH, "relu")]
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) if norm else nn.Identity() for _ in self.layers)
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        x = self.positions(self.words(words))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x)) if self.residual else layer(norm(x))
        logits: Tensor = self.output(x)
        return logits


def draw_reversals(count: int) -> Examples:
    """Return texts of random words, and as answers the same words in reverse order."""
    words = torch.randint(WORDS, (count, LENGTH))
    return Examples(words, words.flip(1))


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for name, (residual, norm) in KINDS.items():
        model = Stack(DEPTH, residual=residual, norm=norm)
        train(model, draw_reversals, steps=trial.choose(STEPS, 120), lr=2e-3, batch=32)
        found[name] = accuracy(model, draw_reversals(300))
    return found | {"accuracy, both minus neither": found["residual and norm"] - found["neither"]}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    axes.bar(list(KINDS), [found[name].mean for name in KINDS])
    axes.axhline(100 / WORDS, color="black", linewidth=0.6)
    axes.set_ylabel("correct words in percent (line: chance)")


EXPERIMENT = Experiment(
    name="residuals-and-norms",
    lecture="003",
    claim="A stack of 12 blocks learns with residual connections and norms, but not without them.",
    method=f"{DEPTH} blocks of attention and feed-forward layers learn to reverse {LENGTH} words, with residual "
    f"connections and norms, with only one of them, and with neither. All are trained for {STEPS:,} updates.",
    measure=measure,
    decisive="accuracy, both minus neither",
    direction="at least",
    bound=50.0,
    draw=draw,
)
