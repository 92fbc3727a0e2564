"""The models that are served, each by a name: the name of its folder, or the one it was given at the start."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from saccade.attention import editable
from saccade.errors import OptionError, SaccadeError
from saccade.serving.batching import Worker
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits, described_options
from saccade.serving.runs import Run
from saccade.tasks.base.capabilities import ContinuesText, TranslatesText
from saccade.tasks.base.model_folder import open_model
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.word_vectors import WordVectors, all_word_vectors

__all__ = ["Models", "Served", "name_of_folder"]

#: Long texts that may wait to be read by one model.
READINGS = 4
_NAME = re.compile(r"[\w][\w.+-]{0,99}")


@dataclass(frozen=True)
class Served:
    """A model that answers."""

    name: str
    folder: Path
    predictor: Predictor
    worker: Worker

    @classmethod
    def open(cls, name: str, folder: Path, device: str, limits: Limits) -> Served:
        predictor = open_model(folder, device)
        return cls(name, folder, predictor, Worker(predictor, limits))

    @cached_property
    def reader(self) -> Worker:
        """A second thread, for long texts: who asks the model something short does not wait for them."""
        limits = self.worker.limits
        return Worker(self.predictor, replace(limits, seconds=limits.map_seconds, queue=READINGS))

    def close(self) -> None:
        """Finish what is waiting."""
        self.worker.close()
        if "reader" in self.__dict__:
            self.reader.close()

    @property
    def languages(self) -> tuple[str, str] | None:
        """From which language to which it translates, if it does and its recipe says so."""
        return self.predictor.languages if isinstance(self.predictor, TranslatesText) else None

    @property
    def reads(self) -> bool:
        """Whether it can look at a long text without answering."""
        return self.predictor.reads and self._has_attention

    @cached_property
    def vectors(self) -> dict[str, WordVectors]:
        """What it learned of words, by the vocabulary that they are in."""
        return all_word_vectors(self.predictor.model, self.predictor.task)

    @cached_property
    def examples(self) -> list[Any]:
        """A few inputs for the page to begin with."""
        run = Run(self.name, self.folder)
        try:
            probe = run.probe(max(run.probes(), default=0))["inputs"]
        except (Refused, KeyError):
            probe = []
        return self.predictor.examples([str(token) for token in probe] if isinstance(probe, list) else [])

    def describe(self) -> dict[str, Any]:
        """What the page needs to offer it."""
        predictor = self.predictor
        described: dict[str, Any] = {
            "name": self.name,
            "ready": True,
            "task": predictor.task.name,
            "about": predictor.task.about,
            "input": predictor.describe_input(),
            "kind": predictor.bundle.kind,
            "streams": predictor.streams,
            "reads": self.reads,
            "has_attention": self._has_attention,
            "options": described_options(predictor.options),
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
    failure: str | None = None  # why it will not come

    def describe(self) -> dict[str, Any]:
        """How far it is."""
        run = Run(self.name, self.folder).describe()
        return {
            "name": self.name,
            "ready": False,
            "progress": run["step"],
            "steps": run["steps"],
            "failure": self.failure,
        }


class Models(Mapping[str, Served]):
    """Names to models. Only what was added here can be asked."""

    def __init__(self, limits: Limits | None = None, device: str = "cpu") -> None:
        self.limits = limits or Limits()
        self.device = device
        self.pending: dict[str, Pending] = {}
        self._served: dict[str, Served] = {}
        self._changed = threading.Lock()

    def add(self, folder: Path, name: str | None = None) -> Served:
        """Open a model folder, or the folder of a run."""
        chosen = name or name_of_folder(folder)
        if not _NAME.fullmatch(chosen):
            raise OptionError(f"A model's name has letters, digits and . _ + -; not {chosen!r}.")
        if chosen in self._served:
            raise OptionError(f"Two models are called {chosen!r}; give one of them another name: NAME={folder}.")
        served = Served.open(chosen, folder, self.device, self.limits)
        with self._changed:
            self._served = {**self._served, chosen: served}
            self.pending.pop(chosen, None)
        # What the page asks first is made ready while nobody waits for it: samples and word vectors.
        threading.Thread(target=served.describe, daemon=True).start()
        return served

    def expect(self, name: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
        """A model that will be in this folder when the process that trains it has ended."""
        pending = self.pending[name] = Pending(name, folder, process)
        threading.Thread(target=self._await, args=(pending,), daemon=True).start()

    def _await(self, pending: Pending) -> None:
        _, said = pending.process.communicate()
        if pending.process.returncode == 0:
            try:
                self.add(pending.folder, pending.name)
            except SaccadeError as error:
                pending.failure = str(error)
        else:
            last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            pending.failure = f"The training of {pending.name} ended early: {last or 'no reason was given'}"

    def __getitem__(self, name: str) -> Served:
        if name in self._served:
            return self._served[name]
        if name in self.pending:
            failure = self.pending[name].failure
            if failure:
                raise Refused(404, failure)
            raise Refused(503, f"The model {name!r} is still being trained; try again in a minute.", retry_after=30)
        known = ", ".join(self._served) or "none yet"
        raise Refused(404, f"There is no model of this name here; there are: {known}.")

    def __contains__(self, name: object) -> bool:
        return name in self._served

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def translators(self) -> dict[tuple[str, str], Served]:
        """The translation models by their languages, the first of each pair."""
        found: dict[tuple[str, str], Served] = {}
        for served in self._served.values():
            if served.languages is not None:
                found.setdefault(served.languages, served)
        return found

    def writers(self) -> dict[str, Served]:
        """The models that continue a text."""
        return {name: served for name, served in self._served.items() if isinstance(served.predictor, ContinuesText)}

    def close(self) -> None:
        """Let every model finish what is waiting; a training that goes on is stopped, and saved by itself."""
        for pending in self.pending.values():
            pending.process.terminate()
            pending.process.wait()
        for served in self._served.values():
            served.close()


def name_of_folder(folder: Path) -> str:
    """The name of the folder; of the ``model`` folder of a run, that of the run."""
    path = folder.resolve()
    return path.parent.name if path.name == "model" else path.name
