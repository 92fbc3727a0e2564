"""``saccade train`` on a person's files: what is reported, and every bad input as one sentence that harms nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from commands import Capture, assert_refused, run

from toy_language import settings, toy_pairs, write_lines

GOOD = toy_pairs(40, seed=6)
SHORT = settings(training__steps=4, training__warmup=1, training__validate_every=4)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    source = write_lines(tmp_path / "a.en", [source for source, _ in GOOD])
    target = write_lines(tmp_path / "a.fr", [target for _, target in GOOD])
    return ["--source", str(source), "--target", str(target)]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(result: tuple[int, str, str], *parts: str) -> None:
    """Refused once the data was shown: one sentence all the same."""
    code, _, err = result
    assert code == 2
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert all(part in err for part in parts), err


def test_first_comes_a_report_of_the_data(capsys: Capture, tmp_path: Path) -> None:
    pairs = [*GOOD[:20], ("", ""), ("alone", ""), GOOD[3], *GOOD[20:]]
    write_lines(tmp_path / "a.en", [source for source, _ in pairs])
    write_lines(tmp_path / "a.fr", [target for _, target in pairs])
    given = ["--source", tmp_path / "a.en", "--target", tmp_path / "a.fr", "-o", tmp_path / "run"]
    code, out, err = run(capsys, "train", *given, *SHORT)
    assert (code, err) == (0, "")
    rows = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line.strip())
    values = {what: value.strip() for what, value in rows.items()}
    assert values["pairs read"] == "43"
    assert values["pairs kept"] == "40"
    assert values["empty on both sides"] == "1 dropped: line 21"
    assert values["text on one side only"] == "1 dropped: line 22"
    assert values["duplicates"] == "1 dropped: line 23"


def test_a_table_is_trained_on_by_the_names_of_its_columns(capsys: Capture, tmp_path: Path) -> None:
    table = write_lines(tmp_path / "p.csv", ["x,en,fr", *(f"0,{source},{target}" for source, target in GOOD)])
    for folder, how in (
        ("one", ["--columns", "en,fr"]),
        ("two", ["--set", "data.source_column=en", "--set", "data.target_column=fr"]),
    ):
        code, out, err = run(capsys, "train", "--data", table, "-o", tmp_path / folder, *how, *SHORT)
        assert (code, err) == (0, ""), err
        assert "The model is in" in out


def test_the_same_command_again_trains_no_more(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    command = ["train", *files, "-o", tmp_path / "run", *SHORT]
    assert run(capsys, *command)[0] == 0
    before = content(tmp_path / "run")
    code, out, _ = run(capsys, *command)
    assert code == 0
    assert "is already trained" in out
    assert content(tmp_path / "run") == before


def test_a_folder_of_another_run_is_left_alone(
    capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path, files: list[str]
) -> None:
    before = content(tiny_run)
    same = ["--source", str(toy_data / "train.en"), "--target", str(toy_data / "train.fr")]
    assert_refused(run(capsys, "train", *files, "-o", tiny_run, *settings()), "a different recipe", "data.source", "-o")
    assert_refused(run(capsys, "train", *same, "-o", tiny_run, "--set", "training.steps=249"), "training.steps")
    assert content(tiny_run) == before
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    assert_refused(run(capsys, "train", *files, "-o", tmp_path / "photos", *SHORT), "photos", "-o")
    assert content(tmp_path / "photos") == {"cat.jpg": b"cat"}
    assert_refused(run(capsys, "train", *files, "-o", tmp_path / "a.en", *SHORT), "a.en")


@pytest.mark.parametrize(
    ("name", "data", "parts"),
    [
        ("mixed", "là où ça\n".encode() + b"l'\xe9t\xe9\n", ["line 2", "0xe9", "UTF-8"]),
        ("short", b"le chat\n", ["has 40 lines", "has 1", "line 2"]),
        ("empty", b"", ["has 40 lines", "has 0"]),
        ("binary", b"\x89PNG\r\n\x1a\n\x00\xff" * 50, ["line 1", "UTF-8"]),
        ("blank", b"\n" * 40, ["No pairs from", "40 dropped (text on one side only)"]),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    capsys: Capture, tmp_path: Path, files: list[str], name: str, data: bytes, parts: list[str]
) -> None:
    bad = tmp_path / name
    bad.write_bytes(data)
    folder = tmp_path / "run"
    assert_refused(run(capsys, "train", *files[:3], bad, "-o", folder, *SHORT), str(bad), *parts)
    assert not folder.exists()
    assert bad.read_bytes() == data


def test_what_is_no_file_is_refused(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    assert_refused(run(capsys, "train", *files[:3], tmp_path, "-o", tmp_path / "run"), "is a folder")
    assert_refused(run(capsys, "train", *files[:3], tmp_path / "no", "-o", tmp_path / "run"), "There is no file")
    assert_refused(run(capsys, "train", *files[:3], tmp_path / "a.en" / "x", "-o", tmp_path / "run"), "a.en/x")
    empty = write_lines(tmp_path / "empty", [])
    assert_refused(run(capsys, "train", "--source", empty, "--target", empty, "-o", tmp_path / "run"), "empty")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
def test_a_file_that_may_not_be_read_is_refused(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "a.fr").chmod(0)
    assert_refused(run(capsys, "train", *files, "-o", tmp_path / "run"), "a.fr cannot be read")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (["training.stesp=5"], ["'stesp'", "Did you mean 'steps'?"]),
        (["modle.width=5"], ["'modle'", "Did you mean 'model'?"]),
        (["model.widht=5"], ["'widht'", "Did you mean 'width'?"]),
        (["data.sources=x"], ["'sources'", "Did you mean 'source'?"]),
        (["task=translate"], ["'translate'", "translation"]),
        (["model.kind=transfromer"], ["'transfromer'", "Did you mean 'transformer'?"]),
        (["metric=blue"], ["'blue'", "bleu"]),
        (["training.steps=many"], ["--set training.steps=many", "steps must be a whole number, not 'many'"]),
        (["training.steps=0"], ["steps must be at least 1, not 0"]),
        (["training.lr=nan"], ["lr must be a finite number, not nan"]),
        (["training.schedule=linear"], ["schedule must be 'inverse_sqrt', 'cosine' or 'constant', not 'linear'"]),
        (["model.width=-1"], ["width must be at least 1, not -1"]),
        (["model.num_heads=7"], ["7 heads do not divide a width of 128"]),
        (["model.score=dots"], ["'dots'", "Did you mean 'dot'?"]),
        (["model.kind=[1]"], ["[1]", "transformer"]),
        (["model.width=1000000000000"], ["width", "at most 262,144"]),
        (["training.seed=99999999999999999999"], ["99999999999999999999"]),
        (["text.vocabulary=3"], ["3", "at least 261"]),
        (["text.kind=letters"], ["kind must be", "not 'letters'"]),
        (["model=5"], ["model must be a table"]),
        (["training.steps"], ["table.key=value"]),
        (["training..steps=5"], ["table.key=value"]),
        (["training.steps.more=5"], ["steps"]),
        (["data.validation_source=x"], ["give both validation_source and validation_target, or neither"]),
        (["data.validation=0"], ["no validation examples"]),
        (["data.max_length=1"], ["too long"]),
    ],
)
def test_a_bad_setting_is_named(
    capsys: Capture, tmp_path: Path, files: list[str], changes: list[str], parts: list[str]
) -> None:
    given = [argument for change in changes for argument in ("--set", change)]
    said(run(capsys, "train", *files, "-o", tmp_path / "run", *given), *parts)
    assert not (tmp_path / "run").exists()  # so that the corrected command can have it


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("task = \nmetric = 5", ["not valid TOML", "line 1"]),
        ('[data]\nbuiltin = "grammar"\n[training]\nstesp = 5\n', ["[training]", "'stesp'", "Did you mean 'steps'?"]),
        ("[data]\n", ["[data]", "give one of builtin, source (with target), table, nettalk"]),
        ('[data]\nbuiltin = "gramar"\n', ["builtin must be", "not 'gramar'"]),
        ('[data]\nsource = "$NO_SUCH_NAME/a"\ntarget = "b"\n', ["NO_SUCH_NAME"]),
        ('[data]\nnettalk = "nothing"\n', ["nothing"]),
        ('[data]\nsource = "a\\u0000b"\ntarget = "b"\n', ["not a valid file name"]),
        ("data = 5\n", ["data must be a table"]),
        ("\x00", ["not valid TOML"]),
        (b"\xff\xfe", ["not UTF-8"]),
    ],
)
def test_a_bad_recipe_is_named(capsys: Capture, tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_bytes(text if isinstance(text, bytes) else text.encode())
    said(run(capsys, "train", recipe, "-o", tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


def test_what_contradicts_itself_is_refused(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    recipe = write_lines(tmp_path / "recipe.toml", ["[data]", 'builtin = "grammar"'])
    assert_refused(run(capsys, "train", recipe, *files, "-o", tmp_path / "run"), "recipe.toml", "--source")
    assert_refused(run(capsys, "train", tmp_path / "none.toml", "-o", tmp_path / "run"), "no recipe", "none.toml")
    assert_refused(run(capsys, "train", tmp_path, "-o", tmp_path / "run"), "cannot be read")
    assert_refused(run(capsys, "train", *files), "-o")
    assert_refused(run(capsys, "train", "-o", tmp_path / "run"), "--source and --target, or --data")
    assert_refused(run(capsys, "train", *files, "--data", "x.tsv", "-o", tmp_path / "run"), "--data")
    assert not (tmp_path / "run").exists()


def test_an_empty_folder_is_as_good_as_none(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "run").mkdir()
    command = ["train", *files, "-o", tmp_path / "run", *SHORT]
    said(run(capsys, *command, "--set", "model.num_heads=7"), "7 heads")
    assert run(capsys, *command)[0] == 0


def test_a_device_that_is_not_here_is_refused(
    capsys: Capture, tmp_path: Path, tiny_run: Path, files: list[str]
) -> None:
    for device in ("cuda", "mps"):
        if torch.cuda.is_available() if device == "cuda" else torch.backends.mps.is_available():
            continue
        assert_refused(run(capsys, "train", *files, "-o", tmp_path / "run", "--device", device), f"no {device} device")
        assert_refused(run(capsys, "predict", tiny_run, "x", "--device", device), f"no {device} device")
    assert_refused(run(capsys, "predict", tiny_run, "x", "--device", "gpu"), "no device 'gpu'")
    assert not (tmp_path / "run").exists()


def test_init_with_another_shape_is_refused(capsys: Capture, tmp_path: Path, tiny_run: Path, files: list[str]) -> None:
    given = ["train", *files, "-o", tmp_path / "run", *SHORT]
    said(run(capsys, *given, "--set", "model.width=16", "--init", tiny_run), str(tiny_run), "shape")
    assert not (tmp_path / "run").exists()


def test_init_goes_on_from_a_model(capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path) -> None:
    same = ["--source", toy_data / "train.en", "--target", toy_data / "train.fr"]
    changed = settings(training__steps=2, training__warmup=0, training__lr="1e-9", training__validate_every=2)
    code, out, err = run(capsys, "train", *same, "-o", tmp_path / "run", "--init", tiny_run, *changed)
    assert (code, err) == (0, "")
    _, expected, _ = run(capsys, "train", *same, "-o", tiny_run, *settings())
    assert "bleu" in out
    assert "already trained" in expected
    text = "the black cat eats the fish."
    assert run(capsys, "predict", tmp_path / "run", text) == run(capsys, "predict", tiny_run, text)


def test_init_takes_the_tokens_and_the_network_of_the_model(
    capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path
) -> None:
    other = [line.upper() for line in (toy_data / "train.en").read_text().splitlines()[:60]]
    files = [write_lines(tmp_path / name, other) for name in ("a", "b")]
    given = ["train", "--source", files[0], "--target", files[1], "-o", tmp_path / "run", "--init", tiny_run]
    code, _, err = run(capsys, *given, "--set", "training.steps=2", "--set", "training.warmup=0")
    assert (code, err) == (0, "")
    tokens = [(folder / "model" / "tokenizer.json").read_text() for folder in (tiny_run, tmp_path / "run")]
    assert tokens[0] == tokens[1]
    networks = [
        json.loads((folder / "model" / "config.json").read_text())["model"] for folder in (tiny_run, tmp_path / "run")
    ]
    assert networks[0] == networks[1]


def test_what_is_no_model_is_refused(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    file = write_lines(tmp_path / "file", ["x"])
    checkpoint = max((tiny_run / "checkpoints").iterdir())
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(tiny_run / "recipe.toml", begun)
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, part in (
        (tmp_path / "none", "There is no folder"),
        (file, "is a file; expected a folder"),
        (empty, "is not a model folder"),
        (checkpoint, "is not a model folder"),
        (begun, "no model yet"),
        ("", "is not a model folder"),
        ("x" * 5000, "name too long"),
    ):
        for command in (["predict", path, "x"], ["look", path, "x"]):
            assert_refused(run(capsys, *command), part)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_damaged_model_is_refused(capsys: Capture, tmp_path: Path, tiny_run: Path, name: str) -> None:
    folder = shutil.copytree(tiny_run / "model", tmp_path / "model")
    good = (folder / name).read_bytes()
    for bad in (good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:], b""):
        (folder / name).write_bytes(bad)
        assert_refused(run(capsys, "predict", folder, "x"), str(folder / name))
    (folder / name).unlink()
    assert_refused(run(capsys, "predict", folder, "x"), name)
    (folder / name).symlink_to(tiny_run / "model" / name)
    if name != "manifest.json":
        assert_refused(run(capsys, "predict", folder, "x"), "symbolic link")


def test_init_that_a_run_did_not_begin_from_is_refused(
    capsys: Capture, tmp_path: Path, tiny_run: Path, toy_data: Path
) -> None:
    files = ["--source", toy_data / "train.en", "--target", toy_data / "train.fr"]
    given = ["train", *files, "-o", tiny_run, *settings()]
    assert run(capsys, *given)[0] == 0
    assert_refused(run(capsys, *given, "--init", tiny_run), "began with a different --init")


def test_a_key_without_its_table_is_told_its_place(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    assert_refused(run(capsys, "train", *files, "-o", tmp_path / "run", "--set", "steps=3"), "training.steps")


def test_another_kind_of_network_has_sizes_of_its_own(capsys: Capture, tmp_path: Path, files: list[str]) -> None:
    wanted = ["model.kind=recurrent", "model.width=8", "model.embedding_width=8", "model.attention_width=8"]
    wanted += ["training.steps=2", "training.warmup=1", "training.validate_every=2", "training.validation_sample=2"]
    changes = [word for one in wanted for word in ("--set", one)]
    code, _, err = run(capsys, "train", *files, "-o", tmp_path / "run", *changes)
    assert (code, err) == (0, "")
    assert "embedding_width = 8" in (tmp_path / "run" / "recipe.toml").read_text()


def test_a_folder_of_another_task_is_left_alone(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    data = write_lines(tmp_path / "a.txt", ["word TAG", "", "other TAG"])
    refused = run(capsys, "train", "--task", "tagging", "--data", data, "-o", tiny_run)
    assert_refused(refused, "contains a run of translation")
