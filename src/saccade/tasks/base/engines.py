"""Decode with CTranslate2 instead of torch: the same weights and the same answers, but faster.

Attention is still computed by Saccade's own network, in one pass over the source and the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import torch
from torch import nn

from saccade.decoding import Hypothesis, LateHypothesis
from saccade.errors import DivergedError, OptionError, UnknownNameError
from saccade.extras import needs_extra
from saccade.pretrained.ctranslate2 import LONGEST, SpecialEntries, specification
from saccade.tasks.base.search import SearchOptions, longest_output
from saccade.tasks.base.snapshot import Copied
from saccade.tasks.base.task import Task
from saccade.text import Tokenizer

__all__ = ["Engine", "TranslationEngine", "chosen_engine", "marks_of", "specified"]

Engine = Literal["torch", "ctranslate2", "onnx", "transformers"]
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
#: The number of tokens that CTranslate2 decodes at once, over all hypotheses of a beam, and the fewest source tokens.
#: In int8, products are so fast that what else has to fit into the processor's cache decides.
_BATCH_TOKENS = {"fp32": (4096, 2048), "bf16": (4096, 2048), "int8": (1024, 256)}
#: The number of tokens that it scores at once. Larger batches are slower, because it keeps the logits of all of them.
_SCORED_TOKENS = 128
#: A rule of thumb, not a guarantee: trained networks stay far below this size, and larger weights may make numbers
#: overflow to infinity. CTranslate2 turns some NaN into 0, so its answers would not show that something is wrong.
_LARGEST_WEIGHT = 1000.0


def chosen_engine(engine: str, precision: str) -> Engine | None:
    """Return the engine that the user chose; for "auto", CTranslate2 if the precision is int8, which only it supports,
    and otherwise None, because the engine then depends on the model."""
    if engine == "auto":
        return "ctranslate2" if precision == "int8" else None
    for one in get_args(Engine):
        if one == engine:
            if one == "torch" and precision == "int8":
                raise OptionError("int8 needs --engine ctranslate2; torch computes in fp32 and bf16.")
            if one in ("onnx", "transformers") and precision != "fp32":
                raise OptionError(f"--engine {one} computes in fp32, not in {precision}.")
            return one  # type: ignore[no-any-return]
    raise UnknownNameError("engine", engine, ("auto", *get_args(Engine)))


def marks_of(tokenizer: Tokenizer) -> SpecialEntries:
    """Return the vocabulary's entries for the unknown, start and end tokens; its first entry for any that it lacks."""
    special, entries = tokenizer.special, tokenizer.entries()
    ids = (special.unknown, special.start, special.end)
    return SpecialEntries(*(entries[0 if id is None else id] for id in ids))


def specified(task: Task, network: nn.Module) -> Any:
    """Return CTranslate2's specification of a network, with its weights and vocabularies."""
    words = task.state.vocabularies()
    both = [words.get(side, words.get("tokenizer")) for side in ("source", "target")]
    if not all(isinstance(one, Tokenizer) for one in both):
        raise OptionError(f"CTranslate2 only runs models that translate or continue a text, not {task.name} models.")
    source, target = both
    assert isinstance(source, Tokenizer)
    assert isinstance(target, Tokenizer)
    return specification(network, source.entries(), target.entries(), marks_of(target))


class TranslationEngine:
    """A translation network that CTranslate2 runs."""

    name = "CTranslate2"

    def __init__(self, task: Task, network: nn.Module, device: str, precision: str, workers: int = 1) -> None:
        with needs_extra("engines", "--engine ctranslate2"):
            import ctranslate2
        if device.partition(":")[0] not in ("cpu", "cuda"):
            raise OptionError(f"--engine ctranslate2 runs on cpu and cuda, not on {device}.")
        _check_sizes(network)
        self._arguments = task, network, device, precision, workers
        compute_type = _compute_type(precision)
        self._batch_tokens, self._fewest_tokens = _BATCH_TOKENS[precision]
        self._network = network  # whose positions limit the length of an output
        words = task.state.vocabularies()
        source, target = words["source"], words["target"]
        assert isinstance(source, Tokenizer)
        assert isinstance(target, Tokenizer)
        self._source, self._target = source.entries(), target.entries()
        self._ids = {entry: id for id, entry in enumerate(self._target)}
        self._end = target.special.end
        self._barred = [[self._target[id]] for id in target.barred_ids]
        self.copied = Copied(network, self.name)  # next
        with TemporaryDirectory() as folder:
            specified(task, network).save(folder)
            self._translator = ctranslate2.Translator(
                folder,
                device=device.partition(":")[0],
                compute_type=compute_type,
                inter_threads=workers,
                intra_threads=max(1, torch.get_num_threads() // workers),
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments with which the engine was opened, because its memory cannot be sent to another
        process."""
        return TranslationEngine, self._arguments

    def search(
        self, sources: Sequence[list[int]], options: SearchOptions, reads_scores: bool = True
    ) -> Sequence[Sequence[Hypothesis | LateHypothesis]]:
        """Return the outputs for each source, best first, in the same form as ``tasks.base.search.search``.

        Greedy search does not need scores. Unless ``reads_scores`` says that somebody reads them all, they are computed
        when the first one is read, which together takes longer. If tokens are barred, CTranslate2 shares their
        probability among the others, which our scores do not; the scores are then computed again, without the search.
        """
        lengths = set(map(len, sources))
        if max(lengths, default=0) > LONGEST:
            raise OptionError(f"A text has {max(lengths):,} tokens; --engine ctranslate2 reads at most {LONGEST:,}.")
        longest = {length: longest_output(self._network, length, options) for length in lengths}
        limits = [longest[len(source)] for source in sources]
        is_greedy = options.beam == 1
        scored = not is_greedy or (reads_scores and not self._barred)
        found = self._translate(sources, options, max(limits, default=1), scored)
        # CTranslate2 has one limit for all texts; the few that exceed their own are cut, or decoded again.
        over = [place for place, limit in enumerate(limits) if any(_length(one) > limit for one in found[place])]
        for limit in sorted({limits[place] for place in over}):
            same = [place for place in over if limits[place] == limit]
            if is_greedy:  # with a lower limit, greedy search finds the same tokens
                again = [[Hypothesis(found[place][0].tokens[:limit], math.nan, math.nan, False)] for place in same]
            else:
                again = self._translate([sources[place] for place in same], options, limit)
            for place, outputs in zip(same, again, strict=True):
                found[place] = outputs
        if is_greedy and not reads_scores:
            return self._late(sources, found, options)
        places = range(len(sources)) if self._barred else over if is_greedy else []
        late = self._late([sources[place] for place in places], [found[place] for place in places], options)
        for place, those in zip(places, late, strict=True):
            found[place] = sorted((one.scored for one in those), key=lambda one: one.score, reverse=True)
        return found

    def _late(
        self, sources: Sequence[list[int]], found: Sequence[Sequence[Hypothesis]], options: SearchOptions
    ) -> list[list[LateHypothesis]]:
        """Return the same outputs with scores that are all computed when the first one is read."""
        flat = [output for outputs in found for output in outputs]
        repeated = [source for source, outputs in zip(sources, found, strict=True) for _ in outputs]
        compute = cache(lambda: self._log_probabilities(repeated, flat))
        penalty = options.length_penalty
        late = (LateHypothesis(one.tokens, one.finished, penalty, compute, place) for place, one in enumerate(flat))
        return [list(islice(late, len(outputs))) for outputs in found]

    def _log_probabilities(self, sources: Sequence[list[int]], outputs: Sequence[Hypothesis]) -> list[float]:
        found = self._translator.score_batch(
            [[self._source[id] for id in source] for source in sources],
            [[self._target[id] for id in output.tokens] for output in outputs],
            max_input_length=0,
            max_batch_size=_SCORED_TOKENS,
            batch_type="tokens",
        )
        # CTranslate2 also returns the log-probability of the end.
        return [sum(one.log_probs[: _length(output)]) for one, output in zip(found, outputs, strict=True)]

    def _translate(
        self, sources: Sequence[list[int]], options: SearchOptions, most: int, scored: bool = True
    ) -> list[list[Hypothesis]]:
        """Return the outputs for each source. Unless they are ``scored``, their scores are NaN."""
        results = self._translator.translate_batch(
            [[self._source[id] for id in source] for source in sources],
            beam_size=options.beam,
            num_hypotheses=options.n_best,
            length_penalty=options.length_penalty,
            max_decoding_length=most,
            min_decoding_length=0,
            max_input_length=0,  # texts are never cut
            max_batch_size=max(self._fewest_tokens, self._batch_tokens // options.beam),
            batch_type="tokens",
            return_scores=scored,
            return_end_token=True,
            suppress_sequences=self._barred or None,
        )
        return [
            [
                self._hypothesis(tokens, score, options.length_penalty)
                for tokens, score in zip(one.hypotheses, one.scores if scored else [math.nan], strict=True)
            ]
            for one in results
        ]

    def _hypothesis(self, tokens: list[str], score: float, length_penalty: float) -> Hypothesis:
        ids = list(map(self._ids.__getitem__, tokens))
        log_probability = score * max(1, len(ids)) ** length_penalty
        finished = bool(ids) and ids[-1] == self._end
        if finished:
            ids.pop()
        return Hypothesis(ids, log_probability, score, finished)


def _check_sizes(network: nn.Module) -> None:
    each = [weight.detach().abs().max() for weight in network.parameters() if weight.numel()]
    largest = float(torch.stack(each).max())
    if math.isnan(largest):
        raise DivergedError.of_answer()
    if largest > _LARGEST_WEIGHT:
        raise OptionError(
            f"A weight of this network is as large as {largest:.3g}, so CTranslate2's numbers could overflow "
            f"unnoticed; leave out --engine ctranslate2."
        )


def _compute_type(precision: str) -> str:
    if precision not in _PRECISIONS:
        raise UnknownNameError("precision", precision, _PRECISIONS)
    return _PRECISIONS[precision]


def _length(one: Hypothesis) -> int:
    return len(one.tokens) + one.finished
