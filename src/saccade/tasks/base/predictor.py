"""A model folder that answers, whatever its task: ``saccade.open("run/").predict([...])``."""

from __future__ import annotations

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, ClassVar, Self

import torch

from saccade.attention import edit
from saccade.attention.watching.watch import Rows
from saccade.data.lines import read_lines
from saccade.errors import FileError, OptionError
from saccade.lens.causal import Change, Scored, describe_changes, find_places
from saccade.lens.view import View
from saccade.models import Config, lower_precision
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.task import Bundle, Evaluation
from saccade.tasks.base.workers import Workers
from saccade.tasks.registry import task_named

__all__ = ["NoOptions", "Predictor"]


class NoOptions(Config):
    """No options: answers leave no choice."""


class Predictor(ABC):
    """An opened model. Each task has a class of its own below this one."""

    options: ClassVar[type[Config]] = NoOptions  # what ``predict`` takes beside the inputs
    takes_workers: ClassVar[bool] = False  # whether several processes can share out the inputs
    streams: ClassVar[bool] = False  # whether an answer can be shown while it is made
    reads: ClassVar[bool] = False  # whether ``view_input`` takes a text of any length
    scoring: ClassVar[type[Config]] = NoOptions  # what ``evaluate`` takes beside ``options``

    def __init__(
        self, bundle: Bundle, device: str = "cpu", precision: str = "fp32", workers: Workers | None = None
    ) -> None:
        self.bundle = bundle
        self.task = bundle.task
        self.model = lower_precision(bundle.model.to(device).eval(), precision)
        self.device = device
        self._workers = workers

    @property
    def plural(self) -> str:
        """What such models are called in a sentence."""
        return f"{self.task.name} models"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()

    # --- inputs: any JSON value, unless the task reads texts or images ---

    def from_json(self, value: Any) -> Any:
        """An input of ``predict`` from a value of JSON, as the server and the page send it; refused if it is none."""
        return value

    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of what ``from_json`` takes."""
        return {}

    def describe_input(self) -> dict[str, Any]:
        """What the page offers to fill in: its ``kind`` is text, image or json."""
        return {"kind": "json", "schema": self.input_schema()}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """A few inputs as ``from_json`` takes them, so that the page is never empty.

        ``probe`` is the example that the training was watched with, as tokens.
        """
        return []

    def check_request(self, values: Sequence[Any]) -> None:  # noqa: B027 - most inputs cost nothing to decode
        """Refuse values that would together be too costly to decode, before ``from_json`` decodes the first."""

    def count_tokens(self, given: Any) -> int:
        """How many tokens the model reads of an input."""
        return 1

    def parse(self, argument: str) -> Any:
        """The input that an argument of the command line stands for."""
        return self._parsed(argument, "The input")

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """The inputs in a file, which is read as those for training are, and in words how it was read."""
        lines = ((number, line) for number, line in read_lines(path) if line.strip())
        return [self._parsed(line, f"{path}, line {number}") for number, line in lines], "a JSON value a line"

    def read_stream(self, stream: BinaryIO) -> tuple[list[Any], str]:
        """The inputs in a stream, read as a file with the same content is."""
        with TemporaryDirectory() as folder:
            kept = Path(folder) / "input"
            with kept.open("wb") as file:
                shutil.copyfileobj(stream, file)
            named = re.compile(re.escape(str(kept)) + r"(\.\w+)?")
            try:
                found, said = self.read_unnamed(kept)
            except FileError as error:
                raise FileError(named.sub("The standard input", str(error))) from None
            return found, named.sub("it", said)

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """The inputs in a file whose name does not tell its format."""
        return self.read_file(path)

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return self.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise FileError(f"{where} is not JSON ({error}); not {text[:60]!r}.") from None

    @property
    def read_as(self) -> dict[str, Any]:
        """How training files were read: their columns, encoding and the like."""
        reader = task_named(self.task.name).data
        fields = reader.settings.model_fields
        return {key: self.bundle.data.get(key, fields[key].default) for key in reader.read_as}

    def replaced(self, given: Any, old: str, new: str) -> Any:
        """The input with a word replaced."""
        raise OptionError("Only words of a text can be replaced; switch heads off or forbid links instead.")

    def unknown(self, given: Any) -> list[str]:
        """The words or symbols of an input that the model does not know, so that its answer may be wrong or empty."""
        return []

    # --- answers ---

    def chosen(self, options: dict[str, Any]) -> Any:
        """The options in force: those given, over those that the model was trained with."""
        return self.options.read(self.bundle.decoding.model_dump() | options, "the options")

    def is_drawn(self, options: dict[str, Any]) -> bool:
        """Whether chance has a part in the answer: then who is asked together matters to it."""
        return bool(self.chosen(options).model_dump().get("sample", False))

    def predict(
        self, inputs: Any, *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[Answer]:
        """The answer to each input, in their order: always a list, of one answer if one text or path was given alone.

        ``progress`` is told how many are done; ``options`` are those of the class that ``options`` names.
        """
        return self._predict([inputs] if isinstance(inputs, str | Path) else inputs, progress=progress, **options)

    @abstractmethod
    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[Answer]:
        """The answer to each of several inputs."""

    def stream(self, given: Any, **options: Any) -> Iterator[str]:
        """The text of one answer as it comes; where it comes at once, in one piece."""
        yield self.predict([given], **options)[0].text

    def view_input(self, given: Any, progress: Rows | None = None) -> View:
        """What the model looks at when it reads an input of any length; no answer is made.

        ``progress`` is told the name of an attention and the share of its rows that is done.
        """
        raise OptionError(f"{self.plural.capitalize()} do not read without answering; leave out --file.")

    @torch.inference_mode()
    def evaluate(
        self, examples: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Evaluation:
        """How good the model is on examples as ``DataReader.read_for_scoring`` reads them."""
        evaluation: Evaluation = self.task.evaluate(self.model, self.task.encode(examples), self.chosen(options))
        return evaluation

    # --- before and after a change ---

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        """The log-probability of each of ``answer.scored_tokens`` for this input, by the model as it is now."""
        return []

    def best_answer(self, given: Any, **options: Any) -> Answer:
        """The best answer to one input, found in this process, in which the edits are; nothing is drawn."""
        return self.predict([given], **options)[0]

    def compare(
        self,
        given: Any,
        *,
        without_heads: Sequence[str] = (),
        without_links: Sequence[tuple[str, int | str, int | str]] = (),
        replace: tuple[str, str] | None = None,
        **options: Any,
    ) -> Change:
        """The answer to an input before and after a change: heads switched off, links forbidden, a word replaced.

        Heads and links are named as ``saccade.edit`` takes them; a row or column may also be a word, if it is there
        once. The rows of a decoder are the tokens that it reads: the start, and the answer before.
        """
        if not (without_heads or without_links or replace):
            raise OptionError("Nothing is to be changed; give without_heads, without_links or replace.")
        changed = given if replace is None else self.replaced(given, *replace)
        before = self.best_answer(given, **options)
        links = self._resolved(changed, before, without_links)
        with edit(self.model, without_heads=without_heads, without_links=links) as made:
            after = self.best_answer(changed, **options)
            scores_after = [self.token_scores(changed, one) for one in (before, after)]
            if made.unmet:
                raise OptionError(f"The link {made.unmet[0]} is not there: the text or the answer is shorter.")
        scores_before = [self.token_scores(given, one) for one in (before, after)]
        scored = [
            Scored(one.text, one.scored_tokens, *scores)
            for one, *scores in zip((before, after), scores_before, scores_after, strict=True)
        ]
        return Change(describe_changes(without_heads, links, replace), *scored)

    def view_of(self, given: Any, answer: Answer) -> View:
        """What the model looks at in this input while it makes this answer."""
        return answer.view

    def _resolved(
        self, given: Any, answer: Answer, links: Sequence[tuple[str, int | str, int | str]]
    ) -> list[tuple[str, int, int]]:
        """Links between positions; those between words link all tokens that these words are made of."""
        if all(isinstance(place, int) for _, *places in links for place in places):
            return [(name, int(row), int(column)) for name, row, column in links]
        seen = self.view_of(given, answer)
        resolved = []
        for name, row, column in links:
            attention = name.partition(":")[0]
            seen.heads(attention)  # refuses what is not there
            rows, columns = find_places(seen.rows[attention], row), find_places(seen.columns[attention], column)
            resolved += [(name, one, other) for one in rows for other in columns]
        return resolved
