"""From files to examples: everything about a task's data before anything is learned from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from saccade.data.split import split
from saccade.errors import OptionError
from saccade.models import Config

__all__ = ["SIZES", "DataReader", "Say", "Size", "Splits", "hold_out", "write_lines"]

PARTS = ("validation", "test")
Raw = TypeVar("Raw")  # an example as it was read from a file
Say = Callable[[str], None]  # takes a note for people
#: How large a recommended network is, and how long it therefore takes.
Size = Literal["tiny", "small", "medium"]
SIZES: tuple[Size, ...] = ("tiny", "small", "medium")


@dataclass(frozen=True)
class Splits(Generic[Raw]):
    """The training, validation and test examples, with a report on the files they came from."""

    train: list[Raw]
    validation: list[Raw]
    test: list[Raw]
    rows: list[tuple[str, str]] = field(default_factory=list)  # the report on the files, as (label, value)
    notes: list[str] = field(default_factory=list)

    def require_some(self) -> Self:
        """Neither training nor validation may be empty."""
        for part, examples in (("training", self.train), ("validation", self.validation)):
            if not examples:
                raise OptionError(
                    f"There are no {part} examples; give more data, or change the share in data.validation."
                )
        return self


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a text file, each line with its line feed."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def hold_out(
    examples: list[Raw],
    held_out: Mapping[str, list[Raw]],
    settings: Any,
    seed: int,
    labels: Callable[[Raw], Iterable[str]] | None = None,
) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """Split into training, validation and test; parts that have their own files use those instead of a share.

    With ``labels``, a label that only one example has stays in training.
    """
    for_validation, for_test = (0 if part in held_out else getattr(settings, part) or 0 for part in PARTS)
    parts: Any = split(cast(Any, examples), for_validation, for_test, seed, cast(Any, labels))
    return parts.train, held_out.get("validation", parts.validation), held_out.get("test", parts.test)


class DataReader(ABC, Generic[Raw]):
    """How a task reads its examples. It has no state: every method is a class method."""

    settings: ClassVar[type[Config]]  # the ``[data]`` table of a recipe
    read_as: ClassVar[tuple[str, ...]] = ()  # the keys of it that say how to read any file

    @classmethod
    @abstractmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """The ``[data]`` table for files given on the command line."""

    @classmethod
    @abstractmethod
    def read(cls, settings: Any, seed: int) -> Splits[Raw]:
        """Read, clean and split the examples."""

    @classmethod
    @abstractmethod
    def read_for_scoring(cls, settings: Any, say: Say = lambda note: None) -> list[Raw]:
        """The examples of the first file, unchanged and complete; ``say`` is told how the file was read."""

    @classmethod
    def write(cls, settings: Any, examples: Sequence[Raw], path: Path) -> list[str]:
        """Write examples to files called ``path`` with some suffix, and return the options of ``saccade evaluate`` that
        read them again, whatever the files of ``settings`` look like."""
        raise OptionError("This task cannot write its examples to a file.")

    @classmethod
    def suitable(cls, splits: Splits[Raw]) -> Size:
        """The largest size that pays off with this much data."""
        return "small"

    @classmethod
    @abstractmethod
    def recommend(cls, splits: Splits[Raw], size: Size) -> dict[str, Any]:
        """The other tables of a recipe that usually works for examples like these: ``training.steps`` is the number of
        updates that a network of this size usually needs, which also sets its warm-up and validations."""

    @classmethod
    @abstractmethod
    def identity(cls, example: Raw) -> bytes:
        """Everything that training sees of an example: a run can only be continued on identical examples."""
