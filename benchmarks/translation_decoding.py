"""The decoding part of benchmarks/translation.py: the same weights, ids and sentences, 2 workers of 1 thread each.

A system is a function from sources to outputs. For systems in torch, a pool of processes, each with its own copy of the
model, decodes batches of one size, sorted by length. CTranslate2 has its own workers. Starting them is not timed.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor
from translation_peers import ctranslate2_folder, largest_difference, pegasus, score_difference
from translation_timing import Measured, interleave

import saccade
from saccade.models import EncoderDecoder
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.translation.gold import GoldPair
from saccade.tasks.translation.predictor import TranslationPredictor
from saccade.tasks.translation.task import EncodedPair
from saccade.text import END, PAD, pad

__all__ = ["CTRANSLATE2", "CTRANSLATE2_INT8", "OURS", "PEGASUS", "measure_decoding"]

PRECISIONS = ("fp32", "bf16")
OURS = "saccade fp32"
PEGASUS = "transformers fp32"
CTRANSLATE2, CTRANSLATE2_INT8 = "CTranslate2 fp32", "CTranslate2 int8"
#: Batch sizes in sentences; each system is timed with the size that was fastest for it on half of the sentences.
BATCH_SIZES = {"greedy": (32, 64, 128, 256), "beam": (16, 32, 64, 128)}
#: Largest difference of logits, or log-probabilities, between systems that count as having the same weights.
SAME = 1e-4
#: Large enough that our predictor never splits the batches that it gets.
ANY_NUMBER = 1 << 30

Ids = list[list[int]]
Decode = Callable[[Ids, int], Ids]  # (sources, beam) -> outputs
System = Callable[[Ids, int, int], tuple[Ids, float]]  # (sources, beam, batch size) -> (outputs, processor seconds)


# --- decoding one batch, in a worker ----------------------------------------------------------------------


def saccade_decoder(folder: Path, precision: str) -> Decode:
    model = saccade.open(folder, precision=precision).model

    def decode(sources: Ids, beam: int) -> Ids:
        options = SearchOptions.read({"beam": beam, "length_penalty": 1.0}, "the options")
        with torch.inference_mode():
            found = search(model, sources, options, ANY_NUMBER, lambda: None)
        return [best[0].tokens for best in found]

    return decode


def pegasus_decoder(folder: Path, _: str) -> Decode:
    from transformers.utils import logging

    logging.set_verbosity_error()
    opened = saccade.open(folder)
    model = pegasus(cast(EncoderDecoder, opened.model), opened.task.state.source.vocabulary_size)

    def decode(sources: Ids, beam: int) -> Ids:
        source, lengths = pad(sources)
        real = torch.arange(source.shape[1]) < lengths[:, None]
        with torch.inference_mode():
            rows = model.generate(
                source,
                attention_mask=real.long(),
                num_beams=beam,
                do_sample=False,
                max_new_tokens=_longest(source.shape[1]),
                length_penalty=1.0,
                early_stopping=beam > 1,  # stop when all places of the beam have ended, as ours does
            )
        return [_until_end(row) for row in rows[:, 1:].tolist()]

    return decode


def _longest(source_length: int) -> int:
    return int(SearchOptions().max_ratio * source_length) + 20


def _is_too_long(source: list[int], output: list[int]) -> bool:
    """Whether an output reaches the length at which ours would be cut off."""
    return len(output) >= _longest(len(source))


def _until_end(row: list[int]) -> list[int]:
    """Remove END and the padding after it; an output that was cut off has neither."""
    if END in row:
        return row[: row.index(END)]
    return [token for token in row if token != PAD]


DECODERS: dict[str, Callable[[Path, str], Decode]] = {"saccade": saccade_decoder, "transformers": pegasus_decoder}
_decode: Decode | None = None  # a worker's own


def _begin(kind: str, folder: Path, precision: str) -> None:
    global _decode
    torch.set_num_threads(1)
    _decode = DECODERS[kind](folder, precision)


def _run(batch: tuple[Ids, int]) -> tuple[Ids, float]:
    assert _decode is not None
    start = time.process_time()
    return _decode(*batch), time.process_time() - start


# --- systems ----------------------------------------------------------------------------------------------


@contextmanager
def _workers(count: int, kind: str, folder: Path, precision: str) -> Iterator[System]:
    """Processes that share the batches: a free process takes the next one, longest sentences first.

    This is an executor and not a Pool, because a Pool would restart a dying worker forever and never return.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, _begin, (kind, folder, precision)) as pool:

        def system(sources: Ids, beam: int, size: int) -> tuple[Ids, float]:
            order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
            batches = [order[start : start + size] for start in range(0, len(order), size)]
            found = pool.map(_run, [([sources[i] for i in batch], beam) for batch in batches])
            outputs: Ids = [[] for _ in sources]
            total = 0.0
            for batch, (results, seconds) in zip(batches, found, strict=True):
                total += seconds
                for number, output in zip(batch, results, strict=True):
                    outputs[number] = output
            return outputs, total

        yield system


def _ctranslate2(translator: Any) -> System:
    def system(sources: Ids, beam: int, size: int) -> tuple[Ids, float]:
        start = time.process_time()
        found = translator.translate_batch(
            [[str(token) for token in source] for source in sources],
            max_batch_size=size,
            beam_size=beam,
            length_penalty=1.0,
            max_decoding_length=_longest(max(map(len, sources))),
        )
        seconds = time.process_time() - start
        return [[int(token) for token in result.hypotheses[0]] for result in found], seconds

    return system


def _systems(
    stack: ExitStack, opened: TranslationPredictor, pairs: Sequence[EncodedPair], options: Any, console: Console
) -> dict[str, System]:
    """All systems that are installed, after checking that their weights equal ours."""
    systems: dict[str, System] = {}
    for precision in PRECISIONS:
        workers = _workers(options.workers, "saccade", options.model, precision)
        systems[f"saccade {precision}"] = stack.enter_context(workers)
    model = cast(EncoderDecoder, opened.model)
    try:
        theirs = pegasus(model, opened.task.state.source.vocabulary_size)
        _require_same("transformers", largest_difference(model, theirs, opened.task, pairs), console)
        systems[PEGASUS] = stack.enter_context(_workers(options.workers, "transformers", options.model, "fp32"))
    except ImportError:
        console.print("Without transformers: it is not installed (pip install transformers).")
    try:
        systems |= _ctranslate2_systems(stack, opened, pairs, options, console)
    except ImportError:
        console.print("Without CTranslate2: it is not installed (pip install ctranslate2).")
    return systems


def _ctranslate2_systems(
    stack: ExitStack, opened: TranslationPredictor, pairs: Sequence[EncodedPair], options: Any, console: Console
) -> dict[str, System]:
    import ctranslate2

    model = cast(EncoderDecoder, opened.model)
    temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    found = {}
    for name, quantization, computed in ((CTRANSLATE2, None, "float32"), (CTRANSLATE2_INT8, "int8", "int8")):
        folder = ctranslate2_folder(model, opened.task.state.source.vocabulary_size, temporary / computed, quantization)
        translator = ctranslate2.Translator(
            str(folder), inter_threads=options.workers, intra_threads=1, compute_type=computed
        )
        if quantization is None:
            _require_same("CTranslate2", score_difference(model, translator, opened.task, pairs), console)
        found[name] = _ctranslate2(translator)
    return found


def _require_same(name: str, difference: float, console: Console) -> None:
    if not difference < SAME:
        raise SystemExit(f"The weights differ: the largest difference to {name} is {difference:.1e}, not below {SAME}.")
    console.print(f"The same weights in {name}: nothing differs by more than {difference:.1e} on a real batch.")


# --- measuring --------------------------------------------------------------------------------------------


def measure_decoding(
    opened: TranslationPredictor, pairs: Sequence[EncodedPair], options: Any, console: Console, progress: Progress
) -> dict[int, dict[str, Measured]]:
    """For each beam, the output tokens per second of each system in each round."""
    torch.set_num_threads(1)
    sources = [pair.source for pair in pairs]
    with ExitStack() as stack:
        systems = _systems(stack, opened, pairs[:32], options, console)
        return {beam: _one_beam(systems, opened, sources, pairs, beam, options, progress) for beam in options.beams}


def _one_beam(
    systems: dict[str, System],
    opened: TranslationPredictor,
    sources: Ids,
    pairs: Sequence[EncodedPair],
    beam: int,
    options: Any,
    progress: Progress,
) -> dict[str, Measured]:
    what = "greedy" if beam == 1 else f"beam {beam}"
    tried = _tried_sizes(systems, sources, beam, options, progress)
    best = {name: max(speeds, key=speeds.__getitem__) for name, speeds in tried.items()}
    outputs: dict[str, Ids] = {}

    def timed(name: str) -> Callable[[int], float]:
        def run(_: int) -> float:
            speed, outputs[name] = _speed(systems[name], sources, beam, best[name], options)
            return speed

        return run

    measured = interleave({name: timed(name) for name in systems}, options.rounds, progress, what)
    references = [pair.gold.target for pair in pairs]
    for name, found in measured.items():
        texts = [opened.task.state.target.decode(output) for output in outputs[name]]
        same, gap = _agreement(opened, sources, outputs[OURS], outputs[name], beam)
        found.about |= {"batch": best[name], "batches tried": tried[name]}
        found.about |= {"bleu": text_scores(texts, references)["bleu"], "identical": same, "largest gap": gap}
        found.about["too long"] = sum(map(_is_too_long, sources, outputs[name]))
    return measured


def _tried_sizes(
    systems: dict[str, System], sources: Ids, beam: int, options: Any, progress: Progress
) -> dict[str, dict[int, float]]:
    """The speed of each system with each batch size, on half of the sentences."""
    sizes = BATCH_SIZES["greedy" if beam == 1 else "beam"]
    candidates = sizes[1:3] if options.quick else sizes
    bar = progress.add_task("batch sizes", total=len(systems) * len(candidates))
    tried: dict[str, dict[int, float]] = {}
    for name, system in systems.items():
        system(sources[:64], beam, 32)  # so that the first size does not include one-time costs
        tried[name] = {}
        for size in candidates:
            tried[name][size] = _speed(system, sources[::2], beam, size, options)[0]
            progress.advance(bar)
    return tried


def _speed(system: System, sources: Ids, beam: int, size: int, options: Any) -> tuple[float, Ids]:
    """Output tokens per second, including end tokens, and the outputs."""
    start = time.perf_counter()
    outputs, processor = system(sources, beam, size)
    seconds = processor / options.workers if options.clock == "cpu" else time.perf_counter() - start
    return sum(len(output) + 1 for output in outputs) / seconds, outputs


def _agreement(opened: TranslationPredictor, sources: Ids, ours: Ids, theirs: Ids, beam: int) -> tuple[int, float]:
    """How many outputs are identical, and how close to a tie the others are by our own scores.

    For greedy search, these are the log-probabilities of the two tokens at the first difference; for beam search, the
    scores of the two outputs.
    """
    # Other systems may continue where ours is cut off.
    theirs = [output[: _longest(len(source))] for source, output in zip(sources, theirs, strict=True)]
    differing = [i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    gap = 0.0
    for i in differing:
        one, other = (_log_probabilities(opened, sources[i], output) for output in (ours[i], theirs[i]))
        if beam == 1:
            pairs = enumerate(zip([*ours[i], END], [*theirs[i], END], strict=False))
            place = next(n for n, (a, b) in pairs if a != b)
            gap = max(gap, abs(float(one[place] - other[place])))
        else:
            gap = max(gap, abs(float(one.mean() - other.mean())))
    return len(ours) - len(differing), gap


@torch.inference_mode()
def _log_probabilities(opened: TranslationPredictor, source: list[int], output: list[int]) -> Tensor:
    """The log-probabilities (T,) of the tokens of an output, including its end."""
    batch = opened.task.plain_batch([EncodedPair(source, output, GoldPair("", "", 1))])
    logits = cast(EncoderDecoder, opened.model)(batch.source, batch.source_lengths, batch.read)
    found: Tensor = logits.log_softmax(dim=-1).gather(-1, batch.predicted.unsqueeze(-1))
    return found[0, :, 0]
