"""The commands together, and what becomes of errors: one sentence on stderr, never a traceback."""

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
from saccade.cli.look import look
from saccade.cli.predict import predict
from saccade.cli.serve import serve_models
from saccade.cli.train import new, train
from saccade.cli.words import words
from saccade.errors import SaccadeError

__all__ = ["app", "main"]

START = """\
Saccade: attention models that you can see through. Start here:

  saccade demo                          learn to translate in a minute, and look
  saccade look runs/demo "The black cat ate the mouse."
                                        where each word came from
  saccade explain                       self-attention number by number
  saccade serve                         all of this in the browser

With your own files, one sentence per line:

  saccade new a.en a.fr -o recipe.toml  a recipe for them, every key commented
  saccade train recipe.toml -o run      Ctrl-C stops, the same command resumes
  saccade predict run "A sentence."     use it

saccade --help lists the commands, saccade COMMAND --help their options.
"""

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
for command in (demo, new, train, predict, look, words, evaluate, score, compare, explain, data):
    app.command()(command)
app.command("serve")(serve_models)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; whatever Saccade raises on purpose becomes one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without √ shows ?, not a traceback
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C; a training saves first
    try:
        app(args=arguments, prog_name="saccade")
    except SaccadeError as error:
        _refuse(str(error))
    except OSError as error:  # a name that is too long, a device that is gone: the system's own words
        _refuse(f"{error.filename or 'The system'}: {error.strerror or error}.")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        _refuse("There is not enough memory for this; make the model, the batches or the text smaller.")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


def _refuse(sentence: str) -> None:
    print(f"saccade: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)


def _out_of_memory(error: Exception) -> bool:
    """PyTorch has a class of its own for graphics cards only; on the CPU it says so in words."""
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
