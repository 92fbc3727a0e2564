"""What is loaded when: nothing at import, PyTorch with attention, the rest on first use; and no fcntl, for Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import saccade
from saccade.cli.main import app

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
#: What no help text needs.
HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "tokenizers", "fastapi")


def run(code: str, *arguments: str) -> str:
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in COMMANDS), ["lab", "run", "--help"], ["--version"], []]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = """if True:
        import sys
        from saccade.cli import main
        try:
            main(sys.argv[1:])
        except SystemExit as left:
            assert not left.code
        print("loaded:", *sorted(sys.modules))
    """
    out, _, loaded = run(code, *arguments).rpartition("loaded:")
    assert "saccade" in out
    assert "saccade.cli.main" in loaded.split()
    assert not set(HEAVY) & set(loaded.split())


def test_attention_loads_pytorch_and_nothing_of_the_models() -> None:
    code = "import sys, saccade; before = set(sys.modules); saccade.attend; print(*before); print(*sys.modules)"
    before, after = (set(line.split()) for line in run(code).splitlines())
    assert not {"torch", "saccade.attention"} & before
    assert {"torch", "saccade.attention"} <= after
    ours = {name.split(".")[1] for name in after if name.startswith("saccade.")}
    assert ours == {"attention", "errors"}
    alone = set(run("import sys, torch; print(*sys.modules)").split())
    torch_too = {name for name in after - alone if name.startswith("torch.")}
    assert torch_too == set()  # some of its parts, such as torch._dynamo, take as long as all else of it
    assert not {*HEAVY[2:], "pydantic", "rich", "typer"} & after


def test_every_name_is_found_and_listed() -> None:
    for name in (*saccade.__all__, "open", "lens", "__version__"):
        assert getattr(saccade, name) is not None
    assert {*saccade.__all__, "open", "__version__"} <= set(dir(saccade))
    with pytest.raises(AttributeError, match="module 'saccade' has no attribute 'nothing'"):
        saccade.nothing  # noqa: B018
    assert run("from saccade import *; print(open, view.__module__)") == "<built-in function open> saccade.lens.view\n"


def test_every_module_imports_without_fcntl() -> None:
    """Windows has none. Other people's packages know that; here they are loaded first, as they then would use it."""
    code = """if True:
        import importlib, pkgutil, sys
        import fastapi, filelock, matplotlib.figure, sacrebleu, torch, uvicorn.protocols.http.h11_impl
        sys.modules["fcntl"] = None
        import saccade
        names = [found.name for found in pkgutil.walk_packages(saccade.__path__, "saccade.")]
        for name in names:
            if not name.endswith("__main__"):
                importlib.import_module(name)
        print(*names)
    """
    names = run(code).split()
    root = Path(saccade.__file__).parent
    files = [path for path in root.rglob("*.py") if path.name != "__init__.py"]
    assert len(set(names)) >= len(files) > 200
