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
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from saccade.errors import FileError
from saccade.text.foreign import ROLES, ForeignTokenizer, from_text
from saccade.text.foreign_settings import (
    add_tokens,
    check_settings,
    named_token,
    read_json,
    read_settings,
    read_text,
)
from saccade.text.piece_tokenizers import FILES, SOURCE, TARGET, check_added, numbered, of_family

__all__ = ["read_foreign", "spaced_tokenizer"]

#: The special tokens of a vocab.txt, unless its settings name others.
_OF_WORDS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_ROBERTA: dict[str, AddedToken | str] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": AddedToken("<mask>", lstrip=True, normalized=False, special=True),
}
_ENDS: dict[str, AddedToken | str] = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
#: The special tokens of a vocab.json with a merges.txt, by the style of the family.
_OF_BYTES: Mapping[str, Mapping[str, AddedToken | str]] = {
    "gpt2": _ENDS,
    "gptneox": {**_ENDS, "pad_token": "<|padding|>"},
    "qwen2": dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
    "roberta": _ROBERTA,
}
#: The families and classes of each style.
_BYTE_PAIRS = {
    **dict.fromkeys(("gpt2", "gptneo", "gptj", "codegen", "opt", "phi", "starcoder2"), "gpt2"),
    **dict.fromkeys(("roberta", "roberta-prelayernorm", "bart", "longformer", "data2vec-text", "ibert"), "roberta"),
    **dict.fromkeys(("gptneox", "olmo", "olmoe"), "gptneox"),
    **dict.fromkeys(("qwen2", "qwen2moe", "qwen3", "qwen3moe"), "qwen2"),
}
#: How Qwen2 cuts a text before it looks for pieces.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_foreign(
    folder: Path, size: int, ids: Mapping[str, int | None], model_type: str | None = None
) -> ForeignTokenizer:
    """Read the tokenizer in a folder. ``size`` is the number of ids that the network knows, and ``ids`` are the special
    ids in the configuration of the network: pad, start and end. ``model_type`` is the family that its config.json
    names, which decides how files of SentencePiece are used."""
    settings = read_settings(folder)
    names: dict[str, str | int | None] = {}
    for role, key in ROLES.items():
        names[role] = named_token(settings, key) if ids.get(role) is None else ids.get(role)
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
    ids = read_json(folder / "vocab.json")
    if any(type(id) is not int or not 0 <= id < size for id in ids.values()) or len(set(ids.values())) < len(ids):
        raise FileError(f"{folder / 'vocab.json'} does not give each piece an id of its own from 0 to {size - 1}.")
    named = {role: {"unknown": "<unk>", "end": "</s>"}.get(role, name) for role, name in names.items()}
    inners = [numbered(folder / name, ids, size) for name in (SOURCE, TARGET)]
    check_added(inners[0], folder / SOURCE, settings)
    sides = [ForeignTokenizer(inner, size, named, renumbered=True) for inner in inners]
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
        text = read_text(folder / "tokenizer.json")
        inner = from_text(text, str(folder / "tokenizer.json"))
        check_settings(json.loads(text), settings, folder)
        add_tokens(inner, settings, folder)
        return inner
    if (folder / "vocab.txt").exists():
        return _words(folder, settings)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _byte_pairs(folder, settings, model_type)
    if (folder / "token_mappings.json").exists():
        vocabulary = read_json(folder / "token_mappings.json").get("token2id")
        if not isinstance(vocabulary, dict) or any(type(id) is not int or id < 0 for id in vocabulary.values()):
            raise FileError(f"{folder / 'token_mappings.json'} has no table token2id with the id of each token.")
        return _spaced(vocabulary)
    if model_type in FILES and (folder / FILES[model_type]).exists():
        return of_family(model_type, folder / FILES[model_type], settings)
    if any(folder.glob("*.spm")) or any(folder.glob("*.model")):
        raise FileError(
            f"{folder} has a SentencePiece tokenizer that Saccade does not read for {model_type or 'this model'}; save "
            "it as tokenizer.json with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    return _spaced({str(id): id for id in range(size)})


def _words(folder: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Make a tokenizer from a ``vocab.txt``: of word pieces, as in BERT, or of whole words if no entry starts with ##,
    which marks a piece that continues a word."""
    lines = [line.rstrip("\r\n") for line in read_text(folder / "vocab.txt").split("\n")]
    vocabulary = {piece: id for id, piece in enumerate(lines[:-1] if not lines[-1] else lines)}
    names = {key: named_token(settings, key) or usual for key, usual in _OF_WORDS.items()}
    start, end, unknown = (names[key] for key in ("cls_token", "sep_token", "unk_token"))
    if not any(piece.startswith("##") for piece in vocabulary):
        inner = _spaced(vocabulary, unknown if unknown in vocabulary else None)
        inner.add_special_tokens([name for name in names.values() if name in vocabulary])
    else:
        for name in (unknown, start, end):
            if name not in vocabulary:
                raise FileError(
                    f"{folder / 'vocab.txt'} does not have the token {name!r}, which a tokenizer of word pieces needs; "
                    "tokenizer_config.json can give it another name (unk_token, cls_token, sep_token)."
                )
        inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
        inner.normalizer = normalizers.BertNormalizer(
            lowercase=settings.get("do_lower_case", True),
            strip_accents=settings.get("strip_accents"),
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        )
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece()
        add_tokens(inner, settings, folder, _OF_WORDS)
    if start in vocabulary and end in vocabulary:
        frame = [(name, vocabulary[name]) for name in dict.fromkeys((start, end))]
        one = [start, "$A", end]
        inner.post_processor = processors.TemplateProcessing(one, [*one, "$B:1", f"{end}:1"], frame)
    return inner


def _spaced(vocabulary: dict[str, int], unknown: str | None = None) -> tokenizers.Tokenizer:
    """Make a tokenizer for tokens that are separated by spaces."""
    unknown = unknown or next((name for name in ("[UNK]", "<unk>") if name in vocabulary), None)
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unknown or "<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return inner


def _byte_pairs(folder: Path, settings: Mapping[str, Any], model_type: str | None) -> tokenizers.Tokenizer:
    """Make a tokenizer from a ``vocab.json`` and a ``merges.txt``, as the class that the settings name uses them, or
    else that of the family."""
    family = str(settings.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer").lower()
    style = _BYTE_PAIRS.get(family) or _BYTE_PAIRS.get((model_type or "").replace("_", ""))
    if style is None:
        raise FileError(
            f"{folder} has vocab.json and merges.txt, which Saccade does not read for {model_type or 'this model'}; "
            "save them as tokenizer.json with transformers: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    vocabulary = read_json(folder / "vocab.json")
    lines = [line for line in read_text(folder / "merges.txt").split("\n") if not line.startswith("#version")]
    merges = [(left, right) for left, _, right in (line.rstrip("\r").partition(" ") for line in lines) if right]
    try:
        inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:  # the library raises no narrower class
        raise FileError(f"{folder / 'merges.txt'} does not fit vocab.json: {error}.") from None
    spaced = bool(settings.get("add_prefix_space"))
    cut: list[Any] = [pre_tokenizers.Split(Regex(_QWEN2), "isolated")] if style == "qwen2" else []
    cut.append(pre_tokenizers.ByteLevel(add_prefix_space=spaced, use_regex=style != "qwen2"))
    inner.pre_tokenizer = pre_tokenizers.Sequence(cut)
    if style in ("qwen2", "gptneox"):
        inner.normalizer = normalizers.NFC()
    inner.decoder = decoders.ByteLevel()
    usual = _OF_BYTES[style]
    add_tokens(inner, settings, folder, usual)
    ends = ("bos_token", "eos_token", "cls_token", "sep_token")
    names = {key: named_token(settings, key) or str(usual.get(key, "")) for key in ends}
    if style == "roberta":
        start, end = ((name, _id(inner, name, folder)) for name in (names["cls_token"], names["sep_token"]))
        inner.post_processor = processors.RobertaProcessing(end, start, add_prefix_space=spaced)
    else:
        first = [names["bos_token"]] if settings.get("add_bos_token") and names["bos_token"] else []
        last = [names["eos_token"]] if settings.get("add_eos_token") else []
        marks = [(name, _id(inner, name, folder)) for name in dict.fromkeys((*first, *last))]
        one, two = [*first, "$A", *last], [f"{part}:1" for part in (*first, "$B", *last)]
        inner.post_processor = processors.TemplateProcessing(one, [*one, *two], marks)
    return inner


def _id(inner: tokenizers.Tokenizer, name: str, folder: Path) -> int:
    id: int | None = inner.token_to_id(name)
    if id is None:
        raise FileError(f"{folder / 'vocab.json'} does not have the token {name!r}, which the model needs.")
    return id


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
