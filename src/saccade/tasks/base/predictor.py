"""An opened model folder that answers, whatever its task: ``saccade.open("run/").predict([...])``."""

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
from saccade.models import Config, TransformerConfig, lower_precision
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.task import Bundle, Evaluation
from saccade.tasks.base.workers import Workers
from saccade.tasks.registry import task_named
from saccade.text import Tokenizer

__all__ = ["NoOptions", "Predictor"]


class NoOptions(Config):
    """No options."""


class Predictor(ABC):
    """An opened model. Each task has its own subclass."""

    options: ClassVar[type[Config]] = NoOptions  # what ``predict`` takes besides the inputs
    takes_workers: ClassVar[bool] = False  # whether several processes can share the inputs
    streams: ClassVar[bool] = False  # whether an answer can be shown while it is generated
    reads: ClassVar[bool] = False  # whether ``view_input`` takes a text of any length
    scoring: ClassVar[type[Config]] = NoOptions  # what ``evaluate`` takes besides ``options``

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

    def describe(self) -> dict[str, str]:
        """What the model is, for a person: its family or task, what it does, its sizes, its vocabularies."""
        bundle = self.bundle
        count = sum(parameter.numel() for parameter in self.model.parameters())
        sizes = [f"{count:,} parameters"]
        if isinstance(bundle.config, TransformerConfig):
            config = bundle.config
            layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
            sizes += [f"{number} {part} layers" for part, number in layers.items() if number]
            sizes += [f"width {config.width}", f"{config.num_heads} heads"]
            sizes += [f"at most {config.max_length} positions"] if config.position == "learned" else []
        described = {
            "family": bundle.family or f"Saccade ({bundle.kind})",
            "does": f"{self.task.about} ({self.task.name})",
            "sizes": ", ".join(sizes),
        }
        for name, words in self.task.state.vocabularies().items():
            size = words.vocabulary_size if isinstance(words, Tokenizer) else len(words)
            described[name] = f"{size:,} entries" + (f", {words.kind}" if isinstance(words, Tokenizer) else "")
        if bundle.unused:
            described["not used"] = ", ".join(bundle.unused)
        return described

    # --- inputs: any JSON value, unless the task reads texts or images ---

    def from_json(self, value: Any) -> Any:
        """An input of ``predict`` from a JSON value, as the server and the page send it; an error if it is invalid."""
        return value

    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of what ``from_json`` takes."""
        return {}

    def describe_input(self) -> dict[str, Any]:
        """The kind of input field that the page shows: ``kind`` is text, image or json."""
        return {"kind": "json", "schema": self.input_schema()}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """A few inputs as ``from_json`` takes them, so that the page is never empty.

        ``probe`` is the example that training recorded at each validation, as tokens.
        """
        return []

    def check_request(self, values: Sequence[Any]) -> None:  # noqa: B027 - most inputs cost nothing to decode
        """Refuse values that would be too costly to decode together, before ``from_json`` decodes any."""

    def count_tokens(self, given: Any) -> int:
        """How many tokens the model reads for an input."""
        return 1

    def parse(self, argument: str) -> Any:
        """The input that a command-line argument stands for."""
        return self._parsed(argument, "The input")

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """The inputs in a file, read like training files, and a phrase that says how it was read."""
        lines = ((number, line) for number, line in read_lines(path) if line.strip())
        return [self._parsed(line, f"{path}, line {number}") for number, line in lines], "one JSON value per line"

    def read_stream(self, stream: BinaryIO) -> tuple[list[Any], str]:
        """The inputs in a stream, read like a file with the same content."""
        with TemporaryDirectory() as folder:
            kept = Path(folder) / "input"
            with kept.open("wb") as file:
                shutil.copyfileobj(stream, file)
            named = re.compile(re.escape(str(kept)) + r"(\.\w+)?")
            try:
                found, said = self.read_unnamed(kept)
            except FileError as error:
                raise FileError(named.sub("Standard input", str(error))) from None
            return found, named.sub("it", said)

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """The inputs in a file whose name does not reveal its format."""
        return self.read_file(path)

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return self.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise FileError(f"{where} is not valid JSON ({error}): {text[:60]!r}.") from None

    @property
    def read_as(self) -> dict[str, Any]:
        """How training files were read: their columns, encoding and the like."""
        reader = task_named(self.task.name).data
        fields = reader.settings.model_fields
        return {key: self.bundle.data.get(key, fields[key].default) for key in reader.read_as}

    def replaced(self, given: Any, old: str, new: str) -> Any:
        """The input with a word replaced."""
        raise OptionError("Only words of a text can be replaced; switch off heads or forbid links instead.")

    def unknown(self, given: Any) -> list[str]:
        """The words or symbols of an input that the model does not know, so that its answer may be wrong or empty."""
        return []

    # --- answers ---

    def chosen(self, options: dict[str, Any]) -> Any:
        """The options to use: the given ones, and the model's own settings for the rest."""
        return self.options.read(self.bundle.decoding.model_dump() | options, "the options")

    def is_drawn(self, options: dict[str, Any]) -> bool:
        """Whether the answer is random: it then depends on which inputs are answered together."""
        return bool(self.chosen(options).model_dump().get("sample", False))

    def predict(
        self, inputs: Any, *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[Answer]:
        """The answers to the inputs, in order: always a list, with one answer if a single text or path was given.

        ``progress`` is called with the number of answers so far; ``options`` are fields of the ``options`` class.
        """
        return self._predict([inputs] if isinstance(inputs, str | Path) else inputs, progress=progress, **options)

    @abstractmethod
    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[Answer]:
        """The answer to each of several inputs."""

    def stream(self, given: Any, **options: Any) -> Iterator[str]:
        """The text of one answer as it is generated; in one piece if the model does not stream."""
        yield self.predict([given], **options)[0].text

    def view_input(self, given: Any, progress: Rows | None = None) -> View:
        """What the model looks at when it reads an input of any length; no answer is generated.

        ``progress`` is called with the name of an attention and the share of its rows that is done.
        """
        raise OptionError(f"{self.plural.capitalize()} do not read without answering; leave out --file.")

    @torch.inference_mode()
    def evaluate(
        self, examples: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Evaluation:
        """The scores of the model on examples from ``DataReader.read_for_scoring``."""
        evaluation: Evaluation = self.task.evaluate(self.model, self.task.encode(examples), self.chosen(options))
        return evaluation

    # --- before and after a change ---

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        """The log-probability of each of ``answer.scored_tokens`` for this input, by the model as it is now."""
        return []

    def best_answer(self, given: Any, **options: Any) -> Answer:
        """The best answer to one input, without sampling, computed in this process so that edits apply."""
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

        Heads and links are named as in ``saccade.edit``; a row or column may also be a word that occurs only once. The
        rows of a decoder are the tokens that it reads: the start token, and the answer so far.
        """
        if not (without_heads or without_links or replace):
            raise OptionError("There is nothing to change; give without_heads, without_links or replace.")
        changed = given if replace is None else self.replaced(given, *replace)
        before = self.best_answer(given, **options)
        links = self._resolved(changed, before, without_links)
        with edit(self.model, without_heads=without_heads, without_links=links) as made:
            after = self.best_answer(changed, **options)
            scores_after = [self.token_scores(changed, one) for one in (before, after)]
            if made.unmet:
                raise OptionError(f"The link {made.unmet[0]} does not exist: the text or the answer is shorter.")
        scores_before = [self.token_scores(given, one) for one in (before, after)]
        scored = [
            Scored(one.text, one.scored_tokens, *scores)
            for one, *scores in zip((before, after), scores_before, scores_after, strict=True)
        ]
        return Change(describe_changes(without_heads, links, replace), *scored)

    def view_of(self, given: Any, answer: Answer) -> View:
        """What the model looks at in this input while it generates this answer."""
        return answer.view

    def _resolved(
        self, given: Any, answer: Answer, links: Sequence[tuple[str, int | str, int | str]]
    ) -> list[tuple[str, int, int]]:
        """Links between positions; a link between words links all of their tokens."""
        if all(isinstance(place, int) for _, *places in links for place in places):
            return [(name, int(row), int(column)) for name, row, column in links]
        seen = self.view_of(given, answer)
        resolved = []
        for name, row, column in links:
            attention = name.partition(":")[0]
            seen.heads(attention)  # raises an error for an unknown head
            rows, columns = find_places(seen.rows[attention], row), find_places(seen.columns[attention], column)
            resolved += [(name, one, other) for one in rows for other in columns]
        return resolved
