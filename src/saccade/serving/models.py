"""The models being served. Each has the name of its folder, or a name given on the command line."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor, nn

from saccade.attention import editable
from saccade.errors import OptionError, SaccadeError
from saccade.serving.batching import Batcher
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits, described_options
from saccade.serving.runs import ServedRun
from saccade.storage import MANIFEST, write_file
from saccade.tasks.base.capabilities import ContinuesText, TranslatesText
from saccade.tasks.base.model_folder import open_model
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.word_vectors import WordVectors, all_word_vectors

__all__ = ["Models", "Served", "name_of_folder"]

#: How many long texts may wait for one model.
READINGS = 4
#: Seconds between two checks whether a model folder was replaced.
RELOAD_SECONDS = 1.0
#: How many checks in a row must find a replaced folder unchanged before it is opened: someone may still be copying
#: files into it. Folders of other libraries need more checks, because no checksums show that all files are complete.
RESTING_CHECKS, RESTING_CHECKS_UNSEALED = 1, 10
#: The files of a model folder: name, inode, size and time of each. Empty if there is no such folder.
Version = tuple[tuple[str, int, int, int], ...]
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[\w][\w.+-]{0,99}")


@dataclass(frozen=True)
class Served:
    """A model that is ready to answer."""

    name: str
    folder: Path
    predictor: Predictor
    batcher: Batcher
    version: Version  # of its files when it was opened

    @cached_property
    def reader(self) -> Batcher:
        """Separate threads that read long texts for the Map page, which shows their attention; other requests need not
        wait for them."""
        limits = self.batcher.limits
        return Batcher(self.predictor, replace(limits, seconds=limits.map_seconds, queue=READINGS))

    def close(self) -> None:
        """Answer all requests that are waiting, then end the threads."""
        self.batcher.close()
        if "reader" in self.__dict__:
            self.reader.close()

    @cached_property
    def openings(self) -> dict[str, dict[str, Any] | None]:
        """The results of ``find_opening`` so far; the key is the JSON text of the options that it was called with."""
        return {}

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if the model translates and its recipe names them."""
        return self.predictor.languages if isinstance(self.predictor, TranslatesText) else None

    @property
    def reads(self) -> bool:
        """Whether the model can read a text without answering it; the Map page needs this to show its attention."""
        return self.predictor.reads and self._has_attention

    @cached_property
    def vectors(self) -> dict[str, WordVectors]:
        """The model's word vectors, one set for each vocabulary."""
        return all_word_vectors(self.predictor.model, self.predictor.task)

    @cached_property
    def examples(self) -> list[Any]:
        """A few example inputs for the studio."""
        run = ServedRun(self.name, self.folder)
        try:
            probe = run.probe(max(run.probes(), default=0))["inputs"]
        except (Refused, KeyError):
            probe = []
        return self.predictor.examples([str(token) for token in probe] if isinstance(probe, list) else [])

    @cached_property
    def description(self) -> dict[str, Any]:
        """What clients need to know to use the model."""
        predictor = self.predictor
        described: dict[str, Any] = {
            "name": self.name,
            "ready": True,
            "task": predictor.task.name,
            "about": predictor.task.about,
            "input": predictor.describe_input(),
            "kind": predictor.bundle.kind,
            "made": {key: predictor.describe()[key] for key in ("family", "sizes")} | {"engine": predictor.engine_name},
            "streams": predictor.streams,
            "reads": self.reads,
            "kept_part": predictor.kept_part,
            "writes": type(predictor).likeliest is not Predictor.likeliest,
            "has_attention": self._has_attention,
            "options": described_options(predictor),
            "defaults": predictor.chosen({}).model_dump(mode="json"),
            "examples": self.examples,
            "words": list(self.vectors),
        }
        if self.languages is not None:
            described["languages"] = {"source": self.languages[0], "target": self.languages[1]}
        return described

    @property
    def _has_attention(self) -> bool:
        return bool(editable(self.predictor.model))


@dataclass
class Pending:
    """A model that another process is still training."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes]
    failure: str | None = None  # why the training failed

    def describe(self) -> dict[str, Any]:
        """Return how far the training has come, as JSON values."""
        run = ServedRun(self.name, self.folder).describe()
        return {
            "name": self.name,
            "ready": False,
            "progress": run["step"],
            "steps": run["steps"],
            "failure": self.failure,
        }


class Models(Mapping[str, Served]):
    """The models by name; clients can use only these."""

    def __init__(
        self, limits: Limits | None = None, device: str = "cpu", shared: Path | None = None, engine: str = "auto"
    ) -> None:
        self.limits = limits or Limits()
        self.engine = engine
        self.device = device
        self.shared = shared  # the folder for weights that several processes map
        self.not_reloaded: dict[str, Version] = {}  # replaced folders that could not be opened
        self.pending: dict[str, Pending] = {}
        self._served: dict[str, Served] = {}
        self._changed = threading.Lock()
        self._closing = threading.Event()

    def add(self, folder: Path, name: str | None = None) -> Served:
        """Open a model folder or a run folder, and serve it under this name, by default the name of the folder."""
        chosen = name or name_of_folder(folder)
        if not _NAME.fullmatch(chosen):
            raise OptionError(f"{chosen!r} is not a valid model name; use letters, digits and . _ + -.")
        if chosen in self._served:
            raise OptionError(f"Two models are named {chosen!r}; give one of them another name: NAME={folder}.")
        served = self._open(chosen, folder)
        with self._changed:
            self._served = {**self._served, chosen: served}
            self.pending.pop(chosen, None)
        # The page asks for examples and word vectors first; compute them before anyone waits for them.
        threading.Thread(target=lambda: served.description, daemon=True).start()
        return served

    def _open(self, name: str, folder: Path) -> Served:
        version = version_of(folder)  # before reading: a later change is noticed
        predictor = open_model(folder, self.device, engine=self.engine)
        predictor.is_exclusive = predictor.reads_scores = True
        if self.shared is not None and self.device == "cpu":
            share_weights(predictor.model, self.shared, name)
        return Served(name, folder, predictor, Batcher(predictor, self.limits), version)

    def watch(self) -> None:
        """Reload models whose folders are replaced, in the background."""
        threading.Thread(target=self._watch, name="reload", daemon=True).start()

    def _watch(self) -> None:
        seen: dict[str, tuple[Version | None, int]] = {}  # at the last check, and how many checks found the same
        while not self._closing.wait(RELOAD_SECONDS):
            for name, served in list(self._served.items()):
                version = version_of(served.folder)
                before, checks = seen.get(name, (None, 0))
                checks = checks + 1 if version == before else 0
                seen[name] = version, checks
                if version == served.version:
                    self.not_reloaded.pop(name, None)
                elif checks >= resting_checks(version) and version != self.not_reloaded.get(name):
                    self.reload(name)

    def reload(self, name: str) -> None:
        """Open a model folder that was replaced, and serve the new model.

        If the folder is damaged, keep the old model.
        """
        old = self._served[name]
        version = version_of(old.folder)
        try:
            new = self._open(name, old.folder)
            new.description  # noqa: B018 - computes what the page asks for first
        except Exception as error:
            _log.error("The model %s was not reloaded: %s", name, error)
            self.not_reloaded[name] = version
            return
        with self._changed:
            self._served = {**self._served, name: new}
            self.not_reloaded.pop(name, None)
        old.close()

    def expect(self, name: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
        """Announce a model that a process is training in this folder; once the process has finished, serve it."""
        pending = self.pending[name] = Pending(name, folder, process)

        def add_when_trained() -> None:
            _, output = process.communicate()
            if process.returncode == 0:
                try:
                    self.add(folder, name)
                except SaccadeError as error:
                    pending.failure = str(error)
            else:
                last = output.decode("utf-8", "replace").strip().rpartition("\n")[2]
                pending.failure = f"Training {name} failed: {last or 'no reason was given'}"

        threading.Thread(target=add_when_trained, daemon=True).start()

    def __getitem__(self, name: str) -> Served:
        if name in self._served:
            return self._served[name]
        if name in self.pending:
            failure = self.pending[name].failure
            if failure:
                raise Refused(404, failure)
            raise Refused(503, f"The model {name!r} is still being trained; try again in 30 seconds.", retry_after=30)
        known = ", ".join(self._served) or "none yet"
        raise Refused(404, f"There is no model with this name; the models are: {known}.")

    def __contains__(self, name: object) -> bool:
        return name in self._served

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def translators(self) -> dict[tuple[str, str], Served]:
        """The translation models by language pair. If several have the same pair, the one listed first is used."""
        found: dict[tuple[str, str], Served] = {}
        for served in self._served.values():
            if served.languages is not None:
                found.setdefault(served.languages, served)
        return found

    def writers(self) -> dict[str, Served]:
        """The language models."""
        return {name: served for name, served in self._served.items() if isinstance(served.predictor, ContinuesText)}

    def close(self) -> None:
        """Stop processes that train models, which save their state; answer all waiting requests; end the threads."""
        self._closing.set()
        for pending in self.pending.values():
            pending.process.terminate()
            pending.process.wait()
        for served in self._served.values():
            served.close()


def name_of_folder(folder: Path) -> str:
    """Return the name of the folder; for the ``model`` folder of a run, the name of the run's folder."""
    path = folder.resolve()
    return path.parent.name if path.name == "model" else path.name


def version_of(folder: Path) -> Version:
    """Return a value that changes when the files of a model folder, of a run's model folder, or of another library's
    folder are replaced."""
    found = _files_of(folder / "model")
    if not _is_ours(found):
        found = _files_of(folder)
    return found


def resting_checks(version: Version) -> int:
    """Return how many checks in a row must find a replaced folder unchanged before it is opened."""
    return RESTING_CHECKS if not version or _is_ours(version) else RESTING_CHECKS_UNSEALED


def _is_ours(version: Version) -> bool:
    """Whether this is a folder of Saccade, whose checksums are verified when it is opened."""
    return {MANIFEST, "recipe.toml"} <= {name for name, *_ in version}


def _files_of(path: Path) -> Version:
    try:
        entries: list[Path] = list(path.iterdir()) if path.is_dir() else [path]
        files = [(one.name, one.stat()) for one in entries if one.is_file()]
    except OSError:
        return ()
    return tuple(sorted((name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in files))


def share_weights(model: nn.Module, folder: Path, name: str) -> None:
    """Map a model's weights from a file that all processes share, so that the weights are in memory only once.

    The file is a private copy: nobody who writes to the model folder can change the weights of a running server.
    """
    weights = {key: parameter.detach() for key, parameter in model.named_parameters()}
    content = safetensors.torch.save(weights)
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()}.safetensors"
    mapped: dict[str, Tensor] | None = None
    while mapped is None:
        if not path.exists():
            write_file(path, content)
        with contextlib.suppress(FileNotFoundError):  # a process with newer weights has removed the file
            mapped = safetensors.torch.load_file(path)
    for key, parameter in model.named_parameters():
        parameter.data = mapped[key]
    for other in folder.glob(f"{name}-*.safetensors"):
        if other != path and re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{64}}", other.stem):
            other.unlink(missing_ok=True)  # processes that have mapped the file can still read it
