"""``saccade evaluate``, ``score`` and ``compare``: measure how good a model is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import saccade
from saccade.cli.options import (
    Columns,
    Device,
    Encoding,
    Engine,
    Model,
    Precision,
    Separator,
    Source,
    Table,
    Target,
    Workers,
    examples_of,
    given_only,
    note_engine,
    refuse_unknown,
    resolve_device,
    several_or_one,
)

__all__ = ["compare", "evaluate", "score"]

Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore the difference between upper and lower case.")]
Beam = Annotated[int | None, typer.Option(help="Number of hypotheses kept at each step; 1 is greedy search.")]
GoldAlignments = Annotated[
    Path | None,
    typer.Option(
        help="File of correct word alignments, one line per pair of texts, such as 0-0 1-2; 1p2 is a possible link.",
        show_default=False,
    ),
]
Pictures = Annotated[Path | None, typer.Option(help="Write pictures, such as a confusion matrix, to this folder.")]
ScoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Folder for the scores; run the same command again to continue an evaluation that was stopped.",
        show_default=False,
    ),
]


def evaluate(
    model: Model,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    encoding: Encoding = None,
    separator: Separator = None,
    lowercase: Lowercase = False,
    beam: Beam = None,
    alignments: GoldAlignments = None,
    pictures: Pictures = None,
    output: ScoreFolder = None,
    precision: Precision = "fp32",
    engine: Engine = "auto",
    workers: Workers = 1,
    device: Device = "auto",
) -> None:
    """Score a model on data that it has not seen.

    Translations are scored by BLEU and chrF (computed by sacrebleu, whose signatures are printed), other tasks by the
    scores that suit them. With --alignments, also print the precision, recall and error rate of the links between words
    that the model's attention gives for the source texts and their reference translations.

    \b
    Examples:
      saccade evaluate run --source test.en --target test.fr
      saccade evaluate run --data test.conllu --pictures scores
      torchrun --nproc-per-node 2 -m saccade evaluate run --data large.conllu -o scores
    """
    from saccade.cli.jobs import scoring_job
    from saccade.cli.scoring import evaluate_model

    processes, device = several_or_one(resolve_device(device))
    opened = saccade.open(model, device, precision, workers, engine)
    options = given_only(beam=beam, lowercase=lowercase or None, alignments=alignments)
    refuse_unknown(options, opened, ("beam", "lowercase", "alignments"), scoring=True)
    examples = examples_of(model, source, target, data, columns, encoding, separator)
    note_engine(opened)
    parts = None
    if output is not None:
        given = [file for file in (source, target, *(data or ()), alignments) if file is not None]
        details = {
            "columns": columns,
            "encoding": encoding,
            "separator": separator,
            "beam": beam,
            "lowercase": lowercase,
            "precision": precision,
            "engine": engine,
        }
        parts = scoring_job(model, given, details, output, processes)
    evaluate_model(opened, examples, options, pictures, processes, parts)


def score(
    model: Model,
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    encoding: Encoding = None,
    separator: Separator = None,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each given translation.

    The perplexity of all translations together is printed on stderr.

    \b
    Example:
      saccade score run --source test.en --target test.fr
    """
    from saccade.cli.scoring import open_translator, score_pairs

    opened = open_translator(model, device)
    score_pairs(opened, examples_of(model, source, target, data, columns, encoding, separator))


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model folder.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another model folder.")],
    source: Source = None,
    target: Target = None,
    data: Table = None,
    columns: Columns = None,
    encoding: Encoding = None,
    separator: Separator = None,
    lowercase: Lowercase = False,
    beam: Beam = None,
    device: Device = "auto",
) -> None:
    """Compare two translation models on the same texts.

    Print the scores of both, and how likely a difference this large is by chance: a paired bootstrap test (Koehn 2004).

    \b
    Example:
      saccade compare run-a run-b --source test.en --target test.fr
    """
    from saccade.cli.scoring import compare_models, open_translator

    opened = {name: open_translator(name, device) for name in (first, second)}
    compare_models(
        first, second, opened, examples_of(first, source, target, data, columns, encoding, separator), lowercase, beam
    )
