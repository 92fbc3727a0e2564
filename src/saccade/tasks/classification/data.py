"""Read texts, or pairs of texts, with their labels, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.labelled import LABEL_FIRST, LabelledText, read_labelled
from saccade.data.labels import LabelReport
from saccade.data.lines import choose_encoding, suffix
from saccade.data.paths import column
from saccade.data.tables import SEPARATORS, TABLES, is_named, read_columns, table_format
from saccade.data.transcripts import TRANSCRIPTS
from saccade.errors import FileError, OptionError
from saccade.tasks.base.data import SEPARATOR, Size, Splits, table_rows, write_lines
from saccade.tasks.base.labelled_data import LabelledData, LabelledFiles

__all__ = ["ClassificationData", "ClassificationFiles"]


class ClassificationData(LabelledData):
    """Labelled texts: a table, or lines with a label and a text; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["grammar", "recall", "counting"] | None = Field(  # type: ignore[assignment]
        None,
        description="grammar: reviews of the built-in corpus; recall: questions about what was said 4 to 128 words "
        "earlier; counting: how often a word occurs",
    )
    text_column: str = Field("text", description="Text column: its name, or its number, counting from 0")
    skip_bad_rows: bool = Field(
        False, description="Skip rows of a table that cannot be read, and report how many were skipped"
    )
    label_column: str = Field("label", description="Label column: its name, or its number, counting from 0")
    second_column: str | None = Field(
        None,
        description="Column of a second text, if each label belongs to two texts, such as a question and an answer",
    )
    label_separator: str | None = Field(
        None,
        min_length=1,
        description="What separates labels in the label column, such as a comma; a text then has any number of labels",
    )
    header: bool | None = Field(
        None, description="Whether the first line of a table names its columns; detected if not given"
    )
    separator: str | None = SEPARATOR

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> Self:
        if "class_weights" in values:
            raise OptionError(f"{where}: class_weights belongs in [training]; set training.class_weights instead.")
        return super().read(values, where)


def _require_names(file: Path, columns: tuple[str | int, ...]) -> None:
    """Refuse a table whose first line does not name these columns with any separator. The encoding is detected, because
    it may be a setting that is not known yet."""
    if not file.is_file() or table_format(file) not in TABLES:
        return
    try:
        encoding, _ = choose_encoding(file)
    except FileError:  # reading the file reports it, unless the settings have its encoding
        return
    names = [column for column in columns if isinstance(column, str)]
    if suffix(file) == ".jsonl" or not any(is_named(file, names, encoding, mark) for mark in SEPARATORS):
        read_columns(file, columns, separator=",")


#: In a file with at most this many texts, every text may have a different label.
FEW = 20
#: The keys of the columns, in the order in which ``read_labelled`` reads them.
PAIR_FIELDS = ("label_column", "text_column", "second_column")
WIDTHS: dict[Size, int] = {"tiny": 64, "small": 128, "medium": 256}


class ClassificationFiles(LabelledFiles[LabelledText]):
    """Reads texts, or pairs of texts, with their labels."""

    settings = ClassificationData
    read_as = (
        "text_column",
        "second_column",
        "label_column",
        "label_separator",
        "header",
        "separator",
        "encoding",
        "skip_bad_rows",
    )
    column_names = ("text", "label")
    column_fields = ("text_column", "label_column")

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, str]:
        """Return the ``[data]`` table for files given on the command line. Raise an error if ``columns`` names a column
        that a file does not have.

        Without ``columns``, files need no header: their columns are then a label and a text, in this order. If
        ``columns`` has three names, they are those of two texts and their label.
        """
        names = [] if columns is None else [name.strip() for name in columns.split(",")]
        if len(names) == 3 and all(names):
            table = super().table(files, f"{names[0]},{names[2]}") | {"second_column": names[1]}
        else:
            table = super().table(files, columns)
        if columns is not None:
            chosen = tuple(column(table[key]) for key in PAIR_FIELDS if key in table)
            for file in files:
                _require_names(file, chosen)
        return table

    @classmethod
    def inputs_from(cls, columns: str) -> dict[str, Any]:
        """Return the keys for the columns of a file of inputs. Of three columns, the second is that of the second
        text."""
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 3 or names[1] in ("", "-"):
            return super().inputs_from(columns)
        return super().inputs_from(f"{names[0]},{names[2]}") | {"second_column": names[1]}

    @classmethod
    def read_file(
        cls, settings: ClassificationData, path: Path, trained_on: bool
    ) -> tuple[list[LabelledText], LabelReport]:
        columns = column(settings.text_column), column(settings.label_column)
        texts, report = read_labelled(
            path,
            *columns,
            header=settings.header,
            encoding=settings.encoding,
            skip_bad=settings.skip_bad_rows,
            second_column=None if settings.second_column is None else column(settings.second_column),
            label_separator=settings.label_separator,
            separator=settings.separator,
        )
        single = [label for label, count in report.labels.items() if count == 1]
        if trained_on and 2 * len(single) > len(texts) > FEW:
            first = texts[0]
            is_name = first.line == 1 and not any(" " in cell for cell in (first.label, first.text))
            named = (
                f"{first.label},{first.text} if line 1 names the columns" if is_name else "0,1 if the texts come first"
            )
            raise FileError(
                f"{path}: {len(single):,} of {len(texts):,} texts have a label that no other text has, such as "
                f"{single[0][:40]!r}, so this may be the wrong column; choose the columns of texts and labels with "
                f"--columns, such as --columns {named}."
            )
        return texts, report

    @classmethod
    def builtin(cls, name: str) -> Callable[[int, int, str], list[LabelledText]]:
        return TRANSCRIPTS.get(name, cls.from_grammar)

    @classmethod
    def from_grammar(cls, count: int, seed: int, part: str) -> list[LabelledText]:
        """Return reviews drawn from the built-in corpus, each labelled as positive or negative."""
        return [
            LabelledText(example.source_text, example.sentiment, number, "the built-in corpus")
            for number, example in enumerate(generate(count, seed, part, kind="review"), start=1)
            if example.sentiment is not None
        ]

    @classmethod
    def write(cls, settings: ClassificationData, examples: Sequence[LabelledText], path: Path) -> list[str]:
        """Write a table with the columns of the training files, so that every command reads it in the same way."""
        names = settings.text_column, settings.second_column, settings.label_column
        columns = [column(name) for name in names if name is not None]
        if settings.header is False and set(columns) == set(LABEL_FIRST):  # the names stand for the columns in order
            columns = [LABEL_FIRST.index(str(name)) for name in columns]
        rows = table_rows(columns, [(*one.texts, one.label) for one in examples], settings.header is True)
        return ["--data", str(write_lines(path.with_suffix(".tsv"), rows))]

    @classmethod
    def suitable(cls, splits: Splits[LabelledText]) -> Size:
        words = sum(text.length for text in splits.train)
        return "tiny" if words <= 20_000 else "small" if words <= 2_000_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[LabelledText], size: Size) -> dict[str, Any]:
        """Recommend a recurrent network with attention: it learns from few texts, and shows which words mattered."""
        words = sum(text.length for text in splits.train)
        width = WIDTHS[size]
        return {
            "text": {"word_dropout": 0.3},
            "model": {
                "kind": "recurrent",
                "width": width,
                "embedding_width": width,
                "encoder_layers": 1,
                "dropout": 0.5,
                "pooling": "attention",
            },
            "training": {"steps": min(5000, max(400, 8 * words // 2048)), "batch_tokens": 2048, "lr": 2e-3},
        }

    @classmethod
    def identity(cls, example: LabelledText) -> bytes:
        return f"{example.label}\t{example.source}\n".encode()
