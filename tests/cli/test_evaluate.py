"""``saccade evaluate``, ``score`` and ``compare``: the numbers are sacrebleu's, and the model's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import sacrebleu
import torch
from commands import Capture, assert_refused, run, succeed

from saccade.cli import main
from saccade.tasks.base.predictor import Predictor
from saccade.text import END, START
from toy_language import settings, toy_pairs, write_lines


def files(toy_data: Path) -> list[str | Path]:
    return ["--source", toy_data / "test.en", "--target", toy_data / "test.fr"]


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found.group(1))


@pytest.fixture(scope="module")
def weak_run(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has hardly been trained."""
    folder = tmp_path_factory.mktemp("weak") / "run"
    changed = settings(training__steps=20, training__warmup=2, training__validate_every=20)
    with pytest.raises(SystemExit):
        main(
            [
                "train",
                "--source",
                f"{toy_data}/train.en",
                "--target",
                f"{toy_data}/train.fr",
                "-o",
                str(folder),
                *changed,
            ]
        )
    return folder


def test_scores_are_those_of_sacrebleu(capsys: Capture, tiny_run: Path, toy_data: Path) -> None:
    texts = succeed(capsys, "predict", tiny_run, toy_data / "test.en").splitlines()
    references = (toy_data / "test.fr").read_text().splitlines()
    out = succeed(capsys, "evaluate", tiny_run, *files(toy_data))
    assert f"BLEU {sacrebleu.corpus_bleu(texts, [references]).score:.2f} " in out
    assert f"chrF {sacrebleu.corpus_chrf(texts, [references]).score:.2f} " in out
    assert out.count("nrefs:1|case:mixed|") == 2
    assert f"version:{sacrebleu.__version__}" in out
    right = sum(text == reference for text, reference in zip(texts, references, strict=True))
    assert f"exact matches: {100 * right / 30:.2f} % of 30" in out


def test_lowercase_forgives_capitals(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    loud = write_lines(tmp_path / "loud.fr", (toy_data / "test.fr").read_text().upper().splitlines())
    given = ["--source", toy_data / "test.en", "--target", loud]
    plain = succeed(capsys, "evaluate", tiny_run, *given)
    lowered = succeed(capsys, "evaluate", tiny_run, *given, "--lowercase")
    assert number(r"BLEU ([\d.]+)", plain) < 1
    assert lowered.count("case:lc") == 2
    expected = succeed(capsys, "evaluate", tiny_run, *files(toy_data))
    assert number(r"BLEU ([\d.]+)", lowered) == number(r"BLEU ([\d.]+)", expected)
    assert number(r"matches: ([\d.]+)", lowered) == number(r"matches: ([\d.]+)", expected)


def test_a_table_is_as_two_files(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    pairs = zip(*((toy_data / f"test.{side}").read_text().splitlines() for side in ("en", "fr")), strict=True)
    rows = [f'{n},"{target}","{source}"' for n, (source, target) in enumerate(pairs)]
    table = write_lines(tmp_path / "test.csv", ["id,French,English", *rows])
    out = succeed(capsys, "evaluate", tiny_run, "--data", table, "--columns", "English,French")
    assert out == succeed(capsys, "evaluate", tiny_run, *files(toy_data))
    assert out == succeed(
        capsys, "evaluate", tiny_run, "--data", write_lines(tmp_path / "t.csv", rows), "--columns", "2,1"
    )
    assert_refused(run(capsys, "evaluate", tiny_run, "--data", table), "'source'", "'id', 'French', 'English'")
    assert_refused(
        run(capsys, "evaluate", tiny_run, "--data", table, "--columns", "English"), "two columns", "'English'"
    )
    assert_refused(run(capsys, "evaluate", tiny_run, *files(toy_data), "--columns", "0,1"), "--data")


def test_its_own_links_as_gold_have_no_error(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    lines = succeed(capsys, "predict", tiny_run, toy_data / "test.en", "--alignments").splitlines()
    outputs = write_lines(tmp_path / "out.fr", [line.split("\t")[0] for line in lines])
    gold = write_lines(tmp_path / "gold", [line.split("\t")[1] for line in lines])
    given = ["--source", toy_data / "test.en", "--target", outputs, "--alignments", gold]
    out = succeed(capsys, "evaluate", tiny_run, *given)
    assert "precision 100.00  recall 100.00  error rate 0.00" in out
    assert "exact matches: 100.00 %" in out


def test_links_are_compared_with_gold(capsys: Capture, tmp_path: Path, tiny_run: Path, tiny_model: Predictor) -> None:
    source, target = "the cat sees the dog.", "le chat voit le chien."
    write_lines(tmp_path / "one.en", [source])
    write_lines(tmp_path / "one.fr", [target])
    found = {word: index for index, word in tiny_model.attention(source, target).links}
    # Sure: the link of word 0 as found, and one that is not; of word 1 as found, but possible only.
    wrong = (found[2] + 1) % 5
    gold = write_lines(tmp_path / "gold", [f"{found[0]}-0 {wrong}-2 {found[1]}p1"])
    out = succeed(
        capsys,
        "evaluate",
        tiny_run,
        "--source",
        tmp_path / "one.en",
        "--target",
        tmp_path / "one.fr",
        "--alignments",
        gold,
    )
    # Five links found; two of them possible, one of the two sure: 2/5, 1/2, 1 - (1 + 2) / (5 + 2).
    assert f"precision 40.00  recall 50.00  error rate {100 * (1 - 3 / 7):.2f}" in out


def test_bad_gold_is_one_sentence(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    short = write_lines(tmp_path / "short", ["0-0"])
    bad = write_lines(tmp_path / "bad", ["0-0", "0:1", *["0-0"] * 28])
    outside = write_lines(tmp_path / "outside", ["0-0", "99-1", *["0-0"] * 28])
    for gold, parts in (
        (short, ["1 line of links for 30 pairs"]),
        (bad, ["Line 2 of", "0:1"]),
        (outside, ["Line 2 of", "99-1", "numbered from 0"]),
    ):
        assert_refused(run(capsys, "evaluate", tiny_run, *files(toy_data), "--alignments", gold), str(gold), *parts)


def test_files_that_do_not_fit_are_refused(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    short = write_lines(tmp_path / "short.fr", ["le chat."])
    given = ["--source", toy_data / "test.en", "--target", short]
    for command in ("evaluate", "score"):
        assert_refused(run(capsys, command, tiny_run, *given), "30 lines", "has 1", "line 2")
        assert_refused(run(capsys, command, tiny_run), "--source and --target, or --data")
        assert_refused(run(capsys, command, tiny_run, "--source", short), "--source and --target, or --data")
        empty = write_lines(tmp_path / "empty", [])
        assert_refused(run(capsys, command, tiny_run, "--source", empty, "--target", empty), "empty")
    assert_refused(run(capsys, "compare", tiny_run, tiny_run, *given), "30 lines")


@torch.inference_mode()
def stepped(model: Predictor, source: str, target: str) -> float:
    """The log-probability of a translation, by feeding its tokens one after another."""
    network = model.model
    ids = [*model.task.state.source.encode(source).ids, END]
    targets = [*model.task.state.target.encode(target).ids, END]
    state = network.start(torch.tensor([ids]), torch.tensor([len(ids)]), len(targets))
    total, token = 0.0, START
    for following in targets:
        logits, state = network.step(torch.tensor([token]), state)
        total += float(logits.log_softmax(dim=-1)[0, following])
        token = following
    return total


def test_score_is_the_sum_over_the_steps(
    capsys: Capture, tmp_path: Path, tiny_run: Path, tiny_model: Predictor
) -> None:
    pairs = [*toy_pairs(5, seed=3), ("the cat", ""), ("zzz", "le " * 40)]
    write_lines(tmp_path / "a", [source for source, _ in pairs])
    write_lines(tmp_path / "b", [target for _, target in pairs])
    code, out, err = run(capsys, "score", tiny_run, "--source", tmp_path / "a", "--target", tmp_path / "b")
    assert code == 0
    expected = [stepped(tiny_model, source, target) for source, target in pairs]
    assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-3)
    tokens = sum(len(tiny_model.task.state.target.encode(target).ids) + 1 for _, target in pairs)
    assert number(r"perplexity ([\d.]+)", err) == pytest.approx(2.718281828 ** (-sum(expected) / tokens), rel=1e-3)


def test_an_answer_has_the_score_that_score_gives(tiny_model: Predictor) -> None:
    (answer,) = tiny_model.predict(["the black cat eats the fish."])
    assert tiny_model.score([answer.source], [answer.text]) == pytest.approx([answer.log_probability], abs=1e-4)


def test_a_model_against_itself_differs_by_nothing(capsys: Capture, tiny_run: Path, toy_data: Path) -> None:
    out = succeed(capsys, "compare", tiny_run, tiny_run, *files(toy_data))
    assert [float(value) for value in re.findall(r"p = ([\d.]+)", out)] == [1, 1]


def test_a_copy_differs_by_nothing(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    copy = shutil.copytree(tiny_run / "model", tmp_path / "copy")
    out = succeed(capsys, "compare", tiny_run, copy, *files(toy_data), "--lowercase")
    assert [float(value) for value in re.findall(r"p = ([\d.]+)", out)] == [1, 1]
    assert out.count("case:lc") == 2


def test_a_better_model_is_told_from_a_worse_one(
    capsys: Capture, tiny_run: Path, weak_run: Path, toy_data: Path
) -> None:
    out = succeed(capsys, "compare", tiny_run, weak_run, *files(toy_data))
    scores = [float(score) for score in re.findall(rf"{weak_run.parent}\S* ([\d.]+)", out)]
    assert number(rf"BLEU: {tiny_run} ([\d.]+)", out) > scores[0] + 20
    assert all(float(value) < 0.01 for value in re.findall(r"p = ([\d.]+)", out))
    assert "bs:1000" in out


def test_one_pair_cannot_be_resampled(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    one = write_lines(tmp_path / "one", ["the cat."])
    assert_refused(run(capsys, "compare", tiny_run, tiny_run, "--source", one, "--target", one), "at least 2 pairs")
