"""Words of a text, as a corpus cuts them; vocabularies of whole words."""

from __future__ import annotations

import pytest

from saccade.errors import FileError
from saccade.text.vocabulary import Vocabulary
from saccade.text.words import split_words

#: The most frequent first.
KNOWN = ["is", "'s", "It", "do", "isn't", "n't", "U.S.", "...", "’ll", "Mr.", "It's", "'", "''"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat ate.", "The cat ate ."),
        ("(hello),  he\tsaid\n", "( hello ) , he said"),
        ("I don't; Ann's dog isn't.", "I do n't ; Ann 's dog isn't ."),
        ("It's", "It 's"),  # once left whole
        ("We’ll see", "We ’ll see"),
        ("Mr. Smith of the U.S. ...", "Mr. Smith of the U.S. ..."),
        ("state-of-the-art, 3.5", "state-of-the-art , 3.5"),
        ("$5 #tag @you", "$ 5 #tag @you"),
        ("can't", "can't"),  # here without "n't"
        ("so'' ''", "so ' ' ''"),
        ("!?", "! ?"),
        ("'s", "'s"),
        ("", ""),
    ],
)
def test_words_as_the_corpus_cuts_them(text: str, words: str) -> None:
    known = Vocabulary([word for word in KNOWN if word != "n't" or text != "can't"])
    assert split_words(text, known) == words.split()
    assert split_words(words, known) == words.split()  # text with spaces between all words stays as it is


def test_the_most_frequent_entries_have_ids_from_2_on() -> None:
    vocabulary = Vocabulary.train(["b", "a", "b", "c", "a", "b", "d"], size=3)
    assert list(vocabulary) == ["b", "a", "c"]
    assert [vocabulary.id(entry) for entry in "bacd"] == [2, 3, 4, 1]
    assert len(vocabulary) == 5
    assert "c" in vocabulary
    assert "d" not in vocabulary
    assert list(Vocabulary.train(["b", "a", "b", "c"], size=9, min_frequency=2)) == ["b"]


def test_a_vocabulary_is_read_as_it_was_written() -> None:
    given = Vocabulary(["é", '"', "a b"])
    assert Vocabulary.from_bytes(given.to_bytes(), "words.json").entries == given.entries
    for damaged, message in (
        (b"[1]", "words.json is not a list of words."),
        (b'["a", "a"]', "words.json lists an entry twice."),
        (b"[", "words.json is not JSON"),
    ):
        with pytest.raises(FileError, match=message):
            Vocabulary.from_bytes(damaged, "words.json")
