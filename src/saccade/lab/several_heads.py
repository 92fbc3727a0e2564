"""Several heads can find several tokens at once; does one head of the same width mix them up?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import accuracy, train
from saccade.lab.retrieval import Retrieval, draw_questions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

HEADS = (1, 2, 4)


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for heads in HEADS:
        model = Retrieval(heads)
        train(model, draw_questions, steps=trial.choose(2500, 400))
        found[f"{heads} heads"] = accuracy(model, draw_questions(2000))
    return found | {"accuracy, 4 heads minus 1 head": found["4 heads"] - found["1 heads"]}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    axes.bar([str(heads) for heads in HEADS], [found[f"{heads} heads"].mean for heads in HEADS])
    axes.set_xlabel("heads, all of the same total width")
    axes.set_ylabel("right answers in percent")
    axes.set_ylim(0, 100)


EXPERIMENT = Experiment(
    name="several-heads",
    lecture="003",
    claim="Several heads can find two tokens at once; one head of the same width cannot.",
    method="A text has eight items, each with a key and one of four values. A question names two keys, and the answer "
    "is both values in order. One attention layer of width 32 and a feed-forward layer are trained in the same way "
    "with 1, 2 and 4 heads.",
    measure=measure,
    decisive="accuracy, 4 heads minus 1 head",
    direction="at least",
    bound=20.0,
    draw=draw,
)
