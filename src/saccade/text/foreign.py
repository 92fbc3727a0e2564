"""Read the tokenizers of pretrained models, which keep their own ids, special tokens and ways to split text.

A folder has a ``tokenizer.json``, or the older ``vocab.txt`` or ``vocab.json`` with ``merges.txt``. Without any of
these, a text must consist of tokens separated by spaces: those in ``token_mappings.json``, or else numbers, the ids.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from saccade.errors import FileError, OptionError
from saccade.text.subwords import letters_to_bytes
from saccade.text.tokenizer import MASK_TEXT, Encoding, PairFrame, Special, Tokenizer, check_texts, readable

__all__ = ["ForeignTokenizer", "config_name", "read_foreign", "spaced_tokenizer"]

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LARGEST = 256 << 20  # bytes of a tokenizer file
#: The roles of special tokens, and their keys in a tokenizer_config.json.
ROLES = {"pad": "pad_token", "unknown": "unk_token", "start": "bos_token", "end": "eos_token", "mask": "mask_token"}


class ForeignTokenizer(Tokenizer):
    """A tokenizer that another program saved."""

    def __init__(self, inner: tokenizers.Tokenizer, size: int, names: Mapping[str, str | int | None]) -> None:
        """``size`` is the number of ids that the network knows, which may exceed the vocabulary; ``names`` are the
        special tokens by their roles (pad, unknown, start, end, mask), as text or id."""
        self._inner = inner
        self._inner.no_padding()
        self._inner.no_truncation()
        described = json.loads(inner.to_str())
        self.kind = str(described["model"].get("type") or "BPE")
        vocabulary = inner.get_vocab(with_added_tokens=True)
        entries = {id: piece for piece, id in vocabulary.items()}
        self._has_ids_only = all(piece == str(id) for piece, id in vocabulary.items())
        added = {one["id"] for one in described.get("added_tokens") or () if one.get("special")}
        ids = {role: vocabulary.get(name) if isinstance(name, str) else name for role, name in names.items()}
        ids = {role: id if id is not None and 0 <= id < size else None for role, id in ids.items()}
        self._roles = ids
        self.special = Special(ids.get("pad") or 0, *(ids.get(role) for role in ("unknown", "start", "end", "mask")))
        known = {id for id in (*ids.values(), *added) if id is not None and id < size}
        self.hidden_ids = sorted(known | {id for id in range(size) if id not in entries})
        # As in published folders (bad_words_ids), no padding is written; UNKNOWN stands for a word, and END is needed.
        self.barred_ids = [id for id in self.hidden_ids if id not in (self.special.end, self.special.unknown)]
        to_bytes = _surfaces(described)
        hidden = set(self.hidden_ids)
        self._surface = [b"" if id in hidden else to_bytes(entries[id]) for id in range(size)]
        self._tokens = [
            entries.get(id, f"[unused {id}]") if id in hidden else readable(self._surface[id]) for id in range(size)
        ]
        if self.special.unknown is not None:
            self._surface[self.special.unknown] = f" {self._tokens[self.special.unknown]}".encode()
        self.frame = self._frame()
        self.word_prefix = " " if '"ByteLevel"' in json.dumps(described.get("pre_tokenizer")) else ""

    @property
    def spaced(self) -> bool:
        return True

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return the ids of the special tokens that the tokenizer adds before and after a text."""
        if self._inner.post_processor is None:
            return [], []
        ids = self._inner.encode("a", add_special_tokens=True).ids
        bare = self._inner.encode("a", add_special_tokens=False).ids
        for first in range(len(ids) - len(bare) + 1):
            if ids[first : first + len(bare)] == bare:
                return ids[:first], ids[first + len(bare) :]
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
        }
        return {name: self.to_bytes(), config_name(name): (json.dumps(about, indent=2) + "\n").encode()}

    @classmethod
    def restore(cls, data: bytes, about: bytes, where: str) -> ForeignTokenizer:
        """Restore a tokenizer from the two files that ``files`` returned; error messages call them ``where``."""
        try:
            text, found = data.decode(), json.loads(about)
            size, ids = found["vocabulary_size"], {role: found["special_ids"].get(role) for role in ROLES}
            if type(size) is not int or not all(id is None or type(id) is int for id in ids.values()):
                raise ValueError("its sizes and ids are not whole numbers")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FileError(f"{where} has a tokenizer_config.json that Saccade cannot read: {error}.") from None
        return cls(_from_text(text, where), size, ids)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        check_texts(texts)
        return [
            Encoding(
                ids=self._known(encoding.ids),
                tokens=[self._tokens[id] for id in encoding.ids],
                spans=self._spans(text, encoding),
                words=self.words(encoding.ids),
            )
            for text, encoding in zip(texts, self._split(texts), strict=True)
        ]

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        check_texts(texts)
        return [self._known(encoding.ids) for encoding in self._split(texts)]

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

    def _known(self, ids: list[int]) -> list[int]:
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
        given = list(ids)
        for id in given:
            self.token(id)  # raises an error if it is not in the vocabulary
        if self._inner.decoder is None:
            return self.following(given).removeprefix(" ")
        text: str = self._inner.decode(given, skip_special_tokens=True)
        return text


def _surfaces(described: Mapping[str, Any]) -> Any:
    """Return a function that converts an entry of the vocabulary to bytes of text, with a space before a new word."""
    model, parts = described["model"], json.dumps([described.get("pre_tokenizer"), described.get("decoder")])
    if model.get("type") == "WordPiece":
        prefix = model.get("continuing_subword_prefix", "##")
        return lambda piece: piece.removeprefix(prefix).encode() if piece.startswith(prefix) else f" {piece}".encode()
    if '"ByteLevel"' in parts:
        return letters_to_bytes
    if model.get("type") == "WordLevel":
        return lambda piece: f" {piece}".encode()

    def metaspace(piece: str) -> bytes:
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()

    return metaspace


def read_foreign(folder: Path, size: int, ids: Mapping[str, int | None]) -> ForeignTokenizer:
    """Read the tokenizer in a folder. ``size`` is the number of ids that the network knows, and ``ids`` are the special
    ids in the configuration of the network: pad, start and end."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        settings.update(_json(folder / name) if (folder / name).exists() else {})
    names: dict[str, str | int | None] = {}
    for role, key in ROLES.items():
        stated = settings.get(key)
        token = stated.get("content") if isinstance(stated, dict) else stated
        names[role] = token if isinstance(token, str) and ids.get(role) is None else ids.get(role)
    inner = _inner(folder, settings, size)
    names["unknown"] = names["unknown"] or json.loads(inner.to_str())["model"].get("unk_token")
    if names["mask"] is None:  # the usual names, if the settings do not give one
        names["mask"] = next((name for name in ("[MASK]", "<mask>") if inner.token_to_id(name) is not None), None)
    return ForeignTokenizer(inner, size, names)


def spaced_tokenizer(entries: Sequence[str], names: Mapping[str, str], ends: bool) -> ForeignTokenizer:
    """Make a tokenizer for tokens separated by spaces. ``names`` are the tokens for the start, the end and unknown
    words; ``ends`` says whether the model expects the end token after a text that it reads."""
    vocabulary = {entry: id for id, entry in enumerate(entries)}
    for name in names.values():
        if name not in vocabulary:
            raise FileError(f"The vocabulary does not have the token {name!r}, which the model needs.")
    inner = _spaced(vocabulary, names["unknown"])
    kept = {role: name for role, name in names.items() if ends or role != "end"}
    return ForeignTokenizer(inner, len(entries), {"pad": vocabulary.get("<blank>", 0), **kept})


def _inner(folder: Path, settings: Mapping[str, Any], size: int) -> tokenizers.Tokenizer:
    for name in (f"tok{size}.bin", "tokenizer.bin"):
        if (folder / name).exists():
            return _llama2c(folder / name, size)
    if (folder / "tokenizer.json").exists():
        return _from_text(_text(folder / "tokenizer.json"), str(folder / "tokenizer.json"))
    if (folder / "vocab.txt").exists():
        pieces = [line.rstrip("\r\n") for line in _text(folder / "vocab.txt").split("\n")]
        return _words(pieces[:-1] if not pieces[-1] else pieces, settings)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _byte_pairs(folder)
    if (folder / "token_mappings.json").exists():
        vocabulary = _json(folder / "token_mappings.json").get("token2id")
        if not isinstance(vocabulary, dict) or any(type(id) is not int or id < 0 for id in vocabulary.values()):
            raise FileError(f"{folder / 'token_mappings.json'} has no table token2id with the id of each token.")
        return _spaced(vocabulary)
    if any(folder.glob("*.spm")) or any(folder.glob("*.model")):
        raise FileError(
            f"{folder} has a SentencePiece tokenizer, which Saccade does not read; save it as tokenizer.json with "
            "transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    return _spaced({str(id): id for id in range(size)})


def _words(pieces: Sequence[str], settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Make a tokenizer from a ``vocab.txt``: of word pieces, as in BERT, or of whole words if no entry starts with ##,
    which marks a piece that continues a word."""
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    if not any(piece.startswith("##") for piece in pieces):
        inner = _spaced(vocabulary)
    else:
        inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
        inner.normalizer = normalizers.BertNormalizer(
            lowercase=settings.get("do_lower_case", True),
            strip_accents=settings.get("strip_accents"),
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        )
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece()
    present = [name for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in vocabulary]
    inner.add_special_tokens(present)
    if "[CLS]" in vocabulary and "[SEP]" in vocabulary:
        frame = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
        inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", frame)
    return inner


def _spaced(vocabulary: dict[str, int], unknown: str | None = None) -> tokenizers.Tokenizer:
    """Make a tokenizer for tokens that are separated by spaces."""
    unknown = unknown or next((name for name in ("[UNK]", "<unk>") if name in vocabulary), None)
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unknown or "<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return inner


def _byte_pairs(folder: Path) -> tokenizers.Tokenizer:
    vocabulary = _json(folder / "vocab.json")
    lines = _text(folder / "merges.txt").split("\n")
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines if line[:1] != "#") if right]
    try:
        inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:  # the library raises no narrower class
        raise FileError(f"{folder / 'merges.txt'} does not fit vocab.json: {error}.") from None
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    marks = [name for name in ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>") if name in vocabulary]
    inner.add_special_tokens([tokenizers.AddedToken(name, lstrip=name == "<mask>", special=True) for name in marks])
    if "<s>" in vocabulary and "</s>" in vocabulary:
        inner.post_processor = processors.RobertaProcessing(
            ("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]), add_prefix_space=False
        )
    return inner


def _llama2c(path: Path, size: int) -> tokenizers.Tokenizer:
    """Read a tokenizer of llama2.c: the length of the longest piece, then the score, length and bytes of each piece."""
    data, place, pieces, scores = path.read_bytes(), 4, [], []
    try:
        for id in range(size):
            score, length = struct.unpack_from("<fi", data, place)
            if length < 0 or place + 8 + length > len(data):
                raise struct.error
            piece = data[place + 8 : place + 8 + length].decode()
            pieces.append(piece.strip("\n") if id < 3 else piece.replace(" ", "▁"))  # <unk>, <s>, </s>
            scores.append(score)
            place += 8 + length
    except (struct.error, UnicodeDecodeError):
        raise FileError(f"{path} is not a tokenizer of llama2.c with {size} pieces.") from None
    ids = {piece: id for id, piece in reversed(list(enumerate(pieces)))}
    merges = [
        (-scores[ids[piece]], piece[:cut], piece[cut:])
        for piece in pieces[3:]
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    pairs = [(left, right) for _, left, right in sorted(merges, key=lambda merge: merge[0])]
    inner = tokenizers.Tokenizer(models.BPE(ids, pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.add_special_tokens(["<unk>", "<s>", "</s>"])
    inner.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return inner


def _from_text(text: str, where: str) -> tokenizers.Tokenizer:
    """Read the content of a tokenizer.json."""
    _check_ids(text, where)
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no narrower class
        raise FileError(f"{where} is not a tokenizer.json: {error}.") from None


def config_name(name: str) -> str:
    """Return the name of the file beside a tokenizer.json that names its special tokens, such as start and end."""
    return name.replace("tokenizer.json", "tokenizer_config.json")


def _check_ids(text: str, path: str) -> None:
    """Raise an error if an id is far beyond the number of entries, because it would allocate a huge table."""
    try:
        found = json.loads(text)
        vocabulary = found["model"]["vocab"]
        ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else [len(vocabulary) - 1]
        ids += [one["id"] for one in found.get("added_tokens") or ()]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise FileError(f"{path} is not a tokenizer.json: it does not describe a vocabulary.") from None
    if any(type(id) is not int or not 0 <= id < 2 * len(ids) + 1000 for id in ids):
        raise FileError(f"{path} has {len(ids):,} entries, but an id that is negative or far above that number.")


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(f"{path} has {path.stat().st_size:,} bytes; a tokenizer file has at most {_LARGEST:,}.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{path} is not text in UTF-8.") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise FileError(f"{path} is not a JSON object.")
    return found
