"""``saccade predict``: answer inputs with a trained model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import saccade
from saccade.cli.options import (
    Device,
    Encoding,
    Engine,
    Model,
    OwnOptions,
    Precision,
    Separator,
    Workers,
    add_own,
    console,
    given_only,
    note_engine,
    note_surprises,
    progress,
    read_inputs,
    refuse_unknown,
    resolve_device,
    several_or_one,
)
from saccade.errors import OptionError

if TYPE_CHECKING:
    from saccade.tasks.base.answer import Answer
    from saccade.tasks.base.predictor import Predictor

__all__ = ["predict"]


Inputs = Annotated[
    str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of texts or images, or - for standard input.")
]
Beam = Annotated[int | None, typer.Option(help="Number of hypotheses kept in beam search; 1 is greedy search.")]
NBest = Annotated[int | None, typer.Option(help="Number of answers per input, at most the beam size.")]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="Rank answers by log-probability / length^penalty; 0 favours short answers."),
]
Sample = Annotated[
    bool | None,
    typer.Option("--sample/--no-sample", help="Sample answers at random instead of searching for the best."),
]
Tries = Annotated[int | None, typer.Option(help="Number of answers to sample per input.")]
Temperature = Annotated[
    float | None, typer.Option(help="Randomness: below 1, answers are more predictable; above 1, more varied.")
]
TopK = Annotated[int | None, typer.Option(help="Sample only from the k most likely tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Sample only from the most likely tokens that together have this probability.")
]
Seed = Annotated[int | None, typer.Option(help="Random seed for sampling.")]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum length of a generated continuation, in tokens.")]
Stop = Annotated[
    list[str] | None,
    typer.Option(help="End a continuation when the model writes this text, which is left out. Repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the answers, for models that have others besides text and JSON; a wrong name lists them.",
        show_default=False,
    ),
]
Alignments = Annotated[
    bool,
    typer.Option("--alignments", help="Add the word alignment, as pairs of source and target positions (0-0 1-2)."),
]
AnswerFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Folder for the answers to a file; run the same command again to continue a job that was stopped.",
        show_default=False,
    ),
]


InputColumns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Columns of the file, if they differ from the training file; write - for a column that is missing.",
        show_default=False,
    ),
]
Lines = Annotated[
    bool, typer.Option("--lines", help="Read each line of the file as one text, even if the file looks like a table.")
]


def predict(
    model: Model,
    given: Inputs,
    columns: InputColumns = None,
    lines: Lines = False,
    encoding: Encoding = None,
    separator: Separator = None,
    beam: Beam = None,
    n_best: NBest = None,
    length_penalty: LengthPenalty = None,
    sample: Sample = None,
    tries: Tries = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    max_tokens: MaxTokens = None,
    stop: Stop = None,
    own: OwnOptions = None,
    as_json: AsJson = False,
    as_format: Format = None,
    alignments: Alignments = False,
    output: AnswerFolder = None,
    precision: Precision = "fp32",
    engine: Engine = "auto",
    workers: Workers = 1,
    device: Device = "auto",
) -> None:
    """Answer inputs with a trained model, in the order given.

    \b
    Examples:
      saccade predict runs/demo "The black cat ate the mouse." --beam 5 --n-best 3
      saccade predict run reviews.csv --columns review
      cat input.txt | saccade predict run - --json --alignments
      torchrun --nproc-per-node 2 -m saccade predict run large.txt -o answers
    """
    processes, device = several_or_one(resolve_device(device))
    opened = saccade.open(model, device, precision, engine=engine)
    search = given_only(beam=beam, n_best=n_best, length_penalty=length_penalty)
    drawn = given_only(tries=tries, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    options = _check_options(opened, given_only(sample=sample, max_tokens=max_tokens, stop=stop), own, search, drawn)
    lines_of = _writer(opened, as_format, as_json=as_json, alignments=alignments)
    opened.read_otherwise(columns, encoding, lines, separator)
    inputs, from_file = read_inputs(given, opened)
    _check_output(output, is_file=from_file and given != "-", is_shared=processes.count > 1)
    opened = saccade.open(model, device, precision, workers, engine) if workers > 1 and from_file else opened
    may_change = workers == 1 and precision == "fp32" and from_file and output is None
    opened = _with_engine(opened, engine, inputs if may_change else (), options, reads_scores=as_json)
    answers: Sequence[Answer] = ()
    if output is not None:
        suffix = f".{as_format}" if as_format else ".jsonl" if as_json else ".txt"
        read = {"columns": columns, "lines": lines, "encoding": encoding, "separator": separator}
        details = {"alignments": alignments, "precision": precision, "engine": engine} | read
        _answer_file(opened, model, given, inputs, options, output, lines_of, suffix, details, processes)
    elif opened.streams and not (from_file or as_json or alignments or as_format or {"tries", "n_best"} & set(options)):
        _print_stream(opened.stream(inputs[0], **options))
    else:
        answers = _print_answers(opened, inputs, options, lines_of, shown=from_file)
    note_surprises(opened, inputs, answers)


def _with_engine(
    opened: Predictor, engine: str, inputs: Sequence[Any], options: dict[str, Any], *, reads_scores: bool
) -> Predictor:
    """Return the predictor with another engine if that one is faster and gives the same answers; print a note that
    names any engine other than torch."""
    from saccade.tasks.base.automatic import faster

    opened, said = faster(opened, inputs, options) if inputs and engine == "auto" else (opened, None)
    opened.reads_scores = reads_scores
    if said:
        console(stderr=True).print(f"Note: {said}", markup=False)
    if opened.bundle.engine != "torch" or engine != "auto":
        note_engine(opened)
    return opened


def _writer(opened: Predictor, name: str | None, *, as_json: bool, alignments: bool) -> Callable[[Answer], list[str]]:
    """Return the function that turns an answer into lines, in the named format if there is one; refuse a format that
    this kind of model does not have."""
    if name is None:
        return partial(_lines, as_json=as_json, alignments=alignments)
    if as_json or alignments:
        raise OptionError("--format replaces --json and --alignments; give only one of them.")
    if name not in opened.formats:
        known = " or ".join(opened.formats)
        said = f"their formats are {known}" if known else "they only print text or, with --json, JSON"
        raise OptionError(f"--format {name} does not apply to {opened.plural}; {said}.")
    return lambda answer: [opened.formats[name](answer).removesuffix("\n")]


def _check_output(output: Path | None, *, is_file: bool, is_shared: bool) -> None:
    """Refuse -o if the input is not a file, and several processes without -o."""
    if output is None and is_shared:
        raise OptionError("With several processes, the answers are written to a folder; name it with -o.")
    if output is not None and not is_file:
        raise OptionError("-o needs a file of inputs, because it writes the answers to a folder.")


def _check_options(
    opened: Predictor,
    options: dict[str, Any],
    own: list[str] | None,
    searching: dict[str, Any],
    drawing: dict[str, Any],
) -> dict[str, Any]:
    """Return all options, including those of --set; refuse search options if sampling, and sampling options if not."""
    options = searching | drawing | options
    refuse_unknown(options, opened, signature(predict).parameters)
    options = add_own(options, own or [], opened)
    sample = getattr(opened.chosen(options), "sample", None)
    for name in () if sample is None else searching if sample else drawing:
        said = "only affects beam search; add --no-sample" if sample else "only affects sampling; add --sample"
        raise OptionError(f"--{name.replace('_', '-')} {said}.")
    return options


def _answer_file(*arguments: Any) -> None:
    """Call ``saccade.cli.jobs.answer_file``, which is imported only here because it loads torch."""
    from saccade.cli.jobs import answer_file

    answer_file(*arguments)


def _print_answers(
    opened: Predictor,
    inputs: Sequence[Any],
    options: dict[str, Any],
    lines_of: Callable[[Answer], list[str]],
    *,
    shown: bool,
) -> Sequence[Answer]:
    """Answer the inputs, print the answers and return them. ``shown`` says whether to show a progress bar."""
    with opened, progress("predicting", len(inputs), shown=shown) as show:
        answers = opened.predict(inputs, progress=show, **options)
    for answer in answers:
        print(*lines_of(answer), sep="\n")
    return answers


def _print_stream(pieces: Iterable[str]) -> None:
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _lines(answer: Answer, as_json: bool, alignments: bool) -> list[str]:
    """The lines that show an answer and its alternatives: one for each, or one JSON object."""
    every = [answer, *answer.alternatives]
    if as_json:
        first, *others = [one.record() | ({"alignment": _links(one)} if alignments else {}) for one in every]
        return [json.dumps(first | {"alternatives": others}, ensure_ascii=False)]
    lines = []
    for one in every:
        score = f"{one.score:.4f}\t" if answer.alternatives and one.score is not None else ""
        links = f"\t{_links(one)}" if alignments else ""
        lines.append(f"{score}{' '.join(one.text.splitlines())}{links}")  # always one line per answer
    return lines


def _links(answer: Answer) -> str:
    from saccade.tasks.base.capabilities import AlignsWords

    if not isinstance(answer, AlignsWords):
        raise OptionError("--alignments only applies to translation models, because it links the words of two texts.")
    return answer.links
