"""Text autoencoder: compress a text into one small vector, and reconstruct it (lecture 004)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.models import Targets
from saccade.models.autoencoder import (
    RecurrentAutoencoder,
    RecurrentAutoencoderConfig,
    TransformerAutoencoder,
    TransformerAutoencoderConfig,
)
from saccade.tasks.base.decoder_batch import DecoderBatch, decoder_tokens
from saccade.tasks.base.neighbours import AT_ONCE, MOST_SAVED, NeighbourIndex, evenly_spaced
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.settings import SearchTraining
from saccade.tasks.base.task import (
    CheckCancelled,
    Loss,
    Network,
    Probe,
    ReadFile,
    ScoredTask,
    TaskState,
    device_of,
    read_tokenizer,
)
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.text_autoencoder.data import TextLine
from saccade.text import END, MASK, Tokenizer, pad

__all__ = ["EncodedLine", "NoisyText", "TextAutoencoder", "TextAutoencoderState"]

SEARCH_TOKENS = 4096
GREEDY = SearchOptions(beam=1, max_ratio=1.5)


class NoisyText(TokenSettings):
    """How text is split into tokens, and what is hidden from the encoder during training."""

    drop: float = Field(0.0, ge=0, lt=1, description="Fraction of tokens that are left out of the input")
    mask: float = Field(0.0, ge=0, lt=1, description="Fraction of tokens that are replaced by [MASK] in the input")


@dataclass(frozen=True)
class EncodedLine:
    """A text as token ids, without START and END."""

    ids: list[int]
    text: str
    line: int


@dataclass(frozen=True)
class TextAutoencoderBatch(DecoderBatch):
    """The texts to reconstruct, and the input of the encoder, in which tokens may be left out or masked."""

    source: Int[Tensor, "B S"]
    lengths: Int[Tensor, " B"]


@dataclass(frozen=True)
class TextAutoencoderState(TaskState):
    """The tokenizer and, after training, some training texts with their codes, among which the nearest neighbours of an
    input are found."""

    tokenizer: Tokenizer
    index: NeighbourIndex = field(default_factory=NeighbourIndex)

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[TextLine], tokenizer: Tokenizer | None = None
    ) -> Self:
        return cls(settings["text"].train([one.source for one in train]))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(read_tokenizer(read, where), NeighbourIndex.load(description, read, where))

    def description(self) -> dict[str, Any]:
        return {"neighbours": len(self.index.lines)}

    def files(self) -> dict[str, bytes]:
        return {**self.tokenizer.files(), **self.index.files()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"source": self.tokenizer, "target": self.tokenizer}


class TextAutoencoder(ScoredTask):
    """Trains with the cross-entropy of each token of the text, and scores how well texts are reconstructed."""

    name = "text-autoencoder"
    about = "compresses a text into one small vector and reconstructs it"
    metrics = ("loss", "exact", "bleu", "chrf")
    state_class = TextAutoencoderState
    tables: ClassVar = {"text": NoisyText, "training": SearchTraining}
    networks: ClassVar = {
        "transformer": Network(
            TransformerAutoencoderConfig, lambda c, state: TransformerAutoencoder(c, state.tokenizer.vocabulary_size)
        ),
        "recurrent": Network(
            RecurrentAutoencoderConfig, lambda c, state: RecurrentAutoencoder(c, state.tokenizer.vocabulary_size)
        ),
    }

    state: TextAutoencoderState
    training: SearchTraining

    def encode(self, examples: Sequence[TextLine]) -> list[EncodedLine]:
        found = self.state.tokenizer.encode_batch([one.source for one in examples])
        return [EncodedLine(one.ids, given.source, given.line) for one, given in zip(found, examples, strict=True)]

    def lengths(self, examples: Sequence[EncodedLine]) -> Int[np.ndarray, "n 1"]:
        return np.array([[len(one.ids) + 1] for one in examples])

    def batch(self, examples: Sequence[EncodedLine]) -> TextAutoencoderBatch:
        """Return a batch to train on; in the input of the encoder, some tokens are left out or masked."""
        batch = self.plain_batch(examples)
        noise: NoisyText = self.settings["text"]
        if not noise.drop and not noise.mask:
            return batch
        noisy = []
        for one in examples:
            drawn = torch.rand(2, len(one.ids)).tolist()
            hidden = [MASK if place < noise.mask else i for i, place in zip(one.ids, drawn[0], strict=True)]
            noisy.append([*(i for i, place in zip(hidden, drawn[1], strict=True) if place >= noise.drop), END])
        source, lengths = pad(noisy)
        return replace(batch, source=source, lengths=lengths)

    def plain_batch(self, examples: Sequence[EncodedLine]) -> TextAutoencoderBatch:
        source, lengths = pad([[*one.ids, END] for one in examples])
        lines = [one.line for one in examples]
        return TextAutoencoderBatch(*decoder_tokens([one.ids for one in examples]), lines, source, lengths)

    def loss(self, model: nn.Module, batch: TextAutoencoderBatch) -> Loss:
        words = batch.predicted[batch.real]
        targets = Targets(words, batch.real, self.smoothing(model))
        return Loss(model(batch.source, batch.lengths, batch.read, targets=targets), len(words))

    def scores(
        self, model: nn.Module, examples: Sequence[EncodedLine], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        loss = self.mean_loss(model, examples, batch_size, check_cancelled)
        if not math.isfinite(loss):  # a network with NaN weights cannot generate text
            return dict.fromkeys(self.metrics, math.nan)
        texts = [self.state.tokenizer.decode(ids) for ids in self.reconstruct(model, examples, check_cancelled)]
        return {"loss": loss, **text_scores(texts, [one.text for one in examples])}

    def reconstruct(
        self, model: nn.Module, examples: Sequence[EncodedLine], check_cancelled: CheckCancelled = lambda: None
    ) -> list[list[int]]:
        """Return the token ids of the reconstruction of each text, found by greedy search."""
        found = search(model, [[*one.ids, END] for one in examples], GREEDY, SEARCH_TOKENS, check_cancelled)
        return [best[0].tokens for best in found]

    def codes(self, model: nn.Module, examples: Sequence[EncodedLine]) -> Float[Tensor, "n E"]:
        """Return the code of each text: the small vector that the network compresses it into."""
        network = cast(TransformerAutoencoder | RecurrentAutoencoder, model)
        found = []
        for start in range(0, len(examples), AT_ONCE):
            source, lengths = pad([[*one.ids, END] for one in examples[start : start + AT_ONCE]])
            found.append(network.code(source.to(device_of(model)), lengths.to(device_of(model))).cpu())
        return torch.cat(found)

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: EncodedLine) -> Probe:
        tokenizer = self.state.tokenizer
        (ids,) = self.reconstruct(model, [example])
        tokens = [tokenizer.tokens(some) for some in (example.ids, ids)]
        return Probe(tokens[0], tokens[1], tokenizer.decode(ids), [])

    def source_and_truth(self, example: EncodedLine) -> tuple[str, str]:
        return "", self.state.tokenizer.decode(example.ids)

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[EncodedLine]) -> TextAutoencoderState:
        """Return the state with some training texts and their codes, among which the nearest neighbours of later inputs
        are found."""
        chosen = [examples[i] for i in evenly_spaced(len(examples), MOST_SAVED)]
        lines, texts = [one.line for one in chosen], [one.text for one in chosen]
        return replace(self.state, index=NeighbourIndex(self.codes(model, chosen), lines, texts, images=None))

    def facts(self) -> list[str]:
        tokenizer = self.state.tokenizer
        return [
            f"text: {tokenizer.kind} tokens, vocabulary of {tokenizer.vocabulary_size:,}",
            "scores: `exact` is the percentage of exact reconstructions; BLEU and chrF by sacrebleu",
            f"{len(self.state.index.lines):,} training texts are saved with their codes (neighbours.*)",
        ]
