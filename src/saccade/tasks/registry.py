"""Every task, by the name that recipes and commands use: filled in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

from saccade.errors import UnknownNameError
from saccade.tasks.autoencoder import Autoencoder
from saccade.tasks.autoencoder_answer import Rebuilder
from saccade.tasks.captions import Captions
from saccade.tasks.captions_answer import Describer
from saccade.tasks.classification import Classification
from saccade.tasks.images import Images
from saccade.tasks.images_answer import ImageClassifier
from saccade.tasks.language_model import LanguageModel
from saccade.tasks.language_model_writer import Writer
from saccade.tasks.masked_language_model import MaskedLanguageModel
from saccade.tasks.masked_language_model_filler import Filler
from saccade.tasks.predictor import Predictor
from saccade.tasks.tagging import Tagging
from saccade.tasks.task import Task
from saccade.tasks.text_classifier import TextClassifier
from saccade.tasks.translation import Translation
from saccade.tasks.translator import Translator
from saccade.tasks.word_tagger import WordTagger

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
