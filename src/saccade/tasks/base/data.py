"""From files to examples: everything about a task's data before anything is learned from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from saccade.data.split import split
from saccade.errors import OptionError
from saccade.models import Config

__all__ = ["DataReader", "Splits", "hold_out"]

PARTS = ("validation", "test")
Raw = TypeVar("Raw")  # an example as it was read from a file


@dataclass(frozen=True)
class Splits(Generic[Raw]):
    """The examples to train on, those that decide which model is best, those that are only scored, and a report."""

    train: list[Raw]
    validation: list[Raw]
    test: list[Raw]
    rows: list[tuple[str, str]] = field(default_factory=list)  # the report on the files: (what, value)
    notes: list[str] = field(default_factory=list)

    def require_some(self) -> Self:
        """Neither training nor validation may be empty."""
        for part, examples in (("training", self.train), ("validation", self.validation)):
            if not examples:
                raise OptionError(f"There are no {part} examples; give more data, or another share in data.validation.")
        return self


def hold_out(
    examples: list[Raw],
    held_out: Mapping[str, list[Raw]],
    settings: Any,
    seed: int,
    labels: Callable[[Raw], Iterable[str]] | None = None,
) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """Training, validation and test: the parts that files of their own hold, the others as shares of the examples.

    With ``labels``, a label that only one example has stays in training.
    """
    for_validation, for_test = (0 if part in held_out else getattr(settings, part) or 0 for part in PARTS)
    made: Any = split(cast(Any, examples), for_validation, for_test, seed, cast(Any, labels))
    return made.train, held_out.get("validation", made.validation), held_out.get("test", made.test)


class DataReader(ABC, Generic[Raw]):
    """How a task reads its examples. It keeps nothing: every method is of the class."""

    settings: ClassVar[type[Config]]  # the ``[data]`` table of a recipe
    read_as: ClassVar[tuple[str, ...]] = ()  # keys of it that say how a file is read, whichever file it is

    @classmethod
    @abstractmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """The ``[data]`` table that files on the command line stand for."""

    @classmethod
    @abstractmethod
    def read(cls, settings: Any, seed: int) -> Splits[Raw]:
        """Read, clean and split the examples."""

    @classmethod
    @abstractmethod
    def read_for_scoring(cls, settings: Any) -> list[Raw]:
        """The examples of the first file as they are, nothing dropped."""

    @classmethod
    @abstractmethod
    def recommend(cls, splits: Splits[Raw]) -> dict[str, Any]:
        """The other tables of a recipe that usually works for such examples."""

    @classmethod
    @abstractmethod
    def identity(cls, example: Raw) -> bytes:
        """All that training sees of an example: a run is only continued on equal ones."""
