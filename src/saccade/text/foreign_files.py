"""Read the tokenizer in the folder of a pretrained model.

A folder has a ``tokenizer.json``, or the older ``vocab.txt``, ``vocab.json`` with ``merges.txt``, or the files of
SentencePiece. Without any of these, a text must consist of tokens separated by spaces: those in
``token_mappings.json``, or else numbers, the ids.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from saccade.errors import FileError
from saccade.text.foreign import ROLES, ForeignTokenizer, from_text
from saccade.text.piece_tokenizers import ADDED, FILES, SOURCE, TARGET, numbered, of_family

__all__ = ["read_foreign", "spaced_tokenizer"]

_LARGEST = 256 << 20  # bytes of a tokenizer file


def read_foreign(
    folder: Path, size: int, ids: Mapping[str, int | None], model_type: str | None = None
) -> ForeignTokenizer:
    """Read the tokenizer in a folder. ``size`` is the number of ids that the network knows, and ``ids`` are the special
    ids in the configuration of the network: pad, start and end. ``model_type`` is the family that its config.json
    names, which decides how files of SentencePiece are used."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        settings.update(_json(folder / name) if (folder / name).exists() else {})
    names: dict[str, str | int | None] = {}
    for role, key in ROLES.items():
        stated = settings.get(key)
        token = stated.get("content") if isinstance(stated, dict) else stated
        names[role] = token if isinstance(token, str) and ids.get(role) is None else ids.get(role)
    has_json = (folder / "tokenizer.json").exists()
    if not has_json and (folder / SOURCE).exists() and (folder / "vocab.json").exists():
        return _two_sides(folder, size, names, settings)
    inner = _inner(folder, settings, size, model_type)
    names["unknown"] = names["unknown"] or _unknown(inner.model)
    if names["mask"] is None:  # the usual names, if the settings do not give one
        names["mask"] = next((name for name in ("[MASK]", "<mask>") if inner.token_to_id(name) is not None), None)
    return ForeignTokenizer(inner, size, names)


def _unknown(model: Any) -> str | int | None:
    """Return the token for unknown words that a tokenizer names, or its id."""
    if isinstance(model, models.Unigram):
        id: int | None = json.loads(model.__getstate__())["unk_id"]
        return id
    token: str | None = model.unk_token
    return token


def _two_sides(
    folder: Path, size: int, names: Mapping[str, str | int | None], settings: Mapping[str, Any]
) -> ForeignTokenizer:
    """Read the tokenizers of a model such as Marian, which has a file of pieces for each side; ``vocab.json`` has the
    ids of both."""
    if settings.get("separate_vocabs"):
        raise FileError(f"{folder / 'tokenizer_config.json'}: separate_vocabs is true; Saccade supports only false.")
    ids = _json(folder / "vocab.json")
    if any(type(id) is not int or not 0 <= id < size for id in ids.values()) or len(set(ids.values())) < len(ids):
        raise FileError(f"{folder / 'vocab.json'} does not give each piece an id of its own from 0 to {size - 1}.")
    named = {role: {"unknown": "<unk>", "end": "</s>"}.get(role, name) for role, name in names.items()}
    sides = [
        ForeignTokenizer(numbered(folder / name, ids, size), size, named, renumbered=True) for name in (SOURCE, TARGET)
    ]
    sides[0].target = sides[1]
    return sides[0]


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


def _inner(folder: Path, settings: Mapping[str, Any], size: int, model_type: str | None) -> tokenizers.Tokenizer:
    for name in (f"tok{size}.bin", "tokenizer.bin"):
        if (folder / name).exists():
            return _llama2c(folder / name, size)
    if (folder / "tokenizer.json").exists():
        return from_text(_text(folder / "tokenizer.json"), str(folder / "tokenizer.json"))
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
    if model_type in FILES and (folder / FILES[model_type]).exists():
        added = _json(folder / ADDED) if (folder / ADDED).exists() else {}
        return of_family(model_type, folder / FILES[model_type], {**settings, ADDED: added})
    if any(folder.glob("*.spm")) or any(folder.glob("*.model")):
        raise FileError(
            f"{folder} has a SentencePiece tokenizer that Saccade does not read for {model_type or 'this model'}; save "
            "it as tokenizer.json with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
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
