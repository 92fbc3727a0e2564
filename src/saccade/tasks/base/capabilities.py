"""What only some models can do, whatever their task is called: asked for by class, so that nobody asks for the task."""

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
        """From which language to which; None where the recipe does not say."""

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Of the source and of the target."""

    @abstractmethod
    def metrics(self, *, lowercase: bool = False) -> dict[str, Metric]:
        """The scores that translations are compared by."""

    @abstractmethod
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target given its source."""

    @abstractmethod
    def given_answer(self, source: str, target: str) -> Answer:
        """A given target as if the model had answered with it."""


class AlignsWords(ABC):
    """An answer whose words are linked to those of the input."""

    @property
    @abstractmethod
    def links(self) -> str:
        """The links of words separated by spaces, in Pharaoh's format: ``0-0 1-2``."""


class Continuation(Protocol):
    """A text that goes on from a prompt, with the probability of each of its tokens."""

    prompt: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    finished: bool  # ended by the model or by a stop string; False: cut off

    @property
    def ends(self) -> bool:
        """Whether the last token is the end, which is no part of the text."""


class Piece(NamedTuple):
    """What a token added to a text that is written; nothing, while it makes no whole character yet."""

    text: str
    written: int  # tokens so far
    finished: bool | None = None  # of the last piece: ended by itself, or cut off; None: there is more


class ContinuesText(ABC):
    """A predictor that goes on from a prompt; its answers are of ``Continuation``."""

    @abstractmethod
    def pieces(self, given: str, **options: Any) -> Iterator[Piece]:
        """The one answer that ``predict`` gives with the same options, token by token."""

    @abstractmethod
    def likeliest(self, answer: Any, number: int) -> list[list[tuple[str, float]]]:
        """In the place of each token of an answer: the likeliest tokens with their log-probabilities."""
