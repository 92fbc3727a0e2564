"""What the data of tagging and classification share: one file for each part, or shares of one file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from saccade.data import overlap
from saccade.data.labels import Labelled, LabelReport, note_unseen
from saccade.data.paths import part_prefixes, resolve_path
from saccade.errors import OptionError
from saccade.models import Config
from saccade.tasks.base.data import DataReader, Say, Splits, hold_out

__all__ = ["LabelledData", "LabelledFiles"]

#: Sentences of the built-in grammar held out for validation, and as many for test.
BUILTIN_HELD_OUT = 1000

Item = TypeVar("Item", bound=Labelled)


class LabelledData(Config):
    """Labelled texts, your own or built in; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["grammar"] | None = Field(None, description="grammar: the built-in English sentences")
    sentences: int = Field(4000, ge=100, description="Training sentences drawn from the built-in corpus")
    file: str | None = Field(None, description="The file to train on")
    validation_file: str | None = Field(
        None, description="Decides which model is best; without it, a share of the training file does (see validation)"
    )
    test_file: str | None = Field(None, description="Scored once, at the end")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Share held out for validation if no file is given; equal texts stay together"
    )
    test: float = Field(0.0, ge=0, lt=1, description="Share held out for the final test if no file is given")
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _one_origin(self) -> LabelledData:
        if (self.file is None) == (self.builtin is None):
            raise ValueError("give one of builtin, file")
        return self


class LabelledFiles(DataReader[Item]):
    """One file to train on, and perhaps one for validation and one for test."""

    column_names: ClassVar[tuple[str, str]]  # the names that --columns takes

    @classmethod
    @abstractmethod
    def read_file(cls, settings: Any, path: Path, trained_on: bool) -> tuple[list[Item], LabelReport]:
        """The examples of one file, and the report on them."""

    @classmethod
    @abstractmethod
    def from_grammar(cls, count: int, seed: int, part: str) -> list[Item]:
        """Examples from the built-in corpus."""

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, str]:
        if not 1 <= len(files) <= 3:
            raise OptionError(
                f"Give one file to train on, then at most one for validation and one for test, not {len(files)} files."
            )
        table = {f"{part}file": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
        if columns is not None:
            names, given = cls.column_names, [column.strip() for column in columns.split(",")]
            if len(given) != 2 or not all(given):
                raise OptionError(f"--columns takes {names[0]},{names[1]}: two names or numbers, not {columns!r}.")
            table |= {f"{name}_column": column for name, column in zip(names, given, strict=True)}
        return table

    @classmethod
    def read(cls, settings: Any, seed: int) -> Splits[Item]:
        """Read the examples; labels that occur only in validation or test are reported."""
        if settings.builtin is not None:
            counts = {"train": settings.sentences, "validation": BUILTIN_HELD_OUT, "test": BUILTIN_HELD_OUT}
            parts = [cls.from_grammar(count, seed + i, name) for i, (name, count) in enumerate(counts.items())]
            return Splits(parts[0], parts[1], parts[2], notes=["built-in synthetic corpus (docs/reference/corpus.md)"])
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
                        f"{shared.sources:,} texts occur in both training and {part}: "
                        f"{shared.other_pairs:,} of the {shared.other_total:,} there"
                    )
        train, validation, test = hold_out(examples, held_out, settings, seed, lambda example: example.labels)
        known = {label for example in train for label in example.labels}
        for part_examples in (validation, test):
            notes += note_unseen(part_examples, known)
        return Splits(train, validation, test, rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: Any, say: Say = lambda note: None) -> list[Item]:
        """The examples of the file, unchanged and complete; with the built-in corpus, its test examples."""
        if settings.file is None:
            return cls.read(settings, seed=1).test
        examples, report = cls.read_file(settings, resolve_path(settings.file), False)
        for note in report.notes:
            say(note)
        return examples
