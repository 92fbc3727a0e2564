"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import Progress

from saccade.data.lines import read_lines
from saccade.data.pairs import Pair
from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.tasks.translation_data import TranslationData, read_given

__all__ = [
    "Columns",
    "Device",
    "Model",
    "Precision",
    "Source",
    "Table",
    "Target",
    "Workers",
    "console",
    "data_table",
    "given_only",
    "pairs_of",
    "progress",
    "read_inputs",
    "resolve_device",
]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, or the folder of a run.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[str, typer.Option(help="Of matrix products: fp32, bf16 or int8.")]
Workers = Annotated[int, typer.Option(help="Processes that share out the texts, on the CPU.", min=1, max=256)]
Source = Annotated[Path | None, typer.Option(help="A file of source texts, one a line.", show_default=False)]
Target = Annotated[Path | None, typer.Option(help="The file of their translations.", show_default=False)]
Table = Annotated[
    Path | None,
    typer.Option("--data", help="Or one .tsv, .csv or .jsonl file with columns source and target.", show_default=False),
]
Columns = Annotated[
    str | None,
    typer.Option(help="The two columns of that table, by name or number from 0: en,fr", show_default=False),
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


@contextmanager
def progress(what: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that is gone when the work is done; nothing at all where stderr is no terminal."""
    bar_console = console(stderr=True)
    with Progress(console=bar_console, transient=True, disable=not (shown and bar_console.is_terminal)) as bar:
        row = bar.add_task(what, total=total)
        yield lambda done: bar.update(row, completed=done)


def data_table(source: Path | None, target: Path | None, table: Path | None, columns: str | None) -> dict[str, str]:
    """The ``[data]`` table of a recipe that --source and --target, or --data and --columns, stand for."""
    if table is not None and source is None and target is None:
        return {"table": str(table), **_column_keys(columns)}
    if table is None and source is not None and target is not None:
        if columns is not None:
            raise OptionError("--columns goes with --data, one table of both sides.")
        return {"source": str(source), "target": str(target)}
    raise OptionError("Give --source and --target, or --data with one table of both.")


def pairs_of(source: Path | None, target: Path | None, table: Path | None, columns: str | None) -> list[Pair]:
    """The pairs that these options name: as they are, nothing dropped."""
    return read_given(TranslationData.read(data_table(source, target, table, columns), "the options"))


def _column_keys(columns: str | None) -> dict[str, str]:
    if columns is None:
        return {}
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 2 or not all(names):
        raise OptionError(f"--columns takes two names or numbers with a comma between, such as en,fr; not {columns!r}.")
    return {"source_column": names[0], "target_column": names[1]}


def read_inputs(given: str) -> tuple[list[str], bool]:
    """The texts that an argument means, and whether they came from a file: ``-`` is the standard input."""
    if given == "-":
        return _standard_input(), True
    path = _existing(given)
    if path is not None and path.is_dir():
        raise FileError(f"{given} is a folder; give a text, a file of texts, or - for the standard input.")
    if path is not None:
        return [text.strip() for _, text in read_lines(path)], True
    if len(given.split()) == 1 and Path(given).suffix and not given.endswith("."):
        # A mistyped name would be answered like any text; say what is done with it.
        console(stderr=True).print(f"There is no file {given}; it is taken as a text.", markup=False)
    return [given], False


def _standard_input() -> list[str]:
    """Lines end at a line feed only, as in files; what is not UTF-8 is named by its line."""
    texts = []
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            texts.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise FileError(f"The standard input, line {number}: not UTF-8 text ({error.reason}).") from None
    return texts


def _existing(given: str) -> Path | None:
    try:
        return Path(given) if given and Path(given).exists() else None
    except (OSError, ValueError):  # a text too long or odd to be a name
        return None


def given_only(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line; the others stay as the model has them."""
    return {name: value for name, value in options.items() if value is not None}
