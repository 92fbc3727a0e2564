"""``saccade new`` and ``saccade train``: from a person's files to a recipe, and from a recipe to a model."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Device, Source, Table, Target, console, resolve_device
from saccade.errors import FileError, OptionError
from saccade.tasks.translation import Translation
from saccade.training.display import Display
from saccade.training.fitting import fitted_tables, measured_minutes
from saccade.training.interrupt import Stopped
from saccade.training.recipe import Recipe, read_recipe, read_tables
from saccade.training.recipe_text import commented
from saccade.training.session import Session

__all__ = ["new", "run_session", "train"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="The folder of the run.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key of the recipe: --set training.lr=3e-4", show_default=False),
]


def train(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="A TOML file.", show_default=False)] = None,
    task: Annotated[str, typer.Option(help="Without a recipe: what to learn.")] = Translation.name,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    output: Output = None,
    override: Set = None,
    init: Annotated[
        Path | None, typer.Option(help="Go on from the weights of this model folder.", show_default=False)
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a model from a recipe, or straight from files.

    First the data is read and reported. Ctrl-C stops and saves; the same command goes on where it stopped, to the
    same result as if it had never been stopped.

    \b
    Examples:
      saccade train recipe.toml -o run
      saccade train --source a.en --target a.fr -o run
      saccade train --data pairs.tsv -o run --set training.steps=5000
    """
    if recipe is not None:
        chosen = read_recipe(recipe, override or ())
        folder = output or Path("runs") / recipe.stem
    else:
        if output is None:
            raise OptionError("Give the folder of the run with -o; it is made if it is not there.")
        tables = _tables_of_run(output) or fitted_tables(task, _data_table(source, target, data))
        chosen, folder = read_tables(tables, "the command line", override or ()), output
    run_session(chosen, folder, resolve_device(device), init)


def run_session(recipe: Recipe, folder: Path, device: str, init: Path | None = None) -> dict[str, Any]:
    """Train in a folder with everything shown; a stop on request says how to go on."""
    shown = console()
    with Display(shown, recipe.training.steps) as display:
        session = Session(recipe, folder, display, device=device, init=init)
        if session.finished:
            display.say(f"{folder} is trained already; the model is in {folder / 'model'}.")
            return session.result()
        try:
            result = session.run()
        except Stopped:
            display.say(f"Stopped and saved. Go on with the same command: {shlex.join(['saccade', *sys.argv[1:]])}")
            raise typer.Exit(130) from None
        display.result(result["part"], result["scores"], [f"The model is in {folder / 'model'}."])
    return result


def new(
    files: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="Two files of parallel lines, or one .tsv, .csv or .jsonl.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The recipe to write.")] = Path("recipe.toml"),
    task: Annotated[str, typer.Option(help="What to learn.")] = Translation.name,
    force: Annotated[bool, typer.Option("--force", help="Replace a recipe that is there.")] = False,
) -> None:
    """Write a recipe fitted to your data: model, vocabulary, batch, and how long it will take here.

    \b
    Example:
      saccade new a.en a.fr -o recipe.toml
    """
    if output.exists() and not force:
        raise FileError(f"{output} is there already; choose another name with -o, or pass --force.")
    if len(files) > 2:
        raise OptionError(f"Give one table or two parallel files; {len(files)} were given.")
    table = {"table": str(files[0])} if len(files) == 1 else {"source": str(files[0]), "target": str(files[1])}
    recipe = read_tables(fitted_tables(task, table), "the data")
    minutes = measured_minutes(recipe, console().print)
    text = commented(recipe, [f"Fitted to {' and '.join(str(file) for file in files)}.", f"About {minutes} here."])
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{output} cannot be written: {error.strerror}.") from None
    console().print(f"Wrote {output}: {recipe.training.steps:,} updates, about {minutes} here.")
    console().print(f"Next: saccade train {shlex.quote(str(output))} -o run", markup=False)


def _data_table(source: Path | None, target: Path | None, table: Path | None) -> dict[str, str]:
    if table is not None and source is None and target is None:
        return {"table": str(table)}
    if table is None and source is not None and target is not None:
        return {"source": str(source), "target": str(target)}
    raise OptionError("Give a recipe, or --source and --target, or --data with one table of both.")


def _tables_of_run(folder: Path) -> dict[str, Any] | None:
    """The recipe of a run that is there: what was fitted once is not fitted again."""
    file = folder / "recipe.toml"
    return read_recipe(file).tables() if file.exists() else None
