"""Compares `--engine ctranslate2` with our own search, and with CTranslate2 used directly, on the same sentences.

    python benchmarks/engines.py --model runs/multi30k-en-de --json engines.json

`--model` is a Transformer trained with recipes/multi30k-en-de.toml; the sentences are the test set that its recipe
names ($SACCADE_DATA).

Answers: greedy search and beam 5 in fp32, by torch and by CTranslate2. For greedy search, an output that differs is
followed to its first different token: a tie is a place where our network gives both tokens the same log-probability,
up to 1e-4. Attention and alignments are compared for all outputs that are identical.

Speed: `saccade.open(model, engine="ctranslate2").predict(texts)`, from texts to texts, against a program of ten lines
that tokenises, calls `translate_batch` of the exported folder and joins the tokens. Both are loaded before, and run in
one thread. With beam 5, ours also returns scores, and the program leaves them out; in greedy search, neither computes
them. Used directly, CTranslate2 gets the batch size that is fastest for it on a third of the sentences. Every round
times both, in random order; the tables show the median, smallest and largest ratio of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.table import Table
from translation_timing import median_and_range

import saccade
from saccade.tasks.base.exporting import export
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.translation.answer import TranslationAnswer
from saccade.tasks.translation.gold import GoldPair
from saccade.tasks.translation.predictor import TranslationPredictor
from saccade.tasks.translation.task import EncodedPair

BEAMS = (1, 5)
TIE = 1e-4
#: What CTranslate2 is given as max_batch_size and batch_type.
EXAMPLES, TOKENS = (32, 128), (256, 512, 1024, 2048, 4096, 16384)
BATCHES = (*((size, "examples") for size in EXAMPLES), *((size, "tokens") for size in TOKENS))
Translate = Callable[[list[str]], list[str]]


def read_lines(path: str) -> list[str]:
    return Path(os.path.expandvars(path)).read_text(encoding="utf-8").splitlines()


def first_difference(opened: TranslationPredictor, text: str, ours: list[int], theirs: list[int]) -> float:
    """How much the log-probabilities of the first two different tokens differ, by our network."""
    end = opened.task.state.target.special.end
    pairs = zip([*ours, end], [*theirs, end], strict=False)
    place = next(number for number, (one, other) in enumerate(pairs) if one != other)
    found = []
    for ids in (ours, theirs):
        source = opened.task.state.source.ended(opened.task.state.source.encode(text).ids)
        batch = opened.task.plain_batch([EncodedPair(source, ids, GoldPair(text, "", 1))])
        with torch.inference_mode():
            logits = opened.model(batch.source, batch.source_lengths, batch.read)[0, place]
        found.append(float(logits.log_softmax(dim=-1)[batch.predicted[0, place]]))
    return abs(found[0] - found[1])


def compare_answers(folder: Path, texts: list[str], references: list[str], beam: int) -> dict[str, Any]:
    """The outputs of both engines in fp32: how many are identical, ties, BLEU, and the attention behind them."""
    by_torch, by_engine = (
        cast(TranslationPredictor, saccade.open(folder, engine=engine)) for engine in ("torch", "ctranslate2")
    )
    ours, theirs = (cast(list[TranslationAnswer], one.predict(texts, beam=beam)) for one in (by_torch, by_engine))
    differing = [number for number in range(len(texts)) if ours[number].ids != theirs[number].ids]
    found: dict[str, Any] = {"identical": len(texts) - len(differing), "of": len(texts)}
    if beam == 1:
        gaps = [first_difference(by_torch, texts[n], ours[n].ids, theirs[n].ids) for n in differing]
        found |= {"ties": sum(gap < TIE for gap in gaps), "largest gap": max(gaps, default=0.0)}
    for name, answers in (("torch", ours), ("ctranslate2", theirs)):
        found[f"bleu {name}"] = text_scores([one.text for one in answers], references)["bleu"]
    equal = [number for number in range(len(texts)) if number not in set(differing)]
    found["same attention"] = sum(same_attention(ours[number], theirs[number]) for number in equal)
    return found


def same_attention(one: Any, other: Any) -> bool:
    """Whether all weights of all attentions, and the alignment, are equal to the last bit."""
    left, right = one.attention, other.attention
    names = left.view.names
    weights = all(torch.equal(left.view.matrix(name), right.view.matrix(name)) for name in names)
    return names == right.view.names and weights and torch.equal(left.alignment, right.alignment)


def direct(folder: Path, opened: TranslationPredictor, beam: int, precision: str, most: int) -> Any:
    """CTranslate2 used directly: texts to texts, with the same tokenizer and the same limit on the length."""
    import ctranslate2

    source, target = opened.tokenizers
    entries, ids = source.entries(), {entry: id for id, entry in enumerate(target.entries())}
    compute = {"fp32": "float32", "int8": "int8"}[precision]
    translator = ctranslate2.Translator(str(folder), compute_type=compute, inter_threads=1, intra_threads=1)

    def translate(texts: list[str], size: int, kind: str) -> list[str]:
        tokens = [[entries[id] for id in source.ended(found)] for found in source.encode_ids(texts)]
        found = translator.translate_batch(
            tokens, max_batch_size=size, batch_type=kind, beam_size=beam, length_penalty=1.0, max_decoding_length=most
        )
        return [target.decode(ids[token] for token in one.hypotheses[0]) for one in found]

    return translate


def seconds(run: Translate, texts: list[str]) -> float:
    start = time.process_time()
    run(texts)
    return time.process_time() - start


def compare_speed(folder: Path, texts: list[str], beam: int, precision: str, rounds: int) -> dict[str, Any]:
    """The speed of our engine divided by CTranslate2's own, in each round."""
    opened = saccade.open(folder, engine="ctranslate2", precision=precision)
    assert isinstance(opened, TranslationPredictor)
    options = opened.chosen({"beam": beam})
    longest = max(len(opened.task.state.source.encode(text).ids) for text in texts) + 1
    with tempfile.TemporaryDirectory() as temporary:
        export(folder, "ctranslate2", Path(temporary) / "exported", texts[:5])
        translate = direct(Path(temporary) / "exported", opened, beam, precision, options.longest(longest))
        some = texts[::3]
        translate(some, *BATCHES[0])  # so that the first size does not include one-time costs
        tried = {batch: seconds(partial(translate, size=batch[0], kind=batch[1]), some) for batch in BATCHES}
        best = min(tried, key=tried.__getitem__)
        systems: dict[str, Translate] = {
            "ours": lambda given: [answer.text for answer in opened.predict(given, beam=beam)],
            "direct": lambda given: translate(given, *best),
        }
        opened.predict(some, beam=beam)
        times: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name in random.sample(list(systems), len(systems)):
                times[name].append(seconds(systems[name], texts))
    ratios = [other / own for own, other in zip(times["ours"], times["direct"], strict=True)]
    return {"batch": best, "ratios": ratios, "seconds": times}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the engines that decode a translation model.")
    parser.add_argument("--model", type=Path, required=True, help="folder of a trained Transformer that translates")
    parser.add_argument("--rounds", type=int, default=5, help="how often each system is timed")
    parser.add_argument("--sentences", type=int, default=1000, help="number of test sentences")
    parser.add_argument("--only", choices=("answers", "speed"), help="leave out the other part")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = options.model / "model" if (options.model / "model").is_dir() else options.model
    data = saccade.open(model).bundle.data
    texts, references = (read_lines(data[f"test_{side}"])[: options.sentences] for side in ("source", "target"))
    console, found = Console(), {}
    for beam in BEAMS if options.only != "speed" else ():
        found[f"answers, beam {beam}"] = compare_answers(model, texts, references, beam)
        console.print(f"beam {beam}:", found[f"answers, beam {beam}"])
    table = Table("beam", "precision", "CTranslate2's batch", "speed / CTranslate2 directly")
    for beam in BEAMS if options.only != "answers" else ():
        for precision in ("fp32", "int8"):
            one = compare_speed(model, texts, beam, precision, options.rounds)
            found[f"speed, beam {beam}, {precision}"] = one
            console.print(f"beam {beam}, {precision}: {median_and_range(one['ratios'])}")
            table.add_row(str(beam), precision, "{} {}".format(*one["batch"]), median_and_range(one["ratios"]))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
