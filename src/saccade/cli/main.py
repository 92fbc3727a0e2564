"""Collects the commands, and turns errors into one sentence on stderr instead of a traceback."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

import saccade
from saccade.cli.data import data
from saccade.cli.demo import demo
from saccade.cli.evaluate import compare, evaluate, score
from saccade.cli.explain import explain
from saccade.cli.export import export
from saccade.cli.lab import lab
from saccade.cli.look import look
from saccade.cli.open import open_folder
from saccade.cli.options import Command
from saccade.cli.predict import predict
from saccade.cli.serve import serve_models
from saccade.cli.train import new, train
from saccade.cli.tune import tune
from saccade.cli.words import words
from saccade.errors import OptionError, SaccadeError

__all__ = ["app", "main"]

START = """\
Saccade trains attention models and shows what they attend to. Start here:

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
for command in (demo, new, train, tune, predict, look, words, evaluate, score, compare, export, explain, data):
    app.command(cls=Command)(command)
app.command("serve", cls=Command)(serve_models)
app.command("open", cls=Command)(open_folder)
app.add_typer(lab, name="lab")


#: The commands that several processes, started by torchrun, can do together.
SHARED_COMMANDS = ("train", "predict", "evaluate")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error that Saccade raises on purpose becomes one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show √ shows ? instead
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, so that training saves before it stops
    if _one_of_several():
        _join_torchrun()
    try:
        app(args=arguments, prog_name="saccade")
    except SaccadeError as error:
        _refuse(str(error))
    except OSError as error:  # such as a file name that is too long; the system explains it
        _refuse(f"{error.filename or 'The system'}: {error.strerror or error}.")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if isinstance(error, MemoryError | RuntimeError) and _out_of_memory(error):
            _refuse("There is not enough memory; use a smaller model, smaller batches or a shorter text.")
        if not _one_of_several():
            raise
        _fail_together(error)


def _one_of_several() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _join_torchrun() -> None:
    """Prepare to be one of several processes: only the first one prints, and torchrun may end any of them silently."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # report a lost connection without a C++ stack trace
    if os.environ["RANK"] != "0":
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif _restarts_may_fail(os.environ):
        print(
            "Note: torchrun may restart the processes if one fails. In PyTorch 2.13, such a restart often fails unless "
            "the environment variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE was set to 1 before torchrun was started.",
            file=sys.stderr,
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(130))


def _restarts_may_fail(environment: Mapping[str, str]) -> bool:
    """Whether torchrun will restart failed processes, but let the new ones use the key-value store of the old ones."""
    is_first = environment.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    restarts = environment.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    return is_first and restarts and environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _refuse(sentence: str) -> None:
    line = f"saccade: {' '.join(sentence.split())}"
    if not _one_of_several():
        print(line, file=sys.stderr)
        sys.exit(2)
    from saccade.training.distributed import this_process

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends it as soon as one process has ended
    if this_process().may_speak():
        print(line, file=sys.__stderr__, flush=True)
    os._exit(2)  # at once: an orderly end would wait for the other processes


def _fail_together(error: Exception) -> None:
    """End this process, and thereby the others, with one sentence; torchrun's report contains the traceback."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # to say why before torchrun ends this process
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    from saccade.training.distributed import Torchrun, this_process

    processes = this_process()
    assert isinstance(processes, Torchrun)
    lost = processes.explain(error)
    if lost is None:
        get_error_handler().record_exception(error)
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}, line {where.lineno}"
    _refuse(str(lost) if lost else f"Process {processes.rank} failed: {type(error).__name__}: {error} ({place}).")


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
    """Train attention models, run them, and see what they attend to.

    Example: saccade demo
    """
    if _one_of_several() and context.invoked_subcommand not in SHARED_COMMANDS:
        raise OptionError(f"Only these commands can be started by torchrun: {', '.join(SHARED_COMMANDS)}.")
    if context.invoked_subcommand is None:
        print(START, end="")
