"""Read pairs of texts, each with a score that says how similar people find the two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from saccade.data.paths import column, resolve_path
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.data import SEPARATOR, DataReader, Say, Size, Splits

__all__ = ["ScoredPair", "SimilarityData", "SimilarityFiles"]


class ScoredPair(NamedTuple):
    """Two texts, and how similar people find them."""

    first: str
    second: str
    score: float
    line: int


class SimilarityData(Config):
    """A table of two texts and a score."""

    file: str = Field(description="A .tsv, .csv or .jsonl file")
    first_column: str = Field("0", description="Column that contains the first text, by name or by number from 0")
    second_column: str = Field("1", description="Column that contains the second text")
    score_column: str = Field("2", description="Column that contains the score")
    separator: str | None = SEPARATOR
    encoding: str | None = Field(None, description="Encoding of the file, such as latin-1; detected if not given")


class SimilarityFiles(DataReader[ScoredPair]):
    """Reads tables of pairs of texts with their similarity."""

    settings = SimilarityData
    read_as = ("separator", "encoding")

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if len(files) != 1:
            raise OptionError(f"Give one table of two texts and a score, not {len(files)} files.")
        names = ["0", "1", "2"] if columns is None else [name.strip() for name in columns.split(",")]
        if len(names) != 3 or not all(names):
            raise OptionError(
                f"--columns takes the columns of two texts and their score, such as 0,1,2, not {columns!r}."
            )
        keys = ("first_column", "second_column", "score_column")
        return {"file": str(files[0]), **dict(zip(keys, names, strict=True))}

    @classmethod
    def read(cls, settings: SimilarityData, seed: int) -> Splits[ScoredPair]:
        raise OptionError("Saccade does not train sentence encoders; it only opens those that other libraries train.")

    @classmethod
    def read_for_scoring(cls, settings: SimilarityData, say: Say = lambda note: None) -> list[ScoredPair]:
        path = resolve_path(settings.file)
        names = (settings.first_column, settings.second_column, settings.score_column)
        notes, rows = read_columns(
            path, tuple(map(column, names)), encoding=settings.encoding, separator=settings.separator
        )
        for note in notes:
            say(note)
        pairs = []
        for line, (first, second, score) in rows:
            try:
                value = float(score)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise FileError(f"{path}, line {line}: the score is {score[:40]!r}, which is not a finite number.")
            pairs.append(ScoredPair(first, second, value, line))
        return pairs

    @classmethod
    def recommend(cls, splits: Splits[ScoredPair], size: Size) -> dict[str, Any]:
        raise OptionError("Saccade does not train sentence encoders; it only opens those that other libraries train.")

    @classmethod
    def identity(cls, example: ScoredPair) -> bytes:
        return f"{example.first}\t{example.second}\t{example.score}\n".encode()
