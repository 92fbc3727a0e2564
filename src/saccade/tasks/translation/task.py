"""Translation: the model decides the length (004's type 3), and one text becomes another.

Also whatever else turns one sequence into another: spelling to sounds, numbers to words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor, nn

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.alignment import AlignmentChoice
from saccade.models import LAST, ReinforcedLoss, Targets, hard_attention
from saccade.tasks.base.networks import SEQ2SEQ
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Batch, Evaluation, Loss, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.translation.alignment import choose_reading, read_alignment, written_out
from saccade.tasks.translation.data import TranslationData, data_table, fitted, read_given, read_splits
from saccade.tasks.translation.gold import GoldPair, from_pair, token_links, word_agreement
from saccade.tasks.translation.guided import guided_loss
from saccade.text import END, START, Tokenizer, pad, plan_batches

__all__ = [
    "METRIC_CLASSES",
    "EncodedPair",
    "TextSettings",
    "Translation",
    "TranslationBatch",
    "exact_share",
    "text_scores",
]

#: What sacrebleu computes, by the name that people use.
METRIC_CLASSES: dict[str, Callable[..., Metric]] = {"BLEU": BLEU, "chrF": CHRF}
METRICS = ("bleu", "chrf", "exact", "loss")
#: Tokenizers in the model folder: one for both sides, or one for each.
SHARED, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"
#: Training pairs on which the alignment's layer, heads and row are chosen.
ALIGNMENT_PAIRS = 300
#: Weights of one head on which it is chosen, at most.
ALIGNMENT_WEIGHTS = 1 << 20
#: Padded source tokens that are searched at once.
SEARCH_TOKENS = 4096


class TextSettings(TokenSettings):
    """How the text of both sides becomes tokens."""

    shared: bool = Field(
        True, description="One vocabulary for both sides; otherwise each side has its own, of this size"
    )


@dataclass(frozen=True)
class EncodedPair:
    """A pair as token ids, both without START, the source with END."""

    source: list[int]
    target: list[int]
    gold: GoldPair


@dataclass(frozen=True)
class TranslationBatch(Batch):
    """Pairs padded to one length: the decoder reads START and the target, and predicts the target and END."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    predicted: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    links: Float[Tensor, "B T S"] | None  # gold links, for guided alignment
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.real.sum())


class Translation(Task):
    """The task with its two tokenizers."""

    name = "translation"
    about = "one text becomes another"
    searches = True
    metrics = METRICS
    settings: ClassVar = {"data": TranslationData, "text": TextSettings, "decoding": SearchOptions}
    read_as = ("source_column", "target_column", "encoding")
    networks = SEQ2SEQ
    model_defaults: ClassVar = {"transformer": {"encoder_layers": 3, "decoder_layers": 3}}

    def __init__(
        self,
        source: Tokenizer,
        target: Tokenizer,
        *,
        metric: str = "bleu",
        alignment: AlignmentChoice | None = None,
        guided_alignment: float = 0.0,
    ) -> None:
        self.check_metric(metric)
        self.source = source
        self.target = target
        self.metric = metric
        self.alignment = alignment
        self.guided_alignment = guided_alignment  # weight of a loss that draws attention towards gold links

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, str]:
        return data_table(files, columns)

    @classmethod
    def read(cls, data: TranslationData, seed: int) -> Splits[GoldPair]:
        return read_splits(data, seed)

    @classmethod
    def read_given(cls, data: TranslationData) -> list[GoldPair]:
        return [from_pair(pair) for pair in read_given(data)]

    @classmethod
    def fitted(cls, splits: Splits[GoldPair]) -> dict[str, Any]:
        return fitted(len(splits.train))

    @classmethod
    def identity(cls, example: GoldPair) -> bytes:
        links = "" if example.links is None else sorted(example.links)  # they train too, if alignment is guided
        return f"{example.source}\t{example.target}\t{links}\n".encode()

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[GoldPair], metric: str = "bleu") -> Self:
        """The task for these training pairs: its tokenizers are made from them."""
        text: TextSettings = settings["text"]
        sources, targets = [pair.source for pair in train], [pair.target for pair in train]
        if text.shared:
            both = text.train(sources + targets)
            return cls(both, both, metric=metric)
        return cls(text.train(sources), text.train(targets), metric=metric)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        chosen = description.get("alignment")
        alignment = None if chosen is None else AlignmentChoice.read(chosen, f"{where}: alignment")
        names = [SHARED] if description["shared"] else [SOURCE, TARGET]
        tokenizers = [Tokenizer.from_bytes(read(name), f"{where}: {name}") for name in names]
        return cls(tokenizers[0], tokenizers[-1], metric=description["metric"], alignment=alignment)

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.guided_alignment = training.guided_alignment
        return chosen

    @property
    def shared(self) -> bool:
        return self.source is self.target

    def encode(self, pairs: Sequence[GoldPair]) -> list[EncodedPair]:
        sources = self.source.encode_batch([pair.source for pair in pairs])
        targets = self.target.encode_batch([pair.target for pair in pairs])
        return [
            EncodedPair([*source.ids, END], target.ids, pair)
            for pair, source, target in zip(pairs, sources, targets, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedPair]) -> Int[np.ndarray, "n 2"]:
        return np.array([(len(pair.source), len(pair.target) + 1) for pair in examples])

    def batch(self, examples: Sequence[EncodedPair]) -> TranslationBatch:
        """Pairs to train on; with their gold links if alignment is guided."""
        batch = self.forced(examples)
        if not self.guided_alignment:
            return batch
        return replace(batch, links=self._links(examples, batch.source.shape[1], batch.read.shape[1]))

    def forced(self, examples: Sequence[EncodedPair]) -> TranslationBatch:
        """Pairs for a forced pass: the decoder reads the target that is given."""
        source, source_lengths = pad([pair.source for pair in examples])
        read, lengths = pad([[START, *pair.target] for pair in examples])
        predicted, _ = pad([[*pair.target, END] for pair in examples])
        real = torch.arange(read.shape[1]) < lengths[:, None]
        lines = [pair.gold.line for pair in examples]
        return TranslationBatch(source, source_lengths, read, predicted, real, None, lines)

    def loss(self, model: nn.Module, batch: TranslationBatch, label_smoothing: float) -> Loss:
        """Cross-entropy of each target token, and of the links if alignment is guided."""
        arguments = (batch.source, batch.source_lengths, batch.read)
        words = batch.predicted[batch.real]
        drawing = hard_attention(model) if model.training else None
        targets = Targets(words, batch.real, label_smoothing, summed=drawing is None)
        apart: Tensor | None = None
        if model.training and batch.links is not None:
            total, apart = guided_loss(model, arguments, targets, batch.links)
        else:
            total = model(*arguments, targets=targets)
        if drawing is not None:  # hard attention learns by reinforcement, from each token's loss
            each = torch.zeros(batch.real.shape, device=total.device).masked_scatter(batch.real, total)
            total = ReinforcedLoss()(each, drawing.log_probability, batch.real) * len(words)
        if apart is not None:
            total = total + self.guided_alignment * apart
        return Loss(total, len(words))

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[EncodedPair], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        total, count = 0.0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
            tick()
            batch = self.forced([examples[i] for i in part]).to(device_of(model))
            loss = self.loss(model, batch, 0.0)
            total, count = total + float(loss.total), count + loss.count
        if not math.isfinite(total):  # a network of NaN finds nothing
            return dict.fromkeys(("loss", "perplexity", *METRICS), math.nan)
        scores = {"loss": total / count, "perplexity": math.exp(min(total / count, 50.0))}
        found = search(model, [pair.source for pair in examples], SearchOptions(beam=1), batch_tokens, tick)
        texts = [self.target.decode(best[0].tokens) for best in found]
        return scores | text_scores(texts, [pair.gold.target for pair in examples])

    def evaluate(
        self, model: nn.Module, examples: Sequence[EncodedPair], options: SearchOptions, *, tick: Tick
    ) -> Evaluation:
        """The scores of a trained model on all of these pairs, found by its own search; its alignment's if known."""
        with torch.inference_mode():
            found = search(model, [pair.source for pair in examples], options, SEARCH_TOKENS, tick)
        texts = [self.target.decode(best[0].tokens) for best in found]
        scores = text_scores(texts, [pair.gold.target for pair in examples])
        if self.alignment is not None and all(pair.gold.links is not None for pair in examples):
            right, total = self.content_agreement(model, examples, tick=tick)
            scores |= {"alignment": 100.0 * right / max(total, 1), "alignment_words": float(total)}
        return Evaluation(scores, _by_kind(texts, [pair.gold for pair in examples]))

    @torch.inference_mode()
    def content_agreement(self, model: nn.Module, examples: Sequence[EncodedPair], *, tick: Tick) -> tuple[int, int]:
        """Of the content words with a gold link: how many the alignment of a forced pass over the reference links
        rightly, and how many there are."""
        right = total = 0
        for start in range(0, len(examples), 64):
            tick()
            part = examples[start : start + 64]
            batch = self.forced(part).to(device_of(model))
            with watch(model) as traces:
                model(batch.source, batch.source_lengths, batch.read, at=LAST)
            seen = written_out(traces, self.alignment)
            for number, pair in enumerate(part):
                matrix = read_alignment(
                    seen, self.alignment, rows=len(pair.target), columns=len(pair.source), batch=number
                )
                assert matrix is not None
                one, all_of = word_agreement(pair.gold, matrix[:, :-1], self.source, self.target)
                right, total = right + one, total + all_of
        return right, total

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: EncodedPair) -> Probe:
        (found,) = search(model, [example.source], SearchOptions(beam=1), 1 << 20, lambda: None)
        tokens = found[0].tokens
        with watch(model) as seen:
            batch = self.forced([replace(example, target=tokens)]).to(device_of(model))
            model(batch.source, batch.source_lengths, batch.read, at=LAST)
        weights = read_alignment(seen, self.alignment, rows=len(tokens), columns=len(example.source))
        return Probe(
            [self.source.token(i) for i in example.source],
            [self.target.token(i) for i in tokens],
            self.target.decode(tokens),
            [] if weights is None else [[round(w, 4) for w in row] for row in weights.tolist()],
        )

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[EncodedPair]) -> None:
        """Choose where the alignment is read: layer, heads and row, on training pairs."""
        chosen = sorted(examples, key=lambda pair: len(pair.source) * len(pair.target))
        chosen = chosen[len(chosen) // 2 :]  # of middling length: long ones cost, short ones say little
        largest = max(len(pair.source) * (len(pair.target) + 1) for pair in chosen[:ALIGNMENT_PAIRS])
        chosen = chosen[: min(ALIGNMENT_PAIRS, max(1, ALIGNMENT_WEIGHTS // largest))]
        batch = self.forced(chosen).to(device_of(model))
        with watch(model) as seen:
            model(batch.source, batch.source_lengths, batch.read, at=LAST)
        links = [token_links(pair.gold, self.source, self.target) for pair in chosen]
        self.alignment = choose_reading(seen, chosen, links)

    def description(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "shared": self.shared,
            "alignment": None if self.alignment is None else self.alignment.model_dump(),
        }

    def files(self) -> dict[str, bytes]:
        if self.shared:
            return {SHARED: self.source.to_bytes()}
        return {SOURCE: self.source.to_bytes(), TARGET: self.target.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"source": self.source, "target": self.target}

    def facts(self) -> list[str]:
        return [
            f"text: {self.source.kind} tokens, {self.source.vocabulary_size:,} for the source, "
            f"{self.target.vocabulary_size:,} for the target",
            "scores: BLEU and chrF by sacrebleu on raw text; `exact` is the percentage of texts exactly right",
        ]

    def _links(self, examples: Sequence[EncodedPair], sources: int, targets: int) -> Float[Tensor, "B T S"]:
        """Gold links as weights: each linked target token shares 1 among its source tokens."""
        weights = torch.zeros(len(examples), targets, sources)
        for number, pair in enumerate(examples):
            links = token_links(pair.gold, self.source, self.target)
            if links is None:
                raise OptionError(
                    f"training.guided_alignment needs gold links; line {pair.gold.line} has none "
                    "(give data.alignments, or set it to 0)."
                )
            for source, target in links:
                weights[number, target, source] = 1.0
        return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1.0)


def text_scores(texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF as sacrebleu computes them on raw text, and the share of texts that are exactly right."""
    metrics = {"bleu": BLEU(force=True), "chrf": CHRF()}  # forced: no warning of texts that end in " ."
    scores = {name: metric.corpus_score(list(texts), [list(references)]).score for name, metric in metrics.items()}
    return scores | {"exact": 100.0 * exact_share(texts, references)}


def _by_kind(texts: Sequence[str], pairs: Sequence[GoldPair]) -> dict[str, tuple[int, int]]:
    """Sentences exactly right, counted apart by their kind, where the corpus knows it."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text, pair in zip(texts, pairs, strict=True):
        total[pair.kind] += 1
        right[pair.kind] += text == pair.target
    return {kind: (right[kind], total[kind]) for kind in sorted(total) if kind}


def exact_share(texts: Sequence[str], references: Sequence[str], lowercase: bool = False) -> float:
    """The share of texts that are their reference, letter for letter."""
    pairs = zip(texts, references, strict=True)
    same = sum(one.lower() == other.lower() if lowercase else one == other for one, other in pairs)
    return same / max(len(texts), 1)
