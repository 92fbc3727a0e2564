"""What only some models can do. Callers test for these classes instead of the name of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from sacrebleu.metrics.base import Metric

from saccade.tasks.base.answer import Answer
from saccade.text import Tokenizer

__all__ = ["AlignsWords", "Continuation", "ContinuesText", "Piece", "TranslatesText"]


class TranslatesText(ABC):
    """A predictor that turns a text in one language into a text in another."""

    @property
    @abstractmethod
    def languages(self) -> tuple[str, str] | None:
        """The source and the target language; None if the recipe does not name them."""

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of the source and of the target."""

    @abstractmethod
    def metrics(self, *, lowercase: bool = False) -> dict[str, Metric]:
        """The metrics that compare translations."""

    @abstractmethod
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target given its source."""

    @abstractmethod
    def given_answer(self, source: str, target: str) -> Answer:
        """An answer made from a given target, as if the model had produced it."""


class AlignsWords(ABC):
    """An answer whose words are aligned with those of the input."""

    @property
    @abstractmethod
    def links(self) -> str:
        """The word alignment, with words split at spaces, in Pharaoh format: ``0-0 1-2``."""


class Continuation(Protocol):
    """A text that continues a prompt, with the probability of each of its tokens."""

    prompt: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    finished: bool  # ended by the model or by a stop string; False: cut off

    @property
    def ends(self) -> bool:
        """Whether the last token is the end token, which is not part of the text."""


class Piece(NamedTuple):
    """What a token adds to the text being written; empty while its bytes do not complete a character."""

    text: str
    written: int  # tokens so far
    finished: bool | None = None  # set on the last piece: True if the text ended by itself, False if it was cut off


class ContinuesText(ABC):
    """A predictor that continues a prompt; its answers are ``Continuation`` objects."""

    @abstractmethod
    def pieces(self, given: str, **options: Any) -> Iterator[Piece]:
        """The answer that ``predict`` gives with the same options, token by token."""

    @abstractmethod
    def likeliest(self, answer: Any, number: int) -> list[list[tuple[str, float]]]:
        """For each token of an answer: the likeliest tokens at its position, with their log-probabilities."""
