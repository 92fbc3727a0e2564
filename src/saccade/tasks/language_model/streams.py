"""Join documents into one stream of tokens, and cut it into windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from saccade.data.documents import Document
from saccade.errors import OptionError
from saccade.tasks.base.task import Batch
from saccade.text import Tokenizer

__all__ = ["LanguageModelBatch", "Stream", "Window", "make_stream"]


@dataclass(frozen=True)
class Stream:
    """All tokens in order. Separated documents have END before the first, between them and after the last."""

    tokens: Int[Tensor, " N"]
    lines: Int[np.ndarray, " N"]  # the line of the file where each token starts
    characters: int  # the number of characters in all tokens except the first, which is never predicted

    def __len__(self) -> int:
        return len(self.tokens)

    def windows(self, context: int) -> list[Window]:
        """Cut the stream into consecutive windows, so that every token except the first is predicted once. The last
        window may be shorter."""
        return [Window(self, start, min(context, len(self) - 1 - start)) for start in range(0, len(self) - 1, context)]

    def cut(self, starts: Int[Tensor, " B"], length: int) -> LanguageModelBatch:
        """Return a batch of the windows of this length that start at these positions."""
        rows = self.tokens[starts.unsqueeze(1) + torch.arange(length + 1)]
        return LanguageModelBatch(rows[:, :-1], rows[:, 1:], starts, self.lines[starts.numpy()].tolist())


class Window(NamedTuple):
    """A part of a stream: ``length`` tokens are read, and the token after each of them is predicted."""

    stream: Stream
    start: int
    length: int


@dataclass(frozen=True)
class LanguageModelBatch(Batch):
    """Windows that all have the same length."""

    on_cpu = ("starts",)

    read: Int[Tensor, "B T"]
    predicted: Int[Tensor, "B T"]  # the token after each token that is read
    starts: Int[Tensor, " B"]  # where each window starts in its stream
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return self.predicted.numel()


def make_stream(tokenizer: Tokenizer, documents: Sequence[Document], *, separated: bool) -> Stream:
    """Join documents into a stream; ``separated`` documents have END before, between and after them."""
    encoded, end = tokenizer.encode_ids([document.text for document in documents]), tokenizer.special.end
    breaks = np.array([tokenizer.decode([id]).count("\n") for id in range(tokenizer.vocabulary_size)])
    tokens, lines = [], []
    if separated:
        tokens.append(np.array([end]))
        lines.append(np.array([documents[0].line]))
    for document, ids in zip(documents, encoded, strict=True):
        some = np.array([*ids, *([end] if separated else [])])
        tokens.append(some)
        lines.append(document.line + np.cumsum(breaks[some]) - breaks[some])
    joined = np.concatenate(tokens)
    if len(joined) < 2:
        raise OptionError(
            f"The text has {len(joined)} token, which leaves nothing to predict; a language model needs at least 2."
        )
    characters = sum(len(document.text) for document in documents)
    first = 0 if separated else max(1, len(tokenizer.decode([int(joined[0])])))
    return Stream(torch.from_numpy(joined), np.concatenate(lines), max(1, characters - first))
