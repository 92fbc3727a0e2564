"""What the data of tagging and classification have in common: one file of each part, shares of it, known labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, model_validator

from saccade.data import overlap, split
from saccade.data.labels import Labelled, LabelReport, note_unseen
from saccade.data.paths import part_prefixes, resolve_path
from saccade.errors import OptionError
from saccade.models import Config
from saccade.tasks.base.task import Splits

__all__ = ["BUILTIN_HELD_OUT", "LabelledData", "file_table", "read_parts"]

#: Sentences of the built-in grammar that are held out, for each of validation and test.
BUILTIN_HELD_OUT = 1000

Item = TypeVar("Item", bound=Labelled)
#: (file, whether it is trained on) -> its examples, and the report
ReadFile = Callable[[Path, bool], tuple[list[Item], LabelReport]]


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


def file_table(files: Sequence[Path], columns: str | None, names: tuple[str, str]) -> dict[str, str]:
    """The ``[data]`` table of a training file, and of those for validation and test if they are there; ``columns``
    are the two of these names, with a comma between."""
    if not 1 <= len(files) <= 3:
        raise OptionError(f"Give a file to train on, then one for validation, one for test; {len(files)} were given.")
    table = {f"{part}file": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
    if columns is not None:
        given = [column.strip() for column in columns.split(",")]
        if len(given) != 2 or not all(given):
            raise OptionError(f"--columns takes {names[0]},{names[1]}: two names or numbers; not {columns!r}.")
        table |= {f"{name}_column": column for name, column in zip(names, given, strict=True)}
    return table


def read_parts(data: LabelledData, read: ReadFile[Item], seed: int) -> Splits[Item]:
    """Read and part the examples of own files; held-out labels that training does not have are noted."""
    assert data.file is not None
    examples, report = read(resolve_path(data.file), True)
    held_out: dict[str, list[Item]] = {}
    rows, notes = report.rows(), []
    for part, file in (("validation", data.validation_file), ("test", data.test_file)):
        if file is not None:
            held_out[part], found = read(resolve_path(file), False)
            rows += found.rows()
            shared = overlap(examples, held_out[part])
            if shared.sources:
                notes.append(
                    f"{shared.sources:,} texts are in both training and {part}: "
                    f"{shared.other_pairs:,} of the {shared.other_total:,} there"
                )
    made = split(
        examples,
        0 if "validation" in held_out else data.validation,
        0 if "test" in held_out else data.test,
        seed,
        labels=lambda example: example.labels,
    )
    validation, test = held_out.get("validation", made.validation), held_out.get("test", made.test)
    known = {label for example in made.train for label in example.labels}
    for examples in (validation, test):
        notes += note_unseen(examples, known)
    return Splits(made.train, validation, test, rows, notes)
