"""Narrow products are refused, not run, where they would end the process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import torch

from saccade.errors import OptionError
from saccade.kernels import precision


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[None]:
    """A processor that announces AMX, and nobody has limited the kernels."""
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(precision.Path, "exists", lambda self: True)
    monkeypatch.setattr(precision.Path, "read_text", lambda self, encoding: "flags: fpu amx_tile")
    for cached in (precision.check_narrow_products, precision._processor_features):
        cached.cache_clear()
    yield
    for cached in (precision.check_narrow_products, precision._processor_features):
        cached.cache_clear()


@pytest.mark.usefixtures("announced")
def test_a_machine_that_cannot_run_what_it_announces_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(OptionError, match="Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"), precision.narrow_products("cpu"):
        pass


@pytest.mark.usefixtures("announced")
def test_a_machine_that_can_run_them_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_PROBE", "pass")
    with precision.narrow_products("cpu"):
        assert precision.product_type(torch.zeros(1)) is torch.bfloat16


@pytest.mark.usefixtures("announced")
def test_a_limit_that_someone_has_set_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("nothing is to be tried"))
    precision.check_narrow_products()
