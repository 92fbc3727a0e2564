"""The base class of all predictors: opened models that answer, as in ``saccade.open("run/").predict([...])``."""

from __future__ import annotations

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, ClassVar, Self

import torch
from torch import Tensor, nn

from saccade.attention import edit
from saccade.attention.watching.watch import RowProgress
from saccade.data.lines import ChosenEncoding, InheritedEncoding, read_lines
from saccade.data.tables import ChosenSeparator
from saccade.errors import DivergedError, FileError, InputTypeError, OptionError, counted
from saccade.lens.causal import Change, Scored, describe_changes, find_places
from saccade.lens.view import View
from saccade.models import Config, TransformerConfig, lower_precision
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.cost import Cost
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.task import Bundle, Evaluation
from saccade.tasks.base.workers import Workers
from saccade.tasks.registry import task_of_model
from saccade.text import Tokenizer

__all__ = ["NoOptions", "Predictor"]


class NoOptions(Config):
    """The options of a predictor that has none."""


class Predictor(ABC):
    """An opened model. Each task has its own subclass."""

    options: ClassVar[type[Config]] = NoOptions  # the options of ``predict``
    #: The highest values that a server accepts for options that cost time or memory; for lists, the maximum length.
    ceilings: ClassVar[Mapping[str, float]] = {}
    #: The formats in which an answer can be written, besides its text and JSON: functions from an answer to a text.
    formats: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    scoring: ClassVar[type[Config]] = NoOptions  # further options of ``evaluate``
    takes_workers: ClassVar[bool] = False  # whether several processes can share the inputs
    takes_onnx: ClassVar[bool] = False  # whether answers come from ``network_for``, so that ONNX Runtime can give them
    streams: ClassVar[bool] = False  # whether an answer can be shown while it is generated
    takes_lines: ClassVar[bool] = False  # whether a line of a file can be an input
    reads: ClassVar[bool] = False  # whether ``view_input`` takes a text of any length
    kept_part: ClassVar[str] = ""  # "first" or "last", if only this part of a text that is too long is read
    input_types: ClassVar[tuple[type, ...]] = (object,)  # the types of the inputs of ``predict``
    input_name: ClassVar[str] = "a JSON value"  # what such an input is called in a sentence
    at_once: int = 250  # the number of inputs that are answered between two progress reports

    def __init__(
        self,
        bundle: Bundle,
        device: str = "cpu",
        precision: str = "fp32",
        workers: Workers | None = None,
        engine: Any = None,
    ) -> None:
        self.bundle = bundle
        self.task = bundle.task
        self.model = lower_precision(bundle.model.to(device).eval(), precision)
        self.device = device
        self._workers = workers
        #: Whether no other code can change the weights; answers then need no checksum to detect a change.
        self.is_exclusive = False
        #: Whether somebody will read the scores of all answers; an engine that can compute them later then does not.
        self.reads_scores = False
        self.engine = engine  # the library that computes the answers instead of torch, if any
        self._read_otherwise: dict[str, Any] = {}

    @classmethod
    def open_engine(cls, engine: str, bundle: Bundle, device: str, precision: str, workers: int) -> Any:
        """Open CTranslate2 ("ctranslate2") or ONNX Runtime ("onnx") to compute the answers of this model. Raises an
        error if it does not support such models."""
        if engine == "onnx":
            if cls.takes_onnx:
                from saccade.tasks.base.encoder_engine import open_encoder

                return open_encoder(bundle.model, device, precision, workers)
            raise OptionError(
                f"--engine onnx does not apply to {bundle.task.name} models; it only applies to Transformers for "
                "classification, tagging or sentence similarity."
            )
        raise OptionError(
            f"Neither --engine ctranslate2 nor int8 applies to {bundle.task.name} models; they only apply to models "
            f"that generate text."
        )

    @property
    def engine_name(self) -> str:
        """The name of the library that computes the answers."""
        return self.bundle.engine if self.engine is None else self.engine.name

    def engine_for(self, now: Snapshot) -> Any:
        """Return the engine, or None if there is none or only the network can compute the answers now. Raises an error
        if the network is no longer the one that the engine copied."""
        if self.engine is None or now.needs_network:
            return None
        self.engine.copied.check(now)
        return self.engine

    def network_for(self, now: Snapshot) -> nn.Module:
        """Return what computes answers: the network, or an engine that is called like it and has the same weights."""
        found: nn.Module | None = self.engine_for(now)
        return self.model if found is None else found

    @property
    def plural(self) -> str:
        """The name of this kind of model in the plural, for messages, such as "image classifiers"."""
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
        """Return what people want to know about the model: its family, what it does, its sizes and its vocabularies."""
        bundle = self.bundle
        count = sum(parameter.numel() for parameter in self.model.parameters())
        sizes = [f"{count:,} parameters"]
        if isinstance(bundle.config, TransformerConfig):
            config = bundle.config
            layers = {part: len(getattr(self.model, part, ())) for part in ("encoder", "decoder")}
            sizes += [counted(number, f"{part} layer") for part, number in layers.items() if number]
            sizes += [f"width {config.width}", counted(config.num_heads, "head")]
            if config.position == "learned" and "max_length" not in config.unused:
                sizes.append(f"at most {counted(config.max_length, 'position')}")
        described = {
            "family": bundle.family or f"Saccade ({bundle.kind})",
            "does": f"{self.task.about} ({self.task.name})",
            "sizes": ", ".join(sizes),
        }
        for name, words in self.task.state.vocabularies().items():
            size = words.vocabulary_size if isinstance(words, Tokenizer) else len(words)
            described[name] = f"{size:,} entries" + (f", {words.kind}" if isinstance(words, Tokenizer) else "")
        described["engine"] = self.engine_name
        if bundle.reason:
            described["engine"] += f". {bundle.reason}"
        if bundle.unused:
            described["not used"] = ", ".join(bundle.unused)
        return described

    # --- inputs: any JSON value, unless the task takes texts or images ---

    def from_json(self, value: Any) -> Any:
        """Convert a JSON value, as the server and the web page send it, to an input of ``predict``. Raises an error if
        the value is invalid."""
        return value

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values that ``from_json`` accepts."""
        return {}

    def describe_input(self) -> dict[str, Any]:
        """Describe the input field that the web page shows: ``kind`` is text, image or json."""
        return {"kind": "json", "schema": self.input_schema()}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return a few example inputs for the web page, as JSON values.

        ``probe`` is the example that training recorded at each validation, as tokens.
        """
        return []

    def known_links(self, text: str) -> list[tuple[str, str]]:
        """Return the pairs of words in an example that are known to depend on each other, such as a pronoun and its
        noun; the first word depends on the second."""
        return []

    def check_request(self, values: Sequence[Any]) -> None:  # noqa: B027
        """Raise an error if these values, such as huge images, are too large to decode; called before ``from_json``."""

    def from_sentences(self, sentences: Sequence[str]) -> list[str]:
        """Return inputs made of these sentences, on which an exported model is compared with this one."""
        return list(sentences)

    def network_inputs(self, inputs: Sequence[Any]) -> tuple[Tensor, ...] | None:
        """Return the tensors that the network reads for these inputs; None if these are just the tokenized texts."""
        return None

    def count_tokens(self, given: Any) -> int:
        """Return the number of tokens that the model reads for an input."""
        return 1

    def cost(self, given: Any, options: Any) -> Cost:
        """Return an upper bound on the cost of answering an input: that of the longest answer which ``options`` allow.
        ``options`` come from ``chosen``."""
        return Cost.of(self.count_tokens(given))

    def parse(self, argument: str) -> Any:
        """Convert a command-line argument to an input."""
        return self._parse_json(argument, "The input")

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Return the inputs in a file in the format of the training files, and a phrase that says how it was read."""
        lines = ((number, line) for number, line in read_lines(path) if line.strip())
        return [self._parse_json(line, f"{path}, line {number}") for number, line in lines], "one JSON value per line"

    def read_stream(
        self,
        stream: BinaryIO,
        called: str = "Standard input",
        read: Callable[[Path], tuple[list[Any], str]] | None = None,
    ) -> tuple[list[Any], str]:
        """Return the inputs in a stream and how it was read, as for a file with the same content. ``called`` is the
        name of the stream in error messages; ``read`` reads a copy of the stream, by default with ``read_unnamed``."""
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "input"
            with copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            named = re.compile(re.escape(str(copy)) + r"(\.\w+)?")
            try:
                found, how = (read or self.read_unnamed)(copy)
            except FileError as error:
                raise FileError(named.sub(called, str(error))) from None
            return found, named.sub("it", how)

    def read_bytes(self, content: bytes) -> tuple[list[Any], str]:
        """Return the inputs in a file that a client sent to the server; files that it names are never opened."""
        return self.read_stream(BytesIO(content), "The file")

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """Return the inputs in a file whose name does not reveal its format, and how it was read."""
        return self.read_file(path)

    def _parse_json(self, text: str, where: str) -> Any:
        try:
            return self.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise FileError(f"{where} is not valid JSON ({error}): {text[:60]!r}.") from None

    @property
    def read_as(self) -> dict[str, Any]:
        """How files are read: the columns, encoding and so on of the training files, or what ``read_otherwise`` set."""
        reader = task_of_model(self.task.name).data
        fields = reader.settings.model_fields
        found = {
            key: self.bundle.data.get(key, fields[key].get_default(call_default_factory=True)) for key in reader.read_as
        }
        if found.get("encoding") is not None:
            found["encoding"] = InheritedEncoding(found["encoding"])
        return found | self._read_otherwise

    @property
    def reads_otherwise(self) -> bool:
        """Whether ``read_otherwise`` was called with options, so that files are not read like the training files."""
        return bool(self._read_otherwise)

    @property
    def chose_columns(self) -> bool:
        """Whether ``read_otherwise`` chose the columns of files; if not, they are those of the training files."""
        return any(key in self._read_otherwise for key in task_of_model(self.task.name).data.column_fields)

    def read_otherwise(
        self,
        columns: str | None = None,
        encoding: str | None = None,
        lines: bool = False,
        separator: str | None = None,
    ) -> None:
        """From now on, read files differently from the training files: with other columns (see ``inputs_from``),
        another encoding or separator, or, with ``lines``, each line as one input, whatever it looks like."""
        reader = task_of_model(self.task.name).data
        if encoding is not None and "encoding" not in reader.read_as:
            raise OptionError(f"--encoding does not apply to {self.plural}, because their inputs are not texts.")
        if lines and not self.takes_lines:
            raise OptionError(f"--lines does not apply to {self.plural}, because their inputs are not lines of text.")
        if lines and (columns is not None or separator is not None):
            raise OptionError("With --lines, a file has no columns; leave out --columns and --separator.")
        if separator is not None and "separator" not in reader.read_as:
            raise OptionError(f"--separator does not apply to {self.plural}, because their inputs are not in tables.")
        given = {} if columns is None else reader.inputs_from(columns)
        more = {
            "encoding": None if encoding is None else ChosenEncoding(encoding),
            "separator": None if separator is None else ChosenSeparator(separator),
            "lines": lines or None,
        }
        self._read_otherwise = given | {key: value for key, value in more.items() if value is not None}

    def replaced(self, given: Any, old: str, new: str) -> Any:
        """Return the input with one word replaced by another."""
        raise OptionError("Only words of a text can be replaced; switch off heads or forbid links instead.")

    def unknown(self, given: Any) -> list[str]:
        """Return the words or symbols in an input that the model does not know; they can make its answer wrong."""
        return []

    # --- answers ---

    def chosen(self, options: dict[str, Any]) -> Any:
        """Return the given options, completed with the model's own settings."""
        return self.options.read(self.bundle.decoding.model_dump() | options, "")

    def is_drawn(self, options: Any) -> bool:
        """Return whether answers with these options, which come from ``chosen``, are sampled; they then depend on which
        inputs are answered together."""
        return False

    def predict(
        self, inputs: Any, *, progress: Callable[[int], None] | None = None, first: int = 0, **options: Any
    ) -> Sequence[Answer]:
        """Answer the inputs, and return the answers in order: always a list, even for a single text or path.

        The inputs are answered a few at a time, so that progress is visible and memory stays bounded.
        ``progress`` is called with the number of answers so far; ``options`` are fields of the ``options`` class. If
        the inputs are a part of a longer list, ``first`` is their position in it, from 0; the answers are exactly
        those for the whole list if ``first`` is a multiple of ``at_once``.
        """
        if isinstance(inputs, str | Path):
            inputs = [inputs]
        if isinstance(inputs, bytes | Mapping) or not isinstance(inputs, Iterable):
            raise InputTypeError("The inputs", "a list", inputs)
        inputs = list(inputs)
        for number, given in enumerate(inputs, start=1):
            self.check_type(given, number)
        chosen, now = self.chosen(options), Snapshot(self)
        prepared = [self.prepare(given, number) for number, given in enumerate(inputs, start=first + 1)]
        pieces = [prepared[start : start + self.at_once] for start in range(0, len(prepared), self.at_once)]
        answers: list[Answer] = []
        for found in self.answer_pieces(pieces, chosen, now):
            if any(answer.is_diverged for answer in found):
                raise DivergedError.of_answer()
            answers += found
            if progress is not None:
                progress(len(answers))
        return answers

    def check_type(self, given: Any, number: int = 1) -> None:
        """Raise an error if an input does not have one of the types that ``predict`` takes."""
        if not isinstance(given, self.input_types):
            raise InputTypeError(f"Input {number}", self.input_name, given)

    def prepare(self, given: Any, number: int = 1) -> Any:
        """Convert an input to the form that ``answer`` takes. Raises an error if the input is invalid.

        All inputs are converted before the first is answered; ``number`` is the number of the input, from 1.
        """
        return given

    def answer_pieces(self, pieces: Sequence[Sequence[Any]], options: Any, now: Snapshot) -> Iterator[Sequence[Answer]]:
        """Yield the answers to each piece of the prepared inputs; several processes may work on them at once."""
        for piece in pieces:
            yield self.answer(piece, options, now)

    @abstractmethod
    def answer(self, inputs: Sequence[Any], options: Any, now: Snapshot) -> Sequence[Answer]:
        """Answer a batch of prepared inputs, in order. Attention is computed later, with the model's state ``now``."""

    def stream(self, given: Any, **options: Any) -> Iterator[str]:
        """Yield the text of one answer as it is generated, or in one piece if the model cannot stream."""
        yield self.predict([given], **options)[0].text

    def view_input(self, given: Any, progress: RowProgress | None = None) -> View:
        """Return what the model looks at when it reads an input of any length, without generating an answer.

        ``progress`` is called with the name of an attention layer and the fraction of its rows that is done.
        """
        raise OptionError(f"{self.plural.capitalize()} cannot read a text without answering it; leave out --file.")

    @torch.inference_mode()
    def evaluate(
        self, examples: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Evaluation:
        """Score the model on examples from ``DataReader.read_for_scoring``."""
        network = self.model if self.engine is None else self.network_for(Snapshot(self))
        evaluation: Evaluation = self.task.evaluate(network, self.task.encode(examples), self.chosen(options))
        return evaluation

    # --- comparing answers before and after a change ---

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        """Return the log-probability that the model now gives to each of ``answer.scored_tokens`` for this input."""
        return []

    def likeliest(self, given: Any, answer: Answer, number: int) -> list[list[tuple[str, float]]]:
        """Return the most probable tokens at each of ``answer.scored_tokens``, with their log-probabilities.

        The list is empty if the model does not write its answer token by token.
        """
        return []

    def best_answer(self, given: Any, **options: Any) -> Answer:
        """Return the best answer to one input, without sampling, computed in this process, so that edits apply."""
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
        """Compare the answers before and after a change: heads switched off, links forbidden, or a word replaced.

        Heads and links are named as in ``saccade.edit``; the row or column of a link may also be a word that occurs
        only once. The rows of a decoder are the tokens that it reads: the start token, and the answer so far.
        """
        if not (without_heads or without_links or replace):
            raise OptionError("There is nothing to change; give without_heads, without_links or replace.")
        self.check_type(given)
        changed = given if replace is None else self.replaced(given, *replace)
        before = self.best_answer(given, **options)
        links = self._find_links(changed, before, without_links)
        with edit(self.model, without_heads=without_heads, without_links=links) as edited:
            after = self.best_answer(changed, **options)
            scores_after = [self.token_scores(changed, one) for one in (before, after)]
            if edited.unmet:
                raise OptionError(f"The link {edited.unmet[0]} does not exist: the text or the answer is too short.")
        scores_before = [self.token_scores(given, one) for one in (before, after)]
        scored = [
            Scored(one.text, one.scored_tokens, *scores)
            for one, *scores in zip((before, after), scores_before, scores_after, strict=True)
        ]
        return Change(describe_changes(without_heads, links, replace), *scored)

    def view_of(self, given: Any, answer: Answer) -> View:
        """Return what the model looks at in this input while it generates this answer."""
        return answer.view

    def _find_links(
        self, given: Any, answer: Answer, links: Sequence[tuple[str, int | str, int | str]]
    ) -> list[tuple[str, int, int]]:
        """Convert links between words to links between positions; a link between words links all of their tokens."""
        if all(isinstance(place, int) for _, *places in links for place in places):
            return [(name, int(row), int(column)) for name, row, column in links]
        seen = self.view_of(given, answer)
        found = []
        for name, row, column in links:
            attention = name.partition(":")[0]
            seen.heads(attention)  # raises an error for an unknown head
            rows, columns = find_places(seen.rows[attention], row), find_places(seen.columns[attention], column)
            found += [(name, one, other) for one in rows for other in columns]
        return found
