"""Scores for generated texts: BLEU and chrF, as sacrebleu computes them, and the fraction of exact matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

__all__ = ["METRIC_CLASSES", "exact_share", "text_scores"]

_CHINESE = re.compile("[\u4e00-\u9fff]")
#: The metrics of sacrebleu by their usual names.
METRIC_CLASSES: dict[str, Callable[..., Metric]] = {"BLEU": BLEU, "chrF": CHRF}


def text_scores(texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return BLEU and chrF as sacrebleu computes them on raw text, and the percentage of exact matches.

    BLEU compares sequences of words or, in Chinese, which has no spaces, of characters (sacrebleu's tokenizer "zh").
    """
    tokenize = "zh" if any(_CHINESE.search(reference) for reference in references) else None
    metrics = {"bleu": BLEU(tokenize=tokenize, force=True), "chrf": CHRF()}  # force: no warning about an end in " ."
    scores = {name: metric.corpus_score(list(texts), [list(references)]).score for name, metric in metrics.items()}
    return scores | {"exact": 100.0 * exact_share(texts, references)}


def exact_share(texts: Sequence[str], references: Sequence[str], lowercase: bool = False) -> float:
    """Return the fraction of texts that are identical to their references, ignoring case if ``lowercase``."""
    pairs = zip(texts, references, strict=True)
    same = sum(one.lower() == other.lower() if lowercase else one == other for one, other in pairs)
    return same / max(len(texts), 1)
