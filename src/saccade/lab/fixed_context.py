"""One vector cannot hold a long text; attention reads the text again for each word."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, accuracy, train
from saccade.models import RecurrentConfig, RecurrentSeq2Seq

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WORDS, LENGTHS = 16, (4, 8, 16, 24)
KINDS: dict[str, Literal["none", "output"]] = {"fixed context": "none", "attention": "output"}


class Copier(nn.Module):
    """An encoder and a decoder that copy a text, or reverse it if ``backwards``. At each step, the decoder is given the
    correct previous words."""

    def __init__(self, attention: Literal["none", "output"], *, backwards: bool) -> None:
        super().__init__()
        config = RecurrentConfig(cell="gru", width=64, embedding_width=32, attention_width=32, attention=attention)
        self.network, self.backwards = RecurrentSeq2Seq(config, WORDS, WORDS + 1), backwards

    def forward(self, words: Tensor) -> Tensor:
        answers = words.flip(1) if self.backwards else words
        begin = torch.full_like(words[:, :1], WORDS)
        logits: Tensor = self.network(words, None, torch.cat([begin, answers[:, :-1]], dim=1))
        return logits


def draw_words(count: int, length: int, *, backwards: bool) -> Examples:
    words = torch.randint(WORDS, (count, length))
    return Examples(words, words.flip(1) if backwards else words)


def draw_any_length(count: int, *, backwards: bool) -> Examples:
    return draw_words(count, int(torch.randint(2, LENGTHS[-1] + 1, ())), backwards=backwards)


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for task, backwards in (("copy", False), ("reverse", True)):
        for name, attention in KINDS.items():
            model = Copier(attention, backwards=backwards)

            train(model, partial(draw_any_length, backwards=backwards), steps=trial.choose(700, 150), batch=32)
            for length in LENGTHS:
                found[f"{task}, {name}, {length}"] = accuracy(model, draw_words(300, length, backwards=backwards))
    gaps = [found[f"{task}, attention, {LENGTHS[-1]}"] - found[f"{task}, fixed context, {LENGTHS[-1]}"]
            for task in ("copy", "reverse")]  # fmt: skip
    return found | {f"accuracy at {LENGTHS[-1]} words, attention minus fixed context": sum(gaps) / len(gaps)}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for task, style in (("copy", "-"), ("reverse", "--")):
        for number, name in enumerate(KINDS):
            shares = [found[f"{task}, {name}, {length}"].mean for length in LENGTHS]
            axes.plot(LENGTHS, shares, style, color=f"C{number}", marker="o", label=f"{task}, {name}")
    axes.set_xlabel("words")
    axes.set_ylabel("correct words in percent")
    axes.set_ylim(0, 101)
    axes.legend()


EXPERIMENT = Experiment(
    name="fixed-context",
    lecture="001",
    claim="A decoder that gets the whole text as one vector fails on long texts; a decoder with attention does not.",
    method=f"A recurrent encoder and decoder (GRU, width 64) learn to copy and to reverse random texts of up to "
    f"{LENGTHS[-1]} words, with and without attention. We measure the percentage of correct words for each length.",
    measure=measure,
    decisive=f"accuracy at {LENGTHS[-1]} words, attention minus fixed context",
    direction="at least",
    bound=30.0,
    draw=draw,
)
