"""Read a task's examples from files, and split them into training, validation and test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from pydantic import Field, model_validator

from saccade.data.split import split
from saccade.errors import InputTypeError, OptionError
from saccade.models import Config

__all__ = [
    "SEPARATOR",
    "SHAPE",
    "SIZES",
    "BuiltinOrFile",
    "DataReader",
    "PictureReader",
    "Say",
    "Size",
    "Splits",
    "column_keys",
    "draw_splits",
    "hold_out",
    "joined_columns",
    "part_to_score",
    "table_rows",
    "write_lines",
]

PARTS = ("validation", "test")
Raw = TypeVar("Raw")  # an example as it was read from a file
Say = Callable[[str], None]  # is called with a note to print
#: The size of a recommended network, which also determines how long training takes.
Size = Literal["tiny", "small", "medium"]
SIZES: tuple[Size, ...] = ("tiny", "small", "medium")


@dataclass(frozen=True)
class Splits(Generic[Raw]):
    """The training, validation and test examples, with a report on the files they came from."""

    train: list[Raw]
    validation: list[Raw]
    test: list[Raw]
    rows: list[tuple[str, str]] = field(default_factory=list)  # the report on the files, as (name, value)
    notes: list[str] = field(default_factory=list)

    def require_some(self) -> Self:
        """Raise an error if there are no training or no validation examples."""
        for part, examples in (("training", self.train), ("validation", self.validation)):
            if not examples:
                raise OptionError(f"There are no {part} examples; add data, or change the fraction in data.validation.")
        return self


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write lines to a text file, each followed by a line feed."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def table_rows(
    columns: Sequence[str | int], examples: Iterable[Sequence[str]], has_header: bool = False
) -> Iterable[str]:
    """Return the lines of a table whose cells are separated by tabs. If columns are given by name, the first line
    has the names; if they are given by number, columns that are not used contain an underscore."""
    numbers = [column for column in columns if isinstance(column, int)]
    if not numbers:
        return ["\t".join(map(str, columns)), *map("\t".join, examples)]
    names = [column for column in columns if isinstance(column, str)]
    free = [place for place in range(max(numbers) + 1 + len(names)) if place not in numbers]
    places = [column if isinstance(column, int) else free[names.index(column)] for column in columns]
    header = dict(zip(places, map(str, columns), strict=True))
    rows = [dict(zip(places, cells, strict=True)) for cells in examples]
    width = max(places) + 1
    every = [header, *rows] if has_header or names else rows
    return ["\t".join(row.get(place, "_") for place in range(width)) for row in every]


def hold_out(
    examples: list[Raw],
    held_out: Mapping[str, list[Raw]],
    settings: Any,
    seed: int,
    labels: Callable[[Raw], Iterable[str]] | None = None,
) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """Split examples into training, validation and test examples.

    ``held_out`` contains the validation or test examples if they were read from files of their own. ``labels`` returns
    the labels of an example; if it is given, an example with a label that no other example has stays in training.
    """
    for_validation, for_test = (0 if part in held_out else getattr(settings, part) or 0 for part in PARTS)
    parts: Any = split(cast(Any, examples), for_validation, for_test, seed, cast(Any, labels))
    return parts.train, held_out.get("validation", parts.validation), held_out.get("test", parts.test)


def draw_splits(count: int, held_out: int, seed: int, draw: Callable[[int, int, str], list[Raw]]) -> Splits[Raw]:
    """Draw ``count`` training examples from the built-in corpus, and ``held_out`` each for validation and test."""
    counts = {"train": count, "validation": held_out, "test": held_out}
    train, validation, test = (draw(n, seed + i, part) for i, (part, n) in enumerate(counts.items()))
    return Splits(train, validation, test, notes=["built-in synthetic corpus (docs/reference/corpus.md)"])


def column_keys(columns: str | None, *names: str) -> dict[str, str]:
    """Return the ``[data]`` entries for the two columns that the option ``--columns`` names; empty if it is None."""
    if columns is None:
        return {}
    given = [column.strip() for column in columns.split(",")]
    if len(given) != 2 or not all(given):
        raise OptionError(
            f"--columns takes the names or numbers of two columns, such as {','.join(names)}, not {columns!r}."
        )
    if given[0] == given[1]:
        raise OptionError(
            f"--columns names column {given[0]} twice; expected different columns: {' and '.join(names)}."
        )
    return {f"{name}_column": column for name, column in zip(names, given, strict=True)}


def joined_columns(columns: str | Sequence[str | int] | None) -> str | None:
    """Return columns as the option ``--columns`` takes them; in Python, they may also be a list."""
    if columns is None or isinstance(columns, str):
        return columns
    if not isinstance(columns, Sequence) or not all(type(one) in (str, int) for one in columns):
        raise InputTypeError("columns", "names or numbers, as a list or with commas between them", columns)
    if any("," in str(one) for one in columns):
        raise OptionError(f"The name of a column must not contain a comma, as in {list(columns)}; rename the column.")
    return ",".join(map(str, columns))


def part_to_score(table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the part that is scored if a folder has files for several, such as "test", and the ``[data]`` entries for
    it alone: the test files or, if there are none, those for validation. If there are no parts, its name is empty."""
    for part in ("test", "validation"):
        found = {key.removeprefix(f"{part}_"): value for key, value in table.items() if key.startswith(f"{part}_")}
        if found:
            return part, found
    return "", dict(table)


class BuiltinOrFile(Config):
    """The ``[data]`` table of a task whose examples are either built in or read from the user's file."""

    file_key: ClassVar[str]  # the key that names the file

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if (getattr(self, "builtin", None) is None) == (getattr(self, self.file_key) is None):
            raise ValueError(f"give either builtin or {self.file_key}")
        return self


#: The ``separator`` in the ``[data]`` table of a task that reads tables.
SEPARATOR: Any = Field(
    None,
    min_length=1,
    max_length=1,
    description="What separates the cells of .csv files: a comma, a semicolon or a tab; detected if not given",
)
#: The ``shape`` in the ``[data]`` table of a task that reads pictures.
SHAPE: Any = Field(
    None,
    description="Height, width and channels (1 grey, 3 colour) of pictures; if not given, pictures are resized only "
    "if their sizes differ",
)


class DataReader(ABC, Generic[Raw]):
    """Reads the examples of a task. It has no state: every method is a class method."""

    settings: ClassVar[type[Config]]  # the ``[data]`` table of a recipe
    read_as: ClassVar[tuple[str, ...]] = ()  # the keys in that table that apply to every file, such as its encoding
    inherited: ClassVar[tuple[str, ...]] = ()  # the keys that a run takes from the model that it starts from
    #: The most updates to recommend if the user gives no size and no time: half an hour or less on 2 cores.
    most_updates: ClassVar[int] = 1_000_000
    column_fields: ClassVar[tuple[str, ...]] = ()  # the keys of ``read_as`` that name columns, in --columns order

    @classmethod
    @abstractmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """Return the ``[data]`` table of a recipe for files given on the command line."""

    @classmethod
    @abstractmethod
    def read(cls, settings: Any, seed: int) -> Splits[Raw]:
        """Read, clean and split the examples."""

    @classmethod
    @abstractmethod
    def read_for_scoring(cls, settings: Any, say: Say = lambda note: None) -> list[Raw]:
        """Return all examples of the first file; unlike ``read``, this drops none. ``say`` is called with notes on how
        the file was read."""

    @classmethod
    def inputs_from(cls, columns: str) -> dict[str, Any]:
        """Return the ``[data]`` entries for the columns that ``--columns`` names in a file of inputs; ``-`` stands for
        a column that the file does not have, and columns at the end can be left out."""
        given = [column.strip() for column in columns.split(",")]
        if not cls.column_fields:
            raise OptionError("--columns does not apply to this model: it reads files as its training files were read.")
        if len(given) > len(cls.column_fields) or not all(given) or given[0] == "-":
            names = ",".join(field.removesuffix("_column") for field in cls.column_fields)
            raise OptionError(
                f"--columns takes the names or numbers of the columns {names}, with - for a column that the file does "
                f"not have, not {columns!r}."
            )
        known = [None if column == "-" else column for column in given]
        return dict(zip(cls.column_fields, [*known, *[None] * len(cls.column_fields)], strict=False))

    @classmethod
    def as_trained(cls, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of a model's ``[data]`` table that also apply to other files, such as the encoding."""
        return {key: value for key, value in recipe.get("data", {}).items() if key in cls.read_as}

    @classmethod
    def write(cls, settings: Any, examples: Sequence[Raw], path: Path) -> list[str]:
        """Write examples to files whose names are ``path`` and a suffix, and return the options with which
        ``saccade evaluate`` reads them again, whatever format the files in ``settings`` have."""
        raise OptionError("This task cannot write its examples to a file.")

    @classmethod
    def suitable(cls, splits: Splits[Raw]) -> Size:
        """Return the largest size of network that is worth training on this much data."""
        return "small"

    @classmethod
    @abstractmethod
    def recommend(cls, splits: Splits[Raw], size: Size) -> dict[str, Any]:
        """Return all tables of the recipe but ``[data]``, with settings that usually work for examples like these.

        ``training.steps`` is the number of updates that a network of this size usually needs. It also determines the
        warm-up and how often to validate.
        """

    @classmethod
    @abstractmethod
    def identity(cls, example: Raw) -> bytes:
        """Return everything that training uses of an example, as bytes.

        A run can only be resumed with examples for which these bytes are the same.
        """


class PictureReader(DataReader[Raw]):
    """Reads pictures; for an existing model, they are fitted to the size of the images that it takes."""

    @classmethod
    def as_trained(cls, recipe: Mapping[str, Any]) -> dict[str, Any]:
        model = recipe.get("model", {})
        shape = {"shape": [*model["image_size"], model["channels"]]} if "image_size" in model else {}
        return super().as_trained(recipe) | shape
