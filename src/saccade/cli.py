"""The command line. Each command is thin: it reads its options, calls the library and prints."""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from saccade.errors import OptionError, SaccadeError, UnknownNameError
from saccade.lens import EXAMPLES, Document, read_document
from saccade.lens.terminal import print_walkthrough

__all__ = ["app", "main"]

START = """\
Saccade: attention models that you can see through. Start here:

  saccade explain                        self-attention number by number
  saccade explain --example retrieval    queries, keys and values by hand
  saccade explain --mask causal --row 2  one query that sees no future
  saccade explain numbers.toml           your own numbers

saccade --help lists the commands, saccade COMMAND --help their options.
"""

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; whatever Saccade raises on purpose becomes one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without √ shows ?, not a traceback
    try:
        app(args=arguments, prog_name="saccade")
    except SaccadeError as error:
        print(f"saccade: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {importlib.metadata.version('saccade')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Attention models that you can see through.

    Example: saccade explain --mask causal
    """
    if context.invoked_subcommand is None:
        print(START, end="")


@app.command()
def explain(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Your own numbers, in JSON or TOML.", show_default=False)
    ] = None,
    example: Annotated[
        str | None, typer.Option(help=f"A worked example of the lectures: {', '.join(EXAMPLES)}.")
    ] = None,
    mask: Annotated[str | None, typer.Option(help="none, causal, or window:R.")] = None,
    score: Annotated[str | None, typer.Option(help="dot, scaled_dot or cosine.")] = None,
    weights: Annotated[str | None, typer.Option(help="softmax, relu, sparsemax or hard.")] = None,
    scale: Annotated[
        bool | None, typer.Option("--scale/--no-scale", help="Divide the dot product by √D, or not.")
    ] = None,
    row: Annotated[int | None, typer.Option(help="Show this query only, counted from 1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All steps as JSON.")] = False,
) -> None:
    """Walk through attention number by number, as the lectures do.

    From the inputs to queries, keys and values, their scores, the weights, and the weighted sum of the values.
    Without a file: the example "projection".

    \b
    Examples:
      saccade explain
      saccade explain --example retrieval --mask causal --row 2
      saccade explain numbers.toml --weights sparsemax --json
    """
    if row is not None and as_json:
        raise OptionError("--row chooses a table to print, --json gives all steps: use one of them.")
    options = {"mask": mask, "score": score, "weights": weights, "scale": scale}
    walk = _with_options(_document(file, example), options).walkthrough()
    if as_json:
        print(json.dumps(walk.to_dict(), ensure_ascii=False, allow_nan=False), flush=True)
    else:
        print_walkthrough(walk, Console(highlight=False), row)


def _document(file: Path | None, example: str | None) -> Document:
    if file is not None and example is not None:
        raise OptionError(f"Both the file {file} and the example {example!r} are given; choose one.")
    if file is not None:
        return read_document(file)
    name = "projection" if example is None else example
    if name not in EXAMPLES:
        raise UnknownNameError("example", name, EXAMPLES)
    return EXAMPLES[name]


def _with_options(document: Document, options: dict[str, Any]) -> Document:
    chosen = {name: value for name, value in options.items() if value is not None}
    if "score" in chosen:
        chosen.setdefault("scale", None)  # a score asked for by name is taken as it is
    return document.model_copy(update=chosen)


if __name__ == "__main__":
    main()
