"""Read pairs of texts, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from saccade.data import (
    Cleaning,
    Pair,
    Report,
    nettalk_splits,
    overlap,
    read_nettalk,
    read_parallel,
    read_table,
)
from saccade.data.deck_sentences import deck_sentences
from saccade.data.grammar import generate
from saccade.data.lines import read_lines
from saccade.data.paths import column, part_prefixes, resolve_path
from saccade.data.report import FINDINGS
from saccade.data.reversals import reversals
from saccade.data.tables import TABLES, refuse_separator, table_format
from saccade.errors import FileError, OptionError, counted
from saccade.lens.links import GoldLinks, read_pharaoh
from saccade.models import Config
from saccade.tasks.base.data import (
    SEPARATOR,
    DataReader,
    Say,
    Size,
    Splits,
    column_keys,
    draw_splits,
    hold_out,
    write_lines,
)
from saccade.tasks.base.text_settings import TokenKind
from saccade.tasks.translation.gold import GoldPair, from_characters, from_grammar, from_pair

__all__ = ["TranslationData", "TranslationFiles", "read_links"]

#: The number of built-in sentences held out for validation, and as many again for test.
BUILTIN_HELD_OUT = 1000
UNCHANGED = Cleaning(empty=False, duplicates=False)


#: If there are several languages, at least this many sentences of each are held out.
LEAST_OF_LANGUAGE = 300
LanguageCode = Literal["fr", "es", "it", "de", "hi", "zh"]


class TranslationData(Config):
    """Parallel texts, your own or built in; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["grammar", "decks", "reverse"] | None = Field(
        None,
        description="grammar: the built-in corpus, from English; decks: sentences like those of the lectures, English "
        "to French; reverse: 5 letters to be written backwards",
    )
    languages: tuple[LanguageCode, ...] = Field(
        ("fr",),
        min_length=1,
        description="Target languages of the built-in corpus; if there are several, each source starts with its "
        "language, as in `German: ...`",
    )
    sentences: int = Field(20000, ge=100, description="Training sentences drawn from the built-in corpus")
    source: str | None = Field(None, description="A file with one text per line")
    target: str | None = Field(None, description="The translation of source, line by line")
    table: str | None = Field(None, description="One .tsv, .csv or .jsonl file, instead of source and target")
    source_column: str = Field("source", description="Source column: its name, or its number, counting from 0")
    target_column: str = Field("target", description="Target column: its name, or its number, counting from 0")
    nettalk: str | None = Field(None, description="The file nettalk.data, to learn sounds from spelling")
    alignments: str | None = Field(
        None, description="Gold alignments of the training pairs in Pharaoh format; with them, no pairs are dropped"
    )
    validation_source: str | None = Field(
        None,
        description="Validation texts, used to select the best model; by default, a fraction of the training pairs",
    )
    validation_target: str | None = Field(None, description="The translation of validation_source")
    validation_table: str | None = Field(
        None, description="One table, instead of validation_source and validation_target"
    )
    test_source: str | None = Field(None, description="Texts that are scored once, at the end")
    test_target: str | None = Field(None, description="The translation of test_source")
    test_table: str | None = Field(None, description="One table, instead of test_source and test_target")
    validation: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Fraction of the data held out for validation if no file is given; equal sources stay together",
    )
    test: float = Field(
        0.0, ge=0, lt=1, description="Fraction of the data held out for the final test if no file is given"
    )
    max_length: int = Field(200, ge=1, description="Longest text in words; longer training pairs are dropped")
    max_ratio: float = Field(
        9.0, ge=1, description="Training pairs are dropped if one side is more than this many times as long"
    )
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")
    skip_bad_rows: bool = Field(
        False, description="Skip rows of a table that cannot be read, and report how many were skipped"
    )
    header: bool | None = Field(
        None, description="Whether the first line of a table names its columns; detected if not given"
    )
    separator: str | None = SEPARATOR
    source_language: str = Field("source", description='Language code shown to people, such as "en"')
    target_language: str = Field("target", description='Language code shown to people, such as "fr"')

    @model_validator(mode="after")
    def _check_files(self) -> TranslationData:
        origins = [self.builtin, self.source, self.table, self.nettalk]
        if sum(origin is not None for origin in origins) != 1:
            raise ValueError("give one of builtin, source (with target), table, nettalk")
        for part in ("", "validation_", "test_"):
            if (getattr(self, f"{part}source") is None) != (getattr(self, f"{part}target") is None):
                raise ValueError(f"give both {part}source and {part}target, or neither")
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("languages lists a language twice")
        if self.languages != ("fr",) and self.builtin != "grammar":
            raise ValueError('languages only applies to builtin = "grammar"')
        if self.alignments is not None and self.source is None:
            raise ValueError("alignments needs source and target")
        return self


#: The vocabulary, width, layers, tokens per batch, learning rate and maximum number of updates of a Transformer.
TRANSFORMERS: dict[Size, tuple[int, int, int, int, float, int]] = {
    "tiny": (6_000, 128, 2, 2048, 1e-3, 8_000),
    "small": (10_000, 128, 4, 2048, 2e-3, 7_000),
    "medium": (16_000, 256, 4, 4096, 1e-3, 30_000),
}
#: A corpus with at most this many pairs is small.
FEW = 5_000
#: Width and encoder layers of a recurrent network that reads or writes single letters or symbols.
SPELLERS: dict[Size, tuple[int, int]] = {"tiny": (128, 1), "small": (256, 2), "medium": (384, 2)}
#: The mean number of tokens per word.
PIECES_PER_WORD = 1.2
#: For choosing the kind of token: how many texts to look at, and the maximum number and mean length of symbols.
LOOKED_AT, MOST_SYMBOLS, SYMBOL_LENGTH = 2_000, 300, 2.5


class TranslationFiles(DataReader[GoldPair]):
    """Reads pairs of texts from two parallel files or a table, or draws them from the built-in corpus."""

    settings = TranslationData
    read_as = ("source_column", "target_column", "header", "separator", "encoding", "skip_bad_rows")
    column_fields = ("source_column", "target_column")
    most_updates = 2_500

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, str]:
        """Return the ``[data]`` table for pairs of parallel files or for tables: training, then validation and test."""
        tables = len(files) == 1 or all(table_format(file) in TABLES for file in files)
        if not files or (len(files) > 3 if tables else len(files) not in (2, 4, 6)):
            raise OptionError(f"Give two, four or six parallel files, or one to three tables, not {len(files)} files.")
        if not tables:
            if columns is not None:
                raise OptionError(
                    "--columns applies only to a table of both source and target texts, given with --data."
                )
            parts = part_prefixes(files[::2])
            keys = [f"{part}{side}" for part in parts for side in ("source", "target")]
            return dict(zip(keys, map(str, files), strict=True))
        table = {f"{part}table": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
        return table | column_keys(columns, "source", "target")

    @classmethod
    def read(cls, settings: TranslationData, seed: int) -> Splits[GoldPair]:
        if settings.builtin is not None:
            return _read_builtin(settings, seed)
        if settings.nettalk is not None:
            pairs, report = read_nettalk(resolve_path(settings.nettalk))
            parts = nettalk_splits(pairs)
            train, validation, test = (
                [from_characters(pair) for pair in part] for part in (parts.train, parts.validation, parts.test)
            )
            note = f"removed {counted(len(parts.removed), 'word')} with held-out spellings from training"
            return Splits(train, validation, test, report.rows(), [note])
        return _read_files(settings, seed)

    @classmethod
    def read_for_scoring(cls, settings: TranslationData, say: Say = lambda note: None) -> list[GoldPair]:
        pairs, report = _read(settings, "", UNCHANGED)
        for note in report.notes:
            say(note)
        for finding in report.findings:
            if finding.kind in ("empty", "unpaired") and finding.count:
                say(f"{FINDINGS[finding.kind]}: {finding}, and scored like all others")
        return [from_pair(pair) for pair in pairs]

    @classmethod
    def write(cls, settings: TranslationData, examples: Sequence[GoldPair], path: Path) -> list[str]:
        """Write two files, one of sources and one of targets; equal line numbers belong together."""
        files = [
            write_lines(path.with_suffix(f".{side}"), [getattr(pair, side) for pair in examples])
            for side in ("source", "target")
        ]
        return ["--source", str(files[0]), "--target", str(files[1])]

    @classmethod
    def suitable(cls, splits: Splits[GoldPair]) -> Size:
        pairs = len(splits.train)
        return "tiny" if pairs <= FEW else "small" if pairs <= 200_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[GoldPair], size: Size) -> dict[str, Any]:
        """Recommend a Transformer for sentences; a recurrent network if there is much data but only time for a tiny
        network, or for texts of single letters or symbols, such as spellings and sounds."""
        drawn = splits.train[:: max(1, len(splits.train) // LOOKED_AT)]
        kinds = [_token_kind([getattr(pair, side) for pair in drawn]) for side in ("source", "target")]
        if kinds != ["bpe", "bpe"]:
            return _speller(splits.train, kinds, size)
        pairs = len(splits.train)
        words = sum(max(len(pair.source.split()), len(pair.target.split())) for pair in splits.train)
        if size == "tiny" and pairs > FEW:
            return _quick_learner(words)
        vocabulary, width, layers, batch, lr, most = TRANSFORMERS[size]
        return {
            "text": {"vocabulary": max(300, min(vocabulary, pairs * 2))},
            "model": {
                "kind": "transformer",
                "width": width,
                "num_heads": width // 64 if width >= 256 else 4,
                "encoder_layers": layers,
                "decoder_layers": layers,
                "feedforward_width": 2 * width,
                "dropout": 0.3 if pairs <= 50_000 else 0.1,
                "scaled_embedding": True,
                "tied_embeddings": True,
            },
            "training": {
                "steps": min(most, max(1_500, int(30 * PIECES_PER_WORD * words / batch))),
                "batch_tokens": batch,
                "lr": lr,
            },
        }

    @classmethod
    def identity(cls, example: GoldPair) -> bytes:
        links = "" if example.links is None else sorted(example.links)  # guided alignment trains on the links too
        return f"{example.source}\t{example.target}\t{links}\n".encode()


def _read_builtin(settings: TranslationData, seed: int) -> Splits[GoldPair]:
    if settings.builtin == "reverse":
        return draw_splits(
            settings.sentences,
            BUILTIN_HELD_OUT,
            seed,
            lambda *drawn: [from_characters(pair) for pair in reversals(*drawn)],
        )
    if settings.builtin == "decks":
        return draw_splits(
            settings.sentences, BUILTIN_HELD_OUT, seed, lambda *drawn: from_grammar(deck_sentences(*drawn))
        )
    languages = settings.languages
    if len(languages) == 1:
        return draw_splits(
            settings.sentences,
            BUILTIN_HELD_OUT,
            seed,
            lambda count, seed, split: from_grammar(generate(count, seed, split, language=languages[0])),
        )
    held_out = max(BUILTIN_HELD_OUT // len(languages), LEAST_OF_LANGUAGE) * len(languages)
    return draw_splits(
        settings.sentences, held_out, seed, lambda count, seed, split: _in_turn(languages, count, seed, split)
    )


def _in_turn(languages: Sequence[str], count: int, seed: int, split: str) -> list[GoldPair]:
    """Draw different sentences for each language, and return them in turn with the name of the language."""
    shares = [count // len(languages) + (number < count % len(languages)) for number in range(len(languages))]
    each = [
        generate(share, seed + 1000 * number, split, language=language)
        for number, (language, share) in enumerate(zip(languages, shares, strict=True))
    ]
    turns = [example for turn in zip_longest(*each) for example in turn if example is not None]
    return from_grammar(turns, tagged=True)


def _token_kind(texts: Sequence[str]) -> TokenKind:
    """Choose what a token is: a letter if the texts are single words in a small alphabet, a word if they are short
    symbols of few kinds with spaces between them, and otherwise a piece of a word."""
    symbols = [text.split() for text in texts]
    spaced = sum(len(one) > 1 for one in symbols) / len(texts)
    if spaced < 0.05 and len(set().union(*texts)) <= MOST_SYMBOLS:
        return "character"
    known = {symbol for one in symbols for symbol in one}
    mean = sum(len(symbol) for one in symbols for symbol in one) / max(1, sum(map(len, symbols)))
    return "word" if spaced > 0.5 and len(known) <= MOST_SYMBOLS and mean <= SYMBOL_LENGTH else "bpe"


def _quick_learner(words: int) -> dict[str, Any]:
    """Recommend a recurrent network with attention, which learns in a quarter of the time of a Transformer."""
    return {
        "text": {"vocabulary": 8_000},
        "model": {
            "kind": "recurrent",
            "cell": "gru_torch",
            "width": 256,
            "embedding_width": 256,
            "attention_width": 256,
            "dropout": 0.3,
            "tied_output": True,
        },
        "training": {
            "steps": min(6_000, max(1_000, int(5 * PIECES_PER_WORD * words / 1280))),
            "batch_tokens": 1280,
            "lr": 1.5e-3,
        },
    }


def _speller(pairs: Sequence[GoldPair], kinds: Sequence[TokenKind], size: Size) -> dict[str, Any]:
    """Recommend a recurrent network with attention for short texts of letters or symbols, such as spelling."""
    width, layers = SPELLERS[size]
    source, target = kinds
    lengths = (
        max(len(pair.source.split() if source == "word" else pair.source), len(pair.target)) + 1 for pair in pairs
    )
    return {
        "metric": "exact",
        "text": {"kind": source, "shared": False} | ({} if target == source else {"target_kind": target}),
        "model": {
            "kind": "recurrent",
            "cell": "gru_torch",
            "width": width,
            "embedding_width": 128,
            "encoder_layers": layers,
            "attention_width": 128,
            "dropout": 0.3,
        },
        "training": {
            "steps": min(6_000, max(600, 12 * sum(lengths) // 1280)),
            "batch_tokens": 1280,
            "lr": 2e-3,
            "validation_sample": 1000,
        },
        "decoding": {"beam": 5, "length_penalty": 0.0},
    }


def _read_files(data: TranslationData, seed: int) -> Splits[GoldPair]:
    if data.alignments is None:
        pairs, report = _read(data, "", Cleaning(max_length=data.max_length, max_ratio=data.max_ratio))
    else:
        pairs, report = _read(data, "", UNCHANGED)  # links belong to lines, so no line is dropped
        gold = read_links(pairs, resolve_path(data.alignments))
        pairs = [
            replace(pair, alignment=tuple(sorted(links.possible))) for pair, links in zip(pairs, gold, strict=True)
        ]
    held_out: dict[str, list[Pair]] = {}
    reports, notes = [report], []
    for part in ("validation", "test"):
        if getattr(data, f"{part}_source") is not None or getattr(data, f"{part}_table") is not None:
            held_out[part], found = _read(data, f"{part}_", UNCHANGED)
            reports.append(found)
            shared = overlap(pairs, held_out[part])
            if shared.sources:
                notes.append(f"training and {part}: {shared}")
    train, validation, test = ([from_pair(pair) for pair in part] for part in hold_out(pairs, held_out, data, seed))
    return Splits(train, validation, test, [row for report in reports for row in report.rows()], notes)


def _read(data: TranslationData, part: str, cleaning: Cleaning) -> tuple[list[Pair], Report]:
    table = getattr(data, f"{part}table")
    if table is not None:
        columns = (column(data.source_column), column(data.target_column))
        return read_table(
            resolve_path(table),
            *columns,
            cleaning,
            header=data.header,
            encoding=data.encoding,
            skip_bad=data.skip_bad_rows,
            separator=data.separator,
        )
    source, target = (resolve_path(getattr(data, f"{part}{side}")) for side in ("source", "target"))
    refuse_separator(source, data.separator)
    return read_parallel(source, target, cleaning, encoding=data.encoding)


def read_links(pairs: Sequence[Pair | GoldPair], path: Path) -> list[GoldLinks]:
    """Read the gold links of these pairs, one line for each pair. Raise an error if a link is to a missing word."""
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise FileError(
            f"{path} has {counted(len(lines), 'line')} of links for {counted(len(pairs), 'pair')}; there must "
            "be one line for "
            "each pair."
        )
    found = []
    for pair, (number, text) in zip(pairs, lines, strict=True):
        gold = read_pharaoh(text, f"Line {number} of {path}")
        words = len(pair.source.split()), len(pair.target.split())
        for source, target in sorted(gold.possible):
            if source >= words[0] or target >= words[1]:
                raise FileError(
                    f"Line {number} of {path}: the link {source}-{target} is to a word that does not exist; the pair "
                    f"has {words[0]} source words and {words[1]} target words, separated by spaces and numbered "
                    "from 0."
                )
        found.append(gold)
    return found
