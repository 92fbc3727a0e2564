"""``saccade lab``: test the claims of the lectures by experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Command
from saccade.errors import OptionError

__all__ = ["lab"]

HELP = """Test the claims of the lectures by experiments, which may refute them.

\b
Example:
  saccade lab run scaled-scores --quick
"""

lab = typer.Typer(help=HELP, rich_markup_mode=None)

Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results, as JSON and pictures.")]
Seeds = Annotated[
    int, typer.Option(min=1, max=100, help="Number of random seeds; a useful confidence interval needs at least 3.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Run for a small fraction of the time, for a first impression.")]


@lab.command("list", cls=Command)
def list_experiments() -> None:
    """List the experiments, with their claims and what would refute them.

    \b
    Example:
      saccade lab list
    """
    from saccade.lab import EXPERIMENTS, experiment_named

    for name in EXPERIMENTS:
        one = experiment_named(name)
        print(f"{name} (lecture {one.lecture})\n  {one.claim}\n  {one.refuted_if}")


@lab.command(cls=Command)
def run(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Names of experiments; saccade lab list shows them.")
    ],
    output: Folder = Path("lab"),
    seeds: Seeds = 3,
    quick: Quick = False,
) -> None:
    """Run the named experiments; those that were stopped earlier are continued.

    \b
    Example:
      saccade lab run scaled-scores leaking-mask
    """
    from saccade.lab import experiment_named, run_experiment

    chosen = [experiment_named(name) for name in names]
    if output.exists() and not output.is_dir():
        raise OptionError(f"{output} is a file; give a folder for the results.")
    for one in chosen:
        with typer.progressbar(length=seeds, label=one.name) as bar:
            results = run_experiment(one, output, seeds=seeds, quick=quick, progress=lambda: bar.update(1))
        print(f"{one.claim}\n  {results.sentence()}.", flush=True)


@lab.command("all", cls=Command)
def run_all(output: Folder = Path("lab"), seeds: Seeds = 3, quick: Quick = False) -> None:
    """Run all experiments; those that were stopped earlier are continued.

    \b
    Example:
      saccade lab all --quick
    """
    from saccade.lab import EXPERIMENTS

    run(list(EXPERIMENTS), output, seeds, quick)
