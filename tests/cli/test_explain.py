"""``saccade explain`` as a person uses it: real files, what is printed, and one sentence where something is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import Capture, assert_refused, run
from rich.cells import cell_len

from saccade.lens import EXAMPLES

GOOD_JSON = """\
{"queries": [[1, 2]], "keys": [[1, 2], [0, 0.5]], "values": [[10], [20]], "source_tokens": ["the", "cat"]}
"""
GOOD_TOML = """\
tokens = ["Action", "gets", "results"]
inputs = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
W_query = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]
W_key = [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]]
W_value = [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]]
W_output = [[1], [0], [0]]
score = "dot"
"""
CHANGED = "inputs = [[1]]\nchanged = [{ "
SUM = {"step": "sum", "place": [0, 0], "value": 1}


def cells(line: str) -> list[str]:
    """The numbers and words of a row of a table."""
    return re.split(r"[│\s]+", line.strip("│ "))


# --- what is printed -----------------------------------------------------------------------------------------


def test_explain_prints_the_lectures_tables(capsys: Capture) -> None:
    code, out, err = run(capsys, "explain")
    assert (code, err) == (0, "")
    rows = [cells(line) for line in out.splitlines()]
    assert ["word", "q", "vector", "k", "vector", "v", "vector", "score", "softmax"] in rows
    assert ["input", "1", "1", "0", "2", "0", "1", "1", "1", "2", "3", "2", "0.0634"] in rows
    assert ["input", "1", "0.0634", "0.1268", "0.1901", "1.9366", "6.6831", "1.5951"] in rows
    assert ["input", "2", "1.9640", "7.8561", "0.0000", "2.0000", "7.9640", "0.0540"] in rows
    assert "  weights = torch.softmax(scores, dim=-1)" in out.splitlines()


def test_row_shows_one_query_only(capsys: Capture) -> None:
    _, out, _ = run(capsys, "explain", "--example", "retrieval4", "--row", "4")
    assert [line for line in out.splitlines() if line.startswith("Query")] == ["Query 4: token 4"]
    assert "-2.1997   4.0998   2.5001" in out
    assert "score / √3" in out


def test_options_change_the_walk(capsys: Capture) -> None:
    def walk(*options: str) -> dict[str, list[list[float | None]]]:
        _, out, _ = run(capsys, "explain", "--json", *options)
        return {step["name"]: step["values"] for step in json.loads(out)["steps"]}

    assert walk("--mask", "causal")["masked"][0] == [2, None, None]
    assert walk("--weights", "hard")["weights"] == [[0, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert walk("--weights", "relu")["weights"] == walk()["scores"]
    assert walk("--scale")["scaled"] == walk("--score", "scaled_dot")["scaled"]
    assert "scaled" not in walk("--example", "retrieval", "--no-scale")
    # q = (1, 0, 2), k = (0, 1, 1): 2 / (√5 · √2)
    assert walk("--score", "cosine")["scores"][0][0] == pytest.approx(2 / 10**0.5)


def test_json_is_the_walkthrough(capsys: Capture) -> None:
    code, out, _ = run(capsys, "explain", "--example", "retrieval", "--json")
    assert code == 0
    assert json.loads(out) == EXAMPLES["retrieval"].walkthrough().to_dict()


def test_a_json_file_is_explained(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(GOOD_JSON)
    code, out, _ = run(capsys, "explain", file, "--score", "dot", "--weights", "relu")
    assert code == 0
    # scores 1·1 + 2·2 and 2·0.5; sum 5·10 + 1·20
    assert ["the", "1", "2", "1.0", "2.0", "10", "5", "5", "50", "70"] in [cells(line) for line in out.splitlines()]


def test_a_toml_file_is_explained_with_its_words(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "numbers.TOML"
    file.write_text(GOOD_TOML)
    code, out, _ = run(capsys, "explain", file)
    assert code == 0
    assert "Query 2: gets" in out
    rows = [cells(line) for line in out.splitlines()]
    assert ["Action", "1.9366"] in [row[-2:] for row in rows]  # the first column of the sum, picked by W_output
    assert "  output = sum @ W_output" in out.splitlines()


def test_changed_weights_are_said_in_their_query(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "changed.toml"
    file.write_text(GOOD_TOML + 'changed = [{ step = "weights", place = [1, 0], value = 2 }]\nmask = "causal"\n')
    _, out, _ = run(capsys, "explain", file)
    said = [line for line in out.splitlines() if line.startswith("The weights of this query")]
    assert said == ["The weights of this query were changed: they sum to 3, not to 1."]  # softmax gives its own key 1
    assert "; weights[1, 0] = 2.0" in out


def test_the_file_in_the_documentation_is_explained(capsys: Capture, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/learn/walkthrough.md"
    file = tmp_path / "numbers.toml"
    file.write_text(page.read_text().partition("```toml\n")[2].partition("```")[0])
    code, out, _ = run(capsys, "explain", file, "--row", "3")
    assert code == 0
    assert "1.9997  7.7599  0.3584" in out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_fit_and_no_number_is_cut(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    generator = torch.Generator().manual_seed(0)
    content: dict[str, object] = {
        name: (100 * torch.randn(3, 23, generator=generator, dtype=torch.float64)).tolist()
        for name in ("queries", "keys", "values")
    }
    content["tokens"] = ["a word that is long", "東京都の長い言葉です", "[bold]\u001b[31m"]
    file = tmp_path / "wide.json"
    file.write_text(json.dumps(content))
    _, out, _ = run(capsys, "explain", file, "--mask", "causal", "--row", "3")
    tables = out.partition("The same in Python")[0]
    assert max(map(cell_len, tables.splitlines())) <= columns
    assert "\u001b" not in out
    assert "[bold]" in out
    assert "−∞" not in tables  # the last query sees all
    _, as_json, _ = run(capsys, "explain", file, "--mask", "causal", "--json")
    steps = {step["name"]: step["values"] for step in json.loads(as_json)["steps"]}
    shown = set(re.findall(r"-?\d+\.\d{4}(?!\d)", tables))
    for name in ("sum", "keys", "scaled"):
        assert {f"{number:.4f}" for number in steps[name][2]} <= shown


def test_numbers_are_written_as_short_as_they_are(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    file = tmp_path / "numbers.json"
    file.write_text('{"queries": [[0.1], [-0.00001]], "keys": [[0.2], [3e8]], "values": [[1], [2]], "score": "dot"}')
    _, out, _ = run(capsys, "explain", file, "--weights", "hard", "--row", "1")
    rows = [cells(line) for line in out.splitlines()]
    assert ["token", "1", "0.1000", "2.0000e-01", "1", "2.0000e-02", "0", "0", "2"] in rows
    assert ["token", "2", "0.0000"] in [row[:3] for row in rows]  # not -0.0000


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("nan.json", '{"queries": [[1]], "keys": [[1], [NaN]], "values": [[1], [2]]}', "keys[1][0] is nan"),
        ("inf.json", '{"queries": [[1]], "keys": [[1], [-Infinity]], "values": [[1], [2]]}', "keys[1][0] is -inf"),
        ("huge.json", '{"queries": [[1]], "keys": [[1e999]], "values": [[1]]}', "keys[0][0] is inf"),
        ("nan.toml", "queries = [[1]]\nkeys = [[1]]\nvalues = [[nan]]", "values[0][0] is nan"),
        ("inf.toml", "queries = [[-inf]]\nkeys = [[1]]\nvalues = [[1]]", "queries[0][0] is -inf"),
        ("ragged.json", '{"queries": [[1, 2]], "keys": [[1, 2], [3]], "values": [[1], [2]]}', "keys[1] has length 1"),
        ("flat.json", '{"queries": [1, 2]}', "queries[0] is 1; expected a list"),
        ("text.json", '{"queries": [["1"]]}', "queries[0][0] is '1'; expected a number"),
        ("bool.json", '{"queries": [[true]]}', "queries[0][0] is True; expected a number"),
        ("key.json", '{"quries": [[1]]}', "there is no key 'quries'; did you mean 'queries'?"),
        ("key.toml", "W_q = [[1]]", "there is no key 'W_q'; did you mean 'W_query'?"),
        ("strange.json", '{"zzz": [[1]]}', "allowed: inputs, source, W_query"),
        ("twice.json", '{"keys": [[1]], "keys": [[2]]}', "the key 'keys' appears twice"),
        ("mask.json", '{"inputs": [[1], [2]], "mask": [[true, true]]}', "mask is 1 by 2; expected 2 by 2"),
        ("maskentry.json", '{"inputs": [[1]], "mask": [[1]]}', "mask[0][0] is 1; expected true or false"),
        ("maskname.toml", 'inputs = [[1]]\nmask = "casual"', "Did you mean 'causal'?"),
        ("score.toml", 'inputs = [[1]]\nscore = "scaled"', "Did you mean 'scaled_dot'?"),
        ("scale.toml", 'inputs = [[1]]\nscale = "yes"', "scale is 'yes'; expected true or false"),
        ("token.toml", 'inputs = [[1]]\ntokens = [""]', "tokens[0] is empty"),
        ("long.json", json.dumps({"inputs": [[1]] * 65}), "inputs is too long; the limit is 64"),
        ("wide.json", json.dumps({"inputs": [[1] * 1026]}), "inputs[0] is too long; the limit is 1025"),
        ("widekeys.json", json.dumps({"keys": [[1] * 65]}), "keys[0] is too long; the limit is 64"),
        ("step.toml", CHANGED + 'step = "score", place = [0, 0], value = 1 }]', "There is no computed step 'score'"),
        (
            "given.toml",
            CHANGED + 'step = "inputs", place = [0, 0], value = 1 }]',
            "inputs is an input and not",
        ),
        ("place.toml", CHANGED + 'step = "sum", place = [0, 1], value = 1 }]', "There is no sum[0][1] to change"),
        ("below.toml", CHANGED + 'step = "sum", place = [0, -1], value = 1 }]', "changed[0].place[1] is -1; expected"),
        (
            "half.toml",
            CHANGED + 'step = "sum", place = [0, 0.5], value = 1 }]',
            "changed[0].place[1] is 0.5; expected a whole",
        ),
        (
            "nan2.toml",
            CHANGED + 'step = "sum", place = [0, 0], value = nan }]',
            "changed[0].value is nan; expected a finite",
        ),
        ("short.toml", CHANGED + 'step = "sum", place = [0, 0] }]', "changed[0].value is missing"),
        ("stop.toml", CHANGED + 'stop = "sum", place = [0, 0], value = 1 }]', "did you mean 'step'?"),
        ("plain.toml", "inputs = [[1]]\nchanged = [1]", "changed[0] is 1; expected step, place and value"),
        ("many.json", json.dumps({"inputs": [[1]], "changed": [SUM] * 257}), "changed is too long; the limit is 256"),
        ("again.json", json.dumps({"inputs": [[1]], "changed": [SUM] * 2}), "sum[0][0] is changed twice"),
        ("list.json", "[1]", "not a list"),
        ("empty.json", "", "the file is empty"),
        ("empty.toml", "\n", "the file is empty"),
        ("nothing.json", "{}", "There is nothing to walk through"),
        ("broken.json", '{"inputs": [[1]', "not valid JSON"),
        ("broken.toml", "inputs = [[1]", "not valid TOML"),
        ("deep.json", "[" * 200_000, "nested too deeply"),
        ("notes.txt", "inputs", "must end in .json or .toml"),
        ("binary.json", b"\x89PNG\x00\xff", "the file is not UTF-8 text"),
        ("large.json", b" " * 1_000_001, "larger than 1000000 bytes"),
    ],
)
def test_a_bad_file_is_one_sentence(
    capsys: Capture, tmp_path: Path, name: str, content: str | bytes, fault: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(run(capsys, "explain", file), str(file), fault)


def test_a_missing_file_and_a_folder_are_refused(capsys: Capture, tmp_path: Path) -> None:
    assert_refused(run(capsys, "explain", tmp_path / "none.json"), "none.json: no such file or directory")
    folder = tmp_path / "folder.json"
    folder.mkdir()
    assert_refused(run(capsys, "explain", folder), "folder.json: is a directory")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--example", "retrival"], "Did you mean 'retrieval'?"),
        (["--mask", "window:x"], "no mask 'window:x'"),
        (["--score", "aditive"], "allowed: cosine, dot, equal, scaled_dot"),
        (["--score", "additive"], "The additive score needs W_score"),
        (["--example", "heads", "--row", "1"], "a walkthrough with several heads has no such tables"),
        (["--weights", "max"], "no weights function 'max'"),
        (["--score", "cosine", "--scale"], "not the Cosine score"),
        (["--row", "4"], "row must be 1 to 3"),
        (["--row", "0"], "not 0"),
        (["--row", "1", "--json"], "give only one of them"),
        (["x.json", "--example", "retrieval"], "not both"),
    ],
)
def test_a_bad_option_is_one_sentence(capsys: Capture, arguments: list[str], fault: str) -> None:
    assert_refused(run(capsys, "explain", *arguments), fault)


def test_a_bad_option_is_not_blamed_on_the_file(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(GOOD_JSON)
    result = run(capsys, "explain", file, "--mask", "casual")
    assert_refused(result, "Did you mean 'causal'?")
    assert str(file) not in result[2]


@pytest.mark.parametrize("arguments", [["explian"], ["explain", "--colour"], ["explain", "--row", "two"]])
def test_a_usage_error_has_exit_code_2(capsys: Capture, arguments: list[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err


# --- as a process --------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "saccade.cli", "explain"]


def test_a_reader_that_has_left_is_no_error() -> None:
    for options in ([], ["--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([*COMMAND, *options], stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        assert done.stderr == b""


def test_a_terminal_without_the_letters_shows_question_marks() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "--scale"], capture_output=True, env=environment, check=True)
    assert b"score / ?3" in done.stdout


def test_an_interrupt_leaves_with_130(tmp_path: Path) -> None:
    pipe = tmp_path / "never.json"
    os.mkfifo(pipe)
    # Set anew, because a background job starts with interrupts ignored.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from saccade.cli import main; "
    command = [sys.executable, "-c", f"{start}main(['explain', {str(pipe)!r}])"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process, pipe.open("w"):  # opens once the command is reading
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
