"""``saccade new`` and ``saccade train``: write a recipe for your files, and train a model from a recipe."""

from __future__ import annotations

import shlex
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Columns, Device, Table, console, data_table, resolve_device
from saccade.errors import FileError, OptionError, counted
from saccade.tasks.registry import DEFAULT_TASK, TASKS, task_named

if TYPE_CHECKING:
    from saccade.training.recipe import Recipe

__all__ = ["new", "run_session", "train"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the run.", show_default=False)]
TaskName = Annotated[str, typer.Option(help=f"Task of the model: {', '.join(TASKS)}.")]
Sources = Annotated[
    list[Path] | None,
    typer.Option(
        "--source",
        help="File of source texts, one per line. Give the option again for validation data, and again for test data.",
        show_default=False,
    ),
]
Targets = Annotated[
    list[Path] | None,
    typer.Option("--target", help="File of the translations of the source texts, one per line.", show_default=False),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        help="Measure how fast this machine is, and choose a network that can be trained well in this many minutes.",
        min=0.1,
        show_default=False,
    ),
]
SizeName = Annotated[
    str | None,
    typer.Option(
        "--size",
        help="Size of the network: tiny, small or medium; by default, chosen to suit the data.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a setting of the recipe, such as training.lr=3e-4. Repeatable.", show_default=False
    ),
]


def train(
    recipe: Annotated[
        Path | None, typer.Argument(metavar="RECIPE", help="A recipe (TOML file).", show_default=False)
    ] = None,
    task: TaskName = DEFAULT_TASK,
    source: Sources = None,
    target: Targets = None,
    data: Table = None,
    columns: Columns = None,
    output: Output = None,
    minutes: Minutes = None,
    size: SizeName = None,
    override: Set = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from the weights of this model, which may be a pretrained one.", show_default=False),
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a model from a recipe, or directly from data files.

    The data is read and summarised first. Ctrl-C saves the state of training and stops. If you run the same command
    again, training continues, and its result is the same as if it had never stopped.

    \b
    Examples:
      saccade train recipe.toml -o run
      saccade train --source a.en --target a.fr -o run --minutes 30
      saccade train --data pairs.tsv -o run --set training.steps=5000
      saccade train --task tagging --data train.conllu -o run
      torchrun --nproc-per-node 2 -m saccade train recipe.toml -o run
    """
    began = time.monotonic()
    from saccade.training.distributed import this_process
    from saccade.training.recipe import read_recipe, read_tables
    from saccade.training.recommendation import Request, recipe_for_run

    if recipe is not None:
        if source or target or data or columns is not None:
            raise OptionError(f"{recipe} already names its data; leave out --source, --target, --data and --columns.")
        if minutes is not None or size is not None:
            raise OptionError(f"{recipe} already sets all sizes; use --minutes and --size with saccade new instead.")
        chosen = read_recipe(recipe, override or (), _say, init)
        folder = output or Path("runs") / recipe.stem
    else:
        if not (source or target or data):
            raise OptionError("Give a recipe, or data files with --source and --target, or --data.")
        if output is None:
            raise OptionError("Give a folder for the run with -o; it is created if necessary.")
        table = data_table(task_named(task).data, source or (), target or (), data or (), columns)
        request = Request(task, table, tuple(override or ()), init, size, minutes, resolve_device(device), began=began)
        # What the first process measures decides for all.
        text = this_process().lead(lambda: recipe_for_run(request, output, _say).toml())
        chosen, folder = read_tables(tomllib.loads(text), "the recipe"), output
        _print_split(chosen)
    run_session(chosen, folder, resolve_device(device), init, began)


def _print_split(recipe: Recipe) -> None:
    """Say what each file is used for if there are several, because the order of the files decided it."""
    data = recipe.settings["data"].model_dump(exclude_none=True)
    validation, test = (
        " and ".join(str(value) for key, value in data.items() if key.startswith(prefix))
        for prefix in ("validation_", "test_")
    )
    if validation or test:
        share = f"{100 * data.get('validation', 0):g} % of the training data"
        _say(
            f"Validation data, by which the best model is chosen: {validation or share}. "
            f"Test data, scored once at the end: {test or 'none'}."
        )


def _say(text: str) -> None:
    console().print(text, markup=False)


def run_session(
    recipe: Recipe, folder: Path, device: str, init: Path | None = None, began: float | None = None
) -> dict[str, Any]:
    """Train in a folder and display progress; if the user stops the run, say how to continue. See ``training.run``."""
    from saccade.training.display import Display
    from saccade.training.distributed import this_process
    from saccade.training.interrupt import STOPPED_CODE, Stopped
    from saccade.training.run import train
    from saccade.training.run_folder import RunFolder

    processes = this_process()
    device = processes.begin(recipe.distributed, device)
    with Display(console(), recipe.training.steps) as display:
        run = processes.in_turn(lambda: RunFolder(recipe, folder, init))
        if run.finished:
            display.say(f"{folder} is already trained; the model is in {folder / 'model'}.")
            return run.result()
        try:
            result = train(run, display, device, began, processes)
        except Stopped:
            display.stopped(is_saved=bool(run.checkpoints.steps()))
            raise typer.Exit(STOPPED_CODE) from None
        display.result(_part(result), result["scores"], [f"The model is in {folder / 'model'}."])
    return result


def _part(result: dict[str, Any]) -> str:
    """The part on which the final scores were computed and, if texts were searched for more widely than during training
    (where the search is greedy), how."""
    return f"{result['part']} with a beam of {result['beam']}" if result.get("beam", 1) > 1 else str(result["part"])


def new(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Two files whose lines correspond, or other data that the task reads."),
    ],
    columns: Columns = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Recipe file to write.")] = Path("recipe.toml"),
    task: TaskName = DEFAULT_TASK,
    minutes: Minutes = None,
    size: SizeName = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing recipe.")] = False,
) -> None:
    """Write a recipe for your data.

    The size of the model depends on the number of examples or, with --minutes, on the time that you allow. The command
    also estimates how long training takes on this machine.

    \b
    Examples:
      saccade new a.en a.fr -o recipe.toml --minutes 30
      saccade new pairs.csv --columns english,french
      saccade new reviews.csv --task classification --columns text,label
    """
    from saccade.training.recipe_text import commented
    from saccade.training.recommendation import Request, duration, recommended_recipe

    if output.exists() and not force:
        raise FileError(f"{output} already exists; choose another name with -o, or use --force.")
    table = task_named(task).data.table(files, columns)
    request = Request(task, table, size=size, minutes=minutes, device=resolve_device("auto"))
    measured: list[str] = []

    def say(text: str) -> None:
        _say(text)
        if not text.endswith("..."):  # it says what was found, not what comes next
            measured.append(text.strip())

    recipe, splits = recommended_recipe(request, say)
    _print_split(recipe)
    if minutes is None:
        _say("Timing a few updates on this machine ...")
        takes = f"about {duration(recipe, splits, request.device)}"
    else:
        takes = f"at most {counted(minutes, 'minute')}"
    reason = (
        "the number of examples" if minutes is None else f"{counted(minutes, 'minute')} of training on this machine"
    )
    names = " and ".join(str(file) for file in files)
    heading = f"A recipe for {names}; the sizes of the model suit {reason}."
    text = commented(recipe, [heading, f"Training takes {takes} on the machine where this was written.", *measured])
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{output} cannot be written: {error.strerror}.") from None
    _say(f"Wrote {output}: {counted(recipe.training.steps, 'update')}, {takes} on this machine.")
    if takes.endswith("hours"):
        _say("For a shorter run, set a time limit with --minutes.")
    _say(f"Next: saccade train {shlex.quote(str(output))} -o run")
