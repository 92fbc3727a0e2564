"""Read sentences with one label per word, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.labels import LabelReport
from saccade.data.lines import suffix
from saccade.data.tagged import CONLLU, DEFAULT_FIELDS, TaggedSentence, read_tagged
from saccade.errors import OptionError
from saccade.tasks.base.data import Size, Splits, write_lines
from saccade.tasks.base.label_scores import are_spans
from saccade.tasks.base.labelled_data import LabelledData, LabelledFiles

__all__ = ["TaggingData", "TaggingFiles"]


class TaggingData(LabelledData):
    """Words with labels: CoNLL-U, or one word per line in columns; paths may use ~ and $SACCADE_DATA."""

    word_column: str | None = Field(
        None, description="Word column: name, or number from 0; by default form in CoNLL-U, otherwise the first column"
    )
    label_column: str | None = Field(
        None, description="Label column: name, or number from 0; by default upos in CoNLL-U, otherwise the last column"
    )
    feature_columns: list[str] = Field(
        default_factory=list,
        description="Further columns to read for each word, such as its part of speech: names, or numbers from 0",
    )
    separator: str | None = Field(
        None, description="Separator between columns; by default tabs or spaces, whichever the first line has"
    )
    max_length: int = Field(250, ge=1, description="Longest sentence in words; longer training sentences are dropped")


#: The width and the number of layers of each size.
NETWORKS: dict[Size, tuple[int, int]] = {"tiny": (128, 1), "small": (200, 2), "medium": (320, 2)}


class TaggingFiles(LabelledFiles[TaggedSentence]):
    """Reads sentences whose words have labels."""

    settings = TaggingData
    read_as = ("word_column", "label_column", "feature_columns", "separator", "encoding")
    column_names = ("word", "label")
    column_fields = ("word_column", "label_column", "feature_columns")

    @classmethod
    def inputs_from(cls, columns: str) -> dict[str, Any]:
        """Return the keys for the columns of a file of inputs: the words, the labels (``-`` if there are none), and any
        number of features, in this order."""
        given = [column.strip() for column in columns.split(",")]
        if not all(given) or "-" in (given[0], *given[2:]):
            raise OptionError(
                "--columns takes names or numbers of the columns word,label,feature,..., with - in place of the label "
                f"if the file has none, not {columns!r}."
            )
        label = given[1] if len(given) > 1 else "-"
        found = {"word_column": given[0], "feature_columns": given[2:], "has_labels": label != "-"}
        return found | ({} if label == "-" else {"label_column": label})

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """Return the ``[data]`` table for files. ``columns`` are those of the words, the labels and any number of
        features, in this order."""
        given = [] if columns is None else [column.strip() for column in columns.split(",")]
        features = {"feature_columns": given[2:]} if all(given[2:]) and given[2:] else {}
        return {**super().table(files, ",".join(given[:2]) if features else columns), **features}

    @classmethod
    def read_file(cls, settings: TaggingData, path: Path, trained_on: bool) -> tuple[list[TaggedSentence], LabelReport]:
        return read_tagged(
            path,
            settings.word_column,
            settings.label_column,
            feature_columns=settings.feature_columns,
            separator=settings.separator,
            encoding=settings.encoding,
            max_length=settings.max_length if trained_on else None,
        )

    @classmethod
    def from_grammar(cls, count: int, seed: int, part: str) -> list[TaggedSentence]:
        """Return sentences of the built-in corpus, each word with its part of speech. Words keep their capitals, as at
        the beginning of a sentence."""
        return [
            TaggedSentence(
                tuple(example.source_text[start:stop] for start, stop in example.source_spans),
                example.tags,
                (number,) * len(example.tags),
                "the built-in corpus",
            )
            for number, example in enumerate(generate(count, seed, part), start=1)
        ]

    @classmethod
    def write(cls, settings: TaggingData, examples: Sequence[TaggedSentence], path: Path) -> list[str]:
        """Write the words and labels into the columns of the training files, so that every command reads them in the
        same way. Columns that were not read contain an underscore."""
        word, label = settings.word_column, settings.label_column
        if suffix(settings.file or "") == CONLLU:
            places = [DEFAULT_FIELDS.index(one) for one in (word or "form", label or "upos", *settings.feature_columns)]
            kind, header, width = CONLLU, [], len(DEFAULT_FIELDS)
        else:
            columns = [word or "0", label or "-1", *settings.feature_columns]
            named = not all(column.removeprefix("-").isdecimal() for column in columns)
            kind, header = ".txt", [columns] if named else []
            numbers = list(range(len(columns))) if named else [int(column) for column in columns]
            # Columns that are counted from the end come after all those that are counted from the beginning.
            width = max(0, *(number + 1 for number in numbers)) + max(0, *(-number for number in numbers))
            places = [number % width for number in numbers]
        separator = "\t" if kind == CONLLU else settings.separator or "\t"
        lines = [separator.join(names) for names in header]
        for one in examples:
            for number, row in enumerate(_rows(one), start=1):
                cells = dict(zip(places, row, strict=True))
                if kind == CONLLU:
                    cells.setdefault(0, str(number))
                lines.append(separator.join(cells.get(place, "_") for place in range(width)))
            lines.append("")
        return ["--data", str(write_lines(path.with_suffix(kind), lines))]

    @classmethod
    def suitable(cls, splits: Splits[TaggedSentence]) -> Size:
        words = sum(len(sentence.words) for sentence in splits.train)
        return "tiny" if words <= 50_000 else "small" if words <= 1_000_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[TaggedSentence], size: Size) -> dict[str, Any]:
        """Recommend a bidirectional recurrent network, the safest choice given at least a few hundred sentences, with
        self-attention on top, so that `saccade look` has attention to show. If labels mark spans, such as names, the
        metric is the F1 of spans."""
        words = sum(len(sentence.words) for sentence in splits.train)
        width, layers = NETWORKS[size]
        has_spans = are_spans({label for sentence in splits.train for label in sentence.labels})
        return {
            **({"metric": "span_f1"} if has_spans else {}),
            "model": {
                "kind": "recurrent",
                "width": width,
                "encoder_layers": layers,
                "dropout": 0.4,
                "attention_heads": 4,
            },
            "training": {"steps": min(6000, max(600, 10 * words // 1024)), "batch_tokens": 1024, "lr": 2e-3},
        }

    @classmethod
    def identity(cls, example: TaggedSentence) -> bytes:
        return ("".join("\t".join(row) + "\n" for row in _rows(example)) + "\n").encode()


def _rows(sentence: TaggedSentence) -> Iterator[tuple[str, ...]]:
    """Yield each word with its label and its features."""
    features = sentence.features or ((),) * len(sentence.words)
    for word, label, more in zip(sentence.words, sentence.labels, features, strict=True):
        yield word, label, *more
