"""The built wheel, installed in a venv of its own, works from any folder without the source beside it, and without the
packages of its extras."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toy_language import settings

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


#: The same for packages that the wheel does not ask for: they are not found, as if they were not installed.
FORBID_PACKAGES = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec

def found(name, path=None, target=None):
    return None if name.partition(".")[0] in {forbidden!r} else find(name, path, target)

PathFinder.find_spec = found
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    (built,) = folder.glob("*.whl")
    return built


def installed(wheel: Path, environment: Path, forbidden: str = "") -> Path:
    """The folder of commands of a new venv that has Saccade from its wheel, and the present venv's other packages."""
    venv.create(environment, with_pip=False, symlinks=True)
    commands = environment / "bin"
    install = ["-m", "pip", "--python", str(commands / "python"), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    # A line in a .pth file puts the folder of the present venv last on the path. Its own .pth files are not read, so
    # the editable install of this checkout stays out.
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (packages / "sitecustomize.py").write_text(FORBID_THE_CHECKOUT + forbidden)
    return commands


def required(requirements: Sequence[str]) -> set[str]:
    """The distributions that these requirements need here, directly or not, without any extra of ours."""
    found: set[str] = set()
    left = [(Requirement(text), "") for text in requirements]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            if (key := f"{name}[{wanted}]") not in found:
                found.add(key)
                left += [(Requirement(text), wanted) for text in metadata.distribution(name).requires or []]
    return {key.partition("[")[0] for key in found}


@pytest.fixture(scope="module")
def scripts(wheel: Path) -> Path:
    return installed(wheel, wheel.parent / "venv")


@pytest.fixture(scope="module")
def base(wheel: Path) -> Path:
    """As ``scripts``, but nothing can be imported that `pip install saccade`, without extras, would not install."""
    with zipfile.ZipFile(wheel) as content:
        (name,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(content.read(name))
    allowed = required([text for text in about.get_all("Requires-Dist", []) if "extra ==" not in text])
    assert "torch" in allowed
    others = {
        module
        for module, names in metadata.packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & {*allowed, "saccade"}
    }
    assert {"matplotlib", "PIL", "fastapi", "uvicorn", "sklearn", "tensorboard"} <= others
    return installed(wheel, wheel.parent / "base", FORBID_PACKAGES.format(forbidden=others))


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
    names, found = (
        {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        for folder in (ROOT / "src" / STUDIO, installed)
    )
    assert found == names
    with served(scripts, tiny_run, tmp_path) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert page.text.count('<link rel="modulepreload"') == sum(name.endswith(".js") for name in names)
        for name in sorted(names - {"index.html"}):
            answer = client.get(f"/static/{name}")
            assert answer.status_code == 200, name
            assert answer.content == (installed / name).read_bytes()
        assert client.post("/api/models/tiny/looks", json={"input": "the cat sees the dog."}).status_code == 200


# --- without extras ---


def test_the_base_predicts_looks_and_trains(base: Path, tiny_run: Path, toy_data: Path, tmp_path: Path) -> None:
    sentence = "the cat sees the dog."
    assert run([base / "saccade", "predict", tiny_run, sentence], tmp_path).startswith("le chat voit le chien")
    assert "chat" in run([base / "saccade", "look", tiny_run, sentence, "--html", "look.html"], tmp_path)
    assert (tmp_path / "look.html").stat().st_size > 10_000
    files = ["--source", toy_data / "test.en", "--target", toy_data / "test.fr"]
    quick = settings(training__steps=2, training__warmup=0, training__validate_every=1)
    assert "bleu" in run([base / "saccade", "evaluate", tiny_run, *files], tmp_path).lower()
    assert "best" in run([base / "saccade", "train", *files, "-o", "run", *quick], tmp_path)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["look", "MODEL", "the cat.", "--png", "look.png"], "plots"),
        (["serve", "MODEL"], "serving"),
        (["train", "--task", "images", "--data", "pictures", "-o", "run"], "images"),
        (["train", "digits.toml"], "digits"),
        (["train", "board.toml"], "tensorboard"),
        (["tune", "board.toml"], "tune"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_missing_extra_is_one_sentence_with_its_command(
    base: Path, tiny_run: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    (tmp_path / "pictures" / "cat" / "1.png").write_bytes(b"\x89PNG")
    (tmp_path / "digits.toml").write_text('task = "images"\n[data]\nbuiltin = "digits"\n')
    (tmp_path / "board.toml").write_text(
        '[data]\nbuiltin = "grammar"\nsentences = 100\n[text]\nkind = "word"\n'
        '[model]\nkind = "transformer"\nencoder_layers = 1\ndecoder_layers = 1\nwidth = 8\nnum_heads = 1\n'
        "[training]\nsteps = 2\nwarmup = 0\ntensorboard = true\n"
    )
    command = [base / "saccade", *(str(tiny_run) if one == "MODEL" else one for one in arguments)]
    found = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True)
    assert found.returncode == 2
    (line,) = found.stderr.splitlines()
    assert line.startswith("saccade: ")
    assert line.endswith(f"run: pip install 'saccade[{extra}]'")


@pytest.mark.slow
def test_an_empty_environment_gets_all_that_predicting_needs(wheel: Path, tiny_run: Path, tmp_path: Path) -> None:
    """As a person installs it: pip takes what the wheel asks for, and nothing is borrowed."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    commands = tmp_path / "venv" / "bin"
    install = [commands / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, env=clean_environment())
    out = run([commands / "saccade", "predict", tiny_run, "the cat sees the dog."], tmp_path)
    assert out.startswith("le chat voit le chien")
