"""Answer or score a file part by part, so that several processes can share the work and a stopped job can continue.

out/
  job.json         describes the job: the model, the options, and a checksum of the inputs
  parts/           one file with the results of each part, written completely or not at all
  answers.txt      the answers to all inputs, in order (a scoring job writes scores.txt instead); once it is written,
                   the parts are deleted
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from saccade.cli.options import console, progress
from saccade.errors import OptionError
from saccade.storage import json_bytes, write_file
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.model_folder import bundle_identity
from saccade.tasks.base.predictor import Predictor
from saccade.training.distributed import Processes

__all__ = ["answer_file", "finish_job", "scoring_job"]

PARTS_FOLDER = "parts"

#: A part has at most this many groups of inputs that are answered together; a large file has at least this many parts.
MOST_GROUPS, PARTS = 8, 64


def answer_file(
    opened: Predictor,
    model: str,
    given: str,
    inputs: Sequence[Any],
    options: dict[str, Any],
    folder: Path,
    lines_of: Callable[[Answer], list[str]],
    suffix: str,
    details: dict[str, Any],
    processes: Processes,
) -> None:
    """Answer the inputs that have no answer yet, write all answers to one file in input order, and print its name.

    ``suffix`` is the suffix of that file. ``details`` lists what the answers depend on in addition to the model, the
    inputs and the options.
    """
    groups = -(-len(inputs) // opened.at_once)
    size = opened.at_once * max(1, min(MOST_GROUPS, groups // PARTS))
    job = {
        "model": bundle_identity(Path(model)),
        "inputs": _checksum(Path(given)),
        "number": len(inputs),
        "options": opened.chosen(options).model_dump(mode="json"),
        "part": size,
        "format": suffix,
        **details,
    }
    answers = folder / f"answers{suffix}"
    processes.lead(lambda: _claim(folder, job))
    starts = range(0, len(inputs), size)
    files = [folder / PARTS_FOLDER / f"{start:012d}{suffix}" for start in starts]
    if not answers.exists():
        mine = list(zip(starts, files, strict=True))[processes.rank :: processes.count]
        with opened, progress("predicting", sum(len(inputs[start : start + size]) for start, _ in mine)) as show:
            done = 0
            for start, file in mine:
                part = inputs[start : start + size]
                if not file.exists():

                    def report(number: int, before: int = done) -> None:
                        processes.show_life()
                        show(before + number)

                    found = opened.predict(part, progress=report, first=start, **options)
                    write_file(file, "".join(f"{line}\n" for answer in found for line in lines_of(answer)).encode())
                done += len(part)
        processes.in_turn(lambda: None)  # wait until all parts are there
        processes.lead(lambda: finish_job(answers, (file.read_bytes() for file in files)))
    console(stderr=True).print(f"The answers are in {answers}.", markup=False)


def scoring_job(model: str, given: Sequence[Path], details: dict[str, Any], folder: Path, processes: Processes) -> Path:
    """Begin or continue, in ``folder``, a job that scores a model on the files ``given``.

    Return the subfolder in which the results of its parts are stored. ``details`` lists what the results depend on in
    addition to the model and the files.
    """
    job = {"model": bundle_identity(Path(model)), "inputs": [_checksum(path) for path in given], **details}
    processes.lead(lambda: _claim(folder, job))
    return folder / PARTS_FOLDER


def finish_job(file: Path, content: bytes | Iterable[bytes]) -> None:
    """Write the results of a job to a file in its folder, and delete its parts."""
    write_file(file, content)
    shutil.rmtree(file.parent / PARTS_FOLDER, ignore_errors=True)


def _claim(folder: Path, job: dict[str, Any]) -> None:
    """Save the description of the job, or check that the folder contains the same job."""
    file = folder / "job.json"
    if file.exists():
        kept = json.loads(file.read_bytes())
        different = sorted(key for key in {*kept, *job} if kept.get(key) != job.get(key))
        if different:
            raise OptionError(
                f"{folder} contains the results of a different job, which differs in: {', '.join(different)}; give "
                "another folder with -o."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; give a new or empty folder with -o.")
    else:
        write_file(file, json_bytes(job))


def _checksum(path: Path) -> str:
    """A checksum of a file, or of the names and sizes in a folder."""
    if path.is_dir():
        listed = sorted((str(one.relative_to(path)), one.stat().st_size) for one in path.rglob("*"))
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
