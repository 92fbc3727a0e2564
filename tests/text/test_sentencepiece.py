"""SentencePiece files give the ids that each family's home library gives; a damaged one is refused in a sentence."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers as hf

from saccade.data.grammar import generate
from saccade.errors import FileError
from saccade.text import ForeignTokenizer, read_foreign
from saccade.text.sentencepiece import read_pieces

TEXTS = [
    *("The cat sleeps.", "  Two   dogs  sing. ", "Ünïcödé, ﬁne, １２!", "ждать ё ж", "one\ttab\nand a line", "", "a"),
    *("...", "</s> is written here", "😀😀 and 𝔘", "\uffff", "``quoted'' text", "don't"),
]
SENTENCES = [
    text for one in generate(400, seed=1) for text in (one.source_text, one.target_text)
]  # English and French, in turn
#: How the files of each family are made.
RULES: dict[str, dict[str, Any]] = {
    "marian": {},
    "t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "albert": {"pad_id": 0, "eos_id": -1, "unk_id": 1, "bos_id": -1},
    "llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
}
RULES["albert"] |= {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": ["(", ")"]}
RULES["llama"] |= {"remove_extra_whitespaces": False, "vocab_size": 420}
FILES = {"t5": "spiece.model", "albert": "spiece.model", "llama": "tokenizer.model"}
HOME = {"t5": hf.T5Tokenizer, "albert": hf.AlbertTokenizer, "llama": hf.LlamaTokenizer}
MORE = {"t5": ["Fill <extra_id_0> in <extra_id_5>."], "albert": ["A cat [MASK] the (dog)."], "llama": []}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    folder = tmp_path_factory.mktemp("spm")
    made: dict[str, bytes] = {}

    def get(family: str, side: int | None = None, **changed: Any) -> bytes:
        name = f"{family}-{side}-{sorted(changed)}"
        if name not in made:
            given = {"vocab_size": 160, "minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False}
            prefix = folder / str(len(made))
            sentences = SENTENCES if side is None else SENTENCES[side::2]
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_prefix=str(prefix), **given | RULES[family] | changed
            )
            made[name] = prefix.with_suffix(".model").read_bytes()
        return made[name]

    return get


@pytest.mark.parametrize("family", FILES)
def test_ids_are_those_of_the_home_library(family: str, trained: Any, tmp_path: Path) -> None:
    (tmp_path / FILES[family]).write_bytes(trained(family))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True} if family == "llama" else {}))
    home = HOME[family].from_pretrained(tmp_path)
    ours = read_foreign(tmp_path, len(home) + 5, {}, family)
    texts = [*SENTENCES[:40], *TEXTS, *MORE[family]]
    expected = [home(text)["input_ids"] for text in texts]
    assert [ours.framed(ids) for ids in ours.encode_ids(texts)] == expected
    said = [home.decode(ids, skip_special_tokens=True) for ids in expected]
    assert [ours.decode(ids) for ids in ours.encode_ids(texts)] == said
    again = _restored(ours)
    assert again.encode_ids(texts) == ours.encode_ids(texts)


def _restored(tokenizer: ForeignTokenizer) -> ForeignTokenizer:
    files = tokenizer.files()
    return ForeignTokenizer.restore(files["tokenizer.json"], files["tokenizer_config.json"], "it")


@pytest.fixture
def marian(trained: Any, tmp_path: Path) -> tuple[Path, int]:
    """A folder whose vocab.json lacks pieces of both files, and has some that neither has, in an order of its own."""
    pieces: list[str] = []
    for side, name in enumerate(("source.spm", "target.spm")):
        (tmp_path / name).write_bytes(trained("marian", side))
        pieces += [piece.text for piece in read_pieces(tmp_path / name).pieces[3:]]
    pieces = list(dict.fromkeys(pieces))
    random.Random(0).shuffle(pieces)
    entries = ["</s>", "<unk>", *pieces[: len(pieces) * 4 // 5], "ж", ">>de<<", "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({entry: id for id, entry in enumerate(entries)}))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return tmp_path, len(entries)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_each_side_of_marian_is_split_by_its_own_file(marian: tuple[Path, int]) -> None:
    folder, size = marian
    home = hf.MarianTokenizer.from_pretrained(folder)
    pad = size - 1
    source = read_foreign(folder, size + 3, {"pad": pad, "start": pad, "end": 0}, "marian")
    texts = [*SENTENCES[:80], *TEXTS, ">>de<< The cat", ">>de<<The cat"]
    assert [source.ended(ids) for ids in source.encode_ids(texts)] == [home(text)["input_ids"] for text in texts]
    target = source.target
    expected = [home(text_target=text)["input_ids"] for text in texts]
    assert [target.ended(ids) for ids in target.encode_ids(texts)] == expected
    for ids in expected[:-2]:
        known = [id for id in ids if id > 1]
        assert target.decode(known) == home.decode(known)
    assert set(range(size, size + 3)) <= set(target.barred_ids)
    for one in (source, target):
        assert _restored(one).encode_ids(texts) == one.encode_ids(texts)
    assert source.encode_ids(texts) != target.encode_ids(texts)


def _field(number: int, kind: int, data: bytes) -> bytes:
    return bytes([number << 3 | kind]) + data


BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda data: data[:-3], "ends in the middle of a field"),
    "empty": (lambda data: b"", "does not have exactly one piece for unknown characters"),
    "no buffer": (lambda data: b"\xff" * 40, "a number is too long"),
    "text": (lambda data: b"just a text\n", "is not a SentencePiece file"),
    "a claim of 10 GB": (lambda data: data + _field(1, 2, b"\x80\x90\xdf\xc0\x4a"), "ends in the middle of a field"),
    "a piece twice": (lambda data: data + _field(1, 2, b"\x03\x0a\x01a") * 2, "a piece occurs twice"),
    "no piece": (lambda data: data + _field(1, 2, b"\x00"), "a piece has 0 characters"),
    "a long piece": (
        lambda data: data + _field(1, 2, b"\xeb\x07" + b"\x0a\xe8\x07" + b"a" * 1000),
        "a piece has 1,000 characters, not 1 to 512",
    ),
    "NaN": (
        lambda data: data + _field(1, 2, b"\x08\x0a\x01\x07\x15" + struct.pack("<f", float("nan"))),
        "not a finite number",
    ),
    "characters": (lambda data: data + _field(3, 2, b"\x06\x12\x04\xff\xff\xff\x00"), "table of characters is damaged"),
    "algorithm": (lambda data: data + _field(2, 2, b"\x02\x18\x03"), "neither unigram nor BPE"),
    "type": (lambda data: data + _field(2, 0, b"\x01"), "a field has the wrong type"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_in_one_sentence(kind: str, trained: Any, tmp_path: Path) -> None:
    spoil, said = BAD[kind]
    path = tmp_path / "spiece.model"
    path.write_bytes(spoil(trained("t5")))
    with pytest.raises(FileError, match=said) as error:
        read_foreign(tmp_path, 300, {}, "t5")
    assert "\n" not in str(error.value)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "spiece.model"
    with path.open("wb") as file:
        file.truncate(10_000_000_000)  # takes no room on the disk
    with pytest.raises(FileError, match="has 10,000,000,000 bytes; a SentencePiece file has at most"):
        read_foreign(tmp_path, 300, {}, "t5")


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_changed_bytes_never_end_the_process(family: str, trained: Any, tmp_path: Path) -> None:
    """Most of a file is its table of characters, and a wrong one would stop the library that reads it."""
    whole, draw = trained(family), random.Random(2)
    table = whole.find(b"nmt_nfkc")
    refused: list[str] = []
    for number in range(120):
        data = bytearray(whole)
        start = table if number % 2 and table > 0 else 0
        for _ in range(draw.choice((1, 3, 40))):
            data[draw.randrange(start, len(data))] = draw.randrange(256)
        (tmp_path / FILES[family]).write_bytes(bytes(data))
        try:
            read_foreign(tmp_path, 600, {}, family).encode_ids(TEXTS)
        except FileError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert not any("\n" in said for said in refused)


def test_another_family_is_refused_with_the_way_out(trained: Any, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(trained("t5"))
    with pytest.raises(FileError, match=r"does not read for xlnet; save it as tokenizer\.json with transformers"):
        read_foreign(tmp_path, 300, {}, "xlnet")
    (tmp_path / "tokenizer.model").write_bytes(trained("t5"))
    with pytest.raises(FileError, match="has unigram pieces, but this family of models uses byte-pair encoding"):
        read_foreign(tmp_path, 300, {}, "llama")
