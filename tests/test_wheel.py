"""The built wheel, installed in a venv of its own, works from any folder without the source beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[1]
STUDIO = Path("saccade", "serving", "studio")
#: Read by Python when it starts: opening a file of the checkout ends the program; only the dependencies may lie there.
FORBID_THE_CHECKOUT = f"""
import sys

def refuse(event, given):
    if event == "open" and isinstance(given[0], str):
        if given[0].startswith({str(ROOT) + os.sep!r}) and not given[0].startswith({sys.prefix + os.sep!r}):
            raise RuntimeError(f"{{given[0]}} is a file of the checkout.")

sys.addaudithook(refuse)
"""


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
    (packages / "sitecustomize.py").write_text(FORBID_THE_CHECKOUT)
    return commands


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(command: list[str | Path], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, env=clean_environment(), check=True, capture_output=True, text=True
    ).stdout


@contextmanager
def served(scripts: Path, model: Path, folder: Path) -> Iterator[httpx.Client]:
    """The installed command's server, on a free port of this machine."""
    command = [scripts / "saccade", "serve", f"tiny={model}", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3]
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


def test_the_wheel_explains(scripts: Path, tmp_path: Path) -> None:
    assert "1.9366  6.6831  1.5951" in run([scripts / "saccade", "explain"], tmp_path)


def test_the_import_comes_from_the_wheel(scripts: Path, tmp_path: Path) -> None:
    place = Path(run([scripts / "python", "-c", "import saccade; print(saccade.__file__)"], tmp_path).strip())
    assert place.is_relative_to(scripts.parent)
    assert place.with_name("py.typed").is_file()


def test_a_file_of_the_checkout_would_be_noticed(scripts: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run([scripts / "python", "-c", f"open({str(ROOT / 'README.md')!r})"], tmp_path)
    assert "is a file of the checkout" in failed.value.stderr


def test_the_wheel_serves_the_page(scripts: Path, tiny_run: Path, tmp_path: Path) -> None:
    (installed,) = scripts.parent.glob(f"lib/python*/site-packages/{STUDIO}")
    names = {path.name for path in (ROOT / "src" / STUDIO).iterdir()}
    assert {path.name for path in installed.iterdir()} == names
    with served(scripts, tiny_run, tmp_path) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert page.content == (installed / "index.html").read_bytes()
        for name in sorted(names):
            answer = client.get(f"/static/{name}")
            assert answer.status_code == 200, name
            assert answer.content == (installed / name).read_bytes()
        assert client.post("/api/models/tiny/looks", json={"input": "the cat sees the dog."}).status_code == 200
