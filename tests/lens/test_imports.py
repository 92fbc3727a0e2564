"""matplotlib is slow to import and an extra: only drawing a picture loads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import saccade.lens

_PACKAGE = Path(saccade.lens.__file__).parent.parent

# Without saccade/__init__.py, so that what the whole package loads does not hide what one part of it does.
_IMPORT = """
import importlib, pkgutil, sys, types
whole = types.ModuleType("saccade")
whole.__path__ = [sys.argv[1]]
sys.modules["saccade"] = whole
part = importlib.import_module(f"saccade.{sys.argv[2]}")
for found in pkgutil.walk_packages(part.__path__, f"{part.__name__}."):
    if found.name != "saccade.lens.figures.artists":
        importlib.import_module(found.name)
print("matplotlib" in sys.modules, len(sys.modules) > 100)
"""


@pytest.mark.parametrize("part", ["attention", "lens"])
def test_importing_any_part_of_it_leaves_matplotlib_alone(part: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _IMPORT, str(_PACKAGE), part], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "True"]
