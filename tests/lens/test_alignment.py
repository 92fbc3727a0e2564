"""Alignment from attention: the right row, the right heads, chosen with and without gold."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import saccade
from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.lens.alignment import (
    AlignmentChoice,
    PairLengths,
    align,
    alignment_matrix,
    choose_alignment,
    rank_alignments,
)
from saccade.lens.cooccurrence import cooccurrence_links
from saccade.lens.links import WordLink, agreement, hard_links
from saccade.lens.words import merge

# the black cat ate the mouse / le chat noir a mangé la souris
ENGLISH = ["the", "black", "cat", "ate", "the", "mouse"]
FRENCH = ["le", "chat", "noir", "a", "mangé", "la", "souris"]
GOLD: set[WordLink] = {(0, 0), (2, 1), (1, 2), (3, 3), (3, 4), (4, 5), (5, 6)}


def forced_pass(sharpness: float = 20.0) -> saccade.Trace:
    """The trace of a decoder that, in each row, looks at the source of the word it is about to predict, and at the
    end at END. Row by row it reads START and the French words."""
    num_source = len(ENGLISH)
    sources = [source for source, _ in sorted(GOLD, key=lambda link: link[1])] + [num_source]
    keys = torch.eye(num_source + 1)
    with saccade.watch() as seen:
        saccade.attend(sharpness * keys[sources][None, None], keys[None, None], keys[None, None])
    return seen["attention"]


def test_the_row_that_predicts_a_word_aligns_it_and_the_row_after_does_not() -> None:
    trace = forced_pass()
    assert trace.shape == (1, 1, len(FRENCH) + 1, len(ENGLISH) + 1)
    lengths = PairLengths(len(ENGLISH), len(FRENCH))
    shares = []
    for row_offset in (0, 1):
        choice = AlignmentChoice(attention="decoder.1.cross", heads=(0,), row_offset=row_offset)
        links = hard_links(align(choice, {"decoder.1.cross": trace}, lengths))
        shares.append(agreement([links], [GOLD]))
    # One row off, only "a" is right: "a mangé" are two words made from one.
    assert shares == [(7, 7), (1, 7)]
    assert choose_alignment({"decoder.1.cross": trace}, [lengths], [GOLD]).row_offset == 0


def test_the_row_that_reads_the_word_is_chosen_where_it_is_the_right_one() -> None:
    weights = forced_pass().weights().roll(1, dims=2)
    choice = choose_alignment({"decoder.0.cross": weights}, [PairLengths(len(ENGLISH), len(FRENCH))], [GOLD])
    assert choice == AlignmentChoice(attention="decoder.0.cross", heads=(0,), row_offset=1)


def test_heads_are_averaged_or_their_maximum_taken() -> None:
    weights = torch.zeros(2, 3, 1, 2)
    weights[1, :, 0] = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    torch.testing.assert_close(alignment_matrix(weights, [0, 2], batch=1), torch.tensor([[0.55, 0.45]]))
    torch.testing.assert_close(alignment_matrix(weights, [0, 2], "max", batch=1), torch.tensor([[0.9, 0.8]]))
    torch.testing.assert_close(alignment_matrix(weights, batch=1), weights[1].mean(0))


def test_a_matrix_has_the_exact_weights_of_the_trace() -> None:
    trace = forced_pass(sharpness=1.0)
    assert torch.equal(alignment_matrix(trace, [0]), trace.weights()[0, 0])


def test_the_end_column_is_kept_or_dropped() -> None:
    choice, lengths = AlignmentChoice(attention="a", heads=(0,)), PairLengths(len(ENGLISH), len(FRENCH))
    seen = {"a": forced_pass(sharpness=1.0)}
    kept, dropped = align(choice, seen, lengths, end=True), align(choice, seen, lengths)
    assert kept.shape == (len(FRENCH), len(ENGLISH) + 1)
    torch.testing.assert_close(kept.sum(1), torch.ones(len(FRENCH)))
    assert torch.equal(dropped, kept[:, :-1])


def test_attention_that_rests_on_the_end_still_gives_links_between_words() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.05, 0.0, 0.95]])[None, None]
    matrix = align(AlignmentChoice(attention="a", heads=(0,)), {"a": weights}, PairLengths(2, 2))
    assert hard_links(matrix) == {(1, 0), (0, 1)}


def test_pieces_are_merged_before_links_are_read() -> None:
    # source "mou|se the", target "la sou|ris": no piece of "mouse" alone beats "the" for "sou"
    matrix = torch.tensor([[0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.4, 0.5, 0.1]])
    assert hard_links(matrix) == {(2, 0), (2, 1), (1, 2)}
    assert hard_links(merge(matrix, [0, 1, 1], [0, 0, 1])) == {(1, 0), (0, 1)}


def corpus(num_pairs: int = 40, num_words: int = 23) -> tuple[list[list[int]], list[list[int]], list[set[WordLink]]]:
    """Sentences of different words, translated word by word into reversed order; word w becomes 100 + w."""
    generator = torch.Generator().manual_seed(0)
    sources, targets, gold = [], [], []
    for number in range(num_pairs):
        length = 3 + number % 5
        source = torch.randperm(num_words, generator=generator)[:length].tolist()
        sources.append(source)
        targets.append([100 + word for word in reversed(source)])
        gold.append({(s, length - 1 - s) for s in range(length)})
    return sources, targets, gold


def attention_of_habits(lengths: list[PairLengths], gold: list[set[WordLink]]) -> dict[str, Tensor]:
    """Two layers of three heads: diffuse, diagonal, resting on END; and diagonal, the aligner, diffuse with noise."""
    generator = torch.Generator().manual_seed(1)
    longest = max(max(length) for length in lengths)
    first = torch.zeros(len(lengths), 3, longest + 1, longest + 2)
    second = torch.zeros_like(first)
    for batch, (length, links) in enumerate(zip(lengths, gold, strict=True)):
        end = length.source
        first[batch, 0, :, : end + 1] = 1 / (end + 1)
        for row in range(longest + 1):
            first[batch, 1, row, min(row, end)] = second[batch, 0, row, min(row, end)] = 1
        first[batch, 2, :, end] = 1
        second[batch, 1, :, end] = 0.2
        for source, target in links:
            second[batch, 1, target, source] = 0.8
        noise = torch.rand(longest + 1, end + 1, generator=generator)
        second[batch, 2, :, : end + 1] = noise / noise.sum(1, keepdim=True)
    return {"decoder.0.cross": first, "decoder.1.cross": second}


def test_the_aligning_head_is_found_with_gold() -> None:
    sources, targets, gold = corpus()
    lengths = [PairLengths(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    ranked = rank_alignments(attention_of_habits(lengths, gold), lengths, gold)
    best = ranked[0]
    assert best.choice == AlignmentChoice(attention="decoder.1.cross", heads=(1,), row_offset=0)
    assert best.agreement.share == 1
    assert best.mass == pytest.approx(0.8)
    assert len(ranked) == 2 * 2 * 4  # layers, rows, three heads and their mean


def test_the_aligning_head_is_found_without_gold() -> None:
    sources, targets, gold = corpus()
    lengths = [PairLengths(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    choice = choose_alignment(attention_of_habits(lengths, gold), lengths, cooccurrence_links(sources, targets))
    assert choice == AlignmentChoice(attention="decoder.1.cross", heads=(1,), row_offset=0)


def test_of_equal_agreement_the_sharper_is_chosen() -> None:
    weights = torch.tensor([[[[0.6, 0.4], [0.4, 0.6], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]]])
    choice = choose_alignment({"cross": weights}, [PairLengths(2, 2)], [{(0, 0), (1, 1)}])
    assert choice.heads == (1,)


def test_cooccurrence_finds_the_words_of_a_small_corpus() -> None:
    the, cat, dog, black = range(4)
    le, chat, chien, noir = range(10, 14)
    sources = [[the, cat], [the, dog], [the, black, cat], [the, black, dog]]
    targets = [[le, chat], [le, chien], [le, chat, noir], [le, chien, noir]]
    found = cooccurrence_links(sources, targets, iterations=10)
    assert found == [{(0, 0), (1, 1)}, {(0, 0), (1, 1)}, {(0, 0), (2, 1), (1, 2)}, {(0, 0), (2, 1), (1, 2)}]


def test_cooccurrence_leaves_out_what_it_cannot_tell_apart() -> None:
    sources, targets = [[0, 1], [0, 2], [0, 1, 0, 2]], [[10, 11], [10, 12], [10, 11, 10, 12]]
    assert cooccurrence_links(sources, targets)[2] == {(1, 1), (3, 3)}


def test_cooccurrence_of_empty_sentences() -> None:
    assert cooccurrence_links([[], [1]], [[], []]) == [frozenset(), frozenset()]
    with pytest.raises(ShapeError, match="sources has 1 sentence but targets has 2"):
        cooccurrence_links([[1]], [[1], [2]])
    with pytest.raises(OptionError, match="at least 1 iteration, not 0"):
        cooccurrence_links([[1]], [[1]], iterations=0)


def test_a_choice_is_saved_and_read() -> None:
    choice = AlignmentChoice(attention="decoder.1.cross", heads=(0, 3), row_offset=1)
    assert AlignmentChoice.model_validate_json(choice.model_dump_json()) == choice
    assert AlignmentChoice.read(choice.model_dump(mode="json"), "config.json") == choice
    with pytest.raises(OptionError, match="row_offset"):
        AlignmentChoice.read({"attention": "a", "heads": [0], "row_offset": 2}, "config.json")


def test_what_is_not_there_is_named() -> None:
    weights = torch.ones(2, 3, 5, 7)
    with pytest.raises(ShapeError, match="no head 3; there are 3"):
        alignment_matrix(weights, [3])
    with pytest.raises(ShapeError, match="no sequence 2; there are 2"):
        alignment_matrix(weights, batch=2)
    with pytest.raises(OptionError, match="at least one head"):
        alignment_matrix(weights, [])
    with pytest.raises(UnknownNameError, match="reduction of heads 'sum'"):
        alignment_matrix(weights, reduce="sum")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="attention 'b'"):
        align(AlignmentChoice(attention="b", heads=(0,)), {"a": weights}, PairLengths(7, 4))
    with pytest.raises(ShapeError, match=r"needs 6 queries and 7 keys; the attention has 5 and 7"):
        align(AlignmentChoice(attention="a", heads=(0,), row_offset=1), {"a": weights}, PairLengths(7, 5))
    with pytest.raises(OptionError, match="because the sentences have no gold links"):
        choose_alignment({"a": weights}, [PairLengths(2, 2)] * 2, [set(), set()])
    with pytest.raises(ShapeError, match="2 sentences, but there are 1 lengths"):
        choose_alignment({"a": weights}, [PairLengths(2, 2)], [{(0, 0)}])
    with pytest.raises(OptionError, match="no attention to choose"):
        choose_alignment({}, [], [])
