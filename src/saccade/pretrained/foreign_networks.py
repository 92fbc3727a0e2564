"""Networks of ``transformers`` that are called in the same way as the Saccade networks for the same tasks.

Tasks, pictures of attention and the web page therefore work with both. Texts of different lengths are never padded to
one length, because not every architecture ignores padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.models.tagger import mean_over_words, without_frame
from saccade.models.targets import Positions, Targets, answer
from saccade.pretrained.family import ForeignConfig

__all__ = ["Foreign", "ForeignClassifier", "ForeignDecoder", "ForeignEncoder", "ForeignRewriter", "ForeignTagger"]


#: Stands for the id 0 where 0 means padding.
_ZERO = -1


class _Logits:
    """An output layer for networks that already return logits: it returns them unchanged."""

    def __call__(self, x: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
        return x

    def loss(
        self, x: Float[Tensor, "N V"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        return F.cross_entropy(x.float(), targets, reduction="sum", label_smoothing=label_smoothing)


class Foreign(nn.Module):
    """The base class of the wrappers around networks of ``transformers``."""

    def __init__(self, network: nn.Module, config: ForeignConfig) -> None:
        super().__init__()
        self.network = network
        self.config = config

    def logits(self, tokens: Int[Tensor, "B N"], **given: Any) -> Tensor:
        found: Tensor = self.network(input_ids=tokens, **given).logits
        return found

    def each(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Iterator[Tensor]:
        """Yield the logits of each text. Each is run alone, without padding, which not every architecture ignores."""
        for row, length in enumerate(lengths.tolist()):
            given = {} if types is None else {"token_type_ids": types[row : row + 1, :length]}
            yield self.logits(tokens[row : row + 1, :length], **given)


class ForeignDecoder(Foreign):
    """A network of ``transformers`` that continues a text.

    Each step computes the whole text again without a cache, which works for every architecture.
    """

    def forward(
        self, tokens: Int[Tensor, "B N"], *, targets: Targets | None = None, at: Positions | None = None
    ) -> Tensor:
        return answer(_Logits(), self.logits(tokens, use_cache=False), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> Int[Tensor, "B N"]:
        """Return the state before the first step. A state is the ids of the text so far, so this is ``prompt``."""
        return prompt

    def step(self, tokens: Int[Tensor, " B"], state: Int[Tensor, "B N"]) -> tuple[Float[Tensor, "B V"], Tensor]:
        text = torch.cat([state, tokens.unsqueeze(1)], dim=1)
        return self.logits(text, use_cache=False)[:, -1], text

    def reorder(self, state: Int[Tensor, "B N"], index: Int[Tensor, "*N"]) -> Tensor:
        return state.index_select(0, index.flatten())


class ForeignEncoder(Foreign):
    """A network of ``transformers`` that fills in masked words."""

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        if lengths is None:
            return answer(_Logits(), self.logits(tokens), targets, at)
        padded = [F.pad(one, (0, 0, 0, tokens.shape[1] - one.shape[1])) for one in self.each(tokens, lengths)]
        return answer(_Logits(), torch.cat(padded), targets, at)


class ForeignClassifier(Foreign):
    """A network of ``transformers`` that labels texts."""

    def forward(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B L"]:
        return torch.cat(list(self.each(tokens, lengths, types if self.config.token_types > 1 else None)))


class ForeignTagger(Foreign):
    """A network of ``transformers`` that labels pieces of words. A word has the mean of the logits of its pieces."""

    by_pieces = True
    #: The ids of the tokens that the model expects before and after a text; its tokenizer knows them.
    frame: tuple[Sequence[int], Sequence[int]] = ((), ())

    def forward(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
        at: Bool[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B N L"] | Float[Tensor, "W L"]:
        """Return a logit for each label of every word; with ``at``, only for the words where it is True."""
        inner = without_frame(words, pieces)
        given = self._marked(pieces, lengths) if inner.start else pieces  # there are tokens before and after the text

        def read(tokens: Tensor, counts: Tensor) -> Tensor:
            tokens = tokens.masked_fill(tokens == _ZERO, 0).to(words.device)
            found = [F.pad(one, (0, 0, 0, tokens.shape[1] - one.shape[1])) for one in self.each(tokens, counts)]
            return torch.cat(found)

        by_word = mean_over_words(read, given)[:, inner]
        return by_word if at is None else by_word[at]

    def _marked(self, pieces: Int[Tensor, "B N P"], lengths: Int[Tensor, " B"]) -> Int[Tensor, "B N P"]:
        """Return the pieces with another number for a token of id 0 before or after a text, because 0 is padding."""
        marked = pieces.clone()
        rows = torch.arange(len(pieces))
        for places, ids in ((torch.zeros_like(lengths), self.frame[0]), (lengths + 1, self.frame[1])):
            for number, id in enumerate(ids):
                if id == 0:
                    marked[rows, places.to(rows.device), number] = _ZERO
        return marked


class Rewriting(NamedTuple):
    """The state of a search: what the encoder returned for each row, how long its source is, and the text so far."""

    memory: Float[Tensor, "B S D"]
    lengths: Int[Tensor, " B"]
    written: Int[Tensor, "B T"]


class ForeignRewriter(Foreign):
    """A network of ``transformers`` that turns one text into another.

    The source is read once. Each step computes the whole output again without a cache, which works for every
    architecture.
    """

    def forward(
        self,
        source: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"] | None,
        read: Int[Tensor, "B T"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        state = self.start(source, lengths)
        return answer(_Logits(), self._logits(state._replace(written=read)), targets, at)

    def encode(self, source: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the vectors of sources of one length."""
        encoder = cast(Any, self.network).get_encoder()
        found: Tensor = encoder(input_ids=source, attention_mask=torch.ones_like(source)).last_hidden_state
        return found

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> Rewriting:
        """Return the state before the first step, with an empty output."""
        if lengths is None:
            lengths = source.new_full((len(source),), source.shape[1])
        parts = [
            (rows, F.pad(self.encode(source[rows, :length]), (0, 0, 0, source.shape[1] - length)))
            for length, rows in _by_length(lengths)
        ]
        return Rewriting(_in_order(parts), lengths, source.new_zeros(len(source), 0))

    def step(self, tokens: Int[Tensor, " B"], state: Rewriting) -> tuple[Float[Tensor, "B V"], Rewriting]:
        longer = state._replace(written=torch.cat([state.written, tokens.unsqueeze(1)], dim=1))
        return self._logits(longer)[:, -1], longer

    def reorder(self, state: Rewriting, index: Int[Tensor, "*N"]) -> Rewriting:
        flat = index.flatten()
        return Rewriting(*(part.index_select(0, flat.to(part.device)) for part in state))

    def _logits(self, state: Rewriting) -> Float[Tensor, "B T V"]:
        from transformers.modeling_outputs import BaseModelOutput

        parts = []
        for length, rows in _by_length(state.lengths):
            memory = state.memory[rows, :length]
            found = self.network(
                encoder_outputs=BaseModelOutput(cast(Any, memory)),
                attention_mask=memory.new_ones(memory.shape[:2], dtype=torch.long),
                decoder_input_ids=state.written[rows],
                use_cache=False,
            )
            parts.append((rows, found.logits))
        return _in_order(parts)


def _by_length(lengths: Int[Tensor, " B"]) -> Iterator[tuple[int, Tensor]]:
    """Yield each length, and the rows that have it."""
    for length in sorted(set(lengths.tolist())):
        yield length, (lengths == length).nonzero()[:, 0]


def _in_order(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Join groups of rows, each with the numbers of its rows, in the order of these numbers."""
    rows = torch.cat([rows for rows, _ in parts])
    return torch.cat([part for _, part in parts])[rows.argsort()]
