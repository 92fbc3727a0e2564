"""The work of ``saccade evaluate``, ``score`` and ``compare``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

import saccade
from saccade.cli.options import console, given_only, progress, refuse_unknown, resolve_device
from saccade.errors import OptionError
from saccade.lens.figures.canvas import save
from saccade.lens.links import GoldLinks, alignment_scores
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Evaluation
from saccade.tasks.base.text_scores import METRIC_CLASSES, exact_share
from saccade.tasks.translation.data import read_links
from saccade.tasks.translation.gold import GoldPair
from saccade.tasks.translation.predictor import TranslationPredictor

__all__ = ["compare_models", "evaluate_model", "score_pairs"]

#: Samples of the paired bootstrap, the usual number.
RESAMPLES = 1000


def evaluate_model(
    opened: Predictor,
    examples: list[Any],
    model: str,
    lowercase: bool,
    beam: int | None,
    alignments: Path | None,
    pictures: Path | None,
) -> None:
    if isinstance(opened, TranslationPredictor):
        if pictures is not None:
            raise OptionError("--pictures is of other tasks; a translation's scores are numbers.")
        _evaluate_translation(opened, examples, lowercase, beam, alignments)
        return
    for option, given in {"--lowercase": lowercase, "--alignments": alignments}.items():
        if given:
            raise OptionError(f"{option} is of translations; {model} is a model for {opened.task.name}.")
    options = given_only(beam=beam)
    refuse_unknown(options, opened)
    _print(opened.evaluate(examples, **options), opened.task.losses, pictures)


def score_pairs(model: str, pairs: list[GoldPair], device: str) -> None:
    opened = _translator(model, device)
    scores = opened.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    for value in scores:
        print(f"{value:.4f}")
    tokens = sum(len(ids) + 1 for ids in opened.task.state.target.encode_ids([pair.target for pair in pairs]))
    console(stderr=True).print(f"perplexity {math.exp(min(-sum(scores) / tokens, 700)):.3f} over {tokens:,} tokens")


def compare_models(
    first: str, second: str, pairs: list[GoldPair], lowercase: bool, beam: int | None, device: str
) -> None:
    if len(pairs) < 2:
        raise OptionError("A paired bootstrap needs at least 2 pairs to resample, better some hundreds; 1 was given.")
    systems: list[tuple[str, Sequence[str]]] = [
        (name, _translate(_translator(name, device), pairs, beam)) for name in (first, second)
    ]
    if first == second:
        systems[1] = (f"{second} (again)", systems[1][1])
    references = [[pair.target for pair in pairs]]
    test = PairedTest(systems, _metrics(lowercase), references, test_type="bs", n_samples=RESAMPLES)
    signatures, found = test()
    for name, signature in signatures.items():
        base, other = found[name]
        assert isinstance(base, Result)
        assert isinstance(other, Result)
        assert other.p_value is not None
        # No difference is what chance gives most often; the library counts only differences that are greater.
        p_value = 1.0 if base.score == other.score else other.p_value
        print(f"{name}: {first} {base.score:.2f}   {second} {other.score:.2f}   p = {p_value:.4f}")
        print(f"    {signature}")
    print(
        f"p from {RESAMPLES:,} samples of {len(pairs):,} pairs: how often chance alone would make such a difference; "
        "below 0.05 is the custom."
    )


def _print(found: Evaluation, losses: Sequence[str], pictures: Path | None) -> None:
    for name, value in found.scores.items():
        print(f"{name} {value:,.0f}" if name.endswith("_words") else f"{name} {value:.{4 if name in losses else 2}f}")
    for kind, (right, total) in found.kinds.items():
        print(f"{kind}: {right} of {total} right")
    for line in found.lines:
        print(line)
    if pictures is not None:
        if not found.figures:
            raise OptionError("--pictures: there are none of these scores, which are numbers.")
        pictures.mkdir(parents=True, exist_ok=True)
        for name, draw in found.figures.items():
            path = pictures / f"{name}.png"
            save(draw(False), path)
            print(f"Wrote {path}.")


def _evaluate_translation(
    opened: TranslationPredictor, pairs: list[GoldPair], lowercase: bool, beam: int | None, alignments: Path | None
) -> None:
    gold = None if alignments is None else read_links(pairs, alignments)
    with opened:
        texts = _translate(opened, pairs, beam)
    references = [pair.target for pair in pairs]
    for name, metric in _metrics(lowercase).items():
        found = metric.corpus_score(texts, [references])
        print(f"{name} {found.score:.2f}   {metric.get_signature()}")
    print(f"exactly right {100 * exact_share(texts, references, lowercase):.2f} % of {len(pairs):,}")
    if gold is not None:
        _print_alignment(opened, pairs, gold)


def _translator(model: str, device: str) -> TranslationPredictor:
    opened = saccade.open(model, resolve_device(device))
    if not isinstance(opened, TranslationPredictor):
        raise OptionError(f"This is of translations; {model} is a model for {opened.task.name}.")
    return opened


def _metrics(lowercase: bool) -> dict[str, Metric]:
    return {name: make(lowercase=lowercase) for name, make in METRIC_CLASSES.items()}


def _translate(opened: TranslationPredictor, pairs: list[GoldPair], beam: int | None) -> list[str]:
    options = {"sample": False, "n_best": 1, **given_only(beam=beam)}
    with progress("translating", len(pairs)) as show:
        answers = opened.predict([pair.source for pair in pairs], progress=show, **options)
    return [answer.text for answer in answers]


def _print_alignment(opened: TranslationPredictor, pairs: list[GoldPair], gold: list[GoldLinks]) -> None:
    links = []
    with progress("aligning", len(pairs)) as show:
        for pair in pairs:
            links.append(opened.attention(pair.source, pair.target).links)
            show(len(links))
    found = alignment_scores(links, gold)
    print(
        f"alignment: precision {100 * found.precision:.2f}  recall {100 * found.recall:.2f}  "
        f"error rate {100 * found.error_rate:.2f}"
    )
