"""``saccade data``: list public data sets, or download one and verify it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import console
from saccade.errors import OptionError, counted

__all__ = ["data"]


def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME|split", help="Name of a data set, or split; by default, list all data sets."),
    ] = None,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="Folder of a run, for saccade data split.", show_default=False)
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Copy the files from this folder instead of downloading them.", show_default=False),
    ] = None,
    to: Annotated[Path, typer.Option(help="Folder to write the data to.")] = Path("data"),
    checksums: Annotated[
        bool, typer.Option("--checksums", help="Also list the SHA-256 checksum of every file.")
    ] = False,
) -> None:
    """List public data sets, or download and verify one.

    With --from, the files are copied from a folder instead of downloaded. `saccade data split RUN` writes the examples
    that a run was trained, validated and tested on to files.

    \b
    Examples:
      saccade data
      saccade data multi30k --to data
      saccade data multi30k --from downloads --to data
      saccade data split run --to parts
    """
    if name == "split":
        _split(run, to)
        return
    if run is not None:
        raise OptionError(f"Only saccade data split takes the folder of a run; did you mean saccade data split {run}?")
    if name is None:
        if source is not None:
            raise OptionError("--from needs the name of a data set; saccade data lists them.")
        _list(checksums)
        return
    from rich.progress import Progress

    from saccade.data import fetch, take

    if source is not None:
        folder = take(name, source, to)
    else:
        shown = console(stderr=True)
        with Progress(console=shown, transient=True, disable=not shown.is_terminal) as bar:
            row = bar.add_task(name, total=None)

            def show(file: str, done: int, total: int | None) -> None:
                bar.update(row, description=file, completed=done, total=total)

            folder = fetch(name, to, progress=show)
    console().print(f"{folder}: all files are present and verified.", markup=False)


def _split(run: Path | None, to: Path) -> None:
    from saccade.training.run_folder import write_parts

    if run is None:
        raise OptionError("Give the folder of the run: saccade data split RUN --to FOLDER.")
    for part, (count, options) in write_parts(run, to).items():
        command = shlex.join(["saccade", "evaluate", str(run), *options])
        console().print(f"{part}: {counted(count, 'example')}; {command}", markup=False)


def _list(checksums: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from saccade.data import CATALOGUE

    if checksums:  # in the format of sha256sum
        for name, entry in CATALOGUE.items():
            for file in entry.files:
                print(f"{file.sha256}  {name}/{file.name}")
        return
    shown = console()
    for name, entry in CATALOGUE.items():
        how = "can be downloaded" if entry.fetchable else "must be copied with --from"
        shown.print(f"{name}: {entry.size / 1e6:.1f} MB, {counted(len(entry.files), 'file')}, {how}", markup=False)
        for line in (entry.what, f"from {entry.source}", f"terms: {entry.terms}"):
            shown.print(Padding(Text(line), (0, 0, 0, 4)), soft_wrap=False)
    shown.print("Recipes look for data sets in the folder named by $SACCADE_DATA.")
