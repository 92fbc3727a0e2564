"""``saccade evaluate``, ``score`` and ``compare``: how good a model is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import saccade
from saccade.cli.options import (
    Columns,
    Device,
    Model,
    Precision,
    Source,
    Table,
    Target,
    Workers,
    examples_of,
    resolve_device,
)

__all__ = ["compare", "evaluate", "score"]

Lowercase = Annotated[bool, typer.Option("--lowercase", help="Compare lower-cased texts.")]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy.")]


def evaluate(
    model: Model,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    lowercase: Lowercase = False,
    beam: Beam = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Gold links, a line a pair, as 0-0 1-2 or 1p2.", show_default=False)
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Write the pictures, such as a confusion matrix, into this folder.")
    ] = None,
    precision: Precision = "fp32",
    workers: Workers = 1,
    device: Device = "auto",
) -> None:
    """Score a model on data that it has not seen: translations by BLEU and chrF (sacrebleu, with their signatures),
    other tasks by their own scores.

    With --alignments also the precision, recall and error rate of a translation's alignment of the references.

    \b
    Examples:
      saccade evaluate run --source test.en --target test.fr
      saccade evaluate run --data test.conllu --pictures scores
    """
    from saccade.cli.evaluating import evaluate_model

    opened = saccade.open(model, resolve_device(device), precision, workers)
    examples = examples_of(model, source, target, data, columns)
    evaluate_model(opened, examples, model, lowercase, beam, alignments, pictures)


def score(
    model: Model,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each given translation, and their perplexity.

    \b
    Example:
      saccade score run --source test.en --target test.fr
    """
    from saccade.cli.evaluating import score_pairs

    score_pairs(model, examples_of(model, source, target, data, columns), device)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model folder.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    lowercase: Lowercase = False,
    beam: Beam = None,
    device: Device = "auto",
) -> None:
    """Compare two models on the same texts, by paired bootstrap resampling (Koehn 2004).

    \b
    Example:
      saccade compare run-a run-b --source test.en --target test.fr
    """
    from saccade.cli.evaluating import compare_models

    compare_models(first, second, examples_of(first, source, target, data, columns), lowercase, beam, device)
