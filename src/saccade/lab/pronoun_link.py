"""Does one attention head find the word that decides what "it" refers to or what "bank" means, and does the model's
answer depend on this link?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from saccade.attention import watch
from saccade.lab.deciding_words import (
    HEADS,
    WORDS,
    Case,
    Corpus,
    DecidedWordTagger,
    answer_of,
    padded,
    train_tagger,
    vocabulary_of,
)
from saccade.lab.experiment import Experiment, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

TRAININGS = {"ordered heads": True, "heads as usual": False}
DECISIVE = "in percent: the head is right and its link decides, the worse of both words"


class Judged(NamedTuple):
    """The results for one text; a tensor (H,) has one value for each head."""

    answered: bool  # whether the answer is right
    finds: Tensor  # whether the strongest weight of the decided word is at the deciding word
    flips: Tensor  # whether the answer becomes the rival's without this link
    flips_in_all: bool  # whether the answer becomes the rival's without the link in all heads


def judge(model: DecidedWordTagger, vocabulary: dict[str, int], case: Case) -> Judged:
    with torch.inference_mode(), watch(model) as seen:
        model(*padded([case], vocabulary))
    strongest = seen["attention"].weights()[0, :, case.decided].argmax(-1)
    answer = answer_of(model, case, vocabulary)
    link = (case.decided, case.deciding)
    without = [answer_of(model, case, vocabulary, (f"attention:{head}", *link)) for head in range(HEADS)]
    in_all = answer_of(model, case, vocabulary, ("attention", *link))
    answered = answer == case.answer
    return Judged(
        answered,
        strongest == case.deciding,
        torch.tensor([answered and one == case.rival_answer for one in without]),
        answered and in_all == case.rival_answer,
    )


def chosen_head(model: DecidedWordTagger, vocabulary: dict[str, int], cases: Sequence[Case]) -> int:
    """Return the head whose strongest weight is most often at the deciding word."""
    return int(sum(judge(model, vocabulary, case).finds.int() for case in cases).argmax())  # type: ignore[union-attr]


def percent(flags: Sequence[object]) -> float:
    return 100 * sum(map(bool, flags)) / len(flags)


def measure(trial: Trial) -> Mapping[str, float]:
    count = trial.choose(100, 40)
    training = Corpus("train", trial.choose(4000, 1500), trial.seed)
    choosing, judging = (Corpus(split, 4 * count, trial.seed) for split in ("validation", "test"))
    vocabulary = vocabulary_of(training)
    found: dict[str, float] = {}
    decides = []
    for training_name, ordered in TRAININGS.items():
        model = train_tagger(training, vocabulary, steps=trial.choose(1000, 120), ordered=ordered)
        for word in WORDS:
            head = chosen_head(model, vocabulary, choosing.contrasts(word, count))
            judged = [judge(model, vocabulary, case) for case in judging.contrasts(word, count)]
            others = [other for other in range(HEADS) if other != head]
            flags: dict[str, Sequence[object]] = {
                "answer right": [one.answered for one in judged],
                "head right": [one.finds[head] for one in judged],
                "its link cut": [one.flips[head] for one in judged],
                "another head's link cut": [one.flips[other] for one in judged for other in others],
                "link cut in all heads": [one.flips_in_all for one in judged],
            }
            found |= {f"{word}, {training_name}, {name}": percent(given) for name, given in flags.items()}
            if ordered:
                decides.append(percent([one.finds[head] and one.flips[head] for one in judged]))
    return found | {DECISIVE: min(decides)}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    names = ("head right", "its link cut", "another head's link cut", "link cut in all heads")
    groups = [(word, training) for word in WORDS for training in TRAININGS]
    for number, (word, training) in enumerate(groups):
        places = [place + number / (len(groups) + 1) for place in range(len(names))]
        axes.bar(places, [found[f"{word}, {training}, {name}"].mean for name in names], 1 / (len(groups) + 1),
                 label=f"{word}, {training}")  # fmt: skip
    axes.set_xticks(
        [place + 0.3 for place in range(len(names))], ["head is right", *(f"{one}:\nflips" for one in names[1:])]
    )
    axes.tick_params(axis="x", labelsize=7)
    axes.set_ylabel("percent of held-out texts")
    axes.set_ylim(0, 118)
    axes.legend(fontsize=7, ncols=len(groups), loc="upper center")


EXPERIMENT = Experiment(
    name="pronoun-link",
    lecture="001",
    claim="One head links it to its noun, and bank to the word that decides its meaning; without this link, the "
    "answer is the other one.",
    method=f"An encoder with one attention layer of {HEADS} heads tags it and they with the gender of their noun, and "
    "bank with its meaning, in sentences of the built-in corpus that have a rival: a noun of the other gender, or the "
    "deciding word of another sentence. The head that finds the deciding word most often in validation sentences is "
    "judged in test sentences: its strongest weight is at the deciding word, and the answer becomes the rival's when "
    "this one link is cut. In a quarter of the training texts the deciding word is hidden and the rival's answer is "
    "the right one, which teaches the model where to turn without it. Trained in two ways: as usual, and so that "
    "the first head learns to do without the others.",
    measure=measure,
    decisive=DECISIVE,
    direction="at least",
    bound=70.0,
    draw=draw,
)
