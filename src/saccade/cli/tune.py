"""``saccade tune``: find better settings for a recipe."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Device, console, resolve_device

__all__ = ["tune"]


def tune(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe (TOML file).")],
    minutes: Annotated[
        float,
        typer.Option(help="Total time of the search in minutes, including earlier runs of the same command.", min=0.1),
    ] = 60.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the results of the search; runs/tune-RECIPE by default.",
            show_default=False,
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a setting of the recipe, such as training.lr=3e-4. Repeatable.", show_default=False
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Find better settings for a recipe: learning rate, warm-up, weight decay, dropout and label smoothing.

    Trials with bad scores are stopped early, so that more of the time goes to the better ones. To continue a search
    that was stopped, run the same command again.

    \b
    Example:
      saccade tune recipe.toml --minutes 60 -o search
    """
    from saccade.training.recipe import read_recipe
    from saccade.training.tuning import tune as search

    folder = output or Path("runs") / f"tune-{recipe.stem}"
    shown = console()

    def say(text: str) -> None:
        shown.print(text, markup=False)

    search(read_recipe(recipe, override or (), say), folder, minutes, resolve_device(device), say)
    shown.print(f"Wrote {folder / 'best.toml'}, trials.tsv and trials.png.", markup=False)
    shown.print(f"Next: saccade train {shlex.quote(str(folder / 'best.toml'))} -o run", markup=False)
