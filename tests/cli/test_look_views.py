"""``saccade look``: any attention, every view, files of it, and what an answer depends on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import Capture, assert_refused, run, succeed

from saccade.tasks.base.predictor import Predictor

TEXT = "the black cat eats the fish."
ANSWER = "le chat noir mange le poisson."


def test_numbers_are_the_exact_weights(capsys: Capture, tmp_path: Path, tiny_run: Path, tiny_model: Predictor) -> None:
    path = tmp_path / "a.npy"
    out = succeed(capsys, "look", tiny_run, TEXT, "--layer", "encoder.0.self", "--head", "1", "--numbers", path)
    assert out.splitlines()[:2] == [ANSWER, "encoder.0.self, head 1"]
    weights = tiny_model.predict([TEXT])[0].attention.traces["encoder.0.self"].weights(head=1, batch=0)
    assert np.array_equal(np.load(path), weights.numpy())
    part = ["--rows", "2:5", "--columns", ":3", "--numbers", path]
    lines = succeed(
        capsys, "look", tiny_run, TEXT, "--layer", "encoder.0.self", "--head", "1", *part, "--png", tmp_path / "a.png"
    ).splitlines()
    assert np.array_equal(np.load(path), weights[2:5, :3].numpy())
    assert lines[2].split() == ["▁the", "▁black", "▁cat"]
    assert [line.split()[0] for line in lines[3:6]] == ["▁cat", "▁eats", "▁the"]


def test_what_a_word_looks_at(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    page = tmp_path / "look.html"
    lines = succeed(capsys, "look", tiny_run, TEXT, "--word", "cat", "--html", page).splitlines()
    assert lines[1] == "cat in encoder.0.self, mean of 2 heads"
    assert [line.split()[0] for line in lines[3:11]] == ["the", "black", "cat", "eats", "the", "fish", ".", "</s>"]
    written = page.read_text(encoding="utf-8")
    assert "poisson" in written
    assert '"opens":{"attention":0,"head":"mean","row":2,"column":null,' in written  # on the same as the terminal
    assert '"view":"arcs"}' in written
    other = succeed(capsys, "look", tiny_run, TEXT, "--word", "chat", "--layer", "decoder.0.cross", "--head", "max")
    assert other.splitlines()[1] == "chat in decoder.0.cross, max of 2 heads"


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("grid", "decoder.0.cross"),
        ("entropy", "entropy in bits"),
        ("rollout", "rollout, mean of heads"),
        ("heatmap", "decoder.0.cross, mean of 2 heads"),
        ("overview", "exact weights, by position"),
    ],
)
def test_every_view_in_the_terminal_and_as_a_figure(
    capsys: Capture, tmp_path: Path, tiny_run: Path, view: str, said: str
) -> None:
    svg = tmp_path / "look.svg"
    out = succeed(capsys, "look", tiny_run, TEXT, "--view", view, "--svg", svg)
    assert out.startswith(f"{ANSWER}\n")
    assert said in out
    assert f"Wrote {svg}." in out
    assert "<svg" in svg.read_text(encoding="utf-8")
    assert max(map(len, out.splitlines()[1:-1])) <= 80


def test_the_alignment_stays_what_it_was(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    plain = succeed(capsys, "look", tiny_run, TEXT)
    assert succeed(capsys, "look", tiny_run, TEXT, "--view", "alignment") == plain
    page = tmp_path / "a.html"
    assert succeed(capsys, "look", tiny_run, TEXT, "--html", page) == f"{plain}Wrote {page}.\n"


def test_two_texts_are_set_against_each_other(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    pdf = tmp_path / "d.pdf"
    other = TEXT.replace("black", "small")
    out = succeed(capsys, "look", tiny_run, TEXT, "--against", other, "--head", "0", "--pdf", pdf)
    lines = out.splitlines()
    assert lines[0] == ANSWER
    assert lines[2].startswith("encoder.0.self, head 0: weight in this text minus weight in the other")
    rows = [line.split() for line in lines[3:15]]
    for difference, one, another, *link in rows:
        assert float(difference) == pytest.approx(float(one) - float(another), abs=2e-3)
        assert "black" not in link  # only tokens that both have
        assert "small" not in link
    assert pdf.read_bytes().startswith(b"%PDF")


def test_before_and_after(capsys: Capture, tiny_run: Path, tiny_model: Predictor) -> None:
    out = succeed(capsys, "look", tiny_run, TEXT, "--without-head", "decoder.0.cross:1")
    change = tiny_model.compare(TEXT, without_heads=["decoder.0.cross:1"])
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["before", *ANSWER.split()]
    assert ["without", "head", "decoder.0.cross:1"] in lines
    totals = [f"{change.before.log_probability_before:.3f}", f"{change.before.log_probability_after:.3f}"]
    assert ["log-probability", *totals] in lines
    out = succeed(
        capsys, "look", tiny_run, TEXT, "--without-link", "encoder.0.self:cat:black", "--replace", "eats=sees"
    )
    assert "without link encoder.0.self:2:1" in out
    assert "with 'sees' instead of 'eats'" in out
    one_head = succeed(capsys, "look", tiny_run, TEXT, "--without-link", "encoder.0.self:1:2:1")
    assert "without link encoder.0.self:1:2:1" in one_head


def test_what_does_not_go_is_refused_with_what_does(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    look = ("look", tiny_run, TEXT)
    assert_refused(run(capsys, *look, "--layer", "encoder.7.self"), "encoder.7.self", "decoder.0.cross, decoder.0.self")
    assert_refused(run(capsys, *look, "--layer", "encoder.0.self", "--head", "two"), "a number, mean or max")
    assert_refused(run(capsys, *look, "--view", "arc"), "There is no view 'arc'", "arcs")
    assert_refused(run(capsys, *look, "--view", "arcs"), "--view arcs and --word must be given together")
    assert_refused(run(capsys, *look, "--word", "dog"), "There is no word 'dog'", "the black cat")
    assert_refused(run(capsys, *look, "--word", "the"), "2 times", "positions: 0, 4")
    assert_refused(run(capsys, *look, "--rows", "5:2"), "--rows", "100:356")
    assert_refused(run(capsys, *look, "--numbers", tmp_path / "a.txt"), "--numbers", ".npy")
    assert_refused(run(capsys, *look, "--without-head", "decoder.0.cross:9"), "no head '9'", "heads 0 to 1")
    assert_refused(run(capsys, *look, "--without-link", "encoder.0.self:2"), "ATTENTION:ROW:COLUMN")
    assert_refused(run(capsys, *look, "--replace", "fish"), "WORD=OTHER")
    assert_refused(run(capsys, *look, "--replace", "dog=cat"), "'dog'", "does not occur in")
    assert_refused(
        run(capsys, *look, "--without-head", "a:0", "--png", tmp_path / "a.png"), "cannot be combined with a picture"
    )
    assert_refused(run(capsys, *look, "--view", "grid", "--head", "1"), "every head")
    assert_refused(run(capsys, "look", tiny_run), "Give a text")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_read_as_one_text_of_any_length(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    book, picture, numbers = tmp_path / "book.txt", tmp_path / "map.png", tmp_path / "part.npy"
    book.write_text("the black cat eats the fish.\n" * 60)
    out = succeed(capsys, "look", tiny_run, "--file", book)
    title = "encoder.0.self, mean of 2 heads: mean of 18×18 weights, by position; the darkest cell is 0.0"
    assert " ".join(out.split()).startswith(title)
    assert "left out" not in out
    assert set("░▒▓█") & set(out.split("0.05")[0])  # small weights are seen
    out = succeed(
        capsys, "look", tiny_run, "--file", book, "--layer", "encoder.0.self", "--head", "0", "--png", picture
    )
    assert out == f"Wrote {picture}.\n"
    part = ["--rows", "400:421", "--columns", "100:107", "--numbers", numbers]
    succeed(capsys, "look", tiny_run, "--file", book, "--head", "0", *part)
    assert np.load(numbers).shape == (21, 7)
    assert_refused(run(capsys, "look", tiny_run, "--file", book, "--target", "le"), "cannot be combined with --target")


def test_ctrl_c_ends_a_long_look_cleanly(tmp_path: Path, tiny_run: Path) -> None:
    """Of 130,000 tokens the attention alone would take minutes."""
    book, picture = tmp_path / "book.txt", tmp_path / "map.png"
    book.write_text("the black cat eats the fish.\n" * 19_000)
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # also where the tests run in the background
        "import saccade.attention\n"
        "from saccade.cli import main\n"
        "attend = sys.modules['saccade.attention.attend']\n"
        "tell = attend.tell\n"
        "def told(owner, share):\n"
        "    print('block', file=sys.stderr, flush=True)\n"
        "    tell(owner, share)\n"
        "attend.tell = told\n"
        f"main(['look', {str(tiny_run)!r}, '--file', {str(book)!r}, '--png', {str(picture)!r}])\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        first = started.stderr.readline()
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=300)
    assert first == "block\n"
    assert started.returncode == 130
    assert "Traceback" not in err
    assert out == ""
    assert not picture.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.txt"]
