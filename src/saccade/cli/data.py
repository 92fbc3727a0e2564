"""``saccade data``: public data sets, where they come from, and taking them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from saccade.cli.options import console
from saccade.data import CATALOGUE, fetch, take
from saccade.errors import OptionError

__all__ = ["data"]


def data(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A data set; none lists them.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Take the files from this folder instead.", show_default=False)
    ] = None,
    to: Annotated[Path, typer.Option(help="Where the data goes.")] = Path("data"),
) -> None:
    """List public data sets, fetch and verify one, or take its files from a folder.

    \b
    Examples:
      saccade data
      saccade data multi30k --to data
      saccade data multi30k --from downloads --to data
    """
    if name is None:
        if source is not None:
            raise OptionError("--from needs the name of a data set; saccade data lists them.")
        _list()
        return
    if source is not None:
        folder = take(name, source, to)
    else:
        with Progress(console=console(stderr=True), transient=True) as bar:
            row = bar.add_task(name, total=None)

            def show(file: str, done: int, total: int | None) -> None:
                bar.update(row, description=file, completed=done, total=total)

            folder = fetch(name, to, progress=show)
    console().print(f"{folder}: all files are there and verified.", markup=False)


def _list() -> None:
    table = Table(box=None, pad_edge=False)
    for header in ("name", "what", "MB", "terms", "source"):
        table.add_column(header, overflow="fold")
    for name, entry in CATALOGUE.items():
        table.add_row(name, entry.what, f"{entry.size / 1e6:.1f}", entry.terms, entry.source)
    console().print(table)
    console().print("Set SACCADE_DATA to the folder that holds them; recipes read from there.")
