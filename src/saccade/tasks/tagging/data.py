"""Where the sentences of a tagger come from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.labels import LabelReport
from saccade.data.tagged import TaggedSentence, read_tagged
from saccade.tasks.base.data import Size, Splits, write_lines
from saccade.tasks.base.label_scores import are_spans
from saccade.tasks.base.labelled_data import LabelledData, LabelledFiles

__all__ = ["TaggingData", "TaggingFiles"]


class TaggingData(LabelledData):
    """Words with labels: CoNLL-U, or a word per line in columns; paths may use ~ and $SACCADE_DATA."""

    word_column: str | None = Field(
        None, description="Word column: name or number from 0; if not given, form in CoNLL-U, otherwise the first"
    )
    label_column: str | None = Field(
        None, description="Label column: name or number from 0; if not given, upos in CoNLL-U, otherwise the last"
    )
    separator: str | None = Field(
        None, description="Separator of columns; if not given, tabs or spaces, whichever the first line has"
    )
    max_length: int = Field(250, ge=1, description="Longest sentence in words; longer training sentences are dropped")


#: Width and layers.
NETWORKS: dict[Size, tuple[int, int]] = {"tiny": (128, 1), "small": (200, 2), "medium": (320, 2)}


class TaggingFiles(LabelledFiles[TaggedSentence]):
    """Sentences whose words have labels."""

    settings = TaggingData
    read_as = ("word_column", "label_column", "separator", "encoding")
    column_names = ("word", "label")

    @classmethod
    def read_file(cls, settings: TaggingData, path: Path, trained_on: bool) -> tuple[list[TaggedSentence], LabelReport]:
        return read_tagged(
            path,
            settings.word_column,
            settings.label_column,
            separator=settings.separator,
            encoding=settings.encoding,
            max_length=settings.max_length if trained_on else None,
        )

    @classmethod
    def from_grammar(cls, count: int, seed: int, part: str) -> list[TaggedSentence]:
        """The words as written: the first one is capitalised."""
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
        """A word and its label per line, separated like the training files."""
        separator = settings.separator or "\t"
        lines = (
            line
            for one in examples
            for line in (*(f"{word}{separator}{tag}" for word, tag in zip(one.words, one.labels, strict=True)), "")
        )
        return ["--data", str(write_lines(path.with_suffix(".txt"), lines)), "--columns", "0,1"]

    @classmethod
    def suitable(cls, splits: Splits[TaggedSentence]) -> Size:
        words = sum(len(sentence.words) for sentence in splits.train)
        return "tiny" if words <= 50_000 else "small" if words <= 1_000_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[TaggedSentence], size: Size) -> dict[str, Any]:
        """A bidirectional recurrent network: the safest choice from a few hundred sentences on. Labels that mark spans,
        such as names, are scored by spans."""
        words = sum(len(sentence.words) for sentence in splits.train)
        width, layers = NETWORKS[size]
        has_spans = are_spans({label for sentence in splits.train for label in sentence.labels})
        return {
            **({"metric": "span_f1"} if has_spans else {}),
            "model": {"kind": "recurrent", "width": width, "encoder_layers": layers, "dropout": 0.4},
            "training": {"steps": min(6000, max(600, 10 * words // 1024)), "batch_tokens": 1024, "lr": 2e-3},
        }

    @classmethod
    def identity(cls, example: TaggedSentence) -> bytes:
        pairs = zip(example.words, example.labels, strict=True)
        return ("".join(f"{word}\t{label}\n" for word, label in pairs) + "\n").encode()
