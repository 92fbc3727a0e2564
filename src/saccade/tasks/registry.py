"""All tasks by the names that recipes and commands use: the built-in tasks, and those of installed packages.

A package adds a task through an entry point in the group ``saccade.tasks``. The name of the entry point is the name of
the task, and its value names an ``Entry``, as in ``extremes = "saccade_extremes:TASK"``. The package is only imported
when the task is used.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterable
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from saccade.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from saccade.tasks.base.data import DataReader
    from saccade.tasks.base.predictor import Predictor
    from saccade.tasks.base.task import Task

__all__ = ["DEFAULT_TASK", "PRETRAINED_TASKS", "TASKS", "Entry", "task_named", "task_of_model"]


class Entry:
    """The three classes of a task: the task itself, the reader of its data, and its predictor.

    Each is given as a class, or as a string ``module:Name``; the class is then imported on first use.
    """

    def __init__(
        self, task: type[Task] | str, data: type[DataReader[Any]] | str, predictor: type[Predictor] | str
    ) -> None:
        self._task, self._data, self._predictor = task, data, predictor

    @cached_property
    def task(self) -> type[Task]:
        return self._load("task")  # type: ignore[no-any-return]

    @cached_property
    def data(self) -> type[DataReader[Any]]:
        return self._load("data")  # type: ignore[no-any-return]

    @cached_property
    def predictor(self) -> type[Predictor]:
        return self._load("predictor")  # type: ignore[no-any-return]

    def _load(self, part: str) -> Any:
        given = getattr(self, f"_{part}")
        return pkgutil.resolve_name(given) if isinstance(given, str) else given


#: The attributes that the classes of a task must have, besides its methods.
NEEDED = {"task": ("about", "metrics", "state_class", "tables", "networks"), "data": ("settings",), "predictor": ()}


class InstalledEntry(Entry):
    """The task of an installed package, which is imported on first use."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(*(f"{point.value}.{part}" for part in NEEDED))
        self._point = point

    def _load(self, part: str) -> Any:
        package = _package_of(self._point)
        try:
            found = super()._load(part)
            self._check(part, found)
        except Exception as error:  # someone else's package may fail in any way
            raise OptionError(
                f"The task {self._point.name!r} comes from the package {package}, which cannot be loaded "
                f"({type(error).__name__}: {error}); update it, or remove it with: pip uninstall {package}"
            ) from error
        return found

    def _check(self, part: str, found: Any) -> None:
        """Raise an error unless this is a complete class for this part of a task."""
        from saccade.tasks.base.data import DataReader
        from saccade.tasks.base.predictor import Predictor
        from saccade.tasks.base.task import Task

        base = {"task": Task, "data": DataReader, "predictor": Predictor}[part]
        if not isinstance(found, type) or not issubclass(found, base):
            raise TypeError(f"its {part} is {found!r}, which is not a subclass of {base.__module__}.{base.__name__}")
        absent = [name for name in NEEDED[part] if not hasattr(found, name)]
        absent += sorted(getattr(found, "__abstractmethods__", ()))
        if absent:
            raise TypeError(f"its {part} {found.__name__} does not define {', '.join(absent)}")
        if issubclass(found, Task) and getattr(found, "name", None) != self._point.name:
            raise TypeError(f"its {part} {found.__name__} has another name: {getattr(found, 'name', None)!r}")
        if issubclass(found, Task) and not ("training" in found.tables and found.networks and found.metrics):
            raise TypeError(f"{found.__name__} needs a table named training, a network and a metric")


def _package_of(point: EntryPoint) -> str:
    return point.value.partition(":")[0] if point.dist is None else point.dist.name


def _built_in(package: str, name: str) -> Entry:
    where = f"saccade.tasks.{package}"
    return Entry(f"{where}.task:{name}", f"{where}.data:{name}Files", f"{where}.predictor:{name}Predictor")


TASKS = {
    "translation": _built_in("translation", "Translation"),
    "tagging": _built_in("tagging", "Tagging"),
    "classification": _built_in("classification", "Classification"),
    "language-model": _built_in("language_model", "LanguageModel"),
    "masked-language-model": _built_in("masked", "MaskedLanguageModel"),
    "images": _built_in("images", "Images"),
    "captions": _built_in("captions", "Captions"),
    "text-autoencoder": _built_in("text_autoencoder", "TextAutoencoder"),
    "image-autoencoder": _built_in("image_autoencoder", "ImageAutoencoder"),
    "trajectories": _built_in("trajectories", "Trajectories"),
    "base-pairs": _built_in("base_pairs", "BasePairs"),
}
#: Tasks whose models Saccade opens but does not train: they come from other libraries.
PRETRAINED_TASKS = {"sentence-similarity": _built_in("similarity", "Similarity")}


def add_installed(points: Iterable[EntryPoint]) -> None:
    """Add the tasks of installed packages. If a name is already taken, warn about it and keep the existing task."""
    for point in points:
        if point.name in TASKS or point.name in PRETRAINED_TASKS:
            warnings.warn(
                f"The package {_package_of(point)} has a task named {point.name!r}, which is ignored, because a task "
                "with this name already exists.",
                stacklevel=2,
            )
        else:
            TASKS[point.name] = InstalledEntry(point)


add_installed(entry_points(group="saccade.tasks"))
#: The task of a recipe that does not name one.
DEFAULT_TASK = "translation"


def task_named(name: Any, where: str = "") -> Entry:
    """Return the task with this name. ``where`` tells error messages which file the name comes from."""
    if name == "autoencoder":  # the name of the task before it was split in two
        raise OptionError(
            f"{where or 'The command'} names the task 'autoencoder', which no longer exists; use text-autoencoder for "
            "texts, image-autoencoder for images."
        )
    if isinstance(name, str) and name in PRETRAINED_TASKS:
        raise OptionError(f"Saccade does not train models for {name}; it only opens models that other libraries train.")
    if not isinstance(name, str) or name not in TASKS:
        raise UnknownNameError("task", name, TASKS, f"{where}: there is" if where else "There is")
    return TASKS[name]


def task_of_model(name: str) -> Entry:
    """Return the task of an opened model. Unlike ``task_named``, this also finds tasks whose models Saccade opens but
    does not train."""
    return PRETRAINED_TASKS.get(name) or task_named(name)
