"""Collects the commands, and turns errors into one sentence on stderr instead of a traceback."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

import saccade
from saccade.cli.data import data
from saccade.cli.demo import demo
from saccade.cli.evaluate import compare, evaluate, score
from saccade.cli.explain import explain
from saccade.cli.lab import lab
from saccade.cli.look import look
from saccade.cli.open import open_folder
from saccade.cli.predict import predict
from saccade.cli.serve import serve_models
from saccade.cli.train import new, train
from saccade.cli.tune import tune
from saccade.cli.words import words
from saccade.errors import SaccadeError

__all__ = ["app", "main"]

START = """\
Saccade: attention models that you can see through. Start here:

  saccade demo                          train a translator, and look inside it
  saccade look runs/demo "The black cat ate the mouse."
                                        see where each word came from
  saccade explain                       self-attention, number by number
  saccade serve                         all of this in the browser

With your own files, one sentence per line:

  saccade new a.en a.fr -o recipe.toml  write a commented recipe for them
  saccade train recipe.toml -o run      train; after Ctrl-C, rerun to resume
  saccade predict run "A sentence."     use the model

saccade --help lists the commands, saccade COMMAND --help their options.
"""

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
for command in (demo, new, train, tune, predict, look, words, evaluate, score, compare, explain, data):
    app.command()(command)
app.command("serve")(serve_models)
app.command("open")(open_folder)
app.add_typer(lab, name="lab")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error that Saccade raises on purpose becomes one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show √ shows ? instead
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, so that training saves before it stops
    try:
        app(args=arguments, prog_name="saccade")
    except SaccadeError as error:
        _refuse(str(error))
    except OSError as error:  # such as a file name that is too long; the system explains it
        _refuse(f"{error.filename or 'The system'}: {error.strerror or error}.")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        _refuse("There is not enough memory; use a smaller model, smaller batches or a shorter text.")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


def _refuse(sentence: str) -> None:
    print(f"saccade: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)


def _out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; PyTorch has an exception for this only on GPUs, so on the CPU the message decides."""
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {saccade.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Attention models that you can see through.

    Example: saccade demo
    """
    if context.invoked_subcommand is None:
        print(START, end="")
