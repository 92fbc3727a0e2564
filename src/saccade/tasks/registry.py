"""Every task, by the name that recipes and commands use: filled in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

from saccade.errors import UnknownNameError
from saccade.tasks.autoencoder.predictor import AutoencoderPredictor
from saccade.tasks.autoencoder.task import Autoencoder
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Task
from saccade.tasks.captions.predictor import CaptionsPredictor
from saccade.tasks.captions.task import Captions
from saccade.tasks.classification.predictor import ClassificationPredictor
from saccade.tasks.classification.task import Classification
from saccade.tasks.images.predictor import ImagesPredictor
from saccade.tasks.images.task import Images
from saccade.tasks.language_model.predictor import LanguageModelPredictor
from saccade.tasks.language_model.task import LanguageModel
from saccade.tasks.masked.predictor import MaskedLanguageModelPredictor
from saccade.tasks.masked.task import MaskedLanguageModel
from saccade.tasks.tagging.predictor import TaggingPredictor
from saccade.tasks.tagging.task import Tagging
from saccade.tasks.translation.predictor import TranslationPredictor
from saccade.tasks.translation.task import Translation

__all__ = ["TASKS", "Entry", "task_named"]


class Entry(NamedTuple):
    """A task, and what answers with a model trained for it."""

    task: type[Task]
    predictor: type[Predictor]


TASKS = {
    entry.task.name: entry
    for entry in (
        Entry(Translation, TranslationPredictor),
        Entry(Tagging, TaggingPredictor),
        Entry(Classification, ClassificationPredictor),
        Entry(LanguageModel, LanguageModelPredictor),
        Entry(MaskedLanguageModel, MaskedLanguageModelPredictor),
        Entry(Images, ImagesPredictor),
        Entry(Captions, CaptionsPredictor),
        Entry(Autoencoder, AutoencoderPredictor),
    )
}


def task_named(name: Any, what: str = "task") -> Entry:
    """The task of this name; ``what`` says where the name was found."""
    if not isinstance(name, str) or name not in TASKS:
        raise UnknownNameError(what, name, TASKS)
    return TASKS[name]
