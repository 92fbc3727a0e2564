"""Base pairs: the best structure, the baselines, and the whole way from a file to an answer."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import saccade
from saccade.cli.main import app
from saccade.data.structures import from_dot_bracket, pairs_of, read_molecules, to_dot_bracket
from saccade.errors import OptionError
from saccade.tasks.base_pairs.baselines import copied_structure
from saccade.tasks.base_pairs.folding import best_structure, best_without_crossings, pair_scores

PAIR = {"G": "C", "C": "G", "A": "U", "U": "A"}


def every_structure(length: int) -> list[tuple[int, ...]]:
    """All structures without crossings, with at least three bases in each loop."""
    if length == 0:
        return [()]
    found = [(-1, *(p + 1 if p >= 0 else -1 for p in rest)) for rest in every_structure(length - 1)]
    for k in range(4, length):
        for inner, outer in itertools.product(every_structure(k - 1), every_structure(length - k - 1)):
            shifted = [p + 1 if p >= 0 else -1 for p in inner]
            found.append((k, *shifted, 0, *(p + k + 1 if p >= 0 else -1 for p in outer)))
    return found


def value(partners: tuple[int, ...], paired: np.ndarray, unpaired: np.ndarray) -> float:
    return sum(unpaired[i] if j < 0 else paired[i, j] for i, j in enumerate(partners))


@pytest.mark.parametrize("seed", range(5))
def test_dynamic_programming_finds_the_best_of_all_structures(seed: int) -> None:
    draw = np.random.default_rng(seed)
    paired = draw.uniform(0.02, 1, (11, 11))
    paired, unpaired = (paired + paired.T) / 2, draw.uniform(0, 1, 11)
    best = max(value(one, paired, unpaired) for one in every_structure(11))
    assert value(best_without_crossings(paired, unpaired), paired, unpaired) == pytest.approx(best)


def test_crossings_only_where_they_are_allowed() -> None:
    paired = np.zeros((12, 12))
    for i, j, probability in ((0, 6, 0.9), (3, 9, 0.8)):
        paired[i, j] = paired[j, i] = probability
    unpaired = np.full(12, 0.1)
    assert to_dot_bracket(best_structure(paired, unpaired, crossing=True)) == "(..[..)..].."
    assert to_dot_bracket(best_structure(paired, unpaired, crossing=False)) == "(.....)....."


def test_scores_by_hand() -> None:
    assert pair_scores({(0, 9), (1, 8), (2, 5)}, {(0, 9), (1, 8), (3, 7), (4, 6)}) == (2 / 3, 2 / 4, 4 / 7)
    assert pair_scores(set(), {(0, 9)}) == (0, 0, 0)
    assert pair_scores(set(), set()) == (1, 1, 1)


def test_the_nearest_training_molecule_is_copied_for_the_bases_that_match() -> None:
    known = [
        ("GGGGAAAACCCC", from_dot_bracket("((((....))))", 12, "")),
        ("AUAUAUAUAUAU", from_dot_bracket("............", 12, "")),
    ]
    assert to_dot_bracket(copied_structure("GGGGAAAACCCC", known)) == "((((....))))"
    assert to_dot_bracket(copied_structure("AGGGGAAACCCC", known)) == ".((((...))))"


def hairpin(draw: random.Random) -> tuple[str, str]:
    """A stem of four pairs around a loop of As, and As on both sides."""
    stem = [draw.choice("GC") for _ in range(4)]
    left, loop, right = draw.randint(0, 3), draw.randint(3, 5), draw.randint(0, 3)
    closing = "".join(PAIR[base] for base in reversed(stem))
    sequence = "A" * left + "".join(stem) + "A" * loop + closing + "A" * right
    return sequence, "." * left + "((((" + "." * loop + "))))" + "." * right


RECIPE = """task = "base-pairs"
[data]
file = "{folder}/data.csv"
test = 0.1
[model]
width = 16
pair_width = 8
num_heads = 2
layers = 1
[training]
steps = 100
warmup = 10
lr = 0.01
validate_every = 50
batch_pairs = 5000
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rna")
    draw = random.Random(2)
    rows = [",".join(hairpin(draw)) for _ in range(300)]
    (folder / "data.csv").write_text("sequence,structure\n" + "\n".join(rows) + "\n")
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder))
    assert saccade_command("train", folder / "recipe.toml", "-o", folder / "run").exit_code == 0
    return folder


def saccade_command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_learns_hairpins(folder: Path) -> None:
    said = saccade_command("evaluate", folder / "run", "--data", folder / "data.csv").stdout
    scores = dict(line.split() for line in said.splitlines()[:3])
    assert float(scores["f1"]) > 95
    assert "most similar training molecule" in said
    assert "RNAfold" in said


def test_it_answers_in_python_and_says_why(folder: Path) -> None:
    with saccade.open(folder / "run") as model:
        (answer,) = model.predict(["AGGCGAAAACGCCA"])
        assert answer.text == ".((((....))))."
        assert 0.5 < answer.score <= 1
        assert answer.certainty.endswith(f"or of being unpaired: {answer.score:.1%}")
        record = json.loads(json.dumps(answer.record()))
        assert [pair[:2] for pair in record["pairs"]] == [[2, 13], [3, 12], [4, 11], [5, 10]]
        assert answer.connectivity_table.splitlines()[2] == "2\tG\t1\t3\t13\t2"
        assert answer.view.names == ["blocks.0.self"]
        assert answer.view.left_out == ["2 more attentions of the model not shown"]
        starting, ending = answer.triangle(2, 13)
        assert (starting.name, ending.name) == ("blocks.0.starting", "blocks.0.ending")
        assert starting.weights.shape == (2, 14)
        torch.testing.assert_close(ending.weights.sum(-1), torch.ones(2, dtype=ending.weights.dtype))
        assert answer.figure(dark=False) is not None
        with pytest.raises(OptionError, match="There is no base 15; this sequence has 14 bases, numbered from 1"):
            answer.triangle(2, 15)
        with pytest.raises(OptionError, match="'Z' at position 1 is not a base"):
            model.predict(["ZZ"])
        with pytest.raises(OptionError, match="300 bases; this model takes at most 256"):
            model.predict(["A" * 300])


def test_files_of_every_format_are_answered_alike(folder: Path, tmp_path: Path) -> None:
    sequence, structure = "AGGCGAAAACGCCA", ".((((....))))."
    forms = {
        "a.fa": f">x\n{sequence}\n",
        "a.dbn": f">x\n{sequence}\n{structure}\n",
        "a.csv": f"sequence,structure\n{sequence},{structure}\n",
        "a.txt": f"{sequence}\n",
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        assert saccade_command("predict", folder / "run", tmp_path / name).stdout == f"{structure}\n", name


def test_answers_can_be_written_in_every_format(folder: Path, tmp_path: Path) -> None:
    sequence, structure = "AGGCGAAAACGCCA", ".((((....))))."
    (tmp_path / "a.fa").write_text(f">x\n{sequence}\n")

    def printed(name: str) -> str:
        return saccade_command("predict", folder / "run", tmp_path / "a.fa", "--format", name).stdout

    assert printed("dbn") == f">x\n{sequence}\n{structure}\n"
    (tmp_path / "again.ct").write_text(printed("ct"))
    (again,) = read_molecules(tmp_path / "again.ct")
    assert (again.name, again.sequence, to_dot_bracket(again.partners or ())) == ("x", sequence, structure)
    rows = [[float(cell) for cell in line.split(",")] for line in printed("matrix").splitlines()]
    assert len(rows) == 14
    assert rows[1][12] > 0.5
    assert rows[1][12] == rows[12][1]
    written = saccade_command("predict", folder / "run", tmp_path / "a.fa", "--format", "ct", "-o", tmp_path / "out")
    assert written.exit_code == 0, written.output
    assert (tmp_path / "out" / "answers.ct").read_text() == (tmp_path / "again.ct").read_text()
    refused = saccade_command("predict", folder / "run", sequence, "--format", "csv")
    assert "does not apply to base-pair models; their formats are dbn or ct or matrix" in str(refused.exception)


def test_parts_can_come_from_a_column_or_a_table_of_folds(tmp_path: Path) -> None:
    from saccade.tasks.base_pairs.data import BasePairsData, BasePairsFiles

    rows = [hairpin(random.Random(number)) for number in range(12)]
    parts = ["train"] * 8 + ["valid"] * 2 + ["test"] * 2
    lines = [f"m{n},{part},{a},{b}" for n, (part, (a, b)) in enumerate(zip(parts, rows, strict=True))]
    (tmp_path / "all.csv").write_text("id,part,sequence,structure\n" + "\n".join(lines) + "\n")
    (tmp_path / "folds.csv").write_text(
        "fold_number,partition,id\n" + "".join(f"1,{part},m{n}\n" for n, part in enumerate(reversed(parts)))
    )
    by_column = BasePairsFiles.read(BasePairsData(file=str(tmp_path / "all.csv"), part_column="part"), 1)
    assert [len(by_column.train), len(by_column.validation), len(by_column.test)] == [8, 2, 2]
    folds = BasePairsData(file=str(tmp_path / "all.csv"), id_column="id", folds=str(tmp_path / "folds.csv"), fold="1")
    by_fold = BasePairsFiles.read(folds, 1)
    assert [one.name for one in by_fold.test] == ["m0", "m1"]
    assert pairs_of(by_fold.test[0].partners or ()) == pairs_of(from_dot_bracket(rows[0][1], len(rows[0][1]), ""))
