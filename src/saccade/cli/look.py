"""``saccade look``: where each word of an answer came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Device, Model, console, resolve_device
from saccade.errors import OptionError
from saccade.lens.heatmap_terminal import TerminalHeatmap
from saccade.lens.pictures import heatmap, save
from saccade.tasks.predictor import Answer, open_model

__all__ = ["look", "show"]


def look(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to translate.")],
    target: Annotated[
        str | None, typer.Option(help="Look at this translation instead of the model's own.", show_default=False)
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write the picture to this file.", show_default=False)] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the picture to this file.", show_default=False)] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Light ink on dark ground in the files.")] = False,
    device: Device = "auto",
) -> None:
    """Show what a model looked at: a row for each word of its answer, a column for each word of the text.

    \b
    Examples:
      saccade look runs/demo "The black cat ate the mouse."
      saccade look run "A sentence." --png look.png --svg look.svg
    """
    for option, path in (("--png", png), ("--svg", svg)):
        if path is not None and path.suffix.lower() != f".{option[2:]}":
            raise OptionError(f"{option} takes the name of a .{option[2:]} file; not {path}.")
    opened = open_model(model, resolve_device(device))
    answer = opened.given(text, target) if target is not None else opened.predict([text])[0]
    show(answer, [path for path in (png, svg) if path is not None], dark=dark)


def show(answer: Answer, files: list[Path], *, dark: bool = False) -> None:
    """The alignment of an answer in the terminal, and the same in files."""
    shown = console()
    attention = answer.attention
    shown.print(answer.text, markup=False)
    if attention.alignment is None:
        shown.print("This model attends to no source: all it knows of it is one vector.")
        return
    rows, columns = attention.words
    shown.print(TerminalHeatmap(attention.alignment.float(), rows, columns))
    for path in files:
        save(heatmap(attention.alignment.float(), rows, columns, dark=dark), path)
        shown.print(f"Wrote {path}.", markup=False)
