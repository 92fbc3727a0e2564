"""Masked language model: hidden tokens from those on both sides (BERT, Devlin 2019, §3.1; Phuong & Hutter 2022,
algorithm 12).

A share of the tokens is chosen. Of these, 8 in 10 become MASK, 1 in 10 another token, drawn from all, and 1 in 10 stays
as it is; the model says for each what it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.documents import Document, Unit, has_blank_line
from saccade.data.paths import resolve_path
from saccade.errors import OptionError
from saccade.models import Config, EncoderOnly, Targets, TransformerConfig
from saccade.tasks.base.task import Batch, Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.language_model.data import TextData, read_text, read_text_splits, text_table
from saccade.text import MASK, SPECIAL_TOKENS, UNKNOWN, Tokenizer, pad, plan_batches

__all__ = ["MaskedBatch", "MaskedLanguageModel", "MaskedText", "Piece", "hide"]

TOKENIZER = "tokenizer.json"
#: Of the chosen tokens: the share that becomes MASK, and that which becomes another token.
MASKED, SWAPPED = 0.8, 0.1
#: Of the masks at validation: always the same.
VALIDATION_SEED = 0
#: Padded tokens that are read at once in an evaluation.
EVALUATION_TOKENS = 8192


class MaskedData(TextData):
    """Plain text, or one column of a table; paths may use ~ and $SACCADE_DATA."""

    documents: Unit = Field(
        "line", description="What a document is: file, line or paragraph (separated by blank lines)"
    )


class MaskedText(TokenSettings):
    """How text becomes tokens, and how many are hidden."""

    context: int = Field(128, ge=2, description="Tokens in a piece; longer documents are cut into several")
    share: float = Field(0.15, gt=0, lt=1, description="Share of tokens that the model must predict")


class Piece(NamedTuple):
    """Consecutive tokens of a document."""

    tokens: list[int]
    line: int  # where the document begins


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Pieces padded to one length."""

    tokens: Int[Tensor, "B N"]  # some of them hidden
    lengths: Int[Tensor, " B"]
    chosen: Bool[Tensor, "B N"]  # the places where the true token is asked for
    truth: Int[Tensor, " M"]  # the true tokens there, row by row
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.truth)


def hide(
    tokens: Int[Tensor, "B N"],
    real: Bool[Tensor, "B N"],
    share: float,
    vocabulary: int,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """The tokens with some hidden, and which were chosen; at least one is. What is unknown is not asked for."""
    known = real & (tokens != UNKNOWN)
    known = known if known.any() else real
    draw = torch.rand(tokens.shape, generator=generator).masked_fill(~known, 2.0)
    chosen = (draw < share) | (draw == draw.amin())
    fate = torch.rand(tokens.shape, generator=generator)
    others = torch.randint(len(SPECIAL_TOKENS), vocabulary, tokens.shape, generator=generator)
    hidden = tokens.masked_fill(chosen & (fate < MASKED), MASK)
    return torch.where(chosen & (fate >= MASKED) & (fate < MASKED + SWAPPED), others, hidden), chosen


def _build(config: TransformerConfig, task: MaskedLanguageModel) -> nn.Module:
    if not config.encoder_layers:
        raise OptionError("A masked language model reads with an encoder; model.encoder_layers is at least 1, not 0.")
    if config.position == "learned" and config.max_length < task.context:
        raise OptionError(
            f"model.max_length = {config.max_length} positions are fewer than text.context = {task.context}; raise it."
        )
    return EncoderOnly(config, task.tokenizer.vocabulary_size)


class MaskedLanguageModel(Task):
    """The task with its tokenizer. A tagger or classifier of the same shape can begin from its model (``--init``)."""

    name = "masked-language-model"
    about = "hidden words of a text are found"
    metrics = ("loss", "accuracy")
    settings: ClassVar[Mapping[str, type[Config]]] = {"data": MaskedData, "text": MaskedText}
    read_as = ("documents", "labelled", "column", "encoding")
    networks: ClassVar[Mapping[str, Network]] = {"transformer": Network(TransformerConfig, _build)}
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"transformer": {"encoder_layers": 4}}
    training_defaults: ClassVar[Mapping[str, Any]] = {"label_smoothing": 0.0, "weight_decay": 0.01}

    def __init__(self, tokenizer: Tokenizer, context: int, *, share: float = 0.15, metric: str = "loss") -> None:
        self.check_metric(metric)
        self.tokenizer = tokenizer
        self.context = context
        self.share = share
        self.metric = metric

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """A text with blank lines in it, such as a book, is read in paragraphs; one without, line by line."""
        table = text_table(files, columns)
        texts = [path for key, path in table.items() if key.endswith("text")]
        if any(has_blank_line(resolve_path(path)) for path in texts):
            table["documents"] = "paragraph"
        return table

    @classmethod
    def read(cls, data: MaskedData, seed: int) -> Splits[Document]:
        return read_text_splits(data)

    @classmethod
    def read_given(cls, data: MaskedData) -> list[Document]:
        return read_text(data)

    @classmethod
    def fitted(cls, splits: Splits[Document]) -> dict[str, Any]:
        characters = sum(len(document.text) for document in splits.train)
        large = characters > 5_000_000
        width, layers, steps = (256, 6, 50_000) if large else (128, 4, max(2_000, min(10_000, characters // 100)))
        return {
            "text": {"vocabulary": 8_000 if large else max(300, min(8_000, characters // 100))},
            "model": {
                "kind": "transformer",
                "width": width,
                "num_heads": 4,
                "encoder_layers": layers,
                "feedforward_width": 4 * width,
                "activation": "gelu",
                "dropout": 0.1,
                "scaled_embedding": True,
            },
            "training": {
                "steps": steps,
                "warmup": steps // 10,
                "batch_tokens": 4096,
                "lr": 1e-3 if width <= 128 else 5e-4,
                "validate_every": max(100, steps // 10),
            },
        }

    @classmethod
    def identity(cls, example: Document) -> bytes:
        return f"{example.text}\0".encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Document], metric: str = "loss") -> Self:
        text: MaskedText = settings["text"]
        tokenizer = text.train([document.text for document in train])
        return cls(tokenizer, text.context, share=text.share, metric=metric)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        tokenizer = Tokenizer.from_bytes(read(TOKENIZER), f"{where}: {TOKENIZER}")
        return cls(tokenizer, description["context"], share=description["share"], metric=description["metric"])

    def description(self) -> dict[str, Any]:
        return {"context": self.context, "share": self.share, "metric": self.metric}

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.tokenizer.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.context, chosen.share = settings["text"].context, settings["text"].share
        return chosen

    def facts(self) -> list[str]:
        return [
            f"{self.tokenizer.vocabulary_size:,} tokens (kind: {self.tokenizer.kind}); [MASK] hides one of them.",
            f"loss (nats) and accuracy (%) of the {100 * self.share:g}% of tokens that are asked for; at validation "
            "always the same ones.",
        ]

    # --- training ---

    def encode(self, examples: Sequence[Document]) -> list[Piece]:
        found = []
        for document, ids in zip(examples, self.tokenizer.encode_ids([one.text for one in examples]), strict=True):
            found += [Piece(ids[i : i + self.context], document.line) for i in range(0, len(ids), self.context)]
        return found

    def lengths(self, examples: Sequence[Piece]) -> Int[np.ndarray, "n 1"]:
        return np.array([[len(piece.tokens)] for piece in examples])

    def batch(self, examples: Sequence[Piece]) -> MaskedBatch:
        """Other tokens are hidden each time."""
        tokens, lengths = pad([piece.tokens for piece in examples])
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        hidden, chosen = hide(tokens, real, self.share, self.tokenizer.vocabulary_size)
        return MaskedBatch(hidden, lengths, chosen, tokens[chosen], [piece.line for piece in examples])

    def fixed(self, examples: Sequence[Piece]) -> list[tuple[list[int], list[bool]]]:
        """Each piece with tokens hidden that depend on its place among all only, not on who shares its batch."""
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        joined = torch.tensor([[token for piece in examples for token in piece.tokens]])
        real = torch.ones_like(joined, dtype=torch.bool)
        hidden, chosen = hide(joined, real, self.share, self.tokenizer.vocabulary_size, generator)
        tokens, flags = hidden[0].tolist(), chosen[0].tolist()
        ends = np.cumsum([len(piece.tokens) for piece in examples]).tolist()
        return [(tokens[start:end], flags[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def loss(self, model: nn.Module, batch: MaskedBatch, label_smoothing: float) -> Loss:
        targets = Targets(batch.truth, batch.chosen, label_smoothing)
        return Loss(model(batch.tokens, batch.lengths, targets=targets), batch.count)

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[Piece], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        masked = self.fixed(examples)
        total, right, count = 0.0, 0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_tokens, shuffle=False):
            tick()
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

    def evaluate(self, model: nn.Module, examples: Sequence[Piece], options: Any, *, tick: Tick) -> Evaluation:
        most = max(EVALUATION_TOKENS, self.context)
        return Evaluation(self.validate(model, examples, batch_tokens=most, tick=tick))

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: Piece) -> Probe:
        """A piece with its fixed masks, and what the model puts in their places now."""
        ((hidden, chosen),) = self.fixed([example])
        places = [place for place, flag in enumerate(chosen) if flag]
        best = self.log_probabilities(model, hidden)[places].argmax(dim=-1).tolist()
        filled = list(hidden)
        for place, token in zip(places, best, strict=True):
            filled[place] = token
        outputs = [self.tokenizer.token(token) for token in best]
        return Probe([self.tokenizer.token(token) for token in hidden], outputs, self.tokenizer.decode(filled), [])

    @torch.inference_mode()
    def log_probabilities(self, model: nn.Module, tokens: Sequence[int]) -> Float[Tensor, "N V"]:
        """Of every token at every place of one text."""
        logits: Tensor = model(torch.tensor([list(tokens)], device=device_of(model)))
        return logits[0].float().log_softmax(dim=-1).cpu()
