"""Options and helpers that several commands share."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from saccade.errors import OptionError, UnknownNameError, counted, describe_invalid

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.tasks.base.answer import Answer
    from saccade.tasks.base.data import DataReader
    from saccade.tasks.base.predictor import Predictor
    from saccade.training.distributed import Processes

__all__ = [
    "Columns",
    "Command",
    "Device",
    "Encoding",
    "Engine",
    "Model",
    "OwnOptions",
    "Precision",
    "Separator",
    "Source",
    "Table",
    "Target",
    "Workers",
    "add_own",
    "console",
    "data_table",
    "examples_of",
    "given_only",
    "note_engine",
    "note_surprises",
    "progress",
    "read_inputs",
    "refuse_unknown",
    "resolve_device",
    "several_or_one",
]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a model or of a training run.")]
Device = Annotated[str, typer.Option(help="Device to run on: auto, cpu, cuda or mps.")]
Precision = Annotated[str, typer.Option(help="Precision of matrix products: fp32, bf16 or int8 (by CTranslate2).")]
Engine = Annotated[
    str,
    typer.Option(
        help="Library that runs the model: torch, ctranslate2, onnx, transformers, or auto (torch; ctranslate2 for "
        "int8, and if predict reads a large file; transformers for models that Saccade's own networks cannot "
        "represent). onnx runs Transformers that classify texts, compare sentences or label words."
    ),
]
Workers = Annotated[int, typer.Option(help="Number of CPU processes among which inputs are divided.", min=1, max=256)]
Source = Annotated[Path | None, typer.Option(help="File of source texts, one per line.", show_default=False)]
Target = Annotated[
    Path | None, typer.Option(help="File of the translations of the source texts, one per line.", show_default=False)
]
Table = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        help="A data file in another format that the task reads, such as a table of pairs.",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of the table, by name or by number from 0, such as en,fr.", show_default=False),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of files that are not UTF-8, such as latin-1.", show_default=False),
]


def _one_mark(given: str | None) -> str | None:
    """Check that the separator of cells is a single character; a shell passes a tab as ``\\t``."""
    if given is not None and len(given := given.replace("\\t", "\t")) != 1:
        raise typer.BadParameter(f"{given!r} is not a single character, such as ; or \\t for a tab")
    return given


Separator = Annotated[
    str | None,
    typer.Option(
        help="What separates the cells of a .csv file, such as ';' or '\\t'; detected by default.",
        show_default=False,
        callback=_one_mark,
    ),
]
OwnOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set an option that only this kind of model has, as NAME=VALUE. Repeatable.",
        show_default=False,
    ),
]
#: The maximum number of unknown words, or of empty answers, that a note lists.
MAX_LISTED = 5
DEVICES = ("auto", "cpu", "cuda", "mps")


class Command(TyperCommand):
    """A command that explains in one sentence why a value is invalid, instead of showing pydantic's message."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().make_context(*arguments, **named)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                error.message = describe_invalid(error.__cause__.errors()[0], "it")
            raise


def console(*, stderr: bool = False) -> Console:
    """A console that prints plain text, without wrapping lines in files and pipes."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=not sys.stdout.isatty())


def resolve_device(name: str) -> str:
    """Return the name of the device to use; ``auto`` stands for cuda, mps or cpu, the first that is available."""
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name not in DEVICES:
        raise UnknownNameError("device", name, DEVICES)
    if name == "auto":
        return "cuda" if available["cuda"] else "mps" if available["mps"] else "cpu"
    if not available[name]:
        raise OptionError(f"This machine has no {name} device; use --device auto.")
    return name


def several_or_one(device: str) -> tuple[Processes, str]:
    """Return the processes that share the work (several if torchrun started them), and the device of this process."""
    from saccade.training.distributed import DistributedSettings, this_process

    processes = this_process()
    return processes, processes.begin(DistributedSettings(), device)


@contextmanager
def progress(what: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr that disappears when the work is done; shown only in a terminal."""
    from rich.progress import Progress

    bar_console = console(stderr=True)
    with Progress(console=bar_console, transient=True, disable=not (shown and bar_console.is_terminal)) as bar:
        row = bar.add_task(what, total=total)
        yield lambda done: bar.update(row, completed=done)


def data_table(
    reader: type[DataReader[Any]],
    sources: Sequence[Path],
    targets: Sequence[Path],
    data: Sequence[Path],
    columns: str | None,
) -> dict[str, Any]:
    """Return the ``[data]`` table of a recipe, from --source and --target or from --data and --columns."""
    if data and not sources and not targets:
        return reader.table(data, columns)
    if sources and targets and len(sources) != len(targets):
        raise OptionError(
            f"Each --source needs a --target; {len(sources)} --source and {len(targets)} --target were given."
        )
    if sources and targets and not data and "source" in reader.settings.model_fields:
        return reader.table([file for pair in zip(sources, targets, strict=True) for file in pair], columns)
    if "source" in reader.settings.model_fields:
        raise OptionError("Give --source and --target, or --data with one table of source and target texts.")
    raise OptionError("Give the file with --data; --source and --target do not apply to this task.")


def examples_of(
    model: str,
    source: Path | None,
    target: Path | None,
    data: list[Path] | None,
    columns: str | None,
    encoding: str | None,
    separator: str | None = None,
) -> list[Any]:
    """Return the examples in these files, read like the training data of the model, but without leaving any out."""
    from saccade.data.lines import ChosenEncoding, InheritedEncoding
    from saccade.data.tables import ChosenSeparator
    from saccade.tasks.base.data import part_to_score
    from saccade.tasks.base.model_folder import bundle_recipe
    from saccade.tasks.registry import task_of_model

    recipe = bundle_recipe(Path(model), any_engine=True)
    reader = task_of_model(recipe["task"]).data
    as_trained = reader.as_trained(recipe)
    sources, targets = ([] if file is None else [file] for file in (source, target))
    part, given = part_to_score(data_table(reader, sources, targets, data or (), columns))
    if part and len(data or ()) > 1:
        raise OptionError(
            f"Give one file with --data, not {', '.join(map(str, data or ()))}: the examples of one file are scored."
        )
    files = [file for file in (source, target, *(data or ())) if file is not None]
    table = given | as_trained if columns is None else as_trained | given
    if encoding is not None:
        if "encoding" not in reader.settings.model_fields:
            raise OptionError("--encoding does not apply to this model, because its examples are not texts.")
        table["encoding"] = encoding
    if separator is not None:
        if "separator" not in reader.settings.model_fields:
            raise OptionError("--separator does not apply to this model, because it does not read .csv files.")
        table["separator"] = separator
    notes = [f"the {part} part, {', '.join(map(str, given.values()))}"] if part else []
    settings: Any = reader.settings.read(table, "")
    if table.get("encoding") is not None:
        kind = InheritedEncoding if encoding is None else ChosenEncoding
        settings = settings.model_copy(update={"encoding": kind(table["encoding"])})
    if separator is not None:
        settings = settings.model_copy(update={"separator": ChosenSeparator(separator)})
    examples = reader.read_for_scoring(settings, notes.append)
    names = " and ".join(map(str, files))
    said = f"Read {counted(len(examples), 'example')} from {names}{': ' if notes else ''}{'; '.join(notes)}."
    console(stderr=True).print(said, markup=False)
    return examples


def read_inputs(given: str, opened: Predictor) -> tuple[list[Any], bool]:
    """Return the inputs that an argument stands for: a text, a file, or ``-`` for standard input.

    Also return whether they were read from a file or from standard input.
    """
    path = None if given == "-" else _existing(given)
    if given == "-" or path is not None:
        inputs, said = opened.read_stream(sys.stdin.buffer) if path is None else opened.read_file(path)
        where = "standard input" if path is None else path
        console(stderr=True).print(f"Read {counted(len(inputs), 'input')} from {where}: {said}.", markup=False)
        return inputs, True
    if opened.reads_otherwise:
        raise OptionError(
            "--columns, --encoding, --lines and --separator say how to read a file, but there is no file "
            f"{given[:60]!r}."
        )
    parsed = opened.parse(given)
    if isinstance(parsed, str) and len(given.split()) == 1 and Path(given).suffix and not given.endswith("."):
        # Probably a mistyped file name, which would otherwise be answered like any text.
        console(stderr=True).print(f"There is no file {given}; treating it as text.", markup=False)
    return [parsed], False


def _existing(given: str) -> Path | None:
    try:
        return Path(given) if given and Path(given).exists() else None
    except (OSError, ValueError):  # the text is too long or too odd to be a file name
        return None


def given_only(**options: Any) -> dict[str, Any]:
    """Return only the options that the user gave; for the others, the model's own defaults apply."""
    return {name: value for name, value in options.items() if value is not None}


def refuse_unknown(
    options: dict[str, Any], opened: Predictor, offered: Collection[str], *, scoring: bool = False
) -> None:
    """Raise an error if an option does not apply to the model or has a wrong value. The error lists those options of
    the command (``offered``) that do apply.

    With ``scoring``, the options of the model's evaluation apply as well.
    """
    known = [*opened.options.model_fields, *(opened.scoring.model_fields if scoring else ())]
    for name in options:
        if name not in known:
            allowed = (
                ", ".join(f"--{key.replace('_', '-')}" for key in known if key in offered) or "none of these options"
            )
            raise OptionError(f"--{name.replace('_', '-')} does not apply to {opened.plural}, which take {allowed}.")
    try:
        opened.chosen({name: value for name, value in options.items() if name in opened.options.model_fields})
    except OptionError as error:  # in Python, the options have underscores
        said = str(error)
        for name in options:
            said = re.sub(rf"\b{name}\b", f"--{name.replace('_', '-')}", said)
        raise OptionError(said) from None


def add_own(options: dict[str, Any], given: Sequence[str], opened: Predictor) -> dict[str, Any]:
    """Return ``options`` with those of --set added (``NAME=VALUE``), which must be options of the model's task.

    A value that is not valid TOML is taken as text.
    """
    found = dict(options)
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            names = ", ".join(opened.options.model_fields) or "none"
            raise OptionError(f"--set takes NAME=VALUE, not {text!r}; the options of this model are: {names}.")
        if name not in opened.options.model_fields:
            raise UnknownNameError("option", name, opened.options.model_fields, "This model has")
        if name in found:
            raise OptionError(f"--set {text}: {name} is given twice.")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            found[name] = value
    try:
        opened.chosen(found)
    except OptionError as error:
        raise OptionError(f"--set: {error}") from None
    return found


def note_engine(opened: Predictor) -> None:
    """Say on stderr which library computes the answers, unless it is torch."""
    if opened.engine_name != "torch":
        said = f"Note: computed by {opened.engine_name}{': ' if opened.bundle.reason else '.'}{opened.bundle.reason}"
        console(stderr=True).print(said, markup=False)


def note_surprises(opened: Predictor, inputs: Sequence[Any], answers: Sequence[Answer]) -> None:
    """Print notes on stderr about unknown words in the inputs and about empty answers."""
    found = [words for words in map(opened.unknown, inputs) if words]
    if found:
        names = list(dict.fromkeys(word for words in found for word in words))
        said = ", ".join(repr(name[:40]) for name in names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")
        many = (
            f"{len(found):,} of {len(inputs):,} texts {'contains' if len(found) == 1 else 'contain'}"
            if len(inputs) > 1
            else "the text contains"
        )
        note = f"Note: {many} words or characters that the model does not know: {said}. The answers may be wrong."
        console(stderr=True).print(note, markup=False)
    pairs = enumerate(zip(inputs, answers, strict=False), start=1)
    empty = [str(number) for number, (one, answer) in pairs if not answer.text and isinstance(one, str) and one.strip()]
    if (
        len(inputs) == len(answers) == 1
        and not answers[0].text
        and isinstance(inputs[0], str)
        and not inputs[0].strip()
    ):
        console(stderr=True).print("Note: the text is empty, so the answer is too.", markup=False)
    elif len(inputs) == 1 and empty:
        console(stderr=True).print("Note: the answer is empty.", markup=False)
    elif empty:
        numbers = ", ".join(empty[:MAX_LISTED]) + (", ..." if len(empty) > MAX_LISTED else "")
        said = f"{len(empty):,} of {len(inputs):,} answers {'is' if len(empty) == 1 else 'are'} empty"
        console(stderr=True).print(f"Note: {said} ({'text' if len(empty) == 1 else 'texts'} {numbers}).", markup=False)
