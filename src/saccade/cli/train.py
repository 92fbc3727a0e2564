"""``saccade new`` and ``saccade train``: from a person's files to a recipe, and from a recipe to a model."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Columns, Device, Source, Table, Target, console, data_table, resolve_device
from saccade.errors import FileError, OptionError
from saccade.tasks.registry import DEFAULT_TASK, TASKS, task_named

if TYPE_CHECKING:
    from saccade.training.recipe import Recipe

__all__ = ["new", "run_session", "train"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder of the run.", show_default=False)]
TaskName = Annotated[str, typer.Option(help=f"What to learn, unless a recipe says so: {', '.join(TASKS)}.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override a key of the recipe, such as training.lr=3e-4. Repeatable.", show_default=False
    ),
]


def train(
    recipe: Annotated[
        Path | None, typer.Argument(metavar="RECIPE", help="A recipe (TOML file).", show_default=False)
    ] = None,
    task: TaskName = DEFAULT_TASK,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    output: Output = None,
    override: Set = None,
    init: Annotated[
        Path | None, typer.Option(help="Start from the weights of this model folder.", show_default=False)
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
      saccade train --task tagging --data train.conllu -o run
    """
    from saccade.training.recipe import read_recipe

    if recipe is not None:
        if source is not None or target is not None or data:
            raise OptionError(f"{recipe} already names its data; leave out --source, --target and --data.")
        chosen = read_recipe(recipe, override or ())
        folder = output or Path("runs") / recipe.stem
    else:
        if output is None:
            raise OptionError("Give the folder of the run with -o; it is created if necessary.")
        table = data_table(task_named(task).data, source, target, data, columns)
        chosen, folder = _recipe_of(task, table, output, override or (), init), output
        _say_parts(chosen)
    run_session(chosen, folder, resolve_device(device), init)


def _say_parts(recipe: Recipe) -> None:
    """What each file is for, where several were given: that the second is the test is our choice."""
    data = recipe.settings["data"].model_dump(exclude_none=True)
    validation, test = (
        " and ".join(str(value) for key, value in data.items() if key.startswith(prefix))
        for prefix in ("validation_", "test_")
    )
    if validation or test:
        share = f"{100 * data.get('validation', 0):g} % of the training data"
        console().print(
            f"Validation, which decides which model is best: {validation or share}. "
            f"Test, scored once at the end: {test or 'none'}.",
            markup=False,
        )


def _recipe_of(task: str, table: dict[str, Any], folder: Path, overrides: Sequence[str], init: Path | None) -> Recipe:
    """The recipe of files: fitted to them once, then the one that their run keeps, so that it can go on.

    One that goes on from a model has its network and its tokens.
    """
    from saccade.tasks.base.model_folder import bundle_recipe
    from saccade.training.fitting import recommended_tables
    from saccade.training.recipe import read_recipe, read_tables

    where = "the command line"
    of_data = [override for override in overrides if override.startswith("data.")]
    given = (
        read_tables({"task": task, "data": table}, where, of_data).settings["data"].model_dump(exclude_defaults=True)
    )
    kept = folder / "recipe.toml"
    if not kept.exists():
        tables = recommended_tables(task, given)
        if init is not None:
            tables |= _tables_of(task, bundle_recipe(init))
        kinds = {text.partition("=")[2].strip(" \"'") for text in overrides if text.startswith("model.kind=")}
        if kinds - {tables["model"].get("kind")}:
            tables["model"] = {}  # the sizes that were fitted are of another kind of network
        return read_tables(tables, where, overrides)
    tables = read_recipe(kept).tables()
    if tables["task"] != task:
        raise OptionError(f"{folder} holds a run of {tables['task']}; give another folder with -o.")
    # what differs from it, data or settings, is named when the run is opened
    return read_tables({**tables, "task": task, "data": given}, where, overrides)


def _tables_of(task: str, theirs: dict[str, Any]) -> dict[str, Any]:
    """What a run that goes on from a model has of its recipe; of another task's, only what both know."""
    shared: dict[str, Any] = {name: theirs[name] for name in ("text", "model") if name in theirs}
    if theirs.get("task") == task:
        return shared
    entry = task_named(task).task
    network = entry.networks.get(shared["model"]["kind"])
    if network is None:
        raise OptionError(f"Cannot initialise {task} from a {shared['model']['kind']} model.")
    fields: dict[str, set[str]] = {"model": {"kind", *network.config.model_fields}}
    if "text" in entry.tables:
        fields["text"] = set(entry.tables["text"].model_fields)
    kept = {
        name: {key: value for key, value in shared.get(name, {}).items() if key in known}
        for name, known in fields.items()
    }
    kept["model"] |= entry.init_defaults
    return kept


def run_session(recipe: Recipe, folder: Path, device: str, init: Path | None = None) -> dict[str, Any]:
    """Train in a folder with everything shown; a stop on request says how to go on."""
    from saccade.training.display import Display
    from saccade.training.interrupt import STOPPED_CODE, Stopped
    from saccade.training.run import train
    from saccade.training.run_folder import RunFolder

    shown = console()
    with Display(shown, recipe.training.steps) as display:
        run = RunFolder(recipe, folder, init)
        if run.finished:
            display.say(f"{folder} is trained already; the model is in {folder / 'model'}.")
            return run.result()
        try:
            result = train(run, display, device)
        except Stopped:
            display.stopped()
            raise typer.Exit(STOPPED_CODE) from None
        display.result(result["part"], result["scores"], [f"The model is in {folder / 'model'}."])
    return result


def new(
    files: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="Two files of parallel lines, or whatever the task reads.")
    ],
    columns: Columns = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Recipe file to write.")] = Path("recipe.toml"),
    task: TaskName = DEFAULT_TASK,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing recipe.")] = False,
) -> None:
    """Write a recipe for your data, with sizes chosen by how many examples there are, and say how long it takes here.

    \b
    Examples:
      saccade new a.en a.fr -o recipe.toml
      saccade new pairs.csv --columns english,french
      saccade new reviews.csv --task classification --columns text,label
    """
    from saccade.training.fitting import estimated_duration, recommended_tables
    from saccade.training.recipe import read_tables
    from saccade.training.recipe_text import commented

    if output.exists() and not force:
        raise FileError(f"{output} is there already; choose another name with -o, or pass --force.")
    recipe = read_tables(recommended_tables(task, task_named(task).data.table(files, columns)), "the data")
    _say_parts(recipe)
    minutes = estimated_duration(recipe, console().print, resolve_device("auto"))
    text = commented(
        recipe,
        [
            f"For {' and '.join(str(file) for file in files)}, with sizes chosen by the number of examples.",
            f"About {minutes} here.",
        ],
    )
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{output} cannot be written: {error.strerror}.") from None
    console().print(f"Wrote {output}: {recipe.training.steps:,} updates, about {minutes} here.")
    if minutes.endswith("hours"):
        console().print("That is long; fewer training.steps or a smaller model.width take less, and often do well.")
    console().print(f"Next: saccade train {shlex.quote(str(output))} -o run", markup=False)
