"""Scores trained translation models on a test set, in several ways and by sentence length.

    python benchmarks/quality.py runs/multi30k-de-en runs/multi30k-de-en-recurrent --published spacy
    python benchmarks/quality.py runs/multi30k-de-en-recurrent runs/multi30k-de-en-bottleneck \\
        --plot docs/pictures/bottleneck.png
    python benchmarks/quality.py runs/multi30k-* --curves docs/pictures/multi30k-curves.png

It needs the model's own test files ($SACCADE_DATA) and, for published ways of scoring, `pip install sacremoses spacy`.
The columns are:

  raw          sacrebleu's BLEU on raw, cased text, with the search settings of the recipe
  lower-cased  the same, lower-cased
  greedy       lower-cased, beam 1
  published    scored like the published figure. ``spacy``: greedy, lower-cased, BLEU on spaCy's tokens.
               ``moses``: beam 5, BLEU on Moses' tokens, cased and lower-cased.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.bleu import BLEU

import saccade
from saccade.data.pairs import Pair
from saccade.lens.figures.formats import save
from saccade.tasks.base.model_folder import bundle_recipe
from saccade.tasks.translation.data import TranslationData, TranslationFiles

LENGTHS = ((1, 8), (9, 10), (11, 12), (13, 15), (16, 20), (21, 99))  # words of the source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--published", choices=["spacy", "moses"], help="also score in this published way")
    parser.add_argument("--length-penalty", type=float, help="length penalty, if not the recipe's")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16 or int8")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--plot", type=Path, help="draw BLEU by source length into this file")
    parser.add_argument("--curves", type=Path, help="only draw the validation scores of each run into this file")
    options = parser.parse_args()
    if options.curves is not None:
        save(_curves(options.runs), options.curves)
        return
    table = Table("run", "parameters", "minutes", "raw", "lower-cased", "greedy", *_headings(options.published))
    by_length: dict[str, list[float]] = {}
    for run in options.runs:
        pairs = _test_pairs(run)
        with saccade.open(run, precision=options.precision, workers=options.workers) as model:
            sources = [pair.source for pair in pairs]
            chosen = {} if options.length_penalty is None else {"length_penalty": options.length_penalty}
            searched = [answer.text for answer in model.predict(sources, **chosen)]
            greedy = [answer.text for answer in model.predict(sources, beam=1)]
            published = _published(options.published, _language(run), searched, greedy, pairs)
        references = [pair.target for pair in pairs]
        scores = [
            BLEU().corpus_score(searched, [references]).score,
            BLEU(lowercase=True).corpus_score(searched, [references]).score,
            BLEU(lowercase=True).corpus_score(greedy, [references]).score,
            *published,
        ]
        numbers = sum(parameter.numel() for parameter in model.bundle.model.parameters())
        table.add_row(run.name, f"{numbers:,}", _minutes(run), *(f"{score:.2f}" for score in scores))
        by_length[run.name] = _by_length(searched, pairs)
    Console().print(table)
    _print_lengths(by_length, _test_pairs(options.runs[0]))
    if options.plot is not None:
        save(_plot(by_length), options.plot)


def _test_pairs(run: Path) -> list[Pair]:
    data = bundle_recipe(run)["data"]
    return TranslationFiles.read_for_scoring(
        TranslationData.read({"source": data["test_source"], "target": data["test_target"]}, str(run))
    )


def _language(run: Path) -> str:
    return str(bundle_recipe(run)["data"]["target_language"])


def _minutes(run: Path) -> str:
    """Minutes of training, including validations, from the run's own log."""
    return f"{max(record['seconds'] for record in _log(run)) / 60:.0f}"


def _log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def _headings(published: str | None) -> list[str]:
    return {None: [], "spacy": ["spaCy tokens"], "moses": ["Moses tokens", "lower-cased Moses tokens"]}[published]


def _published(
    way: str | None, language: str, searched: list[str], greedy: list[str], pairs: list[Pair]
) -> list[float]:
    if way is None:
        return []
    references = [pair.target for pair in pairs]
    if way == "spacy":
        tokenize = _spacy(language)
        return [_token_bleu([text.lower() for text in greedy], [text.lower() for text in references], tokenize)]
    tokenize = _moses(language)
    return [
        _token_bleu(searched, references, tokenize),
        _token_bleu([text.lower() for text in searched], [text.lower() for text in references], tokenize),
    ]


def _token_bleu(texts: list[str], references: list[str], tokenize: Callable[[str], list[str]]) -> float:
    """Unsmoothed BLEU on these tokens, as multi-bleu.perl and torchtext compute it."""
    metric = BLEU(tokenize="none", force=True, smooth_method="none")
    return metric.corpus_score(
        [" ".join(tokenize(text)) for text in texts], [[" ".join(tokenize(text)) for text in references]]
    ).score


def _spacy(language: str) -> Callable[[str], list[str]]:
    import spacy

    rules = spacy.blank(language).tokenizer
    return lambda text: [token.text for token in rules(text)]


def _moses(language: str) -> Callable[[str], list[str]]:
    from sacremoses import MosesTokenizer

    rules = MosesTokenizer(language)
    return lambda text: rules.tokenize(text, escape=False)


def _by_length(texts: list[str], pairs: list[Pair]) -> list[float]:
    scores = []
    for low, high in LENGTHS:
        chosen = [i for i, pair in enumerate(pairs) if low <= len(pair.source.split()) <= high]
        metric = BLEU(lowercase=True)
        scores.append(metric.corpus_score([texts[i] for i in chosen], [[pairs[i].target for i in chosen]]).score)
    return scores


def _print_lengths(by_length: dict[str, list[float]], pairs: list[Pair]) -> None:
    table = Table("lower-cased BLEU by number of source words", *(f"{low}-{high}" for low, high in LENGTHS))
    counts = [sum(low <= len(pair.source.split()) <= high for pair in pairs) for low, high in LENGTHS]
    table.add_row("sentences", *map(str, counts))
    for name, scores in by_length.items():
        table.add_row(name, *(f"{score:.1f}" for score in scores))
    Console().print(table)


def _curves(runs: list[Path]) -> Figure:
    figure, axes = _axes("updates", "greedy BLEU on 500 validation sentences")
    for run, marker in zip(runs, "osD^v*", strict=False):
        found = [record for record in _log(run) if "validation" in record]
        scores = [record["validation"]["bleu"] for record in found]
        axes.plot([record["step"] for record in found], scores, marker=marker, markersize=3, label=_short(run.name))
    axes.legend(frameon=False)
    return figure


def _plot(by_length: dict[str, list[float]]) -> Figure:
    figure, axes = _axes("words in the source sentence", "BLEU, lower-cased")
    places = range(len(LENGTHS))
    for (name, scores), marker in zip(by_length.items(), "osD^v*", strict=False):
        axes.plot(places, scores, marker=marker, label=_short(name))
    axes.set_xticks(list(places), [f"{low}-{high}" if high < 99 else f"{low}+" for low, high in LENGTHS])
    axes.legend(frameon=False)
    return figure


def _axes(along: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, 50)
    return figure, axes


def _short(name: str) -> str:
    return name.removeprefix("multi30k-")


if __name__ == "__main__":
    main()
