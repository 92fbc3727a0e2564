"""A translation, and the attention of the model while it generated the translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from saccade.attention import Trace
from saccade.decoding import Hypothesis, LateHypothesis
from saccade.errors import OptionError
from saccade.lens.alignment import AlignmentChoice
from saccade.lens.figures.matrix import draw_weights
from saccade.lens.links import WordLink, hard_links, write_pharaoh
from saccade.lens.terminal.heatmap import TerminalHeatmap
from saccade.lens.view import View, view
from saccade.lens.words import merge
from saccade.tasks.base.answer import WrittenAnswer
from saccade.tasks.base.capabilities import AlignsWords
from saccade.text import SPECIAL_TOKENS, START

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TranslationAnswer", "TranslationAttention"]


@dataclass(frozen=True)
class TranslationAttention:
    """The attention of a model while it read a source and generated a target, computed in one pass over both."""

    source_tokens: list[str]  # with END
    target_tokens: list[str]
    source_words: list[int]  # the word that each token belongs to
    target_words: list[int]
    source_spaced: list[int]  # the same, but for words separated by spaces, and without END
    target_spaced: list[int]
    traces: Mapping[str, Trace]  # every attention of the model, by name
    pieces: Float[Tensor, "T S"] | None  # the alignment of tokens; None if the model does not attend to its source
    choice: AlignmentChoice | None  # the attention and heads that the alignment is read from
    is_chosen: bool  # whether they were chosen on training data; otherwise they are those of the last layer
    before: int = 0  # the number of source tokens before the text
    start: str = SPECIAL_TOKENS[START]  # the token that the decoder reads first

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The words of the target and of the source, with pieces joined: the rows and columns of ``alignment``."""
        return _join(self.target_tokens, self.target_words), _join(self.source_tokens, self.source_words)

    @cached_property
    def alignment(self) -> Float[Tensor, "T S"] | None:
        """How much each target word attends to each source word; rows sum to 1."""
        return None if self.pieces is None else merge(self.pieces, self.target_words, self.source_words)

    @property
    def links(self) -> frozenset[WordLink]:
        """Links from each target word to the source word that it attends to most. Words are split at spaces and counted
        from 0, as in alignment files."""
        if self.pieces is None:
            return frozenset()
        return hard_links(
            merge(
                self.pieces[:, self.before : self.before + len(self.source_spaced)],
                self.target_spaced,
                self.source_spaced,
            )
        )

    @cached_property
    def view(self) -> View:
        """Every attention of the model, with the tokens of its rows and columns. The rows of a decoder's attention are
        the tokens that it reads, from the start token on."""
        if not self.traces:
            raise OptionError("This model has no attention, so there is nothing to view.")
        return view(
            self.traces,
            [self.start, *self.target_tokens],
            source_tokens=self.source_tokens,
            words=[None, *self.target_words],
            source_words=self.source_words,
        )


@dataclass(frozen=True, repr=False)
class TranslationAnswer(WrittenAnswer, AlignsWords):
    """A translation, with its score and its tokens."""

    source: str
    text: str
    tokens: list[str]
    hypothesis: Hypothesis | LateHypothesis
    compute_attention: Callable[[], TranslationAttention]
    alternatives: list[TranslationAnswer] = field(default_factory=list)

    def __repr__(self) -> str:
        """Leave out scores that have not been computed, because computing them may take long."""
        scores = ["score", "log_probability"] if self.hypothesis.is_scored else []
        names = ["source", "text", *scores, "tokens", "finished", "alternatives"]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def score(self) -> float:  # type: ignore[override]
        return self.hypothesis.score

    @property
    def log_probability(self) -> float:  # type: ignore[override]
        return self.hypothesis.log_probability

    @property
    def finished(self) -> bool:  # type: ignore[override]
        return self.hypothesis.finished

    @property
    def ids(self) -> list[int]:
        return self.hypothesis.tokens

    @property
    def is_diverged(self) -> bool:  # an engine that computes scores later has checked the weights
        return self.hypothesis.is_scored and super().is_diverged

    @cached_property
    def attention(self) -> TranslationAttention:
        return self.compute_attention()

    @cached_property
    def view(self) -> View:
        return self.attention.view

    @property
    def layer(self) -> str:
        choice = self.attention.choice
        return self.view.names[-1] if choice is None else choice.attention

    @property
    def links(self) -> str:
        """The alignment in Pharaoh format, such as ``0-0 1-2``: links between words, which are split at spaces."""
        return write_pharaoh(self.attention.links)

    def record(self) -> dict[str, Any]:
        return {"source": self.source, **super().record()}

    def extras(self) -> dict[str, Any]:
        alignment, choice = self.attention.alignment, self.attention.choice
        if alignment is None or choice is None:
            return {}
        rows, columns = self.attention.words
        return {
            "alignment": {
                "rows": rows,
                "columns": columns,
                "values": alignment.float().tolist(),
                "name": choice.attention,
                "heads": list(choice.heads),
                "row_offset": choice.row_offset,
                "chosen": self.attention.is_chosen,
            }
        }

    def terminal(self) -> list[RenderableType]:
        if self.attention.alignment is None:
            return [Text(self.text), "This model has no attention to the source, which it reads as a single vector."]
        rows, columns = self.attention.words
        return [Text(self.text), TerminalHeatmap(self.attention.alignment.float(), rows, columns)]

    def figure(self, dark: bool) -> Figure | None:
        if self.attention.alignment is None:
            return None
        rows, columns = self.attention.words
        return draw_weights(self.attention.alignment.float(), rows, columns, dark=dark)


def _join(tokens: list[str], words: list[int]) -> list[str]:
    joined = [""] * (max(words, default=-1) + 1)
    for token, word in zip(tokens, words, strict=True):
        joined[word] += token
    return [word.removeprefix("▁") or word for word in joined]
