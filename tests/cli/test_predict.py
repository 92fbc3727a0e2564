"""``saccade predict``: a text, a file or the standard input, every option, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Capture, assert_refused, give_input, run, succeed

from saccade.tasks.base.predictor import Predictor
from saccade.text import Tokenizer
from toy_language import write_lines

TEXT = "the black cat eats the fish."


def words(text: str) -> int:
    return len(text.split())


def test_a_text(capsys: Capture, tiny_run: Path) -> None:
    assert succeed(capsys, "predict", tiny_run, TEXT) == "le chat noir mange le poisson.\n"


def test_any_option_of_the_model_can_be_set(capsys: Capture, tiny_run: Path) -> None:
    found = json.loads(succeed(capsys, "predict", tiny_run, TEXT, "--set", "beam=3", "--set", "n_best = 2", "--json"))
    assert len(found["alternatives"]) == 1
    assert succeed(capsys, "predict", tiny_run, TEXT, "--set", "max_ratio=0.5") == "le chat noir mange le poisson.\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--set", "beam"], "--set takes NAME=VALUE, not 'beam'; the options of this model are: beam, n_best,"),
        (["--set", "beem=3"], "This model has no option 'beem'; allowed: beam,"),
        (["--set", "beam=many"], "--set: beam must be a whole number, not 'many'"),
        (["--set", "beam=3", "--beam", "2"], "--set beam=3: beam is given twice"),
    ],
)
def test_what_cannot_be_set_is_refused(capsys: Capture, tiny_run: Path, given: list[str], said: str) -> None:
    assert_refused(run(capsys, "predict", tiny_run, TEXT, *given), said)


def test_a_file_is_answered_line_by_line_in_order(capsys: Capture, tiny_run: Path, toy_data: Path) -> None:
    out = succeed(capsys, "predict", tiny_run, toy_data / "test.en")
    references = (toy_data / "test.fr").read_text().splitlines()
    answers = out.splitlines()
    assert len(answers) == len(references)
    right = sum(answer == reference for answer, reference in zip(answers, references, strict=True))
    assert right / len(references) > 0.7  # in any other order next to none would be


def test_the_standard_input_is_as_a_file(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path, toy_data: Path
) -> None:
    expected = succeed(capsys, "predict", tiny_run, toy_data / "test.en")
    give_input(monkeypatch, (toy_data / "test.en").read_bytes().replace(b"\n", b"\r\n"))
    assert succeed(capsys, "predict", tiny_run, "-") == expected


def test_empty_lines_stay_where_they_are(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path) -> None:
    give_input(monkeypatch, b"\nthe cat sees the dog.\n   \n\n")
    out = succeed(capsys, "predict", tiny_run, "-")
    assert out == "\nle chat voit le chien.\n\n\n"


def test_no_lines_give_none(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path) -> None:
    give_input(monkeypatch, b"")
    assert succeed(capsys, "predict", tiny_run, "-") == ""


@pytest.mark.parametrize(
    "text",
    [
        "the cat sees " * 150,
        "x" * 5000,
        "東京 \U0001f642 the cat \u200b sees.",
        "--- the cat",
        "the\u2028cat\u0085sees\rthe dog",
        "<s> </s> <pad>",
    ],
)
def test_odd_texts_have_one_line_of_answer(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path, text: str
) -> None:
    give_input(monkeypatch, f"{text}\nthe cat sees the dog.\n".encode())
    lines = succeed(capsys, "predict", tiny_run, "-", "--beam", "2").split("\n")
    assert len(lines) == 3
    assert lines[1] == "le chat voit le chien."


def test_n_best_is_sorted_and_scored(capsys: Capture, tiny_run: Path) -> None:
    rows = [
        line.split("\t")
        for line in succeed(capsys, "predict", tiny_run, TEXT, "--beam", "5", "--n-best", "3").splitlines()
    ]
    scores = [float(score) for score, _ in rows]
    assert len({text for _, text in rows}) == 3
    assert scores == sorted(scores, reverse=True)


def test_a_length_penalty_of_0_ranks_by_log_probability(capsys: Capture, tiny_run: Path) -> None:
    record = json.loads(succeed(capsys, "predict", tiny_run, TEXT, "--n-best", "2", "--length-penalty", "0", "--json"))
    assert record["score"] == record["log_probability"]
    default = json.loads(succeed(capsys, "predict", tiny_run, TEXT, "--json"))
    # le chat noir mange le poisson . END: eight tokens
    assert default["score"] == pytest.approx(default["log_probability"] / 8)


def test_draws_are_the_same_for_the_same_seed_only(capsys: Capture, tiny_run: Path) -> None:
    def drawn(seed: str) -> str:
        options = ("--sample", "--tries", "6", "--temperature", "2", "--seed", seed)
        return succeed(capsys, "predict", tiny_run, TEXT, *options)

    assert drawn("7") == drawn("7")
    assert drawn("7") != drawn("8")
    assert len(drawn("7").splitlines()) == 6


def test_draws_from_the_likeliest_token_only_are_greedy(capsys: Capture, tiny_run: Path) -> None:
    greedy = succeed(capsys, "predict", tiny_run, TEXT, "--beam", "1")
    assert succeed(capsys, "predict", tiny_run, TEXT, "--sample", "--top-k", "1") == greedy
    assert succeed(capsys, "predict", tiny_run, TEXT, "--sample", "--top-p", "0.000001") == greedy
    assert succeed(capsys, "predict", tiny_run, TEXT, "--sample", "--temperature", "0") == greedy


def test_every_line_of_json_is_a_record(capsys: Capture, tmp_path: Path, tiny_run: Path) -> None:
    file = write_lines(tmp_path / "in.txt", [TEXT, "", 'the "old" cat\\ é.'])
    out = succeed(capsys, "predict", tiny_run, file, "--json", "--n-best", "2", "--alignments")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["source"] for record in records] == file.read_text().splitlines()
    first = records[0]
    assert first["text"] == "le chat noir mange le poisson."
    assert first["tokens"] == ["▁le", "▁chat", "▁noir", "▁mange", "▁le", "▁poisson", "."]
    assert first["finished"] is True
    assert len(first["alternatives"]) == 1
    assert first["alternatives"][0]["score"] <= first["score"] < 0
    assert records[1]["text"] == records[1]["alignment"] == ""


def test_links_are_within_the_words_of_both_texts(capsys: Capture, tiny_run: Path, toy_data: Path) -> None:
    sources = (toy_data / "test.en").read_text().splitlines()
    out = succeed(capsys, "predict", tiny_run, toy_data / "test.en", "--alignments")
    for source, line in zip(sources, out.splitlines(), strict=True):
        text, links = line.split("\t")
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [target for _, target in pairs] == list(range(words(text)))  # each target word has one
        assert all(0 <= index < words(source) for index, _ in pairs)


def test_options_that_would_do_nothing_are_refused(capsys: Capture, tiny_run: Path) -> None:
    assert_refused(run(capsys, "predict", tiny_run, TEXT, "--tries", "3"), "--tries", "--sample")
    assert_refused(run(capsys, "predict", tiny_run, TEXT, "--top-p", "0.5"), "--top-p", "--sample")
    assert_refused(run(capsys, "predict", tiny_run, TEXT, "--sample", "--n-best", "2"), "--n-best", "--no-sample")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--beam", "0"], "saccade: --beam must be at least 1, not 0."),
        (["--beam", "-3"], "--beam must be at least 1, not -3."),
        (["--beam", "2", "--n-best", "3"], "--n-best = 3 needs a --beam of at least 3, not 2"),
        (["--length-penalty", "-1"], "--length-penalty must be at least 0, not -1.0."),
        (["--length-penalty", "1e308"], "--length-penalty must be at most 10, not 1e+308."),
        (["--length-penalty", "nan"], "--length-penalty must be a finite number, not nan"),
        (["--sample", "--temperature", "-0.5"], "--temperature must be at least 0, not -0.5."),
        (["--sample", "--temperature", "inf"], "--temperature must be a finite number, not inf."),
        (["--sample", "--top-p", "2"], "--top-p must be at most 1, not 2.0."),
        (["--sample", "--top-p", "0"], "--top-p must be greater than 0, not 0.0."),
        (["--sample", "--top-k", "0"], "--top-k must be at least 1, not 0."),
        (["--sample", "--tries", "0"], "--tries must be at least 1, not 0."),
        (["--sample", "--seed", "-1"], "--seed must be at least 0, not -1."),
        (
            ["--sample", "--seed", "99999999999999999999"],
            "--seed must be less than 4,294,967,296, not 99999999999999999999",
        ),
        (["--device", "cuda:x"], "no device 'cuda:x'"),
    ],
)
def test_a_bad_value_is_one_sentence(capsys: Capture, tiny_run: Path, options: list[str], fault: str) -> None:
    assert_refused(run(capsys, "predict", tiny_run, TEXT, *options), fault)


def test_a_bad_input_is_one_sentence(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_run: Path
) -> None:
    assert_refused(run(capsys, "predict", tiny_run, tmp_path), f"{tmp_path} is a folder")
    assert_refused(run(capsys, "predict", tiny_run, "half a pair \ud800"), "surrogate")


def test_how_a_file_and_the_standard_input_were_read_is_said(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_run: Path
) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("the cat\nl'été\n".encode("latin-1"))
    code, out, said = run(capsys, "predict", tiny_run, latin)
    assert code == 0
    assert said.startswith(
        f"Read 2 inputs from {latin}: one text per line; {latin} is not UTF-8; it was read as cp1252"
    )
    give_input(monkeypatch, latin.read_bytes())
    assert run(capsys, "predict", tiny_run, "-") == (
        0,
        out,
        said.replace(f"{latin} is", "it is").replace(f"{latin}", "standard input"),
    )


def test_a_mistyped_file_is_said_to_be_taken_as_a_text(capsys: Capture, tiny_run: Path) -> None:
    code, out, err = run(capsys, "predict", tiny_run, "inptu.txt")
    assert (code, out.count("\n")) == (0, 1)
    assert err.splitlines() == [
        "There is no file inptu.txt; treating it as text.",
        "Note: the text contains words or characters that the model does not know: 'inptu', 'txt'. "
        "The answers may be wrong.",
    ]


def test_what_the_model_does_not_know_is_noted(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path
) -> None:
    give_input(monkeypatch, b"the cat sees the dog.\nphotograph\nthe blorp eats the blip.\n")
    assert run(capsys, "predict", tiny_run, "-")[2].splitlines()[1] == (
        "Note: 2 of 3 texts contain words or characters that the model does not know: 'photograph', 'blorp', 'blip'. "
        "The answers may be wrong."
    )
    assert run(capsys, "predict", tiny_run, TEXT)[2] == ""


def test_an_empty_answer_is_noted(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tiny_run: Path) -> None:
    """A blank line has none, and that is no surprise."""
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "")
    give_input(monkeypatch, b"the cat\n\nthe dog\n")
    code, out, err = run(capsys, "predict", tiny_run, "-")
    assert (code, out) == (0, "\n\n\n")
    assert err.splitlines()[1:] == ["Note: 2 of 3 answers are empty (texts 1, 3)."]


def test_together_and_alone_are_the_same(tiny_model: Predictor, toy_data: Path) -> None:
    texts = [*(toy_data / "test.en").read_text().splitlines()[:7], "the cat", "the old man hears the bird. " * 3]
    together = tiny_model.predict(texts, beam=4, n_best=2)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = tiny_model.predict([text], beam=4, n_best=2)
        assert (answer.source, answer.text, answer.tokens) == (text, alone.text, alone.tokens)
        assert answer.score == pytest.approx(alone.score, abs=1e-4)
        assert answer.alternatives[0].text == alone.alternatives[0].text


def test_as_a_process_results_are_the_only_output(tiny_run: Path) -> None:
    """No escape codes, no blank lines of a progress bar, where neither stream is a terminal."""
    command = [sys.executable, "-m", "saccade.cli", "predict", str(tiny_run), "-"]
    done = subprocess.run(command, input=f"{TEXT}\n\n".encode(), capture_output=True, check=True)
    said = b"Read 2 inputs from standard input: one text per line.\n"
    assert (done.stdout, done.stderr) == (b"le chat noir mange le poisson.\n\n", said)


def test_every_option_that_a_refusal_offers_is_there(capsys: Capture, tiny_run: Path) -> None:
    code, _, err = run(capsys, "predict", tiny_run, TEXT, "--stop", "x")
    assert code == 2
    offered = re.findall(r"--[a-z-]+", err.partition("which take")[2])
    help_text = run(capsys, "predict", "--help")[1]
    assert len(offered) > 4
    assert [option for option in offered if f"{option} " not in help_text.replace("│", " ")] == []
