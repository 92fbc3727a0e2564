"""Read RNA molecules, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from saccade.data.hairpins import generate_hairpins
from saccade.data.lines import choose_encoding, suffix
from saccade.data.paths import part_prefixes, resolve_path
from saccade.data.structures import (
    TABLES,
    Molecule,
    describe_molecules,
    pairs_of,
    read_molecules,
    to_connectivity_table,
)
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.data import DataReader, Say, Size, Splits, column_keys, hold_out, write_lines

__all__ = ["BasePairsData", "BasePairsFiles"]

#: The names of parts in files that assign molecules to parts, and the part that each name stands for.
PARTS = {"train": "train", "training": "train", "valid": "validation", "validation": "validation", "val": "validation"}
PARTS |= {"dev": "validation", "test": "test"}

#: Width of a base, width of a pair, and blocks, for each size.
NETWORKS: dict[Size, tuple[int, int, int]] = {"tiny": (32, 16, 1), "small": (64, 24, 2), "medium": (64, 32, 3)}
BATCH_PAIRS = 80_000
#: The part of the built-in molecules that is read for scoring; training, validation and test have other molecules.
SCORING_PART = 3


class BasePairsData(Config):
    """RNA sequences with their structures; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["hairpins"] | None = Field(
        None, description="hairpins: generated sequences with one or two stems, whose base pairs are known"
    )
    count: int = Field(
        2000,
        ge=10,
        description="Number of built-in sequences for training; validation and test have a tenth as many each",
    )
    file: str | None = Field(None, description="A table, dot-bracket or CT file to train on")
    validation_file: str | None = Field(
        None,
        description="Validation file, used to select the best model; by default, a fraction of the training molecules",
    )
    test_file: str | None = Field(None, description="File that is scored once, at the end")
    sequence_column: str = Field("sequence", description="Column of a table with the sequence")
    structure_column: str = Field("structure", description="Column of a table with the structure in dot-bracket form")
    id_column: str | None = Field(None, description="Column of a table with the name of the molecule")
    part_column: str | None = Field(None, description="Column of a table that says train, valid or test")
    folds: str | None = Field(
        None,
        description="A table that assigns molecules to parts, with the columns id, partition and the number or "
        "name of a fold",
    )
    fold_column: str = Field("fold_number", description="Column of the folds table with the number or name of a fold")
    fold: str = Field("0", description="Number or name of the fold to use")
    longest: int = Field(128, ge=8, le=4096, description="Maximum number of bases; longer molecules are left out")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the data held out for validation if no file is given"
    )
    test: float = Field(
        0.0, ge=0, lt=1, description="Fraction of the data held out for the final test if no file is given"
    )
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _consistent(self) -> BasePairsData:
        if (self.builtin is None) == (self.file is None):
            raise ValueError("give either builtin or file")
        if self.folds is not None and self.id_column is None:
            raise ValueError("folds needs id_column, to find the molecules by name")
        if self.folds is not None and self.part_column is not None:
            raise ValueError("give either folds or part_column, not both")
        return self


class BasePairsFiles(DataReader[Molecule]):
    """Reads sequences with their base pairs."""

    settings = BasePairsData
    read_as = ("sequence_column", "structure_column", "id_column", "longest", "encoding")
    most_updates = 700

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if not 1 <= len(files) <= 3:
            raise OptionError(f"Give one to three files, for training, validation and test, not {len(files)}.")
        table = {f"{part}file": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
        return table | column_keys(columns, "sequence", "structure")

    @classmethod
    def read(cls, settings: BasePairsData, seed: int) -> Splits[Molecule]:
        if settings.file is None:
            counts = (settings.count, settings.count // 10, settings.count // 10)
            train, validation, test = (generate_hairpins(count, seed, part) for part, count in enumerate(counts))
            return Splits(train, validation, test, [describe_molecules(train, "training")])
        every = _read(settings, settings.file)
        notes = _notes(settings, settings.file, every)
        parts = _assigned(settings)
        kept = [one for one in every if one.length <= settings.longest]
        held_out: dict[str, list[Molecule]] = {}
        if parts is not None:
            chosen: dict[str, list[Molecule]] = {"train": [], "validation": [], "test": []}
            for one in kept:
                part = parts.get(one.name if settings.folds is not None else str(one.line))
                if part is not None:
                    chosen[part].append(one)
            kept = chosen.pop("train")
            held_out = {part: found for part, found in chosen.items() if found}
        for part in ("validation", "test"):
            file = getattr(settings, f"{part}_file")
            if file is not None:
                others = _read(settings, file)
                notes += _notes(settings, file, others)
                held_out[part] = [one for one in others if one.length <= settings.longest]
        train, validation, test = hold_out(kept, held_out, settings, seed)
        named = (("training", train), ("validation", validation), ("test", test))
        rows = [("file", settings.file), *(describe_molecules(found, what) for what, found in named if found)]
        known = {one.sequence for one in train}
        for what, molecules in named[1:]:
            same = sum(one.sequence in known for one in molecules)
            if same:
                notes.append(f"{same:,} of {len(molecules):,} {what} sequences are also in training")
        return Splits(train, validation, test, rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: BasePairsData, say: Say = lambda note: None) -> list[Molecule]:
        if settings.file is None:
            return generate_hairpins(settings.count // 10, 1, SCORING_PART)
        every = _read(settings, settings.file)
        for note in _notes(settings, settings.file, every):
            say(note)
        kept = [one for one in every if one.length <= settings.longest]
        if not kept:
            raise FileError(f"All sequences in {settings.file} have more than {settings.longest} bases.")
        return kept

    @classmethod
    def write(cls, settings: BasePairsData, examples: Sequence[Molecule], path: Path) -> list[str]:
        """Write a file in CT format, which can represent every structure."""
        tables = [table for one in examples for table in to_connectivity_table(one).splitlines()]
        return ["--data", str(write_lines(path.with_suffix(".ct"), tables))]

    @classmethod
    def recommend(cls, splits: Splits[Molecule], size: Size) -> dict[str, Any]:
        """Recommend a network of this size, and enough updates for about eight passes over the data."""
        width, pair_width, layers = NETWORKS[size]
        steps = max(300, 8 * sum(one.length**2 for one in splits.train) // BATCH_PAIRS)
        longest = max(one.length for part in (splits.train, splits.validation, splits.test) for one in part)
        return {
            "model": {
                "kind": "pairs",
                "width": width,
                "pair_width": pair_width,
                "layers": layers,
                "max_length": max(256, longest),
            },
            "training": {
                "steps": steps,
                "warmup": steps // 20,
                "batch_pairs": BATCH_PAIRS,
                "lr": 1e-3,
                "validate_every": max(50, steps // 10),
            },
        }

    @classmethod
    def identity(cls, example: Molecule) -> bytes:
        return f"{example.sequence} {pairs_of(example.partners or ())}\n".encode()


def _read(settings: BasePairsData, file: str) -> list[Molecule]:
    return read_molecules(
        resolve_path(file),
        columns=(settings.sequence_column, settings.structure_column),
        id_column=settings.id_column,
        encoding=settings.encoding,
    )


def _notes(settings: BasePairsData, file: str, molecules: Sequence[Molecule]) -> list[str]:
    """Say how the encoding was found, and how many molecules are left out."""
    _, notes = choose_encoding(resolve_path(file), settings.encoding)
    count = sum(one.length > settings.longest for one in molecules)
    note = f"{file}: {count:,} of {len(molecules):,} molecules have more than {settings.longest} bases and are left out"
    return [*notes, *([note] if count else [])]


def _assigned(settings: BasePairsData) -> dict[str, str] | None:
    """Return the part of each molecule, by its name if there are folds, or by its line; None if no file gives parts."""
    if settings.folds is not None:
        path, columns = resolve_path(settings.folds), ("id", "partition", settings.fold_column)
        rows = [(line, cells) for line, cells in read_columns(path, columns)[1] if cells[2] == settings.fold]
        if not rows:
            raise FileError(f"{path}: no row has {settings.fold!r} in the column {settings.fold_column}.")
        return {cells[0]: _part(cells[1], f"{path}, line {line}") for line, cells in rows}
    if settings.part_column is None:
        return None
    assert settings.file is not None
    path = resolve_path(settings.file)
    if suffix(path) not in TABLES:
        raise OptionError(f"part_column needs a table, but {path} is not one.")
    _, found = read_columns(path, (settings.part_column,), encoding=settings.encoding)
    return {str(line): _part(cells[0], f"{path}, line {line}") for line, cells in found if any(cells)}


def _part(name: str, where: str) -> str:
    if name.strip().lower() not in PARTS:
        raise FileError(f"{where}: {name!r} is not a part of the data; expected train, valid or test.")
    return PARTS[name.strip().lower()]
