"""Every task, by the name that recipes and commands use: filled in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

from saccade.errors import UnknownNameError
from saccade.tasks.autoencoder.predictor import Rebuilder
from saccade.tasks.autoencoder.task import Autoencoder
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Task
from saccade.tasks.captions.predictor import Describer
from saccade.tasks.captions.task import Captions
from saccade.tasks.classification.predictor import TextClassifier
from saccade.tasks.classification.task import Classification
from saccade.tasks.images.predictor import ImageClassifier
from saccade.tasks.images.task import Images
from saccade.tasks.language_model.predictor import Writer
from saccade.tasks.language_model.task import LanguageModel
from saccade.tasks.masked.predictor import Filler
from saccade.tasks.masked.task import MaskedLanguageModel
from saccade.tasks.tagging.predictor import WordTagger
from saccade.tasks.tagging.task import Tagging
from saccade.tasks.translation.predictor import Translator
from saccade.tasks.translation.task import Translation

__all__ = ["TASKS", "Entry", "task_named"]


class Entry(NamedTuple):
    """A task, and what answers with a model trained for it."""

    task: type[Task]
    predictor: type[Predictor]


TASKS = {
    entry.task.name: entry
    for entry in (
        Entry(Translation, Translator),
        Entry(Tagging, WordTagger),
        Entry(Classification, TextClassifier),
        Entry(LanguageModel, Writer),
        Entry(MaskedLanguageModel, Filler),
        Entry(Images, ImageClassifier),
        Entry(Captions, Describer),
        Entry(Autoencoder, Rebuilder),
    )
}


def task_named(name: Any, what: str = "task") -> Entry:
    """The task of this name; ``what`` says where the name was found."""
    if not isinstance(name, str) or name not in TASKS:
        raise UnknownNameError(what, name, TASKS)
    return TASKS[name]
