"""``saccade look``: the alignment in the terminal and in files."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest
from commands import Capture, assert_refused, run, succeed
from matplotlib.image import imread
from PIL import Image
from rich.cells import cell_len

import saccade
import untrained
from saccade.cli import main
from saccade.lens.words import visible_text

TEXT = "the black cat eats the fish."


def test_the_map_is_readable_in_80_columns_without_colour(capsys: Capture, tiny_run: Path) -> None:
    lines = succeed(capsys, "look", tiny_run, TEXT).splitlines()
    assert lines[0] == "le chat noir mange le poisson."
    assert lines[1].split() == ["the", "black", "cat", "eats", "the", "fish", ".", "</s>"]
    rows = lines[2:9]
    assert [row.split()[0] for row in rows] == ["le", "chat", "noir", "mange", "le", "poisson", "."]
    assert all(0 < float(row.split()[-1]) <= 1 for row in rows)  # each ends with its strongest weight
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in "".join(lines)


def test_a_long_text_keeps_to_80_columns(capsys: Capture, tiny_run: Path) -> None:
    lines = succeed(capsys, "look", tiny_run, "the black cat eats the small old fish. " * 6).splitlines()
    assert max(map(cell_len, lines[1:])) <= 80
    assert "columns are left out" in lines[-1]


@pytest.mark.parametrize("task", untrained.EVERY_TASK)
def test_a_page_leads_with_the_answer_and_what_the_picture_shows(capsys: Capture, tmp_path: Path, task: str) -> None:
    make, given = untrained.EVERY_TASK[task]
    model = make(tmp_path / "model")
    argument = json.dumps(given) if isinstance(given, list) else str(given)
    if isinstance(given, np.ndarray):
        argument = str(tmp_path / "a.png")
        Image.fromarray(given).save(argument)
        given = argument
    (answer,) = saccade.open(model).predict([given])
    page, png = tmp_path / "look.html", tmp_path / "look.png"
    has_picture = task != "text-autoencoder"  # which has no neighbours yet
    succeed(capsys, "look", model, argument, "--html", page, *(("--png", png) if has_picture else ()))
    lead = page.read_text().split('<section class="lead"', 1)[1].split("</section>", 1)[0]
    assert escape(visible_text(answer.text)) in lead
    assert escape(answer.certainty) in lead
    assert not has_picture or base64.b64encode(png.read_bytes()).decode() in lead


def test_as_a_process_there_are_no_escape_codes(tiny_run: Path) -> None:
    command = [sys.executable, "-m", "saccade.cli", "look", str(tiny_run), TEXT]
    done = subprocess.run(command, capture_output=True, check=True, env=os.environ | {"NO_COLOR": "1"})
    assert b"\x1b" not in done.stdout
    assert set("░▒▓█") & set(done.stdout.decode())


def test_pictures_are_written(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    png, svg = tmp_path / "look.png", tmp_path / "look.svg"
    out = succeed(capsys, "look", tiny_run, TEXT, "--png", png, "--svg", svg)
    assert f"Wrote {png}." in out
    assert f"Wrote {svg}." in out
    height, width, _ = imread(png).shape
    assert height > 200
    assert width > 200
    drawn = svg.read_text()
    assert all(word in drawn for word in ("poisson", "noir", "eats", "fish"))
    succeed(capsys, "look", tiny_run, TEXT, "--dark", "--png", png)
    assert imread(png)[0, 0, :3].mean() < 0.2


def test_a_given_target_is_looked_at(capsys: Capture, tiny_run: Path) -> None:
    lines = succeed(capsys, "look", tiny_run, TEXT, "--target", "chat zzz").splitlines()
    assert lines[0] == "chat zzz"
    assert [line.split()[0] for line in lines[2:4]] == ["chat", "zzz(?)"]  # as it was written


@pytest.mark.parametrize("text", ["", "   "])
def test_nothing_to_look_at_is_no_error(capsys: Capture, tmp_path: Path, tiny_run: Path, text: str) -> None:
    succeed(capsys, "look", tiny_run, text, "--png", tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0
    succeed(capsys, "look", tiny_run, text, "--target", "le chat")


def test_a_picture_of_another_kind_is_refused_before_anything_is_done(
    capsys: Capture, tmp_path: Path, tiny_run: Path
) -> None:
    assert_refused(run(capsys, "look", tiny_run, TEXT, "--png", tmp_path / "look.jpg"), "--png", "look.jpg")
    assert_refused(run(capsys, "look", tiny_run, TEXT, "--svg", tmp_path / "look"), "--svg", "a .svg file")
    assert list(tmp_path.iterdir()) == []
    code, _, err = run(capsys, "look", tiny_run, TEXT, "--png", tmp_path / "none" / "look.png")
    assert code == 2
    assert "cannot be written" in err
    assert "Traceback" not in err


@pytest.fixture(scope="module")
def blind_run(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent network whose decoder sees one vector of the source, and no more."""
    folder = tmp_path_factory.mktemp("blind") / "run"
    recipe = folder.parent / "blind.toml"
    recipe.write_text(
        f"""
        [data]
        source = "{toy_data}/train.en"
        target = "{toy_data}/train.fr"
        [text]
        kind = "word"
        [model]
        kind = "recurrent"
        width = 16
        attention = "none"
        [training]
        steps = 5
        warmup = 1
        batch_tokens = 300
        """
    )
    with pytest.raises(SystemExit) as left:
        main(["train", str(recipe), "-o", str(folder)])
    assert left.value.code == 0
    return folder


def test_a_model_without_attention_says_so(capsys: Capture, tmp_path: Path, blind_run: Path) -> None:
    out = succeed(capsys, "look", blind_run, TEXT, "--png", tmp_path / "look.png")
    assert "has no attention to the source" in out
    assert "\t\n" in succeed(capsys, "predict", blind_run, TEXT, "--alignments")
