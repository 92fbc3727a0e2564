"""Translation: turn one text into another, whose length the model decides (type 3 of lecture 004).

It also serves any other task that turns one sequence into another, such as spelling into sounds or numbers into words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import watch
from saccade.errors import FileError, OptionError
from saccade.lens.alignment import AlignmentChoice
from saccade.models import LAST, Config, ReinforcedLoss, Targets, hard_attention
from saccade.pretrained import Pretrained
from saccade.tasks.base.decoder_batch import DecoderBatch, decoder_tokens
from saccade.tasks.base.networks import SEQ2SEQ, truncated
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.settings import SearchTraining
from saccade.tasks.base.task import (
    CheckCancelled,
    Evaluation,
    Loss,
    Probe,
    ReadFile,
    Task,
    TaskState,
    device_of,
    read_tokenizer,
)
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.tasks.translation.alignment import choose_alignment_heads, compute_weights, read_alignment
from saccade.tasks.translation.gold import GoldPair, token_links, word_agreement
from saccade.tasks.translation.guided import guided_loss
from saccade.text import ForeignTokenizer, Tokenizer, pad, spaced_tokenizer

__all__ = ["EncodedPair", "TextSettings", "Translation", "TranslationBatch", "TranslationState", "TranslationTraining"]

#: The files of tokenizers in the model folder: one for both sides, or one for each.
SHARED, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"
#: The number of training pairs that are used to choose the layer, heads and row of the alignment.
ALIGNMENT_PAIRS = 300
#: The maximum number of weights of one head that are used for this choice.
ALIGNMENT_WEIGHTS = 1 << 20


class TextSettings(TokenSettings):
    """How the texts of both sides, source and target, are split into tokens."""

    shared: bool = Field(
        True, description="Use one vocabulary for source and target; otherwise each has its own `vocabulary` tokens"
    )
    target_kind: TokenKind | None = Field(
        None, description="What a target token is, if it differs from a source token; needs shared = false"
    )

    @model_validator(mode="after")
    def _own_vocabulary(self) -> TextSettings:
        if self.shared and self.target_kind not in (None, self.kind):
            raise ValueError(f'target_kind = "{self.target_kind}" needs shared = false, a vocabulary for each side')
        return self


@dataclass(frozen=True)
class EncodedPair:
    """A pair of texts as token ids: the source with END, the target without START and END."""

    source: list[int]
    target: list[int]
    gold: GoldPair


@dataclass(frozen=True)
class TranslationBatch(DecoderBatch):
    """Pairs of texts."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, " B"]
    links: Float[Tensor, "B T S"] | None = None  # gold links, for guided alignment


class TranslationTraining(SearchTraining):
    """How the model is trained; gold alignments can guide its attention."""

    exploration: float = Field(
        0.0, ge=0, description="Hard attention: weight of the entropy, which keeps its random choices varied"
    )
    truncate: int | None = Field(
        None,
        ge=1,
        description="Recurrent networks: back-propagate through at most this many steps; the state is still carried on",
    )
    guided_alignment: float = Field(
        0.0, ge=0, description="Weight of an additional loss that pulls attention towards gold alignments"
    )


@dataclass(frozen=True)
class TranslationState(TaskState):
    """The two tokenizers, which may be the same, and the heads from which a trained model's alignment is read."""

    source: Tokenizer
    target: Tokenizer
    alignment: AlignmentChoice | None = None

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[GoldPair], tokenizer: Tokenizer | None = None
    ) -> Self:
        text: TextSettings = settings["text"]
        sources, targets = [pair.source for pair in train], [pair.target for pair in train]
        if text.shared:
            both = text.train(sources + targets)
            return cls(both, both)
        of_target = text.model_copy(update={"kind": text.target_kind or text.kind})
        return cls(text.train(sources), of_target.train(targets))

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer | None) -> Self:
        if model.entries is not None:
            return cls(*_of_entries(model, *model.entries))
        assert tokenizer is not None
        if tokenizer.special.start is None or tokenizer.special.end is None:
            raise FileError(f"The files of this {model.family} model do not say which tokens start and end a text.")
        return cls(tokenizer, tokenizer.target)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        chosen = description.get("alignment")
        alignment = None if chosen is None else AlignmentChoice.read(chosen, f"{where}: alignment")
        names = [SHARED] if description["shared"] else [SOURCE, TARGET]
        tokenizers = [read_tokenizer(read, where, name) for name in names]
        return cls(tokenizers[0], tokenizers[-1], alignment)

    def description(self) -> dict[str, Any]:
        return {
            "shared": self.source is self.target,
            "alignment": None if self.alignment is None else self.alignment.model_dump(),
        }

    def files(self) -> dict[str, bytes]:
        if self.source is self.target:
            return self.source.files(SHARED)
        return self.source.files(SOURCE) | self.target.files(TARGET)

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"source": self.source, "target": self.target}


def _of_entries(model: Pretrained, source: list[str], target: list[str]) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of a model whose files list the tokens of both sides."""
    fields = model.fields
    if fields.get("add_source_bos"):
        raise FileError("config.json: add_source_bos is true; Saccade can only express false.")
    start = {"start": fields.get("decoder_start_token", fields["bos_token"])}
    names = {"unknown": fields["unk_token"], "end": fields["eos_token"]}
    ends = bool(fields.get("add_source_eos"))
    read = names if ends else {"unknown": names["unknown"]}
    return spaced_tokenizer(source, read, ends), spaced_tokenizer(target, names | start, True)


class Translation(Task):
    """Trains with the cross-entropy of each target token, and scores the translations that beam search finds."""

    name = "translation"
    about = "turns one text into another"
    metrics = ("bleu", "chrf", "exact", "loss")
    searches = True
    length_key = "data.max_length"
    state_class = TranslationState
    tables: ClassVar = {"text": TextSettings, "training": TranslationTraining, "decoding": SearchOptions}
    networks = SEQ2SEQ
    model_defaults: ClassVar = {"transformer": {"encoder_layers": 3, "decoder_layers": 3}}

    state: TranslationState
    training: TranslationTraining

    def build(self, kind: str, config: Config) -> nn.Module:
        return truncated(super().build(kind, config), kind, self.training.truncate)

    def encode(self, pairs: Sequence[GoldPair]) -> list[EncodedPair]:
        sources = self.state.source.encode_batch([pair.source for pair in pairs])
        targets = self.state.target.encode_batch([pair.target for pair in pairs])
        return [
            EncodedPair(self.state.source.ended(source.ids), target.ids, pair)
            for pair, source, target in zip(pairs, sources, targets, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedPair]) -> Int[np.ndarray, "n 2"]:
        return np.array([(len(pair.source), len(pair.target) + 1) for pair in examples])

    def batch(self, examples: Sequence[EncodedPair]) -> TranslationBatch:
        """Return a batch to train on, with gold links if ``training.guided_alignment`` is above 0."""
        batch = self.plain_batch(examples)
        if not self.training.guided_alignment:
            return batch
        return replace(batch, links=self._links(examples, batch.source.shape[1], batch.read.shape[1]))

    def plain_batch(self, examples: Sequence[EncodedPair]) -> TranslationBatch:
        start, end = self.state.target.special.start, self.state.target.special.end
        assert start is not None
        assert end is not None
        source, source_lengths = pad([pair.source for pair in examples])
        target = decoder_tokens([pair.target for pair in examples], start, end)
        return TranslationBatch(*target, [pair.gold.line for pair in examples], source, source_lengths)

    def loss(self, model: nn.Module, batch: TranslationBatch) -> Loss:
        """Return the cross-entropy of the target tokens; in training with guided alignment, the weighted loss of the
        attention compared with the gold links is added."""
        arguments = (batch.source, batch.source_lengths, batch.read)
        words = batch.predicted[batch.real]
        drawing = hard_attention(model) if model.training else None
        targets = Targets(words, batch.real, self.smoothing(model), summed=drawing is None)
        alignment_loss: Tensor | None = None
        if model.training and batch.links is not None:
            total, alignment_loss = guided_loss(model, arguments, targets, batch.links)
        else:
            total = model(*arguments, targets=targets)
        if drawing is not None:  # hard attention learns by reinforcement from the loss of each token
            each = torch.zeros(batch.real.shape, device=total.device).masked_scatter(batch.real, total)
            # DistributedDataParallel wraps the network, so its configuration may be one level down.
            configs = (getattr(part, "config", None) for part in model.modules())
            enters_state = any(getattr(config, "attention", None) == "state" for config in configs)
            reinforced = ReinforcedLoss(later=0.5 if enters_state else 0.0, exploration=self.training.exploration)
            total = reinforced(each, drawing.log_probability, batch.real) * len(words)
        if alignment_loss is not None:
            total = total + self.training.guided_alignment * alignment_loss
        return Loss(total, len(words))

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[EncodedPair], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        loss = self.mean_loss(model, examples, self.training.batch_tokens, check_cancelled)
        if not math.isfinite(loss):  # a network with NaN weights cannot generate text
            return dict.fromkeys(("loss", "perplexity", *self.metrics), math.nan)
        texts = self._texts(model, examples, SearchOptions(beam=1), self.training.batch_tokens, check_cancelled)
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 50.0))}
        return scores | text_scores(texts, [pair.gold.target for pair in examples])

    def evaluation_effort(self, options: SearchOptions) -> float:
        return (options.beam + 1) / 2  # validation searches greedily

    @torch.inference_mode()
    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[EncodedPair],
        options: SearchOptions | None = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        """Translate the sources by beam search, and score the translations; if the gold links of all pairs are known,
        also score the alignment that the model's attention gives."""
        texts = self._texts(model, examples, options or SearchOptions(), self.evaluation_size, check_cancelled)
        scores = text_scores(texts, [pair.gold.target for pair in examples])
        if self.state.alignment is not None and all(pair.gold.links is not None for pair in examples):
            right, total = self.content_agreement(model, examples, check_cancelled)
            scores |= {"alignment": 100.0 * right / max(total, 1), "alignment_words": total}
        scores |= self._by_language(model, examples, texts, "alignment" in scores, check_cancelled)
        return Evaluation(scores, _by_kind(texts, [pair.gold for pair in examples]))

    def _by_language(
        self,
        model: nn.Module,
        examples: Sequence[EncodedPair],
        texts: Sequence[str],
        aligned: bool,
        check_cancelled: CheckCancelled,
    ) -> dict[str, float]:
        """Return BLEU, the fraction of exact matches and the alignment of each target language if there are several."""
        scores: dict[str, float] = {}
        for language in dict.fromkeys(pair.gold.language for pair in examples if pair.gold.language):
            own = [number for number, pair in enumerate(examples) if pair.gold.language == language]
            part = [examples[number] for number in own]
            found = text_scores([texts[number] for number in own], [pair.gold.target for pair in part])
            scores |= {f"bleu {language}": found["bleu"], f"exact {language}": found["exact"]}
            if aligned:
                right, total = self.content_agreement(model, part, check_cancelled)
                scores[f"alignment {language}"] = 100.0 * right / max(total, 1)
        return scores

    def _texts(
        self,
        model: nn.Module,
        examples: Sequence[EncodedPair],
        options: SearchOptions,
        batch_tokens: int,
        check_cancelled: CheckCancelled,
    ) -> list[str]:
        sources = [pair.source for pair in examples]
        found = search(model, sources, options, batch_tokens, check_cancelled, self.state.target)
        return [self.state.target.decode(best[0].tokens) for best in found]

    @torch.inference_mode()
    def content_agreement(
        self, model: nn.Module, examples: Sequence[EncodedPair], check_cancelled: CheckCancelled
    ) -> tuple[int, int]:
        """Count the content words of the targets that have gold links, and how many of these the model's attention
        aligns correctly when it is fed the true targets. Returns (correct, total)."""
        right = total = 0
        for start in range(0, len(examples), 64):
            check_cancelled()
            part = examples[start : start + 64]
            batch = self.plain_batch(part).to(device_of(model))
            with watch(model) as traces:
                model(batch.source, batch.source_lengths, batch.read, at=LAST)
            seen = compute_weights(traces, self.state.alignment)
            for number, pair in enumerate(part):
                matrix = read_alignment(
                    seen, self.state.alignment, rows=len(pair.target), columns=len(pair.source), batch=number
                )
                assert matrix is not None
                one, all_of = word_agreement(pair.gold, matrix[:, :-1], self.state.source, self.state.target)
                right, total = right + one, total + all_of
        return right, total

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: EncodedPair) -> Probe:
        options = SearchOptions(beam=1)
        (found,) = search(model, [example.source], options, 1 << 20, lambda: None, self.state.target)
        tokens = found[0].tokens
        with watch(model) as seen:
            batch = self.plain_batch([replace(example, target=tokens)]).to(device_of(model))
            model(batch.source, batch.source_lengths, batch.read, at=LAST)
        weights = read_alignment(seen, self.state.alignment, rows=len(tokens), columns=len(example.source))
        return Probe(
            self.state.source.tokens(example.source),
            self.state.target.tokens(tokens),
            self.state.target.decode(tokens),
            [] if weights is None else [[round(w, 4) for w in row] for row in weights.tolist()],
        )

    def source_and_truth(self, example: EncodedPair) -> tuple[str, str]:
        return example.gold.source, example.gold.target

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[EncodedPair]) -> TranslationState:
        """Return the state with the layer, heads and row that alignments are read from, chosen on some training
        pairs."""
        chosen = sorted(examples, key=lambda pair: len(pair.source) * len(pair.target))
        chosen = chosen[len(chosen) // 2 :]  # pairs of medium length: long ones are slow, short ones tell little
        largest = max(len(pair.source) * (len(pair.target) + 1) for pair in chosen[:ALIGNMENT_PAIRS])
        chosen = chosen[: min(ALIGNMENT_PAIRS, max(1, ALIGNMENT_WEIGHTS // largest))]
        batch = self.plain_batch(chosen).to(device_of(model))
        with watch(model) as seen:
            model(batch.source, batch.source_lengths, batch.read, at=LAST)
        links = [token_links(pair.gold, self.state.source, self.state.target) for pair in chosen]
        return replace(self.state, alignment=choose_alignment_heads(seen, chosen, links))

    def facts(self) -> list[str]:
        return [
            f"text: {self.state.source.vocabulary_size:,} {self.state.source.kind} tokens for the source, "
            f"{self.state.target.vocabulary_size:,} {self.state.target.kind} tokens for the target",
            "scores: BLEU and chrF by sacrebleu on raw text; `exact` is the percentage of exact matches",
        ]

    def _links(self, examples: Sequence[EncodedPair], sources: int, targets: int) -> Float[Tensor, "B T S"]:
        """Return the gold links as weights that sum to 1 for each linked target token."""
        weights = torch.zeros(len(examples), targets, sources)
        for number, pair in enumerate(examples):
            links = token_links(pair.gold, self.state.source, self.state.target)
            if links is None:
                raise OptionError(
                    f"training.guided_alignment needs gold links, but line {pair.gold.line} has none; give "
                    "data.alignments, or set training.guided_alignment to 0."
                )
            for source, target in links:
                weights[number, target, source] = 1.0
        return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1.0)


def _by_kind(texts: Sequence[str], pairs: Sequence[GoldPair]) -> dict[str, tuple[int, int]]:
    """Count exact matches and totals for each kind of sentence, if the corpus has kinds."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text, pair in zip(texts, pairs, strict=True):
        total[pair.kind] += 1
        right[pair.kind] += text == pair.target
    return {kind: (right[kind], total[kind]) for kind in sorted(total) if kind}
