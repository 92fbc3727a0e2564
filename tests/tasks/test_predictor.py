"""``saccade.open(...)``: answers, and the attention behind each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import saccade
from saccade.cli import main
from saccade.errors import OptionError, SaccadeError, UnknownNameError
from saccade.tasks.translation.predictor import TranslationPredictor as Predictor

TEXT = "the black cat eats the fish."


def test_an_answer_has_text_score_and_tokens(tiny_run: Path) -> None:
    answer = saccade.open(tiny_run).predict([TEXT])[0]
    assert answer.source == TEXT
    assert answer.text == "le chat noir mange le poisson."
    assert answer.tokens == ["▁le", "▁chat", "▁noir", "▁mange", "▁le", "▁poisson", "."]
    assert answer.finished
    assert answer.log_probability < answer.score < 0
    assert answer.alternatives == []


def test_a_run_and_its_model_folder_are_the_same(tiny_run: Path, tiny_model: Predictor) -> None:
    (one,), (other,) = saccade.open(tiny_run / "model").predict([TEXT]), tiny_model.predict([TEXT])
    assert (one.text, one.score) == (other.text, other.score)


def test_rows_of_the_alignment_sum_to_1(tiny_model: Predictor) -> None:
    attention = tiny_model.predict([TEXT])[0].attention
    rows, columns = attention.words
    assert rows == ["le", "chat", "noir", "mange", "le", "poisson", "."]
    assert columns == ["the", "black", "cat", "eats", "the", "fish", ".", "</s>"]
    assert attention.alignment is not None
    assert attention.alignment.shape == (7, 8)
    torch.testing.assert_close(attention.alignment.sum(dim=1), torch.ones(7))


def test_traces_hold_every_attention(tiny_model: Predictor) -> None:
    traces = tiny_model.predict([TEXT])[0].attention.traces
    shapes = {name: trace.shape for name, trace in traces.items()}
    # 8 source tokens with END; START and 7 target tokens are read: 8 rows as well
    assert shapes == {
        "encoder.0.self": (1, 2, 8, 8),
        "decoder.0.self": (1, 2, 8, 8),
        "decoder.0.cross": (1, 2, 8, 8),
    }
    weights = traces["decoder.0.self"].weights(batch=0)
    assert bool((weights.triu(1) == 0).all())


def test_the_pieces_are_read_where_the_model_says(tiny_model: Predictor) -> None:
    chosen = tiny_model.task.state.alignment
    attention = tiny_model.predict([TEXT])[0].attention
    assert chosen is not None
    assert attention.pieces is not None
    weights = attention.traces[chosen.attention].weights(batch=0)[list(chosen.heads)].mean(dim=0)
    torch.testing.assert_close(attention.pieces, weights[chosen.row_offset : chosen.row_offset + 7])


def test_alternatives_have_their_own_attention(tiny_model: Predictor) -> None:
    (answer,) = tiny_model.predict([TEXT], beam=4, n_best=4)
    all_of = [answer, *answer.alternatives]
    assert [one.score for one in all_of] == sorted((one.score for one in all_of), reverse=True)
    assert len({one.text for one in all_of}) == 4
    for one in all_of:
        assert one.attention.target_tokens == one.tokens
    # Two outputs part somewhere, and the rows after that place are of other queries.
    first, second = answer.attention.pieces, all_of[1].attention.pieces
    assert first is not None
    assert second is not None
    assert first.shape != second.shape or not torch.equal(first, second)


def test_the_attention_of_an_answer_is_that_of_its_text(tiny_model: Predictor) -> None:
    (answer,) = tiny_model.predict([TEXT])
    given = tiny_model.attention(TEXT, answer.text)
    torch.testing.assert_close(given.pieces, answer.attention.pieces)
    assert given.links == answer.attention.links


def test_links_count_words_as_spaces_separate_them(tiny_model: Predictor) -> None:
    # "fish" and "." are two words to the tokenizer, and one in a file of links.
    attention = tiny_model.attention("the cat eats the fish.", "le chat mange le poisson.")
    assert attention.source_spaced == [0, 1, 2, 3, 4, 4]
    assert attention.target_spaced == [0, 1, 2, 3, 4, 4]
    assert sorted(target for _, target in attention.links) == [0, 1, 2, 3, 4]


def test_a_piece_of_a_character_belongs_to_the_word_it_completes(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"a{n % 7} b\n" for n in range(60)))
    target.write_text("".join(f"é{n % 7} è é\n" for n in range(60)), encoding="utf-8")
    small = [
        "text.kind=byte",
        "model.kind=transformer",
        "model.width=8",
        "model.num_heads=2",
        "training.steps=2",
        "training.warmup=0",
    ]
    changes = [argument for change in small for argument in ("--set", change)]
    with pytest.raises(SystemExit) as left:
        main(["train", "--source", str(source), "--target", str(target), "-o", str(tmp_path / "run"), *changes])
    assert left.value.code == 0
    model = saccade.open(tmp_path / "run")
    ids = model.task.state.target.encode("é1 è é").ids
    assert len(ids) == 9  # bytes
    attention = model._attention_for_output("a1 b", ids)
    assert attention.target_spaced == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_an_empty_text_has_an_empty_answer(tiny_model: Predictor) -> None:
    texts = ["", TEXT, " \t"]
    answers = tiny_model.predict(texts, beam=3, n_best=2)
    assert [answer.source for answer in answers] == texts
    assert [answer.text for answer in answers] == ["", "le chat noir mange le poisson.", ""]
    assert answers[0].attention.links == frozenset()
    assert answers[0].score == pytest.approx(tiny_model.score([""], [""])[0])


def test_no_texts_have_no_answers(tiny_model: Predictor) -> None:
    assert tiny_model.predict([]) == []
    assert tiny_model.score([], []) == []


def test_progress_counts_up_to_all(tiny_model: Predictor) -> None:
    seen: list[int] = []
    at_once = tiny_model.at_once
    tiny_model.predict(["the cat"] * (2 * at_once + 3), beam=1, progress=seen.append)
    assert seen == [at_once, 2 * at_once, 2 * at_once + 3]


def test_pieces_of_a_long_list_are_drawn_apart(tiny_model: Predictor) -> None:
    at_once = tiny_model.at_once
    texts = ["the cat sees"] * (2 * at_once)
    answers = [answer.text for answer in tiny_model.predict(texts, sample=True, temperature=3.0)]
    assert answers[:at_once] != answers[at_once:]
    assert answers == [answer.text for answer in tiny_model.predict(texts, sample=True, temperature=3.0)]


def test_options_are_checked(tiny_model: Predictor) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'beam'"):
        tiny_model.predict([TEXT], bean=3)
    with pytest.raises(OptionError, match="n_best = 9 needs a beam"):
        tiny_model.predict([TEXT], n_best=9)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SaccadeError, match="not a model folder"):
        saccade.open(tmp_path)
    with pytest.raises(SaccadeError, match="There is no folder"):
        saccade.open(tmp_path / "none")
