"""Every task, by the name that recipes and commands use: filled in one place."""

from __future__ import annotations

import pkgutil
from functools import cached_property
from typing import TYPE_CHECKING, Any

from saccade.errors import UnknownNameError

if TYPE_CHECKING:
    from saccade.tasks.base.predictor import Predictor
    from saccade.tasks.base.task import Task

__all__ = ["DEFAULT_TASK", "TASKS", "Entry", "task_named"]


class Entry:
    """A task, and what answers with a model trained for it: classes, or ``module:Name``, loaded when asked for."""

    def __init__(self, task: type[Task] | str, predictor: type[Predictor] | str) -> None:
        self._task, self._predictor = task, predictor

    @cached_property
    def task(self) -> type[Task]:
        return pkgutil.resolve_name(self._task) if isinstance(self._task, str) else self._task

    @cached_property
    def predictor(self) -> type[Predictor]:
        return pkgutil.resolve_name(self._predictor) if isinstance(self._predictor, str) else self._predictor


def _own(package: str, task: str) -> Entry:
    return Entry(f"saccade.tasks.{package}.task:{task}", f"saccade.tasks.{package}.predictor:{task}Predictor")


TASKS = {
    "translation": _own("translation", "Translation"),
    "tagging": _own("tagging", "Tagging"),
    "classification": _own("classification", "Classification"),
    "language-model": _own("language_model", "LanguageModel"),
    "masked-language-model": _own("masked", "MaskedLanguageModel"),
    "images": _own("images", "Images"),
    "captions": _own("captions", "Captions"),
    "autoencoder": _own("autoencoder", "Autoencoder"),
}
#: What a recipe without a task means.
DEFAULT_TASK = "translation"


def task_named(name: Any, what: str = "task") -> Entry:
    """The task of this name; ``what`` says where the name was found."""
    if not isinstance(name, str) or name not in TASKS:
        raise UnknownNameError(what, name, TASKS)
    return TASKS[name]
