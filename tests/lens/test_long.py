"""Long inputs: exact rows and tiles within the memory of queries and keys, in blocks that show progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_look import make

import saccade
from saccade import attend, causal, padding
from saccade.attention import Mask
from saccade.models import LAST

attend_module = sys.modules["saccade.attention.attend"]
GIGABYTE = 10**9
PADDED = padding(torch.tensor([31, 29]))


def look(length: int, kind: str) -> dict[str, object]:
    """The same in a process of its own, for its peak of memory; one thread, as kernels need memory for each."""
    script = Path(__file__).with_name("long_look.py")
    done = subprocess.run(
        [sys.executable, script, str(length), kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def assert_exact_and_small(found: dict[str, object], length: int, kind: str) -> None:
    assert found["shape"] == [1, 2, length, length]
    assert 0 <= float(str(found["error"])) < 1e-5
    assert 0 < int(str(found["growth"])) < GIGABYTE
    assert found["told"] == [f"{kind}.1.self", 1.0]
    assert int(str(found["blocks"])) > 1
    assert int(str(found["shares"])) > 2


def test_9k_tokens_are_exact_and_told_block_by_block() -> None:
    assert_exact_and_small(look(9000, "encoder"), 9000, "encoder")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_64k_tokens_within_a_gigabyte(kind: str) -> None:
    assert_exact_and_small(look(65536, kind), 65536, kind)


@pytest.mark.parametrize(
    "mask", [None, causal, padding(torch.tensor([31, 29])), causal & padding(torch.tensor([31, 29]))]
)
def test_blocks_are_the_whole(mask: Mask | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 31, 5, requires_grad=True) for _ in range(3)]
    whole = attend(*inputs, mask=mask)
    expected = torch.autograd.grad(whole.square().sum(), inputs)
    monkeypatch.setattr(attend_module, "LONG", 16)
    monkeypatch.setattr(attend_module, "LONG_BLOCK", 2 * 3 * 31 * 7)  # 7 rows, the last block 3
    told: list[tuple[str, float]] = []
    with saccade.watch(progress=lambda name, share: told.append((name, share))):
        watched = attend(*inputs, mask=mask)
    blocks = attend(*inputs, mask=mask)
    assert torch.equal(watched, blocks)
    torch.testing.assert_close(blocks, whole, atol=1e-6, rtol=0)
    for one, other in zip(torch.autograd.grad(blocks.square().sum(), inputs), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    assert told == [("attention", share) for share in (7 / 31, 14 / 31, 21 / 31, 28 / 31, 1.0)]


def test_an_interrupt_between_blocks_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend_module, "LONG", 16)
    monkeypatch.setattr(attend_module, "LONG_BLOCK", 2 * 40 * 10)
    model, tokens = make("encoder"), torch.arange(40).view(1, 40)
    expected = model(tokens, at=LAST)

    def interrupt(name: str, share: float) -> None:
        if (name, share) == ("encoder.1.self", 0.5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), saccade.watch(model, progress=interrupt) as seen:
        model(tokens, at=LAST)
    assert list(seen) == ["encoder.0.self"]  # what was finished can be read
    assert torch.equal(model(tokens, at=LAST), expected)
    assert list(seen) == ["encoder.0.self"]
