"""`make demo` for real: the built-in corpus is learned, aligned and drawn, once for all the tests here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import saccade
from from_benchmarks import link_shares
from saccade.cli.main import main
from saccade.data.grammar import generate, showcase
from saccade.lens.alignment import AlignmentChoice
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.translation.gold import from_grammar
from saccade.tasks.translation.task import Translation

pytestmark = pytest.mark.slow  # a training of minutes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "run"
    with pytest.raises(SystemExit) as left:
        main(["demo", "-o", str(folder), "--device", "cpu"])
    assert left.value.code == 0
    return folder


@pytest.fixture(scope="module")
def model(demo: Path) -> Predictor:
    return saccade.open(demo)


def test_held_out_sentences_are_translated(demo: Path) -> None:
    result = json.loads((demo / "result.json").read_text())
    assert result["part"] == "test"
    assert result["scores"]["bleu"] >= 98.0


def test_alignment_agrees_with_gold_on_content_words(demo: Path) -> None:
    scores = json.loads((demo / "result.json").read_text())["scores"]
    assert scores["alignment_words"] > 3000
    assert scores["alignment"] >= 97.0


def test_one_row_off_is_wrong_nearly_everywhere(model: Predictor) -> None:
    chosen = model.task.state.alignment
    assert chosen is not None
    assert chosen.row_offset == 0
    off = AlignmentChoice(attention=chosen.attention, heads=chosen.heads, row_offset=1)
    task = Translation(replace(model.task.state, alignment=off))
    pairs = task.encode(from_grammar(generate(200, 5, "test")))
    right, total = task.content_agreement(model.model, pairs, lambda: None)
    assert right / total < 0.25


def test_the_black_cat(model: Predictor) -> None:
    (answer,) = model.predict(["The black cat ate the mouse."])
    assert answer.text == "Le chat noir a mangé la souris."
    rows, columns = answer.attention.words
    alignment = answer.attention.alignment
    assert alignment is not None
    strongest = {row: columns[int(alignment[number].argmax())] for number, row in enumerate(rows)}
    assert (strongest["chat"], strongest["noir"], strongest["souris"]) == ("cat", "black", "mouse")
    torch.testing.assert_close(alignment.sum(dim=1), torch.ones(len(rows)))


def test_a_head_finds_what_decides_bank_far_above_chance(model: Predictor) -> None:
    choose, judge = generate(1500, 11, "train"), generate(1500, 12, "test")
    found = link_shares(model.view_input, "bank", choose, judge)
    assert found.sentences > 30
    assert found.some > found.some_by_chance + 0.2
    assert found.best > found.best_by_chance + 0.2


def test_watching_changes_no_answer(model: Predictor) -> None:
    texts = [example.source_text for example in showcase()]
    before = [answer.score for answer in model.predict(texts)]
    with saccade.watch(model.model):
        after = [answer.score for answer in model.predict(texts)]
    assert before == after


def test_pictures_are_written_and_a_second_demo_does_not_train(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = (demo / "model" / "model.safetensors").stat().st_mtime_ns
    for name in ("look.png", "look.svg"):
        (demo / name).unlink()
    with pytest.raises(SystemExit) as left:
        main(["demo", "-o", str(demo), "--device", "cpu"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "is already trained" in shown
    assert "█" in shown
    assert (demo / "model" / "model.safetensors").stat().st_mtime_ns == weights
    assert (demo / "look.png").stat().st_size > 5_000
    assert "souris" in (demo / "look.svg").read_text()
