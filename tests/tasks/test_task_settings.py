"""A recipe's settings make another task of the same vocabularies; the first stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saccade.tasks.autoencoder.media import ImageMedium, NoisyText, TextMedium
from saccade.tasks.autoencoder.task import Autoencoder
from saccade.tasks.base.task import Task
from saccade.tasks.captions.task import Captions
from saccade.tasks.images.augment import ImageSettings
from saccade.tasks.images.task import Images
from saccade.tasks.language_model.task import LanguageModel, LanguageModelText
from saccade.tasks.masked.task import MaskedLanguageModel, MaskedText
from saccade.tasks.translation.task import Translation
from saccade.text import Tokenizer
from saccade.training.settings import TrainingSettings

WORDS = Tokenizer.train(["dog cat"], "word")
SHAPE, PIXELS = (4, 6, 1), (0.5, 0.25)


@pytest.mark.parametrize(
    ("task", "text", "value", "wanted"),
    [
        (Translation(WORDS, WORDS), None, lambda task: task.guided_alignment, 0.5),
        (LanguageModel(WORDS, 8, separated=False), LanguageModelText(context=7), lambda task: task.context, 7),
        (MaskedLanguageModel(WORDS, 8), MaskedText(context=7), lambda task: task.context, 7),
        (Images(["a", "b"], SHAPE, PIXELS), None, lambda task: task.changes.shift, 3),
        (Captions(WORDS, SHAPE, PIXELS), None, lambda task: task.changes.shift, 3),
        (Autoencoder(TextMedium(WORDS)), NoisyText(mask=0.3), lambda task: task.medium.noise.mask, 0.3),
        (Autoencoder(ImageMedium(SHAPE, PIXELS)), None, lambda task: task.medium.changes.shift, 3),
    ],
    ids=lambda given: given.name if isinstance(given, Task) else "",
)
def test_settings_change_a_copy(task: Task, text: Any, value: Callable[[Any], float], wanted: float) -> None:
    before = value(task)
    settings = {"text": text, "images": ImageSettings(shift=3)}
    chosen = task.with_settings(settings, TrainingSettings(guided_alignment=0.5))
    assert (value(chosen), value(task)) == (wanted, before)
    assert before != wanted
    assert chosen.vocabularies() == task.vocabularies()
