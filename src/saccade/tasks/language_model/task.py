"""Language model: the next token, from those before it (GPT-like; Phuong & Hutter 2022, algorithms 10 and 14).

loss = -1/N Σ_t log p(x_t | x_<t),   perplexity = exp(loss),   bits a character = N · loss / (ln 2 · characters)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import nn

from saccade.attention import watch
from saccade.data.documents import Document
from saccade.errors import FileError, OptionError
from saccade.models import LAST, DecoderOnly, RecurrentConfig, RecurrentLanguageModel, Targets, TransformerConfig
from saccade.tasks.base.task import Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.tasks.language_model.data import TextData, read_text, read_text_splits, text_table
from saccade.tasks.language_model.generation import GenerationOptions, Prompt, generate
from saccade.tasks.language_model.streams import LanguageModelBatch, Window, make_stream
from saccade.text import END, UNKNOWN, Tokenizer

__all__ = ["LanguageModel", "LanguageModelText"]

TOKENIZER = "tokenizer.json"
#: Tokens of a probe: read, and written on.
PROBE_READ, PROBE_WRITTEN = 32, 48
#: Padded tokens that are scored at once in an evaluation.
EVALUATION_TOKENS = 8192
#: (at most so many characters, kind of token, vocabulary, context, width, layers, dropout, tokens a batch, updates)
SIZES = (
    (50_000, "character", 500, 64, 64, 2, 0.2, 1024, 1_000),
    (300_000, "character", 500, 128, 128, 4, 0.2, 2048, 3_000),
    (5_000_000, "character", 1_000, 256, 256, 4, 0.2, 4096, 5_000),
    (50_000_000, "bpe", 8_000, 256, 256, 6, 0.1, 4096, 30_000),
    (None, "bpe", 16_000, 512, 512, 8, 0.1, 8192, 100_000),
)


class LanguageModelText(TokenSettings):
    """How text becomes tokens and windows."""

    kind: TokenKind = Field(
        "character", description="What a token is: bpe (a piece of a word), word, character or byte"
    )
    context: int = Field(256, ge=1, description="Tokens in a window; training sees nothing before it")


def _transformer(config: TransformerConfig, task: LanguageModel) -> nn.Module:
    if config.position == "learned" and config.max_length < task.context:
        raise OptionError(
            f"model.max_length = {config.max_length} positions are fewer than text.context = {task.context}; raise it."
        )
    return DecoderOnly(config, task.tokenizer.vocabulary_size)


def _recurrent(config: RecurrentConfig, task: LanguageModel) -> nn.Module:
    return RecurrentLanguageModel(config, task.tokenizer.vocabulary_size)


class LanguageModel(Task):
    """The task with its tokenizer. A recurrent net begins each window with an empty state, as a Transformer does."""

    name = "language-model"
    about = "text is continued from a prompt"
    metrics = ("loss", "bits")
    losses = ("loss", "bits")
    settings: ClassVar = {"data": TextData, "text": LanguageModelText, "decoding": GenerationOptions}
    read_as = ("documents", "labelled", "column", "encoding")
    networks: ClassVar = {
        "transformer": Network(TransformerConfig, _transformer),
        "recurrent": Network(RecurrentConfig, _recurrent),
    }
    model_defaults: ClassVar = {"transformer": {"decoder_layers": 4}}
    training_defaults: ClassVar = {"label_smoothing": 0.0, "beta2": 0.99, "weight_decay": 0.1}

    def __init__(self, tokenizer: Tokenizer, context: int, *, separated: bool, metric: str = "loss") -> None:
        self.check_metric(metric)
        self.tokenizer = tokenizer
        self.context = context
        self.separated = separated  # documents have ends, which the model learns
        self.metric = metric

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return text_table(files, columns)

    @classmethod
    def read(cls, data: TextData, seed: int) -> Splits[Document]:
        return read_text_splits(data)

    @classmethod
    def read_given(cls, data: TextData) -> list[Document]:
        return read_text(data)

    @classmethod
    def fitted(cls, splits: Splits[Document]) -> dict[str, Any]:
        characters = sum(len(document.text) for document in splits.train)
        _, kind, vocabulary, context, width, layers, dropout, batch, steps = next(
            size for size in SIZES if size[0] is None or characters <= size[0]
        )
        return {
            "text": {"kind": kind, "vocabulary": vocabulary, "context": min(context, max(8, characters // 20))},
            "model": {
                "kind": "transformer",
                "width": width,
                "num_heads": width // 64 if width >= 256 else 4,
                "decoder_layers": layers,
                "feedforward_width": 4 * width,
                "activation": "gelu",
                "position": "rotary",
                "bias": False,
                "dropout": dropout,
            },
            "training": {
                "steps": steps,
                "warmup": steps // 20,
                "batch_tokens": batch,
                "lr": 1e-3,
                "lr_end": 0.1,
                "validate_every": max(100, steps // 10),
            },
        }

    @classmethod
    def identity(cls, example: Document) -> bytes:
        return f"{example.text}\0".encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Document], metric: str = "loss") -> Self:
        text: LanguageModelText = settings["text"]
        data: TextData = settings["data"]
        made = cls(
            text.train([document.text for document in train]),
            text.context,
            separated=data.documents != "file" or data.table is not None,
            metric=metric,
        )
        if sum(len(document.text) for document in train) < 100 * text.context:  # else there are surely enough tokens
            found = len(make_stream(made.tokenizer, train, separated=made.separated))
            if found <= text.context:
                raise FileError(
                    f"{data.text or data.table} has {found:,} tokens to train on; expected at least "
                    f"{text.context + 1:,}, one more than text.context."
                )
        return made

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        tokenizer = Tokenizer.from_bytes(read(TOKENIZER), f"{where}: {TOKENIZER}")
        return cls(tokenizer, description["context"], separated=description["separated"], metric=description["metric"])

    def description(self) -> dict[str, Any]:
        return {"context": self.context, "separated": self.separated, "metric": self.metric}

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.tokenizer.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.context = settings["text"].context
        return chosen

    def facts(self) -> list[str]:
        return [
            f"{self.tokenizer.vocabulary_size:,} tokens (kind: {self.tokenizer.kind}), windows of {self.context}.",
            "loss: nats a token over consecutive windows; perplexity: its exponential; bits: bits a character.",
        ]

    # --- training ---

    def encode(self, examples: Sequence[Document]) -> list[Window]:
        if not examples:
            return []
        return make_stream(self.tokenizer, examples, separated=self.separated).windows(self.context)

    def lengths(self, examples: Sequence[Window]) -> Int[np.ndarray, "n 1"]:
        return np.array([[window.length] for window in examples])

    def batch(self, examples: Sequence[Window]) -> LanguageModelBatch:
        """As many windows, each moved by a number of places that is drawn: no two epochs cut the text alike."""
        stream = examples[0].stream
        length = min(self.context, len(stream) - 1)
        starts = torch.tensor([window.start for window in examples]) + torch.randint(length, (len(examples),))
        return stream.cut(starts % (len(stream) - length), length)

    def loss(self, model: nn.Module, batch: LanguageModelBatch, label_smoothing: float) -> Loss:
        targets = Targets(batch.predicted.flatten(), label_smoothing=label_smoothing)
        return Loss(model(batch.read, targets=targets), batch.count)

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[Window], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        """Over the whole text in consecutive windows, so that the score is no sample of it."""
        total, count = 0.0, 0
        for length, equal in groupby(examples, key=lambda window: window.length):
            windows, size = list(equal), max(1, batch_tokens // length)
            for first in range(0, len(windows), size):
                tick()
                starts = torch.tensor([window.start for window in windows[first : first + size]])
                batch = windows[0].stream.cut(starts, length).to(device_of(model))
                loss = self.loss(model, batch, 0.0)
                total, count = total + float(loss.total), count + loss.count
        stream = examples[0].stream
        characters = stream.characters * count / (len(stream) - 1)
        mean = total / count
        perplexity = math.exp(min(mean, 50.0)) if math.isfinite(mean) else math.nan
        return {"loss": mean, "perplexity": perplexity, "bits": total / math.log(2) / characters}

    def evaluate(self, model: nn.Module, examples: Sequence[Window], options: Any, *, tick: Tick) -> Evaluation:
        scores = self.validate(model, examples, batch_tokens=EVALUATION_TOKENS, tick=tick)
        predicted = sum(window.length for window in examples)
        lines = [f"{predicted:,} tokens predicted, in consecutive windows of {self.context}"]
        unknown = float((examples[0].stream.tokens[1:] == UNKNOWN).float().mean())
        if unknown > 0:  # one guess stands for any characters, so that the more is unknown, the fewer bits there are
            lines.append(
                f"{100 * unknown:.2g}% of the tokens are unknown: bits a character then says little, and compares with "
                "no other model"
            )
        return Evaluation(scores, lines=lines)

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: Window) -> Probe:
        """The beginning of a held-out window, and how the model goes on now within its context, always with the same
        draws."""
        count = max(1, min(PROBE_READ, self.context // 2, example.length))
        read = example.stream.tokens[example.start : example.start + count].tolist()
        options = GenerationOptions(max_tokens=max(1, min(PROBE_WRITTEN, self.context - count)), temperature=0.8)
        (written,) = generate(model, self.tokenizer, Prompt(read, self.separated), options)
        rows = torch.tensor([[*read, *written.ids[:-1]]], device=device_of(model))
        with watch(model) as seen:
            model(rows, at=LAST)
        weights: list[list[float]] = []
        if seen:
            trace = seen[[*seen][-1]]
            tile = trace.tile(range(len(read) - 1, rows.shape[1]), range(len(read)), batch=0)
            weights = [[round(weight, 4) for weight in row] for row in tile.mean(dim=0).tolist()]
        tokens = [[self.tokenizer.token(id) for id in ids] for ids in (read, written.ids)]
        return Probe(tokens[0], tokens[1], self.tokenizer.decode(read) + written.text, weights)

    # --- prompts ---

    def prompt(self, text: str) -> Prompt:
        """What a prompt is to the model. A text that begins anew begins after END; where one long text was learned,
        which has no beginnings, after the end of a line."""
        ids = self.tokenizer.encode_ids([text])[0]
        if self.separated:
            return Prompt([END, *ids], True, not ids)
        return Prompt(ids or self.tokenizer.encode_ids(["\n"])[0], False, not ids)
