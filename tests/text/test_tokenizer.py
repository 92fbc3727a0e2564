"""Tokenizers: the text comes back, spans and words are right, special tokens cannot be spelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models, pre_tokenizers

from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.text import END, KINDS, MASK, PAD, SPECIAL_TOKENS, START, UNKNOWN, Tokenizer
from saccade.text.kinds import empty_tokenizer

CORPUS = [
    "The black cat ate the mouse.",
    "Le chat noir a mangé la souris, n'est-ce pas ?",
    "Elle n'a pas vu l'homme qui dort.",
    "Die Straße ist naß; 42 Bäume!",
    "<s> <s> <pad> [MASK] </s> <mask> <unk>" * 3,
] * 2
TOKENIZERS = {kind: Tokenizer.train(CORPUS, kind, vocabulary_size=400) for kind in KINDS}
LOWERED = {kind: Tokenizer.train(CORPUS, kind, vocabulary_size=400, lowercase=True) for kind in KINDS}
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
KNOWN_TEXTS = st.text(alphabet=sorted(set("".join(CORPUS))), max_size=40)


@pytest.mark.parametrize("kind", ["bpe", "byte"])
@settings(deadline=None)
@given(text=st.one_of(TEXTS, KNOWN_TEXTS))
def test_any_text_comes_back_from_bytes(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert all(id > MASK for id in encoding.ids)


@settings(deadline=None)
@given(text=KNOWN_TEXTS)
def test_text_of_known_characters_comes_back_from_characters(text: str) -> None:
    encoding = TOKENIZERS["character"].encode(text)
    assert len(encoding.ids) == len(text)
    assert TOKENIZERS["character"].decode(encoding.ids) == text


@settings(deadline=None)
@given(text=st.lists(st.sampled_from(CORPUS), max_size=3).map(" \n ".join))
def test_known_words_come_back_with_single_spaces(text: str) -> None:
    assert TOKENIZERS["word"].decode(TOKENIZERS["word"].encode(text).ids) == " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=st.one_of(TEXTS, KNOWN_TEXTS))
def test_spans_and_words_rise_and_lie_in_the_text(kind: str, text: str) -> None:
    for tokenizer in (TOKENIZERS[kind], LOWERED[kind]):
        encoding = tokenizer.encode(text)
        count = len(encoding.ids)
        assert count == len(encoding.tokens) == len(encoding.spans) == len(encoding.words)
        assert all(0 <= start <= end <= len(text) for start, end in encoding.spans)
        assert encoding.spans == sorted(encoding.spans)
        assert encoding.words == sorted(encoding.words)
        covered = {place for start, end in encoding.spans for place in range(start, end)}
        assert all(text[place].isspace() for place in set(range(len(text))) - covered)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(texts=st.lists(TEXTS, max_size=5))
def test_batches_and_bare_ids_are_those_of_single_texts(kind: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[kind]
    single = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts) == single
    assert tokenizer.encode_ids(texts) == [encoding.ids for encoding in single]


@pytest.mark.parametrize("lowercase", [False, True])
def test_spans_of_lowered_and_multibyte_text(lowercase: bool) -> None:
    text = "L'ÉTÉ, İç  Straße 😀 日本!"
    tokenizer = Tokenizer.train([text], "word", lowercase=lowercase)
    encoding = tokenizer.encode(text)
    assert [text[start:end] for start, end in encoding.spans] == [
        *("L", "'", "ÉTÉ", ",", "İç", "Straße", "😀", "日", "本", "!")
    ]
    assert encoding.words == list(range(10))
    assert encoding.tokens[2] == ("été" if lowercase else "ÉTÉ")
    assert tokenizer.decode(encoding.ids) == ("l'été, i̇ç straße 😀 日本!" if lowercase else text.replace("  ", " "))


def test_an_unknown_word_has_its_own_span_and_stays_visible() -> None:
    tokenizer = TOKENIZERS["word"]
    text = "The l'zebra ate."
    encoding = tokenizer.encode(text)
    assert encoding.ids[3] == UNKNOWN
    assert [text[start:end] for start, end in encoding.spans] == ["The", "l", "'", "zebra", "ate", "."]
    assert "<unk>" in tokenizer.decode(encoding.ids)


def test_pieces_of_a_word_share_its_number() -> None:
    text = "unthinkable chats, été"
    encoding = TOKENIZERS["bpe"].encode(text)
    merged: dict[int, tuple[int, int]] = {}
    for (start, end), word in zip(encoding.spans, encoding.words, strict=True):
        merged[word] = (merged.get(word, (start, end))[0], end)
    assert [text[start:end] for start, end in merged.values()] == ["unthinkable", "chats", ",", "été"]
    assert len(encoding.ids) > len(merged)


def test_pieces_of_one_character_share_its_span() -> None:
    encoding = TOKENIZERS["byte"].encode("a😀")
    assert encoding.spans == [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2)]
    assert encoding.tokens == ["a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    assert encoding.ids == [5 + byte for byte in "a😀".encode()]
    assert encoding.words == [0, 1, 1, 1, 1]


def test_a_word_is_the_same_piece_first_and_later() -> None:
    tokenizer = Tokenizer.train(["cat cat cat"], "bpe")
    assert tokenizer.encode("cat cat").tokens == ["▁cat", "▁cat"]
    assert tokenizer.encode("cat cat").spans == [(0, 3), (4, 7)]
    assert tokenizer.encode(" cat").spans == [(0, 0), (1, 4)]


def test_letters_of_a_word_are_its_characters() -> None:
    """NETtalk's links count letters, so a piece must be one letter and nothing be added."""
    encoding = Tokenizer.train(["aback"], "character").encode("aback")
    assert encoding.tokens == list("aback")
    assert encoding.words == [0] * 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [*SPECIAL_TOKENS, "[MASK]", "a<s>b", " </s> ", "<pad><pad>"])
def test_special_tokens_cannot_be_spelled(kind: str, text: str) -> None:
    """Even though the training text is full of them."""
    encoding = TOKENIZERS[kind].encode(text)
    assert not {PAD, START, END, MASK} & set(encoding.ids)
    assert len(encoding.ids) > 1
    if UNKNOWN not in encoding.ids:
        assert TOKENIZERS[kind].decode(encoding.ids).strip() == text.strip()


def test_special_tokens_are_the_first_ids_and_decode_to_nothing() -> None:
    tokenizer = TOKENIZERS["bpe"]
    assert [tokenizer.token(id) for id in range(5)] == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    ids = tokenizer.encode("The cat").ids
    assert tokenizer.decode([START, *ids, END, PAD, PAD]) == "The cat"
    for id in (-1, tokenizer.vocabulary_size):
        with pytest.raises(OptionError, match="is not in the vocabulary, which has ids 0 to"):
            tokenizer.decode([id])


def test_words_of_ids_are_those_of_the_encoding() -> None:
    tokenizer = TOKENIZERS["bpe"]
    for text in CORPUS:
        encoding = tokenizer.encode(text)
        assert tokenizer.words(encoding.ids) == encoding.words


def test_vocabulary_keeps_the_most_frequent() -> None:
    texts = ["b b b a a c c d"]
    assert _learned(Tokenizer.train(texts, "word", vocabulary_size=8)) == ["▁b", "▁a", "▁c"]
    assert _learned(Tokenizer.train(texts, "word", min_frequency=3)) == ["▁b"]
    assert _learned(Tokenizer.train(["bbbaaccd"], "character", vocabulary_size=8)) == ["b", "a", "c"]
    assert _learned(Tokenizer.train(["bbbaaccd"], "character", min_frequency=2)) == ["b", "a", "c"]
    assert _learned(Tokenizer.train(["xabyab"], "bpe", vocabulary_size=262))[256:] == ["ab"]
    assert Tokenizer.train([], "byte").vocabulary_size == 261


def _learned(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(id) for id in range(5, tokenizer.vocabulary_size)]


def test_pieces_of_words_have_their_spaces_with_them() -> None:
    assert {kind: tokenizer.spaced for kind, tokenizer in TOKENIZERS.items()} == {
        kind: "▁a" in tokenizer.encode("a a").tokens for kind, tokenizer in TOKENIZERS.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic_and_takes_any_iterable(kind: str) -> None:
    again = Tokenizer.train((text for text in CORPUS), kind, vocabulary_size=400)
    assert again.to_bytes() == TOKENIZERS[kind].to_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowercase", [False, True])
def test_saved_and_loaded_it_is_the_same(kind: str, lowercase: bool, tmp_path: Path) -> None:
    tokenizer = (LOWERED if lowercase else TOKENIZERS)[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.kind == kind
    assert loaded.to_bytes() == tokenizer.to_bytes()
    for text in [*CORPUS, "Größe <s> unbekannt"]:
        assert loaded.encode(text) == tokenizer.encode(text)


def test_the_file_works_in_the_library_itself(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS["bpe"]
    tokenizer.save(tmp_path / "tokenizer.json")
    library = LibraryTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = library.encode(CORPUS[1]).ids
    assert ids == tokenizer.encode(CORPUS[1]).ids
    assert library.decode(ids) == " " + CORPUS[1]


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(FileError, match=r"tokenizer\.json cannot be read: No such file"):
        Tokenizer.load(path)
    good = TOKENIZERS["word"].to_bytes()
    for damaged in (b"", good[: len(good) // 2], b"\xff" + good, b"{}", b"[1]", b"null"):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"tokenizer\.json is not a tokenizer\.json"):
            Tokenizer.load(path)
    foreign = LibraryTokenizer(models.WordLevel({"<pad>": 0}, unk_token="<pad>"))
    foreign.pre_tokenizer = pre_tokenizers.Whitespace()
    foreign.save(str(path))
    with pytest.raises(FileError, match="of another program"):
        Tokenizer.load(path)
    for change, sentence in (({"<s>": 3, "</s>": 2}, "first entries"), ({"zebra": 9_999}, "skips or repeats an id")):
        data = json.loads(good)
        data["model"]["vocab"].update(change)
        path.write_text(json.dumps(data))
        with pytest.raises(FileError, match=sentence):
            Tokenizer.load(path)


def test_impossible_options_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="allowed: bpe, byte, character, word"):
        Tokenizer.train([], "words")
    with pytest.raises(OptionError, match="vocabulary_size must be at least 261 for kind 'bpe', not 260"):
        Tokenizer.train([], "bpe", vocabulary_size=260)
    with pytest.raises(OptionError, match="min_frequency must be 1 or more, not 0"):
        Tokenizer.train([], "word", min_frequency=0)
    with pytest.raises(OptionError, match="Text 2 contains half of a surrogate pair at character 3"):
        TOKENIZERS["bpe"].encode_batch(["fine", "ab\ud800"])


def test_words_of_chinese_are_single_characters() -> None:
    text = "黑猫吃了 mouse 3只。"
    tokenizer = Tokenizer.train([text], "word")
    encoding = tokenizer.encode(text)
    assert [text[start:end] for start, end in encoding.spans] == ["黑", "猫", "吃", "了", "mouse", "3", "只", "。"]
    assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.words(encoding.ids) == encoding.words == list(range(8))


def test_a_tokenizer_that_took_a_run_of_characters_for_a_word_opens_as_it_was() -> None:
    """Folders of the first version have such tokenizers, and their networks know its words."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL_TOKENS, " 黑猫", "。"])}
    inner = empty_tokenizer("word", False, models.WordLevel(vocab=vocabulary, unk_token="<unk>"), whole_runs=True)
    opened = Tokenizer.from_bytes(inner.to_str().encode(), "tokenizer.json")
    assert opened.kind == "word"
    assert opened.encode("黑猫。").tokens == ["▁黑猫", "。"]
