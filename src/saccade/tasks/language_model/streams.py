"""Join documents into one stream of tokens, and cut it into windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from saccade.data.documents import Document, LongText
from saccade.errors import OptionError
from saccade.tasks.base.task import Batch
from saccade.text import Tokenizer
from saccade.text.kinds import KINDS

__all__ = ["LanguageModelBatch", "Stream", "Window", "Windows", "make_stream", "texts_to_learn"]


#: In a stream on disk, the line number is stored for only one token in this many.
SPARSE = 64
#: A tokenizer learns from at most this many characters of a long text, in chunks from all parts of the text.
LEARNED_FROM = 50_000_000


@dataclass(frozen=True)
class Stream:
    """The tokens of all documents, one document after the other. If documents are separated, there is an END token
    before the first, between them and after the last."""

    tokens: Int[Tensor, " N"]  # in memory, or mapped from a file on disk
    marks: Int[np.ndarray, " M"]  # the line of the file where every ``step``-th token starts
    characters: int  # the number of characters in all tokens except the first, which is never predicted
    breaks: Int[np.ndarray, " V"]  # the number of line breaks in each entry of the vocabulary
    step: int = 1

    def __len__(self) -> int:
        return len(self.tokens)

    def lines(self, places: Int[Tensor, " B"]) -> list[int]:
        """Return the number of the line in the file on which each of the tokens at these positions starts."""
        found = self.marks[(places // self.step).numpy()]
        if self.step > 1:
            since = torch.arange(self.step)
            first = places // self.step * self.step
            between = self.tokens[(first.unsqueeze(1) + since).clamp(max=len(self) - 1)].numpy()
            found = found + (self.breaks[between] * (since < (places % self.step).unsqueeze(1)).numpy()).sum(axis=1)
        return [int(line) for line in found]

    def windows(self, context: int) -> Windows:
        """Cut the stream into consecutive windows of ``context`` tokens, so that every token except the first is
        predicted once. The last window may be shorter."""
        return Windows(self, context)

    def cut(self, starts: Int[Tensor, " B"], length: int) -> LanguageModelBatch:
        """Return a batch of the windows of this length that start at these positions."""
        rows = self.tokens[starts.unsqueeze(1) + torch.arange(length + 1)].long()
        return LanguageModelBatch(rows[:, :-1], rows[:, 1:], starts, self.lines(starts))

    def share_of(self, id: int) -> float:
        """Return the fraction of the stream's tokens that have this id, without counting the first token, which is
        never predicted."""
        parts = torch.split(self.tokens[1:], 1 << 20)
        return sum([int(torch.eq(part, id).sum()) for part in parts]) / (len(self) - 1)


class Window(NamedTuple):
    """A part of a stream: ``length`` tokens are read, and the token after each of them is predicted."""

    stream: Stream
    start: int
    length: int


class Windows(Sequence[Window]):
    """The consecutive windows of a stream; each ``Window`` is created only when it is accessed."""

    def __init__(self, stream: Stream, context: int) -> None:
        self._stream, self._context = stream, context
        self._starts = range(0, len(stream) - 1, context)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> Window: ...

    @overload
    def __getitem__(self, place: slice) -> list[Window]: ...

    def __getitem__(self, place: int | slice) -> Window | list[Window]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        start = self._starts[place]
        return Window(self._stream, start, min(self._context, len(self._stream) - 1 - start))

    def lengths(self) -> Int[np.ndarray, "n 1"]:
        found = np.full((len(self), 1), self._context)
        found[-1] = self[-1].length
        return found


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
    breaks = np.array([tokenizer.decode([id]).count("\n") for id in range(tokenizer.vocabulary_size)])
    if len(documents) == 1 and isinstance(documents[0], LongText) and not separated:
        return _stream_on_disk(tokenizer, documents[0], breaks)
    encoded, end = tokenizer.encode_ids([document.text for document in documents]), tokenizer.special.end
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
    characters = sum(document.characters for document in documents)
    first = 0 if separated else max(1, len(tokenizer.decode([int(joined[0])])))
    return Stream(torch.from_numpy(joined), np.concatenate(lines), max(1, characters - first), breaks)


def _stream_on_disk(tokenizer: Tokenizer, text: LongText, breaks: Int[np.ndarray, " V"]) -> Stream:
    """Encode a long text chunk by chunk into a temporary file without a name, which is mapped into memory.

    The tokens are the same as those of the whole text, because chunks begin with the space between two words. For kinds
    of tokenizers that put a space in front of every text, this space is removed first.
    """
    marks, count, line = [], 0, text.line
    with TemporaryFile() as file:
        for number, chunk in enumerate(text.chunks()):
            (ids,) = tokenizer.encode_ids([chunk.removeprefix(" ") if number and tokenizer.spaced else chunk])
            some = np.array(ids, dtype=np.int32)
            feeds = breaks[some]
            marks.append((line + np.cumsum(feeds) - feeds)[-count % SPARSE :: SPARSE])
            file.write(some.tobytes())
            count, line = count + len(some), line + int(feeds.sum())
        file.flush()
        tokens = torch.from_numpy(np.memmap(file, dtype=np.int32, mode="r+", shape=(count,)))  # outlives the file
    first = max(1, len(tokenizer.decode([int(tokens[0])])))
    return Stream(tokens, np.concatenate(marks), max(1, text.characters - first), breaks, SPARSE)


def texts_to_learn(documents: Sequence[Document], kind: str) -> Iterator[str]:
    """Yield the texts that a tokenizer of this kind learns from: whole documents or, of a very long text, chunks from
    all parts of it."""
    for document in documents:
        if not isinstance(document, LongText):
            yield document.text
            continue
        every = -(-document.characters // LEARNED_FROM)
        for number, chunk in enumerate(document.chunks()):
            if number % every == 0:
                yield chunk.removeprefix(" ") if number and KINDS[kind].spaced else chunk
