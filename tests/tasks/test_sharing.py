"""Results of an evaluation that are kept in a folder are read as the same bits, or computed again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.decoding import Hypothesis
from saccade.tasks.base.sharing import for_each, sharing
from saccade.training.distributed import Processes

RESULTS: dict[str, list[Any]] = {
    "losses": [(0.1 + 0.2, 3), (math.pi, 10**12)],
    "labels": [torch.tensor([[1 / 3, math.nan], [-math.inf, 2.5e-40]]), torch.zeros(0, 2)],
    "searches": [[[Hypothesis([5, 7], -0.1, -1 / 3, True), Hypothesis([], -2.0, -2.0, False)]], [[]]],
}


def bits(value: Any) -> Any:
    return (value.dtype, value.shape, value.numpy().tobytes()) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("kind", RESULTS)
def test_kept_results_are_the_same_bits(tmp_path: Path, kind: str) -> None:
    computed: list[int] = []

    def compute(number: int) -> Any:
        computed.append(number)
        return RESULTS[kind][number]

    for _ in range(2):
        with sharing(Processes(), tmp_path):
            found = list(for_each([0, 1], compute))
        assert [bits(one) for one in found] == [bits(one) for one in RESULTS[kind]]
    assert computed == [0, 1]  # once each
    files = sorted(tmp_path.iterdir())
    files[1].write_bytes(files[1].read_bytes()[:-9])
    with sharing(Processes(), tmp_path):
        assert [bits(one) for one in for_each([0, 1], compute)] == [bits(one) for one in RESULTS[kind]]
    assert computed == [0, 1, 1]


def test_the_second_thing_that_is_computed_has_files_of_its_own(tmp_path: Path) -> None:
    with sharing(Processes(), tmp_path):
        assert list(for_each([1, 2], str)) == ["1", "2"]
        assert list(for_each([1, 2], float)) == [1.0, 2.0]


def test_many_parts_share_a_file(tmp_path: Path) -> None:
    with sharing(Processes(), tmp_path):
        assert list(for_each(range(1000), float)) == list(range(1000))
    assert 64 <= len(list(tmp_path.iterdir())) <= 128
