"""Use the tokenizers of pretrained models, which keep their own ids, special tokens and ways to split text.

``foreign_files.py`` reads them from a folder.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from saccade.errors import FileError, OptionError
from saccade.text.sentencepiece import check_characters
from saccade.text.subwords import letters_to_bytes
from saccade.text.tokenizer import MASK_TEXT, Encoding, PairFrame, Special, Tokenizer, check_texts, readable

__all__ = ["ROLES", "UNMATCHED", "ForeignTokenizer", "config_name", "from_text"]

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
#: A character that no text contains. An entry that begins with it is one that the network knows, but into which no text
#: is split.
UNMATCHED = "\uffff"
#: The roles of special tokens, and their keys in a tokenizer_config.json.
ROLES = {"pad": "pad_token", "unknown": "unk_token", "start": "bos_token", "end": "eos_token", "mask": "mask_token"}


class ForeignTokenizer(Tokenizer):
    """A tokenizer that another program saved."""

    def __init__(
        self, inner: tokenizers.Tokenizer, size: int, names: Mapping[str, str | int | None], renumbered: bool = False
    ) -> None:
        """``size`` is the number of ids that the network knows, which may exceed the vocabulary; ``names`` are the
        special tokens by their roles (pad, unknown, start, end, mask), as text or id. ``renumbered`` says that a list
        other than the tokenizer's own gives the ids: a piece that is not in it is unknown to the network."""
        self._inner = inner
        self._renumbered = renumbered
        #: The tokenizer of the texts that the model writes, if the folder has one for each side.
        self.target = self
        self._inner.no_padding()
        self._inner.no_truncation()
        self.kind = type(inner.model).__name__
        vocabulary = inner.get_vocab(with_added_tokens=True)
        entries = {id: piece for piece, id in vocabulary.items()}
        if renumbered:
            entries = {id: piece.removeprefix(UNMATCHED) for id, piece in entries.items() if piece[:2] != UNMATCHED * 2}
        self._ids = {piece: id for id, piece in entries.items() if id < size} if renumbered else {}
        self._has_ids_only = all(piece == str(id) for piece, id in vocabulary.items())
        added = {id for id, one in inner.get_added_tokens_decoder().items() if one.special}
        ids = {role: vocabulary.get(name) if isinstance(name, str) else name for role, name in names.items()}
        ids = {role: id if id is not None and 0 <= id < size else None for role, id in ids.items()}
        self._roles = ids
        self.special = Special(ids.get("pad") or 0, *(ids.get(role) for role in ("unknown", "start", "end", "mask")))
        known = {id for id in (*ids.values(), *added) if id is not None and id < size}
        self.hidden_ids = sorted(known | {id for id in range(size) if id not in entries})
        # As in published folders (bad_words_ids), no padding is written; UNKNOWN stands for a word, and END is needed.
        self.barred_ids = [id for id in self.hidden_ids if id not in (self.special.end, self.special.unknown)]
        to_bytes = _surfaces(inner)
        hidden = set(self.hidden_ids)
        self._surface = [b"" if id in hidden else to_bytes(entries[id]) for id in range(size)]
        self._tokens = [
            entries.get(id, f"[unused {id}]") if id in hidden else readable(self._surface[id]) for id in range(size)
        ]
        if self.special.unknown is not None:
            self._surface[self.special.unknown] = f" {self._tokens[self.special.unknown]}".encode()
        self.frame = self._frame()
        self.word_prefix = " " if '"ByteLevel"' in _parts(inner.pre_tokenizer) else ""

    @property
    def spaced(self) -> bool:
        return True

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return the ids of the special tokens that the tokenizer adds before and after a text."""
        if self._inner.post_processor is None or not self._inner.num_special_tokens_to_add(is_pair=False):
            return [], []
        for text in ("a", *self._inner.get_vocab(with_added_tokens=False)):
            try:
                found = self._inner.encode(text, add_special_tokens=True)
            except Exception:  # the library only raises Exception, if it has neither these letters nor an unknown token
                continue
            places = [place for place, number in enumerate(found.sequence_ids) if number == 0]
            if places:
                return found.ids[: places[0]], found.ids[places[-1] + 1 :]
        return [], []

    @property
    def joins_texts(self) -> bool:
        """Whether the tokenizer defines how two texts are joined into one sequence."""
        try:
            return bool(self.pair_frame)
        except OptionError:
            return False

    @cached_property
    def pair_frame(self) -> PairFrame:
        unsaid = OptionError("The tokenizer of this model cannot join two texts into one sequence; give only one text.")
        try:
            found = self._inner.encode("a", "a", add_special_tokens=True)
        except Exception:  # the library only raises Exception, if the vocabulary has neither "a" nor an unknown token
            raise unsaid from None
        if not {0, 1} <= set(found.sequence_ids):
            raise unsaid
        parts: dict[int, list[int]] = {0: [], 1: [], 2: []}  # before, between and after the two texts
        texts = found.sequence_ids
        for place, (id, text) in enumerate(zip(found.ids, texts, strict=True)):
            if text is None:
                parts[0 if 0 in texts[place:] else 1 if 1 in texts[place:] else 2].append(id)
        second = len(found.ids) - texts[::-1].index(0) + len(parts[1])
        plain = [0] * len(found.ids)
        typed = [int(place >= second) for place in range(len(found.ids))]
        if not parts[1] or found.type_ids not in (plain, typed):
            raise unsaid
        return PairFrame(parts[0], parts[1], parts[2], has_types=found.type_ids == typed)

    def ended(self, ids: Sequence[int]) -> list[int]:
        framed, end = self.framed(ids), self.special.end
        return framed if end is None or framed[-1:] == [end] else [*framed, end]

    def files(self, name: str = "tokenizer.json") -> dict[str, bytes]:
        """Return the tokenizer.json, and a tokenizer_config.json that names the special tokens (start, end, ...)."""
        tokens = {ROLES[role]: self._tokens[id] for role, id in self._roles.items() if id is not None}
        about = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **tokens,
            "vocabulary_size": self.vocabulary_size,
            "special_ids": self._roles,
            **({"renumbered": True} if self._renumbered else {}),
        }
        return {name: self.to_bytes(), config_name(name): (json.dumps(about, indent=2) + "\n").encode()}

    @classmethod
    def restore(cls, data: bytes, about: bytes, where: str) -> ForeignTokenizer:
        """Restore a tokenizer from the two files that ``files`` returned; error messages call them ``where``."""
        try:
            text, found = data.decode(), json.loads(about)
            size, ids = found["vocabulary_size"], {role: found["special_ids"].get(role) for role in ROLES}
            renumbered = bool(found.get("renumbered", False))
            if type(size) is not int or not all(id is None or type(id) is int for id in ids.values()):
                raise ValueError("its sizes and ids are not whole numbers")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FileError(f"{where} has a tokenizer_config.json that Saccade cannot read: {error}.") from None
        return cls(from_text(text, where), size, ids, renumbered)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        check_texts(texts)
        return [self._encoding(*pair) for pair in zip(texts, self._split(texts), strict=True)]

    def _encoding(self, text: str, found: tokenizers.Encoding) -> Encoding:
        ids = self._known(found)
        return Encoding(ids, [self._tokens[id] for id in ids], self._spans(text, found, ids), self.words(ids))

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        check_texts(texts)
        return [self._known(encoding) for encoding in self._split(texts)]

    def _split(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        try:
            return self._inner.encode_batch(list(texts), add_special_tokens=False)
        except Exception as error:  # the library only raises Exception, if the vocabulary has no unknown token
            words = (word for text in texts for word in text.split())
            found = next((word for word in words if self._inner.token_to_id(word) is None), "")
            if self._has_ids_only:
                raise OptionError(
                    f"The folder of this model has no tokenizer file, such as tokenizer.json or vocab.txt, so a text "
                    f"must be ids from 0 to {self.vocabulary_size - 1}, separated by spaces; {found[:40]!r} is not one."
                ) from None
            said = f"it does not have {found[:40]!r}" if found and self.kind == "WordLevel" else str(error)
            raise OptionError(f"The vocabulary of this model has no token for unknown words, and {said}.") from None

    def _known(self, encoding: tokenizers.Encoding) -> list[int]:
        """Return the ids of an encoded text; raise an error if the network does not have one of them."""
        ids: list[int] = encoding.ids
        unknown = self.special.unknown
        if self._renumbered and unknown is not None:
            size, known = len(self._tokens), self._ids
            pairs = zip(ids, encoding.tokens, strict=True)
            return [known.get(text, unknown) if id >= size or id == unknown else id for id, text in pairs]
        if ids and max(ids) >= len(self._tokens):
            raise OptionError(
                f"The tokenizer gives a token the id {max(ids)}, but the network has only ids 0 to "
                f"{len(self._tokens) - 1}."
            )
        return ids

    def encode_masked(self, text: str) -> tuple[list[int], list[int]]:
        mask = self.special.mask
        if mask is None:
            raise OptionError("This model cannot fill in words, because its tokenizer has no mask token.")
        ids = self.framed(self.encode_ids([text.replace(MASK_TEXT, self._tokens[mask])])[0])
        return ids, [place for place, id in enumerate(ids) if id == mask]

    def fill(self, text: str, ids: Sequence[int], places: Sequence[int], chosen: Sequence[int]) -> str:
        """Return a text with its masks filled in; the rest stays as written, even if the tokenizer lower-cases it."""
        before, *parts = text.split(MASK_TEXT)
        for id, part in zip(chosen, parts, strict=True):
            piece = self.following([id])
            before = (before + piece[1:] if piece.startswith(" ") else before.rstrip() + piece) + part
        return before

    def decode(self, ids: Iterable[int]) -> str:
        given = self._checked(ids)
        if self._inner.decoder is None:
            text = self.following(given)
            return text.strip() if self._renumbered else text.removeprefix(" ")
        decoded: str = self._inner.decode(given, skip_special_tokens=True)
        return decoded


def _parts(component: Any) -> str:
    """Return the description of a part of a tokenizer in its tokenizer.json."""
    return "" if component is None else str(component.__getstate__().decode())


def _surfaces(inner: tokenizers.Tokenizer) -> Any:
    """Return a function that converts an entry of the vocabulary to bytes of text, with a space before a new word."""
    model: Any = inner.model
    parts = _parts(inner.pre_tokenizer) + _parts(inner.decoder)
    if isinstance(model, tokenizers.models.WordPiece):
        prefix = model.continuing_subword_prefix
        return lambda piece: piece.removeprefix(prefix).encode() if piece.startswith(prefix) else f" {piece}".encode()
    if '"ByteLevel"' in parts:
        return letters_to_bytes
    if isinstance(model, tokenizers.models.WordLevel):
        return lambda piece: f" {piece}".encode()

    def metaspace(piece: str) -> bytes:
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()

    return metaspace


def from_text(text: str, where: str) -> tokenizers.Tokenizer:
    """Read the content of a tokenizer.json."""
    described = _checked(text, where)
    try:
        for table in _tables(described.get("normalizer")):
            check_characters(base64.b64decode(table))
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower class
        raise FileError(f"{where} is not a tokenizer.json: {error}.") from None


def _tables(normalizer: Any) -> Iterator[str]:
    """Yield the tables of characters of a normalizer; the library ends the process if one of them is damaged."""
    if isinstance(normalizer, dict):
        if normalizer.get("type") == "Precompiled":
            yield str(normalizer.get("precompiled_charsmap") or "")
        yield from (table for one in normalizer.get("normalizers") or () for table in _tables(one))


def config_name(name: str) -> str:
    """Return the name of the file beside a tokenizer.json that names its special tokens, such as start and end."""
    return name.replace("tokenizer.json", "tokenizer_config.json")


def _checked(text: str, path: str) -> dict[str, Any]:
    """Return a tokenizer.json as a table. Raise an error if an id is far beyond the number of entries, because it would
    allocate a huge table."""
    try:
        found = json.loads(text)
        vocabulary = found["model"]["vocab"]
        ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else [len(vocabulary) - 1]
        ids += [one["id"] for one in found.get("added_tokens") or ()]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise FileError(f"{path} is not a tokenizer.json: it does not describe a vocabulary.") from None
    if {*map(type, ids)} - {int} or not 0 <= min(ids, default=0) <= max(ids, default=0) < 2 * len(ids) + 1000:
        raise FileError(f"{path} has {len(ids):,} entries, but an id that is negative or far above that number.")
    return dict(found)
