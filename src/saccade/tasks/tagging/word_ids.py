"""The ids of a word: its own id, and the ids of its pieces and characters, by which a tagger recognises even words that
do not occur in the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from saccade.models import Config
from saccade.tasks.base.task import ReadFile, read_count, read_tokenizer
from saccade.text import Tokenizer, Vocabulary

__all__ = ["TaggingText", "WordIds", "Words"]


class TaggingText(Config):
    """How words are recognised."""

    words: int = Field(50_000, ge=1, description="Maximum number of words that have their own id")
    min_frequency: int = Field(
        2,
        ge=1,
        description="Words that occur fewer times than this are known only by their pieces and characters",
    )
    lowercase: bool = Field(True, description="Lower-case words; pieces and characters keep their capitals")
    pieces: int = Field(2000, ge=300, description="Maximum number of word pieces")
    longest_word: int = Field(
        32,
        ge=2,
        description="Maximum number of characters or pieces read from a word; the middle of a longer word is left out",
    )


class WordIds(NamedTuple):
    """The id of one word, and the ids of its pieces and of its characters."""

    word: int
    pieces: list[int]
    characters: list[int]


class Words:
    """The vocabularies of words, of pieces and of characters, and every word of the training data."""

    def __init__(
        self,
        words: Vocabulary,
        pieces: Tokenizer,
        characters: Vocabulary,
        known: Vocabulary,
        *,
        lowercase: bool,
        longest_word: int,
    ) -> None:
        self.words = words
        self.pieces = pieces
        self.characters = characters
        self.known = known  # every training word, as it was written
        self.lowercase = lowercase
        self.longest_word = longest_word
        self._found: dict[str, WordIds] = {}

    @classmethod
    def train(cls, written: Sequence[str], text: TaggingText, pieces: Tokenizer | None = None) -> Words:
        """Learn the vocabularies from these words. If ``pieces`` is given, such as the tokenizer of another model, it
        splits words into pieces."""
        known = Vocabulary.train(written, size=len(written))
        words = (word.lower() for word in written) if text.lowercase else iter(written)
        return cls(
            Vocabulary.train(words, text.words, text.min_frequency),
            pieces or Tokenizer.train(written, "bpe", vocabulary_size=text.pieces),
            Vocabulary.train((character for word in known for character in word), size=1 << 20),
            known,
            lowercase=text.lowercase,
            longest_word=text.longest_word,
        )

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile) -> Words:
        """Restore the vocabularies from what ``description`` and ``files`` returned."""
        words, characters, known = (
            Vocabulary.from_bytes(read(name), name) for name in ("words.json", "characters.json", "known-words.json")
        )
        pieces = read_tokenizer(read, "the model folder")
        settings = {"lowercase": description["lowercase"], "longest_word": read_count(description, "longest_word")}
        return cls(words, pieces, characters, known, **settings)

    def description(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase, "longest_word": self.longest_word}

    def files(self) -> dict[str, bytes]:
        return {
            **self.pieces.files(),
            "words.json": self.words.to_bytes(),
            "characters.json": self.characters.to_bytes(),
            "known-words.json": self.known.to_bytes(),
        }

    def __contains__(self, word: str) -> bool:
        """Return whether a word occurs in the training data; if the model ignores case, capitals may differ."""
        return word in self.known or (self.lowercase and word.lower() in self.words)

    def ids(self, word: str) -> WordIds:
        """Return the ids of a word. They are cached, because most words occur often."""
        if word not in self._found:
            (pieces,) = self.pieces.encode_ids([self.pieces.word_prefix + word])
            characters = [self.characters.id(character) for character in self._ends(word)]
            own = self.words.id(word.lower() if self.lowercase else word)
            self._found[word] = WordIds(own, list(self._ends(pieces)), characters)
        return self._found[word]

    def _ends(self, sequence: Sequence[Any]) -> Sequence[Any]:
        """Return the start and the end of a long word, such as an address: they show what kind of word it is."""
        if len(sequence) <= self.longest_word:
            return sequence
        half = self.longest_word // 2
        return [*sequence[:half], *sequence[-(self.longest_word - half) :]]
