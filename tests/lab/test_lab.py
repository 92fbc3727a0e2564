"""The lab: intervals and verdicts by hand, experiments that can fail, and results that survive a stop."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saccade.cli.main import app
from saccade.data.grammar import generate
from saccade.errors import FileError
from saccade.lab import EXPERIMENTS, Experiment, Results, Trial, experiment_named, leaking_mask, run_experiment
from saccade.lab import scaled_scores as scaled
from saccade.lab.deciding_words import ANSWERS, Corpus, hidden, padded, vocabulary_of
from saccade.lab.results import Interval


def test_an_interval_by_hand() -> None:
    """Mean 2, standard deviation 1, three values: 4.303 · 1 / √3 on both sides."""
    mean, low, high = Interval.of([1.0, 2.0, 3.0])
    assert (mean, low, high) == (2.0, pytest.approx(2 - 2.4843, abs=1e-3), pytest.approx(2 + 2.4843, abs=1e-3))
    assert Interval.of([5.0])[1:] == (-float("inf"), float("inf"))


def made(direction: str = "at least", values: tuple[float, ...] = (1.0, 1.1, 0.9), bound: float = 0.5) -> Results:
    experiment = Experiment("toy", "000", "A claim.", "A method.", lambda trial: {"x": values[trial.seed - 1]}, "x",
                            direction, bound, lambda axes, found: None)  # type: ignore[arg-type]  # fmt: skip
    return Results(experiment, False, {seed: {"x": value} for seed, value in enumerate(values, start=1)})


@pytest.mark.parametrize(
    ("direction", "bound", "verdict"),
    [("at least", 0.5, "holds"), ("at least", 1.0, "undecided"), ("at least", 2.0, "refuted"),
     ("at most", 0.5, "refuted"), ("at most", 1.0, "undecided"), ("at most", 2.0, "holds")],
)  # fmt: skip
def test_verdicts(direction: str, bound: float, verdict: str) -> None:
    assert made(direction, bound=bound).verdict == verdict


def test_one_seed_decides_nothing() -> None:
    assert made(values=(1.0,)).verdict == "undecided"


def test_every_experiment_states_its_claim_and_what_would_refute_it() -> None:
    for name in EXPERIMENTS:
        one = experiment_named(name)
        assert one.name == name
        assert one.claim.endswith(".")
        assert str(f"{one.bound:g}") in one.refuted_if
    listed = CliRunner().invoke(app, ["lab", "list"]).stdout
    assert all(name in listed for name in EXPERIMENTS)


@pytest.mark.parametrize(
    "name",
    [
        "vanishing-gradients",
        "scaled-scores",
        "no-positions-no-order",
        pytest.param("cost", marks=pytest.mark.slow),
    ],
)
def test_experiments_without_training_hold(name: str, tmp_path: Path) -> None:
    assert run_experiment(experiment_named(name), tmp_path, quick=True).verdict == "holds"
    assert (tmp_path / f"{name}-quick.png").exists()


def test_an_unscaled_softmax_refutes_the_claim_about_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = scaled.largest_weight
    monkeypatch.setattr(scaled, "largest_weight", lambda width, *, scaled: honest(width, scaled=False))
    assert run_experiment(scaled.EXPERIMENT, tmp_path).verdict == "refuted"


@pytest.mark.slow
def test_a_mask_that_does_not_leak_refutes_the_claim_about_leaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaking_mask, "EncoderOnly", leaking_mask.DecoderOnly)
    found = run_experiment(leaking_mask.EXPERIMENT, tmp_path, quick=True)
    assert found.verdict == "refuted", found.sentence()


@pytest.mark.slow
def test_every_experiment_runs_quickly_and_leaves_numbers_and_a_picture(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["lab", "all", "--quick", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in EXPERIMENTS:
        assert len(json.loads((tmp_path / f"{name}-quick.json").read_text())["trials"]) == 3
        assert (tmp_path / f"{name}-quick.png").exists()


def test_a_stopped_experiment_continues(tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(trial: Trial) -> Mapping[str, float]:
        if trial.seed == 3 and not measured.count(3):
            measured.append(3)
            raise KeyboardInterrupt
        measured.append(trial.seed)
        return {"x": 1.0 + trial.seed / 100}

    experiment = replace(made().experiment, measure=measure)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path)
    assert run_experiment(experiment, tmp_path).verdict == "holds"
    assert measured == [1, 2, 3, 3]
    kept = json.loads((tmp_path / "toy.json").read_text())
    assert kept["verdict"] == "holds"
    assert list(kept["trials"]) == ["1", "2", "3"]
    for changed in (replace(experiment, method="Another."), replace(experiment, decisive="y")):
        with pytest.raises(FileError, match="measured by another version of the experiment; delete it"):
            run_experiment(changed, tmp_path)
    (tmp_path / "toy.json").write_text("[]")
    with pytest.raises(FileError, match=r"toy\.json is not a result of this experiment; delete it"):
        run_experiment(experiment, tmp_path)


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ('{"1": {"x": NaN}}', "is not a result of this experiment"),
        ('{"1": {"x": 1e999}}', "is not a result of this experiment"),
        ('{"1": {"x": "one"}}', "is not a result of this experiment"),
        ("[" * 20_000, "is not a result of this experiment"),
        ('{"1": {"x": 1, "y": 2}, "2": {"x": 1}}', "was measured by another version"),
        ('{"1": {"y": 1}}', "was measured by another version"),
    ],
)
def test_results_that_cannot_be_continued_are_refused(trials: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text(f'{{"method": "A method.", "quick": false, "trials": {trials}}}')
    with pytest.raises(FileError, match=said):
        run_experiment(made().experiment, tmp_path)


def test_what_decides_a_word() -> None:
    """The corpus knows the deciding word; the rival is the other noun, or the deciding word of the other sentence."""
    corpus = Corpus("train", 60, 1)
    vocabulary = vocabulary_of(corpus)
    for case in corpus.draw("it", 30):
        assert case.words[case.decided] in ("it", "they")
        assert {ANSWERS[case.answer], ANSWERS[case.rival_answer]} <= {"masculine", "feminine"}
    for case in corpus.draw("bank", 30):
        assert case.words[case.decided] == "bank"
        sentence = case.words.index(".")  # where the first of two sentences ends
        assert (case.decided < sentence) == (case.deciding < sentence) != (case.rival < sentence)
    for case in corpus.contrasts("it", 5) + corpus.contrasts("bank", 5):
        assert case.answer != case.rival_answer
        assert case.deciding != case.rival
        without = hidden(case)
        assert without.answer == case.rival_answer
        assert [a for a, b in zip(case.words, without.words, strict=True) if a != b] == [case.words[case.deciding]]
        assert padded([without], vocabulary)[0][0, case.deciding] == 0


def test_the_gender_is_that_of_the_french_pronoun() -> None:
    examples = generate(40, 3, "test", "pronoun")
    seen = {case.words: ANSWERS[case.answer] for case in Corpus("test", 40, 3).pronouns}
    french = {one.source: one.target[next(t for s, t in one.alignment if s == one.links[0].word)] for one in examples}
    assert len(seen) > 20
    for words, answer in seen.items():
        assert answer == ("feminine" if french[words].startswith("elle") else "masculine")


def test_published_verdicts_are_those_of_the_pages() -> None:
    """`docs/pictures/make_lab.py` writes the pages and what the studio shows; the guide's table is written by hand."""
    root = Path(__file__).parents[2]
    learn = root / "src" / "saccade" / "serving" / "studio" / "learn"
    verdicts = json.loads((learn / "verdicts.js").read_text(encoding="utf-8").partition("VERDICTS = ")[2].rstrip(";\n"))
    assert list(verdicts) == list(EXPERIMENTS)
    guide = (root / "docs" / "how-to" / "lab.md").read_text(encoding="utf-8")
    for name, found in verdicts.items():
        page = (root / "docs" / "lab" / f"{name}.md").read_text(encoding="utf-8")
        assert f"**{found['verdict']}**" in page
        assert found["claim"] == experiment_named(name).claim, "run docs/pictures/make_lab.py again"
        assert experiment_named(name).method in page, "run docs/pictures/make_lab.py again"
        (row,) = (line for line in guide.splitlines() if line.startswith(f"| [`{name}`]"))
        assert row.endswith(f"| {found['verdict']} |")
        picture = root / "docs" / "pictures" / f"lab-{name}.png"
        assert (learn / "lab" / f"{name}.png").read_bytes() == picture.read_bytes()
    for name in re.findall(
        r'"([a-z-]+)"', " ".join(re.findall(r"experiments: \[(.*)\]", (learn / "scenes.js").read_text()))
    ):
        assert name in verdicts


def test_an_unknown_name_is_refused() -> None:
    assert "scaled-scores" in str(CliRunner().invoke(app, ["lab", "run", "scaled-score"]).exception)
