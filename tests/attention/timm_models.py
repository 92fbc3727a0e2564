"""timm without torchvision, whose builds do not load beside torch for the CPU: a stand-in for what it imports."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

import pytest
from torch import nn


class _StandIn(types.ModuleType):
    """A module in which every name is a class that does nothing."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":
            made: Any = Enum(name, ["NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS", "NEAREST_EXACT"])
        else:
            made = type(name, (nn.Module,), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> Any:
        if name.split(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__version__ = "0.0"  # type: ignore[attr-defined]


@contextmanager
def without_torchvision() -> Iterator[Any]:
    """timm, imported with the stand-in."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        import timm

        yield timm
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
