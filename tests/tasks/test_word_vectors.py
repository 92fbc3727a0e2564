"""Words as vectors: near and far, with numbers that can be worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import nn
from toy_labels import sentence, tagging, toy_texts

from saccade.errors import OptionError, UnknownNameError
from saccade.models import (
    Config,
    DecoderOnly,
    EncoderDecoder,
    RecurrentConfig,
    RecurrentSeq2Seq,
    TransformerConfig,
)
from saccade.models.autoencoder import TransformerAutoencoder, TransformerAutoencoderConfig
from saccade.models.layers import WordEmbedding
from saccade.tasks.base.task import Bundle
from saccade.tasks.base.word_vectors import WordNeighbour, WordVectors, word_vectors
from saccade.tasks.classification.task import Classification, ClassificationState, ClassificationText
from saccade.tasks.masked.task import MaskedLanguageModel, MaskedLanguageModelState
from saccade.tasks.text_autoencoder.task import TextAutoencoder, TextAutoencoderState
from saccade.text import Tokenizer

WORDS = Tokenizer.train(["dog dog dog cat cat bird fish"], "word")


def vectors(rows: dict[str, list[float]]) -> WordVectors:
    table = torch.zeros(WORDS.vocabulary_size, 3)
    for word, row in rows.items():
        table[WORDS.encode_ids([word])[0][0]] = torch.tensor(row)
    return WordVectors("input", WORDS, table, one_hot=False)


ANIMALS = {"dog": [1.0, 0.0, 1.0], "cat": [1.0, 1.0, 0.0], "bird": [0.0, 3.0, 0.0], "fish": [-1.0, 0.0, -1.0]}


def test_cosine_and_correlation_by_hand() -> None:
    found = vectors(ANIMALS)
    assert found.cosine("dog", "cat") == pytest.approx(1 / 2)
    assert found.cosine("dog", "fish") == pytest.approx(-1)
    # Less their means: (1, -2, 1)/3 and (1, 1, -2)/3, whose product is -3/9 and whose lengths are √6/3.
    assert found.correlation("dog", "cat") == pytest.approx(-1 / 2)
    assert found.correlation("dog", "dog") == pytest.approx(1)


def test_neighbours_are_the_other_words_nearest_first() -> None:
    found = vectors(ANIMALS).neighbours("dog", 9)
    assert [one.word for one in found] == ["cat", "bird", "fish"]
    assert [one.cosine for one in found] == pytest.approx([0.5, 0.0, -1.0], abs=1e-6)
    assert vectors(ANIMALS).neighbours("dog", 1) == found[:1]
    with pytest.raises(OptionError, match="not 0"):
        vectors(ANIMALS).neighbours("dog", 0)


def test_a_word_of_several_pieces_is_their_mean() -> None:
    pieces = Tokenizer.train(["dog"] * 3, "bpe", vocabulary_size=263)
    table = torch.randn(pieces.vocabulary_size, 4, generator=torch.Generator().manual_seed(0))
    found = WordVectors("input", pieces, table, one_hot=False)
    ids = pieces.encode_ids(["dogs"])[0]
    assert len(ids) > 1
    torch.testing.assert_close(found.vector("dogs"), table[ids].mean(dim=0))
    assert all(pieces.token(id).startswith("▁") for id in found.candidates)


def test_a_word_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"does not know the word 'dogg' \(input vocabulary\). Similar words: dog"):
        vectors(ANIMALS).vector("dogg")


def test_one_hot_words_are_all_equally_far() -> None:
    size = WORDS.vocabulary_size
    found = WordVectors("input", WORDS, torch.eye(size), one_hot=True)
    assert {one.cosine for one in found.neighbours("dog")} == {0.0}
    pairs = [found.correlation(one, other) for one, other in (("dog", "cat"), ("cat", "fish"), ("bird", "dog"))]
    assert pairs == pytest.approx([-1 / (size - 1)] * 3)


def test_a_map_keeps_what_lies_in_a_plane() -> None:
    every = vectors(ANIMALS).map()
    assert every.words == ["dog", "cat", "bird", "fish"]  # the most frequent first
    assert every.share < 0.999  # three dimensions do not fit
    flat = vectors({word: [row[0], row[1], 0.0] for word, row in ANIMALS.items()})
    seen = flat.map(["dog"])
    rows = torch.stack([flat.vector(word) for word in seen.words])
    assert seen.share == pytest.approx(1.0)
    torch.testing.assert_close(torch.cdist(seen.points, seen.points), torch.cdist(rows, rows), atol=1e-5, rtol=0)
    assert sorted(seen.words) == sorted(ANIMALS)
    figure = seen.figure(named=["dog"])
    assert {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "whole"))} >= set(ANIMALS)


def test_a_map_of_two_words_is_refused() -> None:
    few = Tokenizer.train(["dog cat"], "word")
    with pytest.raises(OptionError, match=r"at least 3 words, not 2 \(input vocabulary\)"):
        WordVectors("input", few, torch.eye(few.vocabulary_size), one_hot=False).map()


def bundle(model: nn.Module, **vocabularies: Tokenizer) -> Bundle:
    task = SimpleNamespace(
        name="a task", state=SimpleNamespace(vocabularies=lambda: vocabularies, lowercases_words=False)
    )
    return Bundle(task, "a kind", Config(), model, Config())


TRANSFORMER = TransformerConfig(width=12, num_heads=3, encoder_layers=1, decoder_layers=1, feedforward_width=8)


def test_every_kind_of_network_shows_its_embeddings() -> None:
    other = Tokenizer.train(["le chien", "un chat"], "word")
    sizes = WORDS.vocabulary_size, other.vocabulary_size
    for network in (
        EncoderDecoder(TRANSFORMER, *sizes),
        RecurrentSeq2Seq(RecurrentConfig(width=6, embedding_width=5), *sizes),
    ):
        both = bundle(network, source=WORDS, target=other)
        assert word_vectors(both).name == "source"
        assert word_vectors(both, "target").vocabulary is other
        words = network.source.words if isinstance(network, EncoderDecoder) else network.source
        torch.testing.assert_close(word_vectors(both).vectors, words.weight.detach())
        with pytest.raises(UnknownNameError, match="There is no embedding 'input'; allowed: source, target"):
            word_vectors(both, "input")
    alone = bundle(DecoderOnly(TRANSFORMER, WORDS.vocabulary_size), tokenizer=WORDS)
    assert isinstance(word_vectors(alone).neighbours("dog")[0], WordNeighbour)


def test_one_hot_input_is_seen_as_such() -> None:
    config = TRANSFORMER.model_copy(update={"one_hot": True, "tied_output": False})
    found = word_vectors(bundle(DecoderOnly(config, WORDS.vocabulary_size), tokenizer=WORDS))
    assert found.one_hot
    assert found.cosine("dog", "cat") == 0


class Reader(nn.Module):
    """As a tagger has it: words and pieces."""

    def __init__(self, words: int, pieces: int) -> None:
        super().__init__()
        self.input = nn.Module()
        self.input.words = WordEmbedding(words, 5)
        self.input.pieces = WordEmbedding(pieces, 4)


def test_a_tagger_has_words_and_pieces() -> None:
    task = tagging([sentence("Dog dog cat cat", "N N N V")], lowercase=True)
    known, pieces = task.state.words.words, task.state.words.pieces
    made = Bundle(task, "a kind", Config(), Reader(len(known), pieces.vocabulary_size), Config())
    assert word_vectors(made).name == "words"
    assert word_vectors(made).ids("DOG") == [known.id("dog")]
    assert [one.word for one in word_vectors(made).neighbours("dog")] == ["cat"]
    assert word_vectors(made, "pieces").vocabulary is pieces


def test_an_autoencoder_of_texts_reads_and_writes_words() -> None:
    network = TransformerAutoencoder(
        TransformerAutoencoderConfig(width=12, num_heads=3, feedforward_width=8), WORDS.vocabulary_size
    )
    made = Bundle(TextAutoencoder(TextAutoencoderState(WORDS)), "transformer", network.config, network, Config())
    torch.testing.assert_close(word_vectors(made, "source").vectors, network.source.words.weight.detach())
    torch.testing.assert_close(word_vectors(made, "target").vectors, network.target.words.weight.detach())


def test_a_classifier_begins_from_a_model_with_one_tokenizer_for_all() -> None:
    texts, settings = toy_texts(20, seed=0), {"text": ClassificationText()}
    masked = MaskedLanguageModel(MaskedLanguageModelState(WORDS, context=8))
    assert cast(ClassificationState, Classification.prepare(settings, texts, masked)).tokenizer is WORDS
    for other in (TextAutoencoder(TextAutoencoderState(WORDS)), tagging([sentence("dog cat", "N V")])):
        with pytest.raises(OptionError, match=f"Cannot initialise a classification model from a {other.name} model"):
            Classification.prepare(settings, texts, other)


def test_a_model_without_words_is_refused() -> None:
    with pytest.raises(OptionError, match="have no word embeddings"):
        word_vectors(bundle(nn.Linear(2, 3), tokenizer=WORDS))
