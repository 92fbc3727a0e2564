"""A missing optional package: the sentence names the extra that installs it, and blames no other package on it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from saccade.errors import MissingExtraError
from saccade.extras import MODULES, needs_extra

ROOT = Path(__file__).parents[1]


def missing(name: str) -> None:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("extra", MODULES)
def test_the_modules_of_an_extra_are_blamed_on_it(extra: str) -> None:
    for module in MODULES[extra]:
        with (
            pytest.raises(MissingExtraError, match=rf"needs the package {module}, .* pip install 'saccade\[{extra}\]'"),
            needs_extra(extra, "This"),
        ):
            missing(f"{module}.part")


@pytest.mark.parametrize("module", ["saccade.nothing", "conllu", "torch"])
def test_any_other_module_is_not(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=module) as error, needs_extra("serving", "The server"):
        missing(module)
    assert not isinstance(error.value, MissingExtraError)


def test_every_extra_that_the_source_names_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for path in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r'needs_extra\("(\w+)"', path.read_text())
    }
    assert named
    assert named <= MODULES.keys()
    assert named <= declared.keys()
