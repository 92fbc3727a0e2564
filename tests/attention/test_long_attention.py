"""16k positions in 8 heads, watched and read, in a small part of the 8.6 GB that their weights would take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTE = 10**6
INPUTS_AND_OUTPUT = 4 * 16384 * 8 * 16 * 4


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param("causal", marks=pytest.mark.slow),
        pytest.param("padding", marks=pytest.mark.slow),
        "causal & padding",
        pytest.param("window", marks=pytest.mark.slow),
    ],
)
def test_no_allocation_over_200_megabytes(mask: str) -> None:
    script = Path(__file__).with_name("long_attention.py")
    # One thread: what each thread of the kernel needs for itself is not what is measured.
    done = subprocess.run(
        [sys.executable, script, mask],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 0 < found["largest"] < 200 * MEGABYTE
    assert 0 < found["growth"] < 200 * MEGABYTE + INPUTS_AND_OUTPUT
