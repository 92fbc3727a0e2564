"""Convert text to ids and back, with Hugging Face `tokenizers`; ``kinds.py`` describes the four kinds of tokenizer.

The tokenizers of pretrained models, which have the same methods, are in ``foreign.py``.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.text.kinds import END, KINDS, MASK, PAD, SPECIAL_TOKENS, START, UNKNOWN, empty_tokenizer, learn
from saccade.text.subwords import letters_to_bytes

__all__ = ["MASK_TEXT", "Encoding", "PairFrame", "Special", "Tokenizer", "check_texts", "readable"]

#: How users write a masked word.
MASK_TEXT = "[MASK]"
#: Replaces [MASK] during tokenization. The symbol belongs to no script, so no tokenizer joins it with a word.
PLACEHOLDER = "\ue000"


class Special(NamedTuple):
    """The ids of special tokens; None if the vocabulary does not have the token."""

    pad: int
    unknown: int | None
    start: int | None
    end: int | None
    mask: int | None


@dataclass(frozen=True)
class Encoding:
    """A text that is split into tokens.

    A span is the position of a token in the original text, without the space in front: its first character, and one
    past its last. Tokens that are parts of the same character all have its span.
    """

    ids: list[int]
    tokens: list[str]  # in readable form: "▁" for a space, "<0xE9>" for a byte that is not a whole character
    spans: list[tuple[int, int]]
    words: list[int]  # the word that each token belongs to, counting from 0; a punctuation mark counts as a word


class PairFrame(NamedTuple):
    """The tokens that a model expects before, between and after two texts that it reads as one."""

    before: Sequence[int]
    between: Sequence[int]
    after: Sequence[int]
    has_types: bool  # whether the second text, and what follows it, has token type 1; the rest always has type 0


class Tokenizer:
    """A vocabulary, and the rule that splits text into its entries. Ids 0 to 4 are the special tokens."""

    special = Special(PAD, UNKNOWN, START, END, MASK)
    #: Ids that do not represent any text.
    hidden_ids: Sequence[int] = range(len(SPECIAL_TOKENS))
    #: Ids that a translation must not contain. Of the special tokens, our models only learn to write UNKNOWN and END.
    barred_ids: Sequence[int] = ()

    def __init__(self, kind: str, inner: tokenizers.Tokenizer) -> None:
        self.kind = kind
        self._inner = inner
        vocabulary = inner.get_vocab(with_added_tokens=False)
        pieces = sorted(vocabulary, key=vocabulary.__getitem__)
        surface = letters_to_bytes if KINDS[kind].of_bytes else str.encode
        surfaces = [surface(piece) for piece in pieces[len(SPECIAL_TOKENS) :]]
        self._surface = [*([b""] * len(SPECIAL_TOKENS)), *surfaces]  # id -> the bytes that it represents
        self._surface[UNKNOWN] = (" " * self.spaced + SPECIAL_TOKENS[UNKNOWN]).encode()
        self._tokens = [*SPECIAL_TOKENS, *map(readable, surfaces)]

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: str = "bpe",
        vocabulary_size: int = 8000,
        lowercase: bool = False,
        min_frequency: int = 1,
    ) -> Tokenizer:
        """Learn a vocabulary of at most `vocabulary_size` entries, including the special tokens.

        "bpe" is byte-pair encoding (Sennrich et al. 2016), which needs room for the 256 bytes. "word" and "character"
        keep the most frequent words or characters, and the others become UNKNOWN. "byte" is the 256 bytes, so nothing
        is learned. Entries that occur fewer than `min_frequency` times are left out.
        """
        if kind not in KINDS:
            raise UnknownNameError("tokenizer kind", kind, KINDS)
        least = len(SPECIAL_TOKENS) + (256 if KINDS[kind].of_bytes else 1)
        if vocabulary_size < least:
            raise OptionError(f"vocabulary_size must be at least {least} for kind {kind!r}, not {vocabulary_size}.")
        if min_frequency < 1:
            raise OptionError(f"min_frequency must be 1 or more, not {min_frequency}.")
        return cls(kind, learn(kind, texts, vocabulary_size, lowercase, min_frequency))

    @property
    def vocabulary_size(self) -> int:
        return len(self._tokens)

    @property
    def spaced(self) -> bool:
        """Whether tokens include the space before a word; otherwise they are single characters or bytes."""
        return KINDS[self.kind].spaced

    def entries(self) -> list[str]:
        """Return the entries of the vocabulary by id, as they are written in the tokenizer.json."""
        return [self._inner.id_to_token(id) or f"[unused {id}]" for id in range(self.vocabulary_size)]

    def token(self, id: int) -> str:
        """Return one entry of the vocabulary, in the readable form of `Encoding.tokens`."""
        if not 0 <= id < len(self._tokens):
            raise OptionError(f"Token id {id} is not in the vocabulary, which has ids 0 to {len(self._tokens) - 1}.")
        return self._tokens[id]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return several entries of the vocabulary, each as `token` does."""
        return [self._tokens[id] for id in self._checked(ids)]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """Return the ids as a list; raise an error if one of them is not in the vocabulary."""
        given = ids if isinstance(ids, list) else list(ids)
        if given and not 0 <= min(given) <= max(given) < len(self._tokens):
            for id in given:
                self.token(id)
        return given

    def encode(self, text: str) -> Encoding:
        """Split a text into tokens, without adding a start or end token."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Split many texts into tokens, using all cores."""
        check_texts(texts)
        encodings = self._inner.encode_batch(list(texts), add_special_tokens=False)
        return [
            Encoding(
                ids=encoding.ids,
                tokens=[self._tokens[id] for id in encoding.ids],
                spans=self._spans(text, encoding),
                words=[word for word in encoding.word_ids if word is not None],  # only added tokens have None
            )
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return only the ids of each text, which is much faster than `encode_batch` and enough for training."""
        check_texts(texts)
        return [encoding.ids for encoding in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    #: The text to put in front of a single word, so that it is split as it would be inside a text.
    word_prefix: str = ""
    #: The tokens that the model expects before and after every text.
    frame: tuple[Sequence[int], Sequence[int]] = ((), ())

    @property
    def pair_frame(self) -> PairFrame:
        """The tokens that the model expects before, between and after two texts that it reads as one sequence."""
        return PairFrame((), (END,), (), has_types=False)

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text with those of the tokens that the model expects before and after it, if any."""
        before, after = self.frame
        return [*before, *ids, *after]

    @property
    def before(self) -> int:
        """How many tokens `framed` puts in front of a text; in tokenizers of pretrained models, `ended` does too."""
        return len(self.frame[0])

    def ended(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a source text, followed by the end token, as a model that turns it into another text
        expects it."""
        return [*ids, END]

    def encode_masked(self, text: str) -> tuple[list[int], list[int]]:
        """Return the ids of a text as the model reads it, with the mask id for each ``[MASK]``, and the positions of
        those masks.

        While the text is split, a placeholder stands for ``[MASK]``. Every kind of tokenizer treats it as a separate
        word, of one or several pieces, which become one mask.
        """
        cut = text.replace(MASK_TEXT, PLACEHOLDER)
        encoding = self.encode(cut)
        spans = zip(encoding.words, encoding.spans, strict=True)
        holes = {word for word, (start, stop) in spans if PLACEHOLDER in cut[start:stop]}
        ids: list[int] = []
        places: list[int] = []
        last = -1
        for id, word in zip(encoding.ids, encoding.words, strict=True):
            if word not in holes:
                ids.append(id)
            elif word != last:
                places.append(len(ids))
                ids.append(MASK)
            last = word
        return ids, places

    def fill(self, text: str, ids: Sequence[int], places: Sequence[int], chosen: Sequence[int]) -> str:
        """Return a text with its masks filled in with the tokens ``chosen``; ``ids`` and ``places`` come from
        `encode_masked`."""
        filled = dict(zip(places, chosen, strict=True))
        return self.decode(filled.get(place, id) for place, id in enumerate(ids))

    def unknown(self, text: str) -> list[str]:
        """Return the parts of a text that are not in the vocabulary; with "bpe" and "byte" there are none."""
        unknown = self.special.unknown
        if unknown not in self.encode_ids([text])[0]:
            return []
        found = self.encode(text)
        return [text[start:end] for id, (start, end) in zip(found.ids, found.spans, strict=True) if id == unknown]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of these ids, without special tokens, except that unknown words are shown as "<unk>". Bytes
        that do not form a character become U+FFFD."""
        text = self.following(ids)
        return text.removeprefix(" ") if self.spaced else text

    def following(self, ids: Iterable[int]) -> str:
        """Return the text of ids that continue an earlier text, with the leading space that `decode` would remove."""
        return b"".join([self._surface[id] for id in self._checked(ids)]).decode("utf-8", errors="replace")

    def _spans(
        self, text: str, encoding: tokenizers.Encoding, known: Sequence[int] | None = None
    ) -> list[tuple[int, int]]:
        """Return the positions of the tokens, without the white space in front of words. ``known`` are their ids, if
        they are not those of the encoding."""
        spans = encoding.offsets
        if not self.spaced:
            return spans
        ids, words = known or encoding.ids, encoding.word_ids
        for position, (start, end) in enumerate(spans):
            piece = text[start:end]
            if position == 0 and self._surface[ids[0]] == b" ":  # the space that is added in front of a text
                spans[0] = (0, 0)
            elif not piece.isspace():
                spans[position] = (end - len(piece.lstrip()), end)
            elif (
                piece == " "
                and words[position] in words[position + 1 : position + 2]
                and not text[end : end + 1].isspace()
            ):
                # a separate token for the space before a word
                spans[position] = (end, end)
        return spans

    def words(self, ids: Iterable[int]) -> list[int]:
        """Return the number of the word that each id belongs to, from 0. The ids need not be those into which `encode`
        would split the text."""
        words, inside = [-1], False  # before the first token
        for id in ids:
            surface = self._surface[id].decode("utf-8", errors="replace")
            alone = self.kind == "word" and _is_unspaced(surface[-1:])
            words.append(words[-1] + (not (inside and _is_word(surface[:1]) and not alone)))
            inside = _is_word(surface[-1:]) and not alone
        return words[1:]

    def to_bytes(self) -> bytes:
        """Return the content of a tokenizer.json, the format that every Hugging Face tool reads."""
        return (self._inner.to_str(pretty=True) + "\n").encode()

    def files(self, name: str = "tokenizer.json") -> dict[str, bytes]:
        """Return the content of the files that a model folder needs for this tokenizer; ``name`` is the name of the
        tokenizer.json."""
        return {name: self.to_bytes()}

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Tokenizer:
        """Restore a tokenizer from what `to_bytes` returned; error messages call the data ``where``."""
        try:
            text = data.decode("utf-8")
            _check_parts(json.loads(text), where)
            inner = tokenizers.Tokenizer.from_str(text)
        except FileError:
            raise
        except RecursionError:
            raise FileError(f"{where} is not a tokenizer.json: it nests brackets too deeply.") from None
        except Exception as error:  # the library raises nothing more specific
            raise FileError(f"{where} is not a tokenizer.json: {error}.") from error
        return cls(_kind_of(where, inner), inner)

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a tokenizer.json that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
        return cls.from_bytes(data, str(path))


def _is_word(character: str) -> bool:
    """Return whether this is a letter, a digit, or a part of a character, and not a space or a punctuation mark."""
    return character.isalnum() or character in ("_", "\ufffd") or unicodedata.category(character or " ")[0] == "M"


def _is_unspaced(character: str) -> bool:
    """Return whether this is a character of Chinese or Japanese, which have no spaces between words."""
    return unicodedata.name(character or " ", "").startswith(("CJK ", "HIRAGANA ", "KATAKANA "))


def readable(surface: bytes) -> str:
    """Return the bytes of a token as text; bytes that are only part of a character are written in hexadecimal."""
    try:
        return surface.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in surface)


def check_texts(texts: Sequence[str]) -> None:
    """Raise an error if a text contains half of a surrogate pair, which is not valid text."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise OptionError(
                f"Text {number} contains half of a surrogate pair at character {error.start + 1}, which is not valid "
                "text."
            ) from None


def _check_parts(found: Any, where: str) -> None:
    """Refuse components that Saccade never saves, and ids out of range, before the library sees them.

    Some components of the library end the process on unexpected data, and an id of 4e9 would allocate a huge table.
    """
    known = {name for empty in _empty_tokenizers().values() for name in _types(json.loads(empty.to_str()))}
    model = found.get("model") if isinstance(found, dict) else None
    if not isinstance(model, dict):
        raise FileError(f"{where} is not a tokenizer.json: it does not describe a model.")
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not _types(found) <= known or found.get("added_tokens"):
        raise FileError(f"{where} is the tokenizer.json of another program, not one that Saccade saved.")
    if any(type(id) is not int or not 0 <= id < len(vocabulary) for id in vocabulary.values()):
        raise FileError(f"{where} skips or repeats an id among its {len(vocabulary)} entries.")


def _types(value: Any) -> set[str]:
    """Return the types of all components of a tokenizer.json; the vocabulary has none."""
    if isinstance(value, list):
        return {name for one in value for name in _types(one)}
    if not isinstance(value, dict):
        return set()
    inner = {name for key, one in value.items() if key not in ("vocab", "merges") for name in _types(one)}
    return inner | ({str(value["type"])} if "type" in value else set())


def _kind_of(path: str | Path, inner: tokenizers.Tokenizer) -> str:
    """Return the kind that has the settings of this tokenizer, after checking the ids of the special tokens."""
    found = _settings(inner)
    kind = next((kind for (kind, *_), empty in _empty_tokenizers().items() if _settings(empty) == found), None)
    if kind is None:
        raise FileError(f"{path} is the tokenizer.json of another program, not one that Saccade saved.")
    vocabulary = inner.get_vocab(with_added_tokens=False)
    if any(vocabulary.get(token) != id for id, token in enumerate(SPECIAL_TOKENS)):
        raise FileError(f"{path} does not have {', '.join(SPECIAL_TOKENS)} as its first entries, with ids from 0 on.")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise FileError(f"{path} skips or repeats an id among its {len(vocabulary)} entries.")
    return kind


def _empty_tokenizers() -> dict[tuple[str, bool, bool], tokenizers.Tokenizer]:
    """Return a tokenizer without a vocabulary for every kind, with and without lower-casing, as the current and the
    first version of Saccade make it."""
    return {
        (kind, lowercase, whole_runs): empty_tokenizer(kind, lowercase, whole_runs=whole_runs)
        for kind in KINDS
        for lowercase in (False, True)
        for whole_runs in (False, True)
    }


def _settings(inner: tokenizers.Tokenizer) -> dict[str, Any]:
    """Return everything in a tokenizer.json except the vocabulary."""
    settings: dict[str, Any] = json.loads(inner.to_str())
    settings["model"] = {key: value for key, value in settings["model"].items() if key not in ("vocab", "merges")}
    return settings
