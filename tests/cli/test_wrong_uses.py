"""Wrong uses of the command line, each answered in one sentence without a traceback; nothing is trained here."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Capture, run

import untrained

MODELS = {"translator": untrained.translator, "tagger": untrained.tagger, "eye": untrained.image_classifier}

#: Arguments after which the command refuses, and a part of its sentence. {} is the folder of the files.
REFUSED = [
    ("predict {}/file text", "{}/file is a file; expected a folder."),
    ("predict {}/nothing text", "There is no folder {}/nothing."),
    ("predict {}/translator le --beam x", "Invalid value for '--beam': it must be a whole number, not 'x'"),
    ("predict {}/translator le --workers 0", "Invalid value for '--workers': it must be at least 1, not"),
    ("predict {}/eye nothing", "There is no file 'nothing'; give a picture (.png, "),
    ("predict {}/eye nothing --encoding latin-1", "--separator do not apply to image classifiers, because"),
    ("predict {}/translator {}/file --separator ;", "--separator does not apply to {}/file, because it is not read as"),
    ("predict {}/tagger {}/file --separator ; --lines", "With --lines, a file has no columns"),
    ("predict {}/translator le --encoding latin-1", "say how to read a file, but there is no file 'le'."),
    ("evaluate {}/translator --source {}/file --target {}/file --separator ;", "--separator does not apply to {}/file"),
    ("evaluate {}/tagger --source a --target b", "Give the file with --data; --source and --target do not apply"),
    ("evaluate {}/translator --data {}/table.csv --columns text,nothing", "there is no column named 'nothing'"),
    ("evaluate {}/tagger --data {}/empty", "There are no sentences in {}/empty: the file is empty."),
    ("evaluate {}/tagger --data {}/nothing --beam 3", "--beam does not apply to tagging models"),
    ("score {}/tagger --data {}/nothing", "tagger is not a translation model; this command does not apply to tagging"),
    ("compare {}/translator {}/tagger --source a --target b", "tagger is not a translation model"),
    ("words {}/translator le --map map.txt", "map.txt: a picture can be saved as .png, .svg, .pdf, not as .txt."),
    ("words {}/eye cat", "Models for images have no word embeddings."),
    ("train", "Give a recipe, or data files with --source and --target, or --data."),
    ("train --task sentence-similarity --data a -o b", "does not train models for sentence-similarity; it only opens"),
    ("train --task tagging --source a --target b -o c", "Give the file with --data"),
    ("train --task images --data {}/file -o b", "not these: {}/file."),
    ("data split {}/nothing", "{}/nothing is not a run folder; give the folder that you passed to saccade train"),
    ("data split {}/translator", "{}/translator is not a run folder"),
    ("serve ={}/translator", "={}/translator lacks the name; give NAME=FOLDER."),
    ("serve name=", "name= lacks the folder; give NAME=FOLDER."),
    ("lab run scaled-scores --seeds 0", "Invalid value for '--seeds': it must be at least 1, not"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, make in MODELS.items():
        make(folder / name)
    for name, content in {"file": "x\n", "empty": "", "table.csv": "text,label\na,b\n"}.items():
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(("use", "sentence"), REFUSED, ids=[use for use, _ in REFUSED])
def test_a_wrong_use_is_refused_in_one_sentence(capsys: Capture, folder: Path, use: str, sentence: str) -> None:
    code, out, err = run(capsys, *use.replace("{}", str(folder)).split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert sentence.replace("{}", str(folder)) in err


def test_an_empty_answer_and_a_text_without_words_are_said(capsys: Capture, folder: Path) -> None:
    assert run(capsys, "look", folder / "translator", "le chat", "--target", "")[2] == "Note: the answer is empty.\n"
    assert run(capsys, "look", folder / "tagger", "")[1] == "There are no words.\n"
    noted = run(capsys, "predict", folder / "tagger", "the zebra")[2]
    assert noted.startswith("Note: the text contains words or characters that the model does not know: 'zebra'.")
