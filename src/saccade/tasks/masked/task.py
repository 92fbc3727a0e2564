"""Masked language model: predict hidden tokens from the tokens on both sides (BERT, Devlin 2019, §3.1; Phuong & Hutter
2022, algorithm 12).

A fraction of the tokens is chosen at random. Of these, 8 in 10 become MASK, 1 in 10 become a random token, and 1 in 10
stay unchanged; the model predicts the original token at each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.documents import Document
from saccade.errors import OptionError
from saccade.models import Config, EncoderOnly, EncoderOnlyConfig, Targets
from saccade.pretrained import Pretrained
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Loss,
    Network,
    Probe,
    ReadFile,
    ScoredTask,
    TokenizerState,
    device_of,
    read_count,
    read_tokenizer,
)
from saccade.tasks.base.text_settings import TokenSettings
from saccade.text import ForeignTokenizer, Tokenizer, pad, plan_batches

__all__ = [
    "MaskedBatch",
    "MaskedLanguageModel",
    "MaskedLanguageModelState",
    "MaskedLanguageModelTraining",
    "MaskedText",
    "Passage",
    "hide",
]

#: The fraction of the chosen tokens that become MASK, and the fraction that become a random token.
MASKED, SWAPPED = 0.8, 0.1
#: The random seed for the masks of a validation, which are always the same.
VALIDATION_SEED = 0
#: The maximum number of tokens in the pieces of a text on which a pretrained model is scored.
LONGEST_PIECE = 512


class MaskedText(TokenSettings):
    """How text is split into tokens, and how many of them are hidden."""

    context: int = Field(128, ge=2, description="Maximum number of tokens in a piece; longer documents are cut")
    share: float = Field(0.15, gt=0, lt=1, description="Fraction of tokens that the model must predict")


class Passage(NamedTuple):
    """A piece of a document: at most ``text.context`` consecutive tokens."""

    tokens: list[int]
    line: int  # the line where the document starts


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Pieces of documents with some tokens hidden, padded to the same length."""

    tokens: Int[Tensor, "B N"]  # the tokens, some of them hidden
    lengths: Int[Tensor, " B"]
    chosen: Bool[Tensor, "B N"]  # the positions where the model must predict the true token
    truth: Int[Tensor, " M"]  # the true tokens at these positions, row by row
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.truth)


def hide(
    tokens: Int[Tensor, "B N"],
    real: Bool[Tensor, "B N"],
    share: float,
    tokenizer: Tokenizer,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return the tokens with some of them hidden, and which ones were chosen: about the fraction ``share``, but at
    least one. Special and unknown tokens are only chosen if there are no others."""
    words = torch.ones(tokenizer.vocabulary_size, dtype=torch.bool)
    words[list(tokenizer.hidden_ids)] = False
    known = real & words[tokens]
    known = known if known.any() else real
    draw = torch.rand(tokens.shape, generator=generator).masked_fill(~known, 2.0)
    chosen = (draw < share) | (draw == draw.amin())
    fate = torch.rand(tokens.shape, generator=generator)
    ids = words.nonzero()[:, 0]
    others = ids[torch.randint(len(ids), tokens.shape, generator=generator)]
    assert tokenizer.special.mask is not None
    hidden = tokens.masked_fill(chosen & (fate < MASKED), tokenizer.special.mask)
    return torch.where(chosen & (fate >= MASKED) & (fate < MASKED + SWAPPED), others, hidden), chosen


class MaskedLanguageModelTraining(TextTraining):
    """How the model is trained."""

    weight_decay: float = Field(0.01, ge=0, description="Weight decay of matrices; biases and norms are never decayed")


@dataclass(frozen=True)
class MaskedLanguageModelState(TokenizerState):
    """The tokenizer, the maximum length of the pieces into which documents are cut, and the fraction of tokens to
    predict."""

    tokenizer: Tokenizer
    context: int
    share: float = 0.15

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[Document], tokenizer: Tokenizer | None = None
    ) -> Self:
        text: MaskedText = settings["text"]
        return cls(text.train([document.text for document in train]), text.context, text.share)

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        return cls(tokenizer, min(model.config.max_length, LONGEST_PIECE))

    def continued(self, settings: Mapping[str, Any], train: Sequence[Any]) -> Self:
        return replace(self, context=settings["text"].context, share=settings["text"].share)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(read_tokenizer(read, where), read_count(description, "context"), description["share"])

    def description(self) -> dict[str, Any]:
        return {"context": self.context, "share": self.share}


def _build(config: EncoderOnlyConfig, state: MaskedLanguageModelState) -> nn.Module:
    if not config.encoder_layers:
        raise OptionError("A masked language model needs an encoder; model.encoder_layers must be at least 1, not 0.")
    if config.position == "learned" and config.max_length < state.context:
        raise OptionError(
            f"model.max_length = {config.max_length} is less than text.context = {state.context}; raise it."
        )
    return EncoderOnly(config, state.tokenizer.vocabulary_size)


class MaskedLanguageModel(ScoredTask):
    """Trains with the cross-entropy of hidden tokens. Taggers and classifiers whose networks have the same sizes can
    start from the weights of such a model (``--init``)."""

    name = "masked-language-model"
    about = "fills in hidden words of a text"
    metrics = ("loss", "accuracy")
    length_key = "text.context"
    state_class = MaskedLanguageModelState
    tables: ClassVar[Mapping[str, type[Config]]] = {"text": MaskedText, "training": MaskedLanguageModelTraining}
    networks: ClassVar[Mapping[str, Network]] = {"transformer": Network(EncoderOnlyConfig, _build)}
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"transformer": {"encoder_layers": 4}}
    evaluation_size = 8192

    state: MaskedLanguageModelState
    training: MaskedLanguageModelTraining

    def encode(self, examples: Sequence[Document]) -> list[Passage]:
        tokenizer, found = self.state.tokenizer, []
        size = self.state.context - len(tokenizer.framed([]))
        for document, ids in zip(examples, tokenizer.encode_ids([one.text for one in examples]), strict=True):
            found += [Passage(tokenizer.framed(ids[i : i + size]), document.line) for i in range(0, len(ids), size)]
        return found

    def lengths(self, examples: Sequence[Passage]) -> Int[np.ndarray, "n 1"]:
        return np.array([[len(piece.tokens)] for piece in examples])

    def batch(self, examples: Sequence[Passage]) -> MaskedBatch:
        """Return a batch to train on, in which different tokens are hidden each time."""
        tokens, lengths = pad([piece.tokens for piece in examples])
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        hidden, chosen = hide(tokens, real, self.state.share, self.state.tokenizer)
        return MaskedBatch(hidden, lengths, chosen, tokens[chosen], [piece.line for piece in examples])

    def with_fixed_masks(self, examples: Sequence[Passage]) -> list[tuple[list[int], list[bool]]]:
        """Return each piece with some tokens hidden, and which ones were chosen. For the same pieces, the choice is
        always the same, however they are put into batches."""
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        joined = torch.tensor([[token for piece in examples for token in piece.tokens]])
        real = torch.ones_like(joined, dtype=torch.bool)
        hidden, chosen = hide(joined, real, self.state.share, self.state.tokenizer, generator)
        tokens, flags = hidden[0].tolist(), chosen[0].tolist()
        ends = np.cumsum([len(piece.tokens) for piece in examples]).tolist()
        return [(tokens[start:end], flags[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Loss:
        targets = Targets(batch.truth, batch.chosen, self.smoothing(model))
        return Loss(model(batch.tokens, batch.lengths, targets=targets), batch.count)

    def scores(
        self, model: nn.Module, examples: Sequence[Passage], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        masked = self.with_fixed_masks(examples)
        total, right, count = 0.0, 0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_size, shuffle=False):
            check_cancelled()
            tokens, lengths = pad([masked[i][0] for i in part])
            truth, _ = pad([examples[i].tokens for i in part])
            chosen = pad([[int(flag) for flag in masked[i][1]] for i in part])[0].bool()
            if not chosen.any():
                continue
            device = device_of(model)
            logits = model(tokens.to(device), lengths.to(device), at=chosen.to(device))
            scores = logits.float().log_softmax(dim=-1)
            wanted = truth[chosen].to(device)
            total -= float(scores.gather(1, wanted.unsqueeze(1)).sum())
            right, count = right + int((scores.argmax(dim=-1) == wanted).sum()), count + len(wanted)
        mean = total / count
        return {
            "loss": mean,
            "perplexity": math.exp(min(mean, 50.0)) if math.isfinite(mean) else math.nan,
            "accuracy": 100 * right / count,
        }

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: Passage) -> Probe:
        """Return what the model currently fills in for the hidden tokens of one piece; the same tokens are hidden every
        time."""
        ((hidden, chosen),) = self.with_fixed_masks([example])
        places = [place for place, flag in enumerate(chosen) if flag]
        best = self.log_probabilities(model, hidden)[places].argmax(dim=-1).tolist()
        filled = list(hidden)
        for place, token in zip(places, best, strict=True):
            filled[place] = token
        outputs = [self.state.tokenizer.token(token) for token in best]
        return Probe(
            [self.state.tokenizer.token(token) for token in hidden], outputs, self.state.tokenizer.decode(filled), []
        )

    def source_and_truth(self, example: Passage) -> tuple[str, str]:
        return "", self.state.tokenizer.decode(example.tokens)

    @torch.inference_mode()
    def log_probabilities(self, model: nn.Module, tokens: Sequence[int]) -> Float[Tensor, "N V"]:
        """Return the log-probabilities of all tokens in the vocabulary at every position of one text."""
        logits: Tensor = model(torch.tensor([list(tokens)], device=device_of(model)))
        return logits[0].float().log_softmax(dim=-1).cpu()

    def facts(self) -> list[str]:
        tokenizer = self.state.tokenizer
        return [
            f"vocabulary of {tokenizer.vocabulary_size:,} tokens (kind: {tokenizer.kind}); each [MASK] hides one token",
            f"`loss` (nats) and `accuracy` (%) are computed on {100 * self.state.share:g}% of the tokens, always the "
            f"same ones in every validation",
        ]
