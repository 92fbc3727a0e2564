"""Read the files beside a tokenizer that name its special tokens, add tokens to it, and say how it prepares a text.

These are ``tokenizer_config.json``, ``special_tokens_map.json`` and ``added_tokens.json``. Every function does what
``transformers`` does with the same files; where its versions differ, the folder is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from saccade.errors import FileError

__all__ = ["ADDED", "NAMED", "add_tokens", "check_settings", "named_token", "read_json", "read_settings", "read_text"]

_LARGEST = 256 << 20  # bytes of a tokenizer file
#: The setting in which the content of added_tokens.json is given.
ADDED = "added_tokens.json"
#: The keys of the special tokens.
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MORE = ("extra_special_tokens", "additional_special_tokens")
#: Classes that use a tokenizer.json as it is, whatever the settings say.
_PLAIN = ("PreTrainedTokenizer", "TokenizersBackend")


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the tokenizer in a folder. The special tokens of special_tokens_map.json and the tokens of
    added_tokens.json count only if tokenizer_config.json does not list the added tokens itself."""
    config, legacy, added = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in ("tokenizer_config.json", "special_tokens_map.json", ADDED)
    )
    if config.get("split_special_tokens"):
        raise FileError(
            f"{folder / 'tokenizer_config.json'}: split_special_tokens is true; Saccade supports only false."
        )
    if "added_tokens_decoder" in config:
        return config
    return {**config, **legacy, ADDED: added, **{key: config[key] for key in _MORE if config.get(key)}}


def named_token(settings: Mapping[str, Any], key: str) -> str | None:
    """Return the token that the settings give for a key such as ``unk_token``, or None if they give none."""
    stated = settings.get(key)
    token = stated.get("content") if isinstance(stated, dict) else stated
    return token if isinstance(token, str) and token else None


def add_tokens(
    inner: tokenizers.Tokenizer,
    settings: Mapping[str, Any],
    where: Path,
    defaults: Mapping[str, AddedToken | str] | None = None,
) -> None:
    """Add the tokens that the settings name and a tokenizer does not have yet. ``defaults`` are the special tokens that
    it has even if the settings do not name them; errors name the folder ``where``."""
    special = [one for key in NAMED if (one := _named(settings, key, defaults or {})) is not None]
    more = _values(settings.get(_MORE[0]) or settings.get(_MORE[1]), where)
    special += [_token(one, where, special=True) for one in more]
    names = {one.content for one in special}
    known = {one.content: one for one in inner.get_added_tokens_decoder().values()}
    inner.add_tokens([one for one in _listed(settings, names, where) if one.content not in known])
    known = {one.content: one for one in inner.get_added_tokens_decoder().values()}
    for one in special:
        told = known.get(one.content, one)  # a token that is there keeps its flags, but becomes a special one
        told.special = True
        inner.add_special_tokens([told])


def _values(more: Any, where: Path) -> list[Any]:
    """Return the additional special tokens, which a file gives as a list or as a table."""
    if not isinstance(more, list | dict | type(None)):
        raise FileError(f"{where}: the additional special tokens of its tokenizer must be a list or a table.")
    return list(more.values() if isinstance(more, dict) else more or [])


def _named(settings: Mapping[str, Any], key: str, defaults: Mapping[str, AddedToken | str]) -> AddedToken | None:
    name, default = named_token(settings, key), defaults.get(key)
    if name is None or (isinstance(default, AddedToken) and name == default.content and settings.get(key) == name):
        return AddedToken(default, normalized=False, special=True) if isinstance(default, str) else default
    stated = settings[key]
    return (
        _flagged(stated, special=True) if isinstance(stated, dict) else AddedToken(name, normalized=False, special=True)
    )


def _listed(settings: Mapping[str, Any], special: set[str], where: Path) -> Iterator[AddedToken]:
    """Yield the added tokens that the settings list, sorted by their ids."""
    table, older = settings.get("added_tokens_decoder", {}), settings.get(ADDED, {})
    try:
        for _, one in sorted(table.items(), key=lambda pair: int(pair[0])):
            yield _token(one, where, special=isinstance(one, dict) and one.get("content") in special)
        for name, _ in sorted(older.items(), key=lambda pair: int(pair[1])):
            yield AddedToken(name, normalized=name not in special, special=name in special)
    except (ValueError, TypeError, AttributeError):
        raise FileError(f"{where} lists added tokens whose ids are not whole numbers.") from None


def _token(stated: Any, where: Path, special: bool = False) -> AddedToken:
    if isinstance(stated, str) and stated:
        return AddedToken(stated, normalized=False, special=special)
    if isinstance(stated, dict) and isinstance(stated.get("content"), str) and stated["content"]:
        return _flagged(stated, special or stated.get("special") is True)
    raise FileError(f"{where} adds the token {str(stated)[:60]!r}, which is not text.")


def _flagged(stated: Mapping[str, Any], special: bool) -> AddedToken:
    """Return an added token with the options in a file, such as whether it also takes the spaces before it."""
    flags = {name: stated.get(name) is True for name in ("lstrip", "rstrip", "single_word")}
    normalized = stated.get("normalized")
    return AddedToken(
        stated["content"],
        special=special,
        normalized=not special if normalized is None else normalized is True,
        **flags,
    )


def check_settings(described: Mapping[str, Any], settings: Mapping[str, Any], where: Path) -> None:
    """Refuse a tokenizer.json that changes texts in another way than tokenizer_config.json says: some versions of
    ``transformers`` then follow one of the two files, and some the other.

    Also refuse token types other than 0 in a single text.
    """
    framing = [one for part in _parts(described.get("post_processor")) for one in part.get("single") or ()]
    if any(token.get("type_id") for one in framing for token in one.values()):
        raise FileError(
            f"{where / 'tokenizer.json'} gives a token of a single text a token type other than 0, which Saccade does "
            "not support."
        )
    if str(settings.get("tokenizer_class", "")).removesuffix("Fast") in _PLAIN:
        return
    parts = [*_parts(described.get("normalizer")), *_parts(described.get("pre_tokenizer"))]
    for name, found in _found(parts).items():
        stated = settings.get(name)
        if isinstance(stated, bool) and isinstance(found, bool) and stated != found:
            raise FileError(
                f"{where / 'tokenizer_config.json'}: {name} is {json.dumps(stated)}, but tokenizer.json has the "
                "opposite; correct it, or save the tokenizer again with transformers."
            )


def _parts(described: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each step of a normalizer, pre-tokenizer or post-processor in a tokenizer.json, including nested ones."""
    if isinstance(described, dict):
        yield described
        for name in ("normalizers", "pretokenizers", "processors"):
            yield from (part for one in described.get(name) or () for part in _parts(one))


def _found(parts: list[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return the values that settings such as do_lower_case must have to agree with the steps in a tokenizer.json."""
    kinds = {str(part.get("type")): part for part in parts}
    found: dict[str, bool | None] = {}
    if (bert := kinds.get("BertNormalizer")) is not None:
        accents = bert.get("strip_accents")
        found["do_lower_case"] = bert.get("lowercase")
        found["tokenize_chinese_chars"] = bert.get("handle_chinese_chars")
        found["strip_accents"] = bert.get("lowercase") if accents is None else accents
    elif "Precompiled" in kinds or "Metaspace" in kinds:  # ALBERT and its relatives
        found["do_lower_case"] = "Lowercase" in kinds
        found["keep_accents"] = "StripAccents" not in kinds
    if "ByteLevel" in kinds:
        found["add_prefix_space"] = kinds["ByteLevel"].get("add_prefix_space")
    elif (spaces := kinds.get("Metaspace")) is not None:
        found["add_prefix_space"] = spaces.get("prepend_scheme", "always") != "never"
    elif "Prepend" in kinds or "Replace" in kinds:
        found["add_prefix_space"] = "Prepend" in kinds
    return found


def read_text(path: Path) -> str:
    """Read a text file of a tokenizer."""
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(f"{path} has {path.stat().st_size:,} bytes; a tokenizer file has at most {_LARGEST:,}.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{path} is not text in UTF-8.") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a tokenizer."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise FileError(f"{path} is not a JSON object.")
    return found
