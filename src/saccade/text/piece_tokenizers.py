"""Make tokenizers from SentencePiece files, as each family of pretrained models uses them.

The file says how to split a text into pieces; the family adds its special tokens, and some families change the text
first. Each function gives the ids that ``transformers`` gives for the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from saccade.errors import FileError
from saccade.text.foreign import UNMATCHED
from saccade.text.foreign_settings import ADDED, NAMED, named_token
from saccade.text.sentencepiece import CONTROL, UNUSED, USER_DEFINED, PieceModel, merges_of, read_pieces

__all__ = ["FILES", "SOURCE", "TARGET", "check_added", "numbered", "of_family"]

#: The file of a folder that has one for each side.
SOURCE, TARGET = "source.spm", "target.spm"
#: The file of each family (``model_type`` in config.json).
FILES = {
    "albert": "spiece.model",
    "llama": "tokenizer.model",
    "mistral": "tokenizer.model",
    "mt5": "spiece.model",
    "t5": "spiece.model",
}
#: The most sentinels (``<extra_id_0>``, ...) of a T5.
_MOST_EXTRA = 10_000


def of_family(family: str, path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Make the tokenizer of a family from its file; ``settings`` are those of tokenizer_config.json, and under the
    name of added_tokens.json what that file contains."""
    model = read_pieces(path)
    if _MAKERS[family] is not _llama and settings.get("add_prefix_space") is False:
        raise FileError(
            f"{path.parent / 'tokenizer_config.json'}: add_prefix_space is false; for {path.name} of {family}, Saccade "
            "supports only true."
        )
    inner = _MAKERS[family](model, path, settings)
    known = {
        piece.text: tokenizers.AddedToken(piece.text, normalized=False, special=piece.kind == CONTROL)
        for piece in model.pieces
        if piece.kind in (CONTROL, USER_DEFINED)
    }
    inner.add_tokens(list(known.values()))
    check_added(inner, path, settings)
    return inner


def check_added(inner: tokenizers.Tokenizer, path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder that adds special tokens to those of the file, because they would be split like ordinary words;
    so would pieces of the file that only the settings call special."""
    added = settings.get("added_tokens_decoder")
    names = [one.get("content") for one in added.values() if isinstance(one, dict)] if isinstance(added, dict) else []
    more = settings.get("additional_special_tokens")
    names += more if isinstance(more, list) else []
    names += [settings[key] for key in NAMED if settings.get(key)]
    known = {one.content for one in inner.get_added_tokens_decoder().values()}
    for name in (*names, *settings.get(ADDED, ())):
        text = name.get("content") if isinstance(name, dict) else name
        if text not in known:
            raise FileError(
                f"{path.parent} adds the token {str(text)[:60]!r} to those of {path.name}, which Saccade cannot do; "
                "save its tokenizer as tokenizer.json with transformers."
            )


def numbered(path: Path, ids: Mapping[str, int], size: int) -> tokenizers.Tokenizer:
    """Make one of the two tokenizers of a Marian model, whose pieces have the ids in ``ids``. A text may begin with the
    language to translate into, such as ``>>fra<<``.

    Its entries are the ``size`` ids of the network, and then pieces of the file that the network does not know. A text
    is split into the pieces of the file alone; a name that is not one of them begins with a character that no text has.
    """
    model = read_pieces(path)
    for name in ("<unk>", "</s>"):
        if name not in ids:
            raise FileError(f"{path.parent / 'vocab.json'} does not have the token {name!r}, which a model needs.")
    if model.has_bytes or any(piece.kind == USER_DEFINED for piece in model.pieces):
        kind = "bytes" if model.has_bytes else "words that are never split"
        raise FileError(f"{path} has pieces for {kind}, which Saccade cannot read in a folder of this kind.")
    own = {piece.text: piece for piece in model.pieces if piece.kind not in (CONTROL, UNUSED)}
    languages = [text for text in ids if text.startswith(">>") and text.endswith("<<")]
    special = [text for text in ("<unk>", "</s>", "<pad>", *languages) if text in ids]
    names = {id: text if text in own or text in special else UNMATCHED + text for text, id in ids.items()}
    entries = [names.get(id, f"{UNMATCHED * 2}{id}") for id in range(size)]
    entries += [text for text in own if text not in ids]
    lowest = min(piece.score for piece in own.values())
    if model.algorithm == "bpe":
        known = {entry: id for id, entry in enumerate(entries)}
        inner = tokenizers.Tokenizer(models.BPE(known, merges_of(model, known), unk_token="<unk>", fuse_unk=True))
    else:
        scored = [(entry, own[entry].score if entry in own else lowest) for entry in entries]
        inner = tokenizers.Tokenizer(models.Unigram(scored, ids["<unk>"]))
    inner.normalizer = _as_the_file_says(model)
    inner.add_special_tokens([tokenizers.AddedToken(text, normalized=False, special=True) for text in special])
    inner.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", ids["</s>"])])
    return inner


def _as_the_file_says(model: PieceModel) -> Any:
    """Return what changes a text before it is split: characters are replaced, and a space is written as ▁."""
    steps: list[Any] = [normalizers.Precompiled(model.characters)] if model.characters else []
    if model.joins_spaces:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    steps.append(normalizers.Replace(" ", "▁"))
    return normalizers.Sequence(steps + ([normalizers.Prepend("▁")] if model.has_prefix else []))


def _unigram(model: PieceModel, path: Path, more: list[tuple[str, float]]) -> tokenizers.Tokenizer:
    if model.algorithm != "unigram":
        raise FileError(f"{path} has pieces of byte-pair encoding, but this family of models uses unigram pieces.")
    scored = [(piece.text, piece.score) for piece in model.pieces]
    inner = tokenizers.Tokenizer(models.Unigram(scored + more, model.unknown, model.has_bytes))
    words: list[Any] = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always")]
    inner.pre_tokenizer = pre_tokenizers.Sequence(words)
    inner.decoder = decoders.Metaspace("▁", "always")
    return inner


def _required(inner: tokenizers.Tokenizer, path: Path, *names: str) -> list[tuple[str, int]]:
    """Return special tokens with their ids."""
    found = []
    for name in names:
        id = inner.token_to_id(name)
        if id is None:
            raise FileError(f"{path} does not have the piece {name!r}, which this family of models needs.")
        found.append((name, id))
    return found


def _t5(model: PieceModel, path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    count = settings.get("extra_ids", 100)
    if type(count) is not int or not 0 <= count <= _MOST_EXTRA:
        raise FileError(
            f"{path.parent / 'tokenizer_config.json'}: extra_ids is {str(count)[:60]!r}, not a whole number from "
            f"0 to {_MOST_EXTRA:,}."
        )
    extra = [f"<extra_id_{number}>" for number in reversed(range(count))]
    inner = _unigram(model, path, [(name, 0.0) for name in extra])
    if model.characters:
        inner.normalizer = normalizers.Precompiled(model.characters)
    marks = _required(inner, path, "</s>")
    inner.add_special_tokens([name for name in ("<pad>", "</s>", "<unk>") if inner.token_to_id(name) is not None])
    inner.add_special_tokens([tokenizers.AddedToken(name, normalized=False, special=True) for name in extra])
    inner.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", marks)
    return inner


def _albert(model: PieceModel, path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    inner = _unigram(model, path, [])
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if model.characters:
        steps.append(normalizers.Precompiled(model.characters))
    inner.normalizer = normalizers.Sequence(steps)
    marks = _required(inner, path, "[CLS]", "[SEP]", "[MASK]")
    mask = tokenizers.AddedToken("[MASK]", lstrip=True, normalized=False, special=True)
    present = [name for name in ("<pad>", "<unk>", "[CLS]", "[SEP]") if inner.token_to_id(name) is not None]
    inner.add_special_tokens([*present, mask])
    inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", marks[:2])
    return inner


def _llama(model: PieceModel, path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    if model.algorithm != "bpe":
        raise FileError(f"{path} has unigram pieces, but this family of models uses byte-pair encoding.")
    ids = {piece.text: id for id, piece in enumerate(model.pieces)}
    unknown = model.pieces[model.unknown].text
    inner = tokenizers.Tokenizer(
        models.BPE(ids, merges_of(model, ids), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    is_spaced = settings.get("add_prefix_space") is not False
    scheme = "never" if not is_spaced else "always" if settings.get("legacy") is True else "first"
    inner.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, split=False)
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    inner.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if is_spaced else steps)
    inner.add_special_tokens([unknown, "<s>", "</s>"])
    first = [named_token(settings, "bos_token") or "<s>"] if settings.get("add_bos_token", True) else []
    last = [named_token(settings, "eos_token") or "</s>"] if settings.get("add_eos_token", False) else []
    marks = _required(inner, path, *first, *last)
    one, two = [*first, "$A", *last], [f"{part}:1" for part in (*first, "$B", *last)]
    inner.post_processor = processors.TemplateProcessing(" ".join(one), " ".join([*one, *two]), marks)
    return inner


_MAKERS: Mapping[str, Callable[[PieceModel, Path, Mapping[str, Any]], tokenizers.Tokenizer]] = {
    "albert": _albert,
    "llama": _llama,
    "mistral": _llama,
    "mt5": _t5,
    "t5": _t5,
}
