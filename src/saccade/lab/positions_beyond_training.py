"""Can a network use positions that it was never trained on?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from saccade.lab.earlier_word import accuracy_from, draw_texts, reader
from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, train
from saccade.models.transformer_config import PositionKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

TRAINED, TESTED = 32, 128
KINDS: tuple[PositionKind, ...] = ("sinusoidal", "learned", "rotary", "alibi", "relative")


def draw_short(count: int) -> Examples:
    return draw_texts(count, int(torch.randint(8, TRAINED + 1, ())))


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for kind in KINDS:
        model = reader(kind, TESTED)
        train(model, draw_short, steps=trial.choose(700, 150), batch=32)
        found[f"{kind}, trained lengths"] = accuracy_from(model, draw_texts(200, TRAINED), 0)
        found[f"{kind}, beyond"] = accuracy_from(model, draw_texts(100, TESTED), TRAINED)
    return found | {"accuracy of sinusoidal positions beyond training": found["sinusoidal, beyond"]}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for shift, what in ((-0.2, "trained lengths"), (0.2, "beyond")):
        heights = [found[f"{kind}, {what}"].mean for kind in KINDS]
        axes.bar([place + shift for place in range(len(KINDS))], heights, 0.4, label=what)
    axes.set_xticks(range(len(KINDS)), KINDS)
    axes.set_ylabel("correct words in percent")
    axes.legend()


EXPERIMENT = Experiment(
    name="positions-beyond-training",
    lecture="002",
    claim="With sinusoidal positions, a Transformer can read texts that are longer than those it was trained on.",
    method="For each word of a text, two encoder blocks learn to predict the word two positions earlier, on texts of "
    f"up to {TRAINED} words, with five kinds of positions. They are tested on texts of {TESTED} words, at the "
    f"positions from {TRAINED} on.",
    measure=measure,
    decisive="accuracy of sinusoidal positions beyond training",
    direction="at least",
    bound=80.0,
    draw=draw,
)
