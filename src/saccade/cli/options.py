"""Options that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from saccade.data.lines import read_lines
from saccade.data.pairs import Cleaning, Pair, read_parallel, read_table
from saccade.errors import OptionError, UnknownNameError

__all__ = ["Device", "Model", "Source", "Table", "Target", "console", "pairs_of", "read_inputs", "resolve_device"]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, or the folder of a run.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Source = Annotated[Path | None, typer.Option(help="A file of source texts, one a line.", show_default=False)]
Target = Annotated[Path | None, typer.Option(help="The file of their translations.", show_default=False)]
Table = Annotated[
    Path | None,
    typer.Option("--data", help="Or one .tsv, .csv or .jsonl file with columns source and target.", show_default=False),
]
DEVICES = ("auto", "cpu", "cuda", "mps")


def console(*, stderr: bool = False) -> Console:
    """Plain text, wide enough for files and pipes."""
    return Console(stderr=stderr, highlight=False, soft_wrap=not sys.stdout.isatty())


def resolve_device(name: str) -> str:
    """The device that is meant: auto takes the fastest that is here."""
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name not in DEVICES:
        raise UnknownNameError("device", name, DEVICES)
    if name == "auto":
        return "cuda" if here["cuda"] else "mps" if here["mps"] else "cpu"
    if not here[name]:
        raise OptionError(f"There is no {name} device here; use --device auto.")
    return name


def pairs_of(source: Path | None, target: Path | None, table: Path | None) -> list[Pair]:
    """The pairs that --source and --target, or --data, name: as they are, nothing dropped."""
    as_it_is = Cleaning(empty=False, duplicates=False)
    if table is not None and source is None and target is None:
        return read_table(table, cleaning=as_it_is)[0]
    if table is None and source is not None and target is not None:
        return read_parallel(source, target, as_it_is)[0]
    raise OptionError("Give --source and --target, or --data with one table of both.")


def read_inputs(given: str) -> tuple[list[str], bool]:
    """The texts that an argument means, and whether they came from a file: ``-`` is the standard input."""
    if given == "-":
        try:
            return [line.rstrip("\r\n") for line in sys.stdin], True
        except UnicodeDecodeError as error:
            raise OptionError(f"The standard input is not UTF-8 text: {error.reason}.") from None
    if _is_file(given):
        return [text.strip() for _, text in read_lines(given)], True
    return [given], False


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # a text too long or odd to be a name
        return False


def given_only(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line; the others stay as the model has them."""
    return {name: value for name, value in options.items() if value is not None}
