"""Tokenizer folders as other libraries lay them, with the settings beside them: ids, pairs and decoded texts are those
of the home library, or the folder is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers as hf
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors, trainers

from saccade.errors import FileError
from saccade.text import read_foreign

CORPUS = [
    "The lower fox's newest 1234 comments aren't here.",
    "A Café # # ## naïve 数学 low lowest",
    "new wider é e\u0301",
] * 3
TEXTS = [
    *(
        "",
        " ",
        "a",
        " the  lower ",
        "Café CAFÉ, e\u0301 é!",
        "数学 is 1234",
        "# # ## comment",
        "👍🏽 \x00\x07\xa0\u200b x",
    ),
    *("<new> a<new>b", "in New York.", "[CLS] [UNK] <s> </s> <pad> <|endoftext|>", "x" * 120, "the", "aren't\n\n we"),
]


def words(folder: Path, names: dict[str, str] | None = None) -> int:
    """Write a vocab.txt of word pieces."""
    names = names or {}
    five = [names.get(key, f"[{key}]") for key in ("PAD", "UNK", "CLS", "SEP", "MASK")]
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token=five[1]))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=150, special_tokens=five, show_progress=False)
    )
    vocabulary = inner.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    return len(vocabulary)


def pairs(folder: Path, special: list[str]) -> int:
    """Write a vocab.json and a merges.txt of byte pairs; one of the pairs joins two number signs."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=letters, show_progress=False, min_frequency=1
    )
    inner.train_from_iterator([*CORPUS, "######## ########"], trainer)
    found = json.loads(inner.to_str())["model"]
    assert ["#", "#"] in found["merges"]
    (folder / "vocab.json").write_text(json.dumps(found["vocab"]))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, found["merges"])]) + "\n")
    return len(found["vocab"])


def assert_as_at_home(folder: Path, size: int, kind: str) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    home, ours = hf.AutoTokenizer.from_pretrained(folder), read_foreign(folder, size, {}, kind)
    expected = [home(text)["input_ids"] for text in TEXTS]
    assert [ours.framed(ids) for ids in ours.encode_ids(TEXTS)] == expected
    said = [home.decode(ids, skip_special_tokens=True) for ids in expected]
    assert [ours.decode(ids) for ids in expected] == said
    if ours.joins_texts:
        frame, ids = ours.pair_frame, ours.encode_ids(TEXTS)
        found = [*frame.before, *ids[3], *frame.between, *ids[4], *frame.after]
        assert found == home(TEXTS[3], TEXTS[4])["input_ids"]


NEW = {"content": "<new>", "lstrip": True, "rstrip": False, "single_word": True, "normalized": False, "special": True}
RENAMED = {"PAD": "<pad>", "UNK": "<unk>", "CLS": "<s>", "SEP": "</s>", "MASK": "<mask>"}
NAMES = {f"{key.lower()}_token": name for key, name in RENAMED.items()}


@pytest.mark.parametrize(
    ("renamed", "files"),
    [
        (False, {}),
        (False, {"tokenizer_config.json": {"do_lower_case": False, "tokenize_chinese_chars": False}}),
        (False, {"tokenizer_config.json": {"strip_accents": False, "additional_special_tokens": ["New York"]}}),
        (False, {"added_tokens.json": {"<new>": 150}}),
        (False, {"special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}),
        (True, {"tokenizer_config.json": NAMES}),
        (True, {"special_tokens_map.json": NAMES}),
    ],
)
def test_a_list_of_words_is_used_as_its_settings_say(renamed: bool, files: dict[str, Any], tmp_path: Path) -> None:
    """Wrong before: other names of special tokens, and added tokens, were ignored without a word."""
    size = words(tmp_path, RENAMED if renamed else None)
    for name, table in files.items():
        (tmp_path / name).write_text(json.dumps(table))
    assert_as_at_home(tmp_path, size + 9, "bert")


def test_word_pieces_without_their_special_tokens_are_refused(tmp_path: Path) -> None:
    size = words(tmp_path, RENAMED)
    with pytest.raises(FileError, match=r"vocab\.txt does not have the token '\[UNK\]'"):
        read_foreign(tmp_path, size, {}, "bert")


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((kind, {}) for kind in ("gpt2", "roberta", "bart", "gpt_neox", "qwen2")),
        *((kind, {"add_prefix_space": True}) for kind in ("gpt2", "roberta", "gpt_neox", "qwen2")),
        *((kind, {"add_bos_token": True, "add_eos_token": True}) for kind in ("gpt2", "gpt_neox", "roberta")),
        ("opt", {"add_bos_token": True, "bos_token": "</s>", "unk_token": "</s>", "eos_token": "</s>"}),
        ("gpt2", {"added_tokens_decoder": {"999": NEW}}),
        ("qwen2", {"bos_token": "the", "add_bos_token": True}),
        ("gpt_neox", {"tokenizer_class": "GPT2Tokenizer"}),
    ],
)
def test_byte_pairs_are_used_as_the_family_and_its_settings_say(kind: str, config: Any, tmp_path: Path) -> None:
    """Wrong before: every family was read like GPT-2 or RoBERTa without settings, and the pair "# #" was left out."""
    frame = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    size = pairs(tmp_path, frame if kind in ("roberta", "bart", "opt") else ["<|endoftext|>", "<|padding|>"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert_as_at_home(tmp_path, size + 9, kind)


def test_byte_pairs_of_another_family_are_refused(tmp_path: Path) -> None:
    size = pairs(tmp_path, ["<s>", "</s>"])
    with pytest.raises(FileError, match=r"merges\.txt, which Saccade does not read for clip; save"):
        read_foreign(tmp_path, size, {}, "clip")


def whole(folder: Path, change: Any = None, letters: str = "abc", **config: Any) -> int:
    """Write a tokenizer.json of byte pairs without an unknown token, and its settings."""
    vocabulary = {"[CLS]": 0, "[SEP]": 1, "▁": 2} | {letter: id for id, letter in enumerate(letters, start=3)}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    inner.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=None)
    inner.add_special_tokens([AddedToken("[CLS]", lstrip=True), "[SEP]"])
    frame = [("[CLS]", 0), ("[SEP]", 1)]
    inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", frame)
    described = json.loads(inner.to_str())
    if change is not None:
        change(described)
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(vocabulary)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"eos_token": "<new>"},
        {"additional_special_tokens": ["New York"]},
        {"cls_token": "[CLS]", "added_tokens_decoder": {"8": NEW}},
    ],
)
def test_tokens_that_only_the_settings_add_are_tokens(config: dict[str, Any], tmp_path: Path) -> None:
    """Also a vocabulary without the letter "a": wrong before, the special tokens both stood after the text."""
    size = whole(tmp_path, letters="TACG", tokenizer_class="PreTrainedTokenizerFast", **config)
    home, ours = hf.PreTrainedTokenizerFast.from_pretrained(tmp_path), read_foreign(tmp_path, size + 9, {}, "bert")
    texts = ["", "TACG", "T <new> G", "CNew YorkA", " [CLS] T"]
    assert [ours.framed(ids) for ids in ours.encode_ids(texts)] == [home(text)["input_ids"] for text in texts]
    assert ours.frame == ([0], [1])


def _lower(described: dict[str, Any]) -> None:
    described["normalizer"]["lowercase"] = True


def _spaces(described: dict[str, Any]) -> None:
    described["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }


def _typed(described: dict[str, Any]) -> None:
    described["post_processor"]["single"][0]["SpecialToken"]["type_id"] = 2


@pytest.mark.parametrize(
    ("change", "config", "said"),
    [
        (None, {"do_lower_case": True}, "do_lower_case is true, but tokenizer.json has the opposite"),
        (_lower, {"do_lower_case": False}, "do_lower_case is false, but"),
        (_lower, {"strip_accents": False}, "strip_accents is false, but"),
        (None, {"tokenize_chinese_chars": False}, "tokenize_chinese_chars is false, but"),
        (_spaces, {"add_prefix_space": False}, "add_prefix_space is false, but"),
        (None, {"split_special_tokens": True}, "split_special_tokens is true; Saccade supports only false"),
        (_typed, {}, "a token type other than 0"),
    ],
)
def test_files_that_contradict_each_other_are_refused(change: Any, config: Any, said: str, tmp_path: Path) -> None:
    size = whole(tmp_path, change, **config)
    with pytest.raises(FileError, match=said):
        read_foreign(tmp_path, size, {}, "bert")
    if "type" not in said and "split" not in said:
        (tmp_path / "tokenizer_config.json").write_text(
            json.dumps({**config, "tokenizer_class": "PreTrainedTokenizerFast"})
        )
        assert read_foreign(tmp_path, size, {}, "bert").vocabulary_size == size


def test_one_space_may_become_two_tokens(tmp_path: Path) -> None:
    """Wrong before: an IndexError if it was the last one."""
    inner = tokenizers.Tokenizer(models.BPE({"▁": 0, "a": 1}, []))
    inner.normalizer = normalizers.Replace(" ", "▁▁")
    inner.save(str(tmp_path / "tokenizer.json"))
    assert read_foreign(tmp_path, 2, {}, "bert").encode("a ").ids == [1, 0, 0]
