"""Capabilities that only some models have. Callers check for these classes instead of for the names of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from sacrebleu.metrics.base import Metric

from saccade.tasks.base.answer import Answer
from saccade.text import Tokenizer

__all__ = ["AlignsWords", "Continuation", "ContinuesText", "Piece", "TranslatesText"]


class TranslatesText(ABC):
    """A predictor that translates a text from one language into another."""

    @property
    @abstractmethod
    def languages(self) -> tuple[str, str] | None:
        """The source and target languages; None if the recipe does not name them."""

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers for source and target texts."""

    @abstractmethod
    def metrics(self, *, lowercase: bool = False) -> dict[str, Metric]:
        """Return the metrics that compare translations with references."""

    @abstractmethod
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return the log-probability of each target given its source."""

    @abstractmethod
    def given_answer(self, source: str, target: str) -> Answer:
        """Return an answer whose text is ``target``, given by the user, as if the model had produced it."""


class AlignsWords(ABC):
    """An answer whose words are aligned with those of the input."""

    @property
    @abstractmethod
    def links(self) -> str:
        """The word alignment in Pharaoh format, such as ``0-0 1-2``; words are split at spaces and counted from 0."""


class Continuation(Protocol):
    """A text that continues a prompt, with the probability of each of its tokens."""

    prompt: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    finished: bool  # True if the model or a stop string ended the text, False if it was cut off

    @property
    def ends(self) -> bool:
        """Whether the last token is the end token, which is not part of the text."""


class Piece(NamedTuple):
    """A piece of a streamed text: what one more token adds; empty while its bytes do not complete a character."""

    text: str
    written: int  # the number of tokens so far
    finished: bool | None = (
        None  # only set on the last piece: True if the text ended by itself, False if it was cut off
    )


class ContinuesText(ABC):
    """A predictor that continues a prompt; its answers are ``Continuation`` objects."""

    @abstractmethod
    def pieces(self, given: str, **options: Any) -> Iterator[Piece]:
        """Yield, token by token, the answer that ``predict`` gives with the same options."""
