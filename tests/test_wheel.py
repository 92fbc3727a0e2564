"""The built wheel, installed in a venv of its own, works from any folder without the source beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a venv that has Saccade from its wheel and all else from the present one."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # Built from a copy, so that neither leftovers of an earlier build nor new ones touch the checkout.
    ignore = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    shutil.rmtree(source)
    (wheel,) = folder.glob("*.whl")

    environment = folder / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    commands = environment / "bin"
    install = ["-m", "pip", "--python", str(commands / "python"), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    # The dependencies come from the present venv: a line in a .pth file puts its folder last on the path. Its own
    # .pth files are not read, so the editable install of this checkout stays out.
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return commands


def run(command: list[str | Path], folder: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=folder, env=clean, check=True, capture_output=True, text=True).stdout


def test_the_wheel_explains(scripts: Path, tmp_path: Path) -> None:
    assert "1.9366  6.6831  1.5951" in run([scripts / "saccade", "explain"], tmp_path)


def test_the_import_comes_from_the_wheel(scripts: Path, tmp_path: Path) -> None:
    place = Path(run([scripts / "python", "-c", "import saccade; print(saccade.__file__)"], tmp_path).strip())
    assert place.is_relative_to(scripts.parent)
    assert place.with_name("py.typed").is_file()
