"""The work of ``saccade evaluate``, ``score`` and ``compare``, in a separate file because it imports torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.significance import PairedTest, Result

import saccade
from saccade.cli.jobs import finish_job
from saccade.cli.options import console, given_only, progress, resolve_device
from saccade.errors import OptionError, counted
from saccade.lens.figures.formats import save
from saccade.tasks.base.capabilities import TranslatesText
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.sharing import sharing
from saccade.tasks.base.task import Evaluation
from saccade.training.distributed import Processes

__all__ = ["compare_models", "evaluate_model", "open_translator", "score_pairs"]

#: The file with the scores, in the folder of a job.
SCORES = "scores.txt"
#: Number of bootstrap samples, the usual choice.
RESAMPLES = 1000


def evaluate_model(
    opened: Predictor,
    examples: list[Any],
    options: dict[str, Any],
    pictures: Path | None,
    processes: Processes,
    parts: Path | None = None,
) -> None:
    """Print the scores of a model; if the folder ``pictures`` is given, also write pictures of them there.

    ``parts`` is the folder in which a job stores the results of its parts, so that it can continue after a stop.
    """
    finished = None if parts is None else parts.with_name(SCORES)
    if finished is not None and pictures is None and finished.exists():
        print(finished.read_text(encoding="utf-8"), end="")
        return
    with opened, sharing(processes, parts), progress("evaluating", len(examples)) as show:
        found = opened.evaluate(examples, progress=show, **options)
    text = "".join(f"{line}\n" for line in _score_lines(opened, found))
    print(text, end="")
    if finished is not None:
        processes.lead(lambda: finish_job(finished, text.encode()))
    if pictures is None or processes.rank > 0:
        return
    if not found.figures:
        raise OptionError(f"--pictures does not apply to {opened.plural}: their scores are plain numbers.")
    pictures.mkdir(parents=True, exist_ok=True)
    for name, draw in found.figures.items():
        path = pictures / f"{name}.png"
        save(draw(False), path)
        print(f"Wrote {path}.")


def _score_lines(opened: Predictor, found: Evaluation) -> Iterator[str]:
    for name, value in found.scores.items():
        digits = 0 if isinstance(value, int) else 4 if name in opened.task.losses else 2
        signature = f"   {found.signatures[name]}" if name in found.signatures else ""
        yield f"{name} {value:{',' if digits == 0 else ''}.{digits}f}{signature}"
    for kind, (right, total) in found.kinds.items():
        yield f"{kind}: {right} of {total} right"
    yield from found.lines


def score_pairs(opened: TranslatesText, pairs: list[Any]) -> None:
    scores = opened.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    for value in scores:
        print(f"{value:.4f}")
    tokens = sum(len(ids) + 1 for ids in opened.tokenizers[1].encode_ids([pair.target for pair in pairs]))
    console(stderr=True).print(
        f"perplexity {math.exp(min(-sum(scores) / tokens, 700)):.3f} over {counted(tokens, 'token')}"
    )


def compare_models(
    first: str, second: str, opened: dict[str, TranslatesText], pairs: list[Any], lowercase: bool, beam: int | None
) -> None:
    if len(pairs) < 2:
        raise OptionError(
            f"A paired bootstrap test needs at least 2 pairs of texts, and preferably hundreds, not {len(pairs)}."
        )
    systems: list[tuple[str, Sequence[str]]] = [
        (name, _translate(opened[name], pairs, beam)) for name in (first, second)
    ]
    if first == second:
        systems[1] = (f"{second} (again)", systems[1][1])
    references = [[pair.target for pair in pairs]]
    test = PairedTest(
        systems, opened[first].metrics(lowercase=lowercase), references, test_type="bs", n_samples=RESAMPLES
    )
    signatures, found = test()
    for name, signature in signatures.items():
        base, other = found[name]
        assert isinstance(base, Result)
        assert isinstance(other, Result)
        assert other.p_value is not None
        # Equal scores are no evidence of a difference, but the library only counts samples with a greater one.
        p_value = 1.0 if base.score == other.score else other.p_value
        print(f"{name}: {first} {base.score:.2f}   {second} {other.score:.2f}   p = {p_value:.4f}")
        print(f"    {signature}")
    print(
        f"p, from {RESAMPLES:,} samples of {len(pairs):,} pairs, is how often chance alone would produce a "
        f"difference this large; the usual threshold is 0.05."
    )


def open_translator(model: str, device: str) -> TranslatesText:
    """Open a model, and refuse it if it does not translate."""
    opened = saccade.open(model, resolve_device(device))
    if not isinstance(opened, TranslatesText):
        raise OptionError(f"{model} is not a translation model; this command does not apply to {opened.plural}.")
    return opened


def _translate(opened: TranslatesText, pairs: list[Any], beam: int | None) -> list[str]:
    assert isinstance(opened, Predictor)
    options = {"sample": False, "n_best": 1, **given_only(beam=beam)}
    with progress("translating", len(pairs)) as show:
        answers = opened.predict([pair.source for pair in pairs], progress=show, **options)
    return [answer.text for answer in answers]
