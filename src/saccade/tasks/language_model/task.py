"""Language model: predict the next token from those before it (GPT-like; Phuong & Hutter 2022, algorithms 10 and 14).

loss = -1/N Σ_t log p(x_t | x_<t),   perplexity = exp(loss),   bits per character = N · loss / (ln 2 · characters)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.documents import Document
from saccade.errors import FileError, OptionError, counted
from saccade.models import (
    LAST,
    Config,
    ConvolutionalLanguageConfig,
    ConvolutionalLanguageModel,
    DecoderOnly,
    DecoderOnlyConfig,
    Memory,
    RecurrentLanguageConfig,
    RecurrentLanguageModel,
    RWKVConfig,
    RWKVLanguageModel,
    Targets,
)
from saccade.pretrained import Pretrained
from saccade.tasks.base.networks import truncated
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.sharing import for_each
from saccade.tasks.base.task import (
    CheckCancelled,
    Evaluation,
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
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.tasks.language_model.data import TextData
from saccade.tasks.language_model.generation import GenerationOptions, Prompt, generate
from saccade.tasks.language_model.streams import LanguageModelBatch, Window, Windows, make_stream, texts_to_learn
from saccade.text import END, ForeignTokenizer, Tokenizer

__all__ = ["LanguageModel", "LanguageModelState", "LanguageModelText", "LanguageModelTraining"]

#: The number of tokens in a probe that are read, and that are generated.
PROBE_READ, PROBE_WRITTEN = 32, 48
#: The longest windows that a pretrained model is scored on.
LONGEST_WINDOW = 1024


class LanguageModelText(TokenSettings):
    """How text is split into tokens and windows."""

    kind: TokenKind = Field(
        "character", description="What a token is: bpe (a piece of a word), word, character or byte"
    )
    context: int = Field(
        256, ge=1, description="Tokens in a window; in training, a token sees only earlier tokens of its window"
    )


class LanguageModelTraining(TextTraining):
    """How the model is trained."""

    weight_decay: float = Field(0.1, ge=0, description="Weight decay of matrices; biases and norms are never decayed")
    truncate: int | None = Field(
        None,
        ge=1,
        description="Recurrent networks: read the text in order, carry the state from window to window, and "
        "back-propagate through at most this many steps; if not given, each window starts from an empty state",
    )
    beta2: float = Field(0.99, ge=0, lt=1, description="AdamW: decay of the mean squared gradient")


@dataclass(frozen=True)
class LanguageModelState(TokenizerState):
    """The tokenizer, and how text is split into windows."""

    tokenizer: Tokenizer
    context: int
    separated: bool  # whether documents have end tokens, so that the model learns where they end
    framed: bool = False  # whether texts start with the tokens that the tokenizer adds, instead of after END
    carries: bool = False  # whether the model starts each window in the state at the end of the window before it

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[Document], tokenizer: Tokenizer | None = None
    ) -> Self:
        text: LanguageModelText = settings["text"]
        data: TextData = settings["data"]
        separated = data.documents != "file" or data.table is not None
        state = cls(text.train(texts_to_learn(train, text.kind)), text.context, separated, carries=_carries(settings))
        if sum(document.characters for document in train) < 100 * text.context:  # otherwise there are enough tokens
            found = len(make_stream(state.tokenizer, train, separated=separated))
            if found <= text.context:
                raise FileError(
                    f"{data.text or data.table} has only {counted(found, 'token')} to train on; it needs at least "
                    f"{text.context + 1:,}, one more than text.context."
                )
        return state

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        trained = model.config.max_length if model.config.position == "learned" else model.trained_length
        context = min(trained or LONGEST_WINDOW, LONGEST_WINDOW)
        return cls(tokenizer, context, separated=tokenizer.special.end is not None, framed=True)

    def continued(self, settings: Mapping[str, Any], train: Sequence[Any]) -> Self:
        return replace(self, context=settings["text"].context, carries=_carries(settings))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(
            read_tokenizer(read, where),
            read_count(description, "context"),
            description["separated"],
            description.get("framed", False),  # these two are not in folders of earlier versions
            description.get("carries", False),
        )

    def description(self) -> dict[str, Any]:
        names = ("context", "separated", "framed", "carries")
        return {name: getattr(self, name) for name in names}


def _carries(settings: Mapping[str, Any]) -> bool:
    training = settings.get("training")
    return training is not None and training.truncate is not None


def _transformer(config: DecoderOnlyConfig, state: LanguageModelState) -> nn.Module:
    if config.position == "learned" and config.max_length < state.context:
        raise OptionError(
            f"model.max_length = {config.max_length} is less than text.context = {state.context}; raise it."
        )
    return DecoderOnly(config, state.tokenizer.vocabulary_size)


class LanguageModel(ScoredTask):
    """Trains with the cross-entropy of each next token.

    A recurrent network starts each window with an empty state, like a Transformer, or reads the text in order and
    carries its state from window to window (``training.truncate``; Williams & Peng 1990). In the second case a batch
    reads the text at several places, and the next batch continues at each of them.
    """

    name = "language-model"
    about = "continues a text from a prompt"
    metrics = ("loss", "bits")
    length_key = "text.context"
    losses = ("loss", "bits")
    state_class = LanguageModelState
    tables: ClassVar = {"text": LanguageModelText, "training": LanguageModelTraining, "decoding": GenerationOptions}
    networks: ClassVar = {
        "transformer": Network(DecoderOnlyConfig, _transformer),
        "recurrent": Network(
            RecurrentLanguageConfig, lambda c, state: RecurrentLanguageModel(c, state.tokenizer.vocabulary_size)
        ),
        "rwkv": Network(RWKVConfig, lambda c, state: RWKVLanguageModel(c, state.tokenizer.vocabulary_size)),
        "convolutional": Network(
            ConvolutionalLanguageConfig,
            lambda c, state: ConvolutionalLanguageModel(c, state.tokenizer.vocabulary_size),
        ),
    }
    model_defaults: ClassVar = {"transformer": {"decoder_layers": 4}}
    evaluation_size = 8192

    state: LanguageModelState
    training: LanguageModelTraining

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._memory = Memory()  # of the windows in the last training batch

    def build(self, kind: str, config: Config) -> nn.Module:
        return truncated(super().build(kind, config), kind, self.training.truncate)

    def encode(self, examples: Sequence[Document]) -> Sequence[Window]:
        if not examples:
            return []
        return make_stream(self.state.tokenizer, examples, separated=self.state.separated).windows(self.state.context)

    def lengths(self, examples: Sequence[Window]) -> Int[np.ndarray, "n 1"]:
        if isinstance(examples, Windows):
            return examples.lengths()
        return np.array([[window.length] for window in examples])

    def batch(self, examples: Sequence[Window]) -> LanguageModelBatch:
        """Return a batch to train on. Each window is shifted at random, so that every epoch splits the text
        differently, unless a recurrent network carries its state from window to window."""
        stream = examples[0].stream
        if self.state.carries:
            return stream.cut(torch.tensor([window.start for window in examples]), examples[0].length)
        length = min(self.state.context, len(stream) - 1)
        starts = torch.tensor([window.start for window in examples]) + torch.randint(length, (len(examples),))
        return stream.cut(starts % (len(stream) - length), length)

    def plan(self, lengths: Int[np.ndarray, "n 1"], epoch: int) -> list[list[int]]:
        """Return the batches of an epoch as lists of window indices. If a recurrent network carries its state from
        batch to batch, each row of a batch continues where the same row of the batch before it ended."""
        if not self.state.carries:
            return super().plan(lengths, epoch)
        full = int((lengths == lengths.max()).sum())  # without the last window, which may be shorter
        rows = min(max(1, self.training.batch_tokens // int(lengths.max())), full)
        steps = full // rows
        first = epoch % (full - rows * steps + 1)  # so that each epoch leaves out other windows
        return [[first + row * steps + step for row in range(rows)] for step in range(steps)]

    def loss(self, model: nn.Module, batch: LanguageModelBatch) -> Loss:
        return self._loss(model, batch, self._memory)

    def _loss(self, model: nn.Module, batch: LanguageModelBatch, memory: Memory) -> Loss:
        targets = Targets(batch.predicted.flatten(), label_smoothing=self.smoothing(model))
        carried = {"memory": memory, "starts": batch.starts} if self.state.carries else {}
        return Loss(model(batch.read, targets=targets, **carried), batch.count)

    @property
    def carries(self) -> bool:
        return self.state.carries

    def carried(self) -> dict[str, Tensor]:
        memory = self._memory
        if memory.state is None or memory.ends is None:
            return {}
        parts = {f"{n}.{m}": part for n, parts in enumerate(memory.state) for m, part in enumerate(parts)}
        return {"ends": memory.ends, **parts}

    def carry_on(self, tensors: Mapping[str, Tensor]) -> None:
        self._memory = Memory()
        if tensors:
            places = sorted(tuple(map(int, name.split("."))) for name in tensors if name != "ends")
            state = (tuple(tensors[f"{n}.{m}"] for n, m in group) for _, group in groupby(places, lambda at: at[0]))
            self._memory.keep(tuple(state), tensors["ends"])

    def scores(
        self, model: nn.Module, examples: Sequence[Window], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        """Return the scores on the whole text, read in consecutive windows that are not shifted; if a recurrent network
        carries its state from window to window, they are read one at a time."""
        memory = Memory()
        size = 1 if self.state.carries else batch_size
        parts: list[list[Window]] = []
        for length, equal in groupby(examples, key=lambda window: window.length):
            windows, most = list(equal), max(1, size // length)
            parts += [windows[first : first + most] for first in range(0, len(windows), most)]

        def loss_of(windows: list[Window]) -> tuple[float, int]:
            check_cancelled()
            starts = torch.tensor([window.start for window in windows])
            batch = windows[0].stream.cut(starts, windows[0].length).to(device_of(model))
            loss = self._loss(model, batch, memory)
            return float(loss.total), loss.count

        # Windows that pass their state on to the next one cannot be shared among processes.
        totals, counts = zip(*(map(loss_of, parts) if self.state.carries else for_each(parts, loss_of)), strict=True)
        total, count = float(sum(totals)), int(sum(counts))
        stream = examples[0].stream
        characters = stream.characters * count / (len(stream) - 1)
        mean = total / count
        perplexity = math.exp(min(mean, 50.0)) if math.isfinite(mean) else math.nan
        return {"loss": mean, "perplexity": perplexity, "bits": total / math.log(2) / characters}

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Window],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        found = super().evaluate(model, examples, options, check_cancelled)
        predicted = sum(window.length for window in examples)
        found.lines.append(f"{counted(predicted, 'token')} predicted, in consecutive windows of {self.state.context}")
        unknown_id, stream = self.state.tokenizer.special.unknown, examples[0].stream
        unknown = 0.0 if unknown_id is None else stream.share_of(unknown_id)
        if unknown > 0:  # one prediction can stand for any unknown word, so the more unknown tokens, the fewer bits
            found.lines.append(
                f"{100 * unknown:.2g}% of the tokens are unknown, so bits per character mean little and cannot be "
                "compared with those of other models"
            )
        return found

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: Window) -> Probe:
        """Return how the model currently continues the beginning of a held-out window, always with the same random
        numbers."""
        count = max(1, min(PROBE_READ, self.state.context // 2, example.length))
        read = example.stream.tokens[example.start : example.start + count].tolist()
        options = GenerationOptions(max_tokens=max(1, min(PROBE_WRITTEN, self.state.context - count)), temperature=0.8)
        (written,) = generate(model, self.state.tokenizer, Prompt(read, self.state.separated), options)
        rows = torch.tensor([[*read, *written.ids[:-1]]], device=device_of(model))
        with watch(model) as seen:
            model(rows, at=LAST)
        weights: list[list[float]] = []
        if seen:
            trace = seen[[*seen][-1]]
            tile = trace.tile(range(len(read) - 1, rows.shape[1]), range(len(read)), batch=0)
            weights = [[round(weight, 4) for weight in row] for row in tile.mean(dim=0).tolist()]
        tokens = [self.state.tokenizer.tokens(ids) for ids in (read, written.ids)]
        return Probe(tokens[0], tokens[1], self.state.tokenizer.decode(read) + written.text, weights)

    def facts(self) -> list[str]:
        tokenizer = self.state.tokenizer
        return [
            f"vocabulary of {tokenizer.vocabulary_size:,} tokens (kind: {tokenizer.kind}), windows of "
            f"{self.state.context} tokens",
            "`loss` is in nats per token, over consecutive windows; `perplexity` is its exponential; `bits` are bits "
            "per character",
        ]

    def prompt(self, text: str) -> Prompt:
        """Return a prompt as the model reads it. An empty prompt becomes a single start or END token, or a line break
        if the model was trained on one long text without END."""
        tokenizer = self.state.tokenizer
        ids = tokenizer.encode_ids([text])[0]
        if self.state.framed:
            starts = [id for id in (tokenizer.special.start, tokenizer.special.end) if id is not None]
            read = tokenizer.framed(ids) or starts[:1]
            if not read:
                raise OptionError("This model has no token that starts a text; give it a prompt that is not empty.")
            return Prompt(read, self.state.separated, not ids)
        if self.state.separated:
            return Prompt([END, *ids], True, not ids)
        return Prompt(ids or tokenizer.encode_ids(["\n"])[0], False, not ids)
