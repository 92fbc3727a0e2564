"""How tagging and classification read their data: one file for each part, or one file that is split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field

from saccade.data import overlap
from saccade.data.labels import Labelled, LabelReport, note_unseen
from saccade.data.paths import part_prefixes, resolve_path
from saccade.errors import OptionError, counted
from saccade.tasks.base.data import BuiltinOrFile, DataReader, Say, Splits, column_keys, draw_splits, hold_out

__all__ = ["LabelledData", "LabelledFiles"]

#: The number of built-in sentences held out for validation, and as many again for test.
BUILTIN_HELD_OUT = 1000

Item = TypeVar("Item", bound=Labelled)


class LabelledData(BuiltinOrFile):
    """Labelled texts, your own or built in; paths may use ~ and $SACCADE_DATA."""

    file_key = "file"

    builtin: Literal["grammar"] | None = Field(None, description="grammar: the built-in English sentences")
    sentences: int = Field(4000, ge=100, description="Training sentences drawn from the built-in corpus")
    file: str | None = Field(None, description="The file to train on")
    validation_file: str | None = Field(
        None, description="Validation file, used to select the best model; by default, a fraction of the training file"
    )
    test_file: str | None = Field(None, description="File that is scored once, at the end")
    validation: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Fraction of the data held out for validation if no file is given; equal texts stay together",
    )
    test: float = Field(
        0.0, ge=0, lt=1, description="Fraction of the data held out for the final test if no file is given"
    )
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")


class LabelledFiles(DataReader[Item]):
    """Reads one file to train on, and optionally one for validation and one for test."""

    column_names: ClassVar[tuple[str, str]]  # what the two columns of --columns are called

    @classmethod
    @abstractmethod
    def read_file(cls, settings: Any, path: Path, trained_on: bool) -> tuple[list[Item], LabelReport]:
        """Return the examples in one file, and a report on them; ``trained_on`` is True for the training file."""

    @classmethod
    @abstractmethod
    def from_grammar(cls, count: int, seed: int, part: str) -> list[Item]:
        """Return examples from the built-in corpus."""

    @classmethod
    def builtin(cls, name: str) -> Callable[[int, int, str], list[Item]]:
        """Return a function that draws built-in examples: (number, seed, split) -> examples."""
        return cls.from_grammar

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, str]:
        if not 1 <= len(files) <= 3:
            raise OptionError(
                f"Give one file to train on, then at most one for validation and one for test, not {len(files)} files."
            )
        table = {f"{part}file": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
        return table | column_keys(columns, *cls.column_names)

    @classmethod
    def read(cls, settings: Any, seed: int) -> Splits[Item]:
        """Read and split the examples, and report labels that occur only in validation or test."""
        if settings.builtin is not None:
            return draw_splits(settings.sentences, BUILTIN_HELD_OUT, seed, cls.builtin(settings.builtin))
        examples, report = cls.read_file(settings, resolve_path(settings.file), True)
        held_out: dict[str, list[Item]] = {}
        rows, notes = report.rows(), []
        for part, file in (("validation", settings.validation_file), ("test", settings.test_file)):
            if file is not None:
                held_out[part], found = cls.read_file(settings, resolve_path(file), False)
                rows += found.rows()
                shared = overlap(examples, held_out[part])
                if shared.sources:
                    notes.append(
                        f"training and {part} share {counted(shared.sources, 'text')}: "
                        f"{shared.other_pairs:,} of {shared.other_total:,} {part} texts"
                    )
        train, validation, test = hold_out(examples, held_out, settings, seed, lambda example: example.labels)
        known = {label for example in train for label in example.labels}
        for part_examples in (validation, test):
            notes += note_unseen(part_examples, known)
        return Splits(train, validation, test, rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: Any, say: Say = lambda note: None) -> list[Item]:
        """Return all examples in the file, or the test examples of the built-in corpus."""
        if settings.file is None:
            return cls.read(settings, seed=1).test
        examples, report = cls.read_file(settings, resolve_path(settings.file), False)
        for note in report.notes:
            say(note)
        return examples
