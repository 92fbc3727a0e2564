"""``saccade predict``: inputs in, answers out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

import saccade
from saccade.cli.options import (
    Device,
    Model,
    Precision,
    Workers,
    given_only,
    progress,
    read_inputs,
    refuse_unknown,
    resolve_device,
)
from saccade.errors import OptionError

if TYPE_CHECKING:
    from saccade.tasks.base.answer import Answer

__all__ = ["predict"]


def predict(
    model: Model,
    given: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of texts or images, - for stdin.")
    ],
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Answers to each text, at most the beam.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Score = log-probability / length^penalty.")] = None,
    sample: Annotated[bool | None, typer.Option("--sample/--no-sample", help="Draw instead of searching.")] = None,
    tries: Annotated[int | None, typer.Option(help="Answers drawn for each text.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Below 1: surer draws; above: bolder ones.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that make up this share.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the draws.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Of a continuation, at most.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End a continuation before this text. Repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add links of words (separated by spaces): 0-0 1-2.")
    ] = False,
    precision: Precision = "fp32",
    workers: Workers = 1,
    device: Device = "auto",
) -> None:
    """Answer texts with a trained model, in the order they are given.

    \b
    Examples:
      saccade predict runs/demo "The black cat ate the mouse."
      saccade predict run input.txt --beam 5 --n-best 3
      cat input.txt | saccade predict run - --json --alignments
      saccade predict run large.txt --precision int8 --workers 2
    """
    opened = saccade.open(model, resolve_device(device), precision)
    inputs, many = read_inputs(given, opened)
    if workers > 1 and many:  # one text would wait for them to start
        opened = saccade.open(model, resolve_device(device), precision, workers)
    searching = given_only(beam=beam, n_best=n_best, length_penalty=length_penalty)
    drawing = given_only(tries=tries, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    options = searching | drawing | given_only(sample=sample, max_tokens=max_tokens, stop=stop)
    refuse_unknown(options, opened)
    if "sample" in opened.options.model_fields:
        _refuse_idle(searching, drawing, opened.chosen(options).sample)
    if opened.streams and not many and not as_json and not alignments and not {"tries", "n_best"} & set(options):
        for piece in opened.stream(inputs[0], **options):
            print(piece, end="", flush=True)
        print()
        return
    with opened, progress("predicting", len(inputs), shown=many) as show:
        answers = opened.predict(inputs, progress=show, **options)
    for answer in answers:
        _print(answer, as_json, alignments)


def _refuse_idle(searching: dict[str, Any], drawing: dict[str, Any], sample: bool) -> None:
    """An option that would change nothing is refused: who gives it expects something of it."""
    for name in searching if sample else drawing:
        option = f"--{name.replace('_', '-')}"
        said = "is of a search; give --no-sample as well" if sample else "is of draws; give --sample as well"
        raise OptionError(f"{option} {said}.")


def _print(answer: Answer, as_json: bool, alignments: bool) -> None:
    all_of = [answer, *answer.alternatives]
    if as_json:
        print(
            json.dumps(
                _record(answer, alignments)
                | {"alternatives": [_record(other, alignments) for other in answer.alternatives]},
                ensure_ascii=False,
            )
        )
        return
    for one in all_of:
        score = f"{one.score:.4f}\t" if len(all_of) > 1 else ""
        links = f"\t{_links(one)}" if alignments else ""
        print(f"{score}{' '.join(one.text.splitlines())}{links}")  # one line, whatever the model made


def _record(answer: Answer, alignments: bool) -> dict[str, Any]:
    return answer.record() | ({"alignment": _links(answer)} if alignments else {})


def _links(answer: Answer) -> str:
    from saccade.tasks.translation.answer import TranslationAnswer

    if not isinstance(answer, TranslationAnswer):
        raise OptionError("--alignments is of translations: links between the words of two texts.")
    return answer.links
