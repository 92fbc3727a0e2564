"""Text inputs for predictors: lines or columns of a file, and JSON strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from saccade.data.grammar import showcase
from saccade.data.inputs import read_texts, suffix_of
from saccade.data.lines import suffix
from saccade.data.paths import column
from saccade.errors import OptionError, shortened
from saccade.lens.causal import replace_word
from saccade.tasks.base.predictor import Predictor
from saccade.text import Tokenizer

__all__ = ["PAIR_SEPARATORS", "TextInputPredictor"]

#: What separates two texts on one line.
PAIR_SEPARATORS = ("\t", "|||")


class TextInputPredictor(Predictor):
    """A predictor whose inputs are texts."""

    input_types: ClassVar[tuple[type, ...]] = (str,)
    input_name = "a text"
    takes_lines = True
    in_order: ClassVar[tuple[str, ...]] = ()  # the columns, in order, of a table that does not name them

    @property
    def known_labels(self) -> tuple[str | int, Callable[[str], bool]] | None:
        """The name or number of the column of labels, and a function that returns whether the model knows a label;
        None if files have no such column."""
        return None

    def from_json(self, value: Any) -> str:
        if not isinstance(value, str):
            raise OptionError(f"This model takes a text, not {type(value).__name__} {shortened(value, 40)}.")
        return value

    def input_schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def describe_input(self) -> dict[str, Any]:
        return {"kind": "text"}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return sentences of the built-in corpus if the model was trained on it; otherwise the text of ``probe``, the
        example that training recorded at each validation, if there is one."""
        if self.bundle.data.get("builtin") == "grammar":
            return [sentence.source_text for sentence in showcase()]
        tokens = [token for token in probe if token not in ("</s>", "<s>")]
        joined = "".join(tokens) if any("▁" in token for token in tokens) else " ".join(tokens)
        text = joined.replace("▁", " ").replace("  ", " ").strip()
        return [text] if text else []

    def known_links(self, text: str) -> list[tuple[str, str]]:
        """Return the pairs of words in a sentence of the built-in corpus of which the first depends on the second, such
        as a pronoun and its noun; empty for any other text."""
        return [
            (example.source[link.word], example.source[link.antecedent])
            for example in showcase()
            if example.source_text == text
            for link in example.links
        ]

    def count_tokens(self, given: Any) -> int:
        """Return the number of tokens in an input, or of words if the model has no tokenizer for texts."""
        if self._tokenizer is not None:
            return len(self._tokenizer.encode_ids([given])[0])
        return len(given.split() if isinstance(given, str) else given)

    def unknown(self, given: Any) -> list[str]:
        return [] if self._tokenizer is None else self._tokenizer.unknown(given)

    @property
    def _tokenizer(self) -> Tokenizer | None:
        """The tokenizer for the texts that the model reads, if it has one."""
        vocabularies = self.task.state.vocabularies()
        found = vocabularies.get("source") or vocabularies.get("tokenizer")
        return found if isinstance(found, Tokenizer) else None

    def parse(self, argument: str) -> Any:
        return argument

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        how = self.read_as
        return read_texts(path, encoding=how.get("encoding"), lines=True, separator=how.get("separator"))

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """Read a file whose name does not reveal its format: as a table, JSON lines or plain lines, depending on what
        its first lines look like."""
        if self.read_as.get("lines"):
            return self.read_file(path)
        trained = suffix(str(self.bundle.data.get("file") or self.bundle.data.get("table") or ""))
        columns = [column(one) for key, one in self.read_as.items() if key.endswith("column") and one is not None]
        kind = suffix_of(
            path,
            trained,
            columns,
            self.in_order,
            label=self.known_labels,
            chosen=self.chose_columns,
            encoding=self.read_as.get("encoding"),
            separator=self.read_as.get("separator"),
        )
        return self.read_file(path.rename(path.with_suffix(kind)))

    def replaced(self, given: Any, old: str, new: str) -> Any:
        return replace_word(given, old, new)
