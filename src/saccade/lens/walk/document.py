"""The file that ``saccade explain`` reads: JSON or TOML, checked before any of its numbers are used.

The keys of the file are the arguments of ``walkthrough``. A walkthrough is for people to read, so the matrices must be
small: they have at most ``MAX_POSITIONS`` rows and ``MAX_WIDTH`` columns (``MAX_OUTPUT`` columns for inputs and
W_output), and the file at most ``MAX_BYTES`` bytes.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
)
from pydantic_core import ErrorDetails

from saccade.errors import FileError, OptionError, SaccadeError
from saccade.lens.walk.walkthrough import Walkthrough, walkthrough

__all__ = [
    "MAX_BYTES",
    "MAX_CHANGES",
    "MAX_OUTPUT",
    "MAX_POSITIONS",
    "MAX_WIDTH",
    "ChangedNumber",
    "WalkDocument",
    "read_document",
]

MAX_BYTES = 1_000_000
MAX_POSITIONS = 64
MAX_WIDTH = 64
MAX_OUTPUT = 1024
MAX_LABEL = 32
MAX_CHANGES = 256

_Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]
_Matrix = Annotated[
    tuple[Annotated[tuple[_Finite, ...], Field(fail_fast=True, min_length=1, max_length=MAX_WIDTH)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_POSITIONS),
]
#: Inputs have the width of the whole model, and a column of ones if its projections have a bias.
_Inputs = Annotated[
    tuple[Annotated[tuple[_Finite, ...], Field(fail_fast=True, min_length=1, max_length=MAX_OUTPUT + 1)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_POSITIONS),
]
_Projection = Annotated[
    tuple[Annotated[tuple[_Finite, ...], Field(fail_fast=True, min_length=1, max_length=MAX_WIDTH)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_OUTPUT + 1),
]
#: W_output maps to the width of the whole model, not to that of one head.
_Output = Annotated[
    tuple[Annotated[tuple[_Finite, ...], Field(fail_fast=True, min_length=1, max_length=MAX_OUTPUT)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_WIDTH),
]
_Allowed = Annotated[
    tuple[Annotated[tuple[StrictBool, ...], Field(fail_fast=True, min_length=1, max_length=MAX_POSITIONS)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_POSITIONS),
]
_Labels = Annotated[
    tuple[Annotated[StrictStr, Field(min_length=1, max_length=MAX_LABEL)], ...],
    Field(fail_fast=True, min_length=1, max_length=MAX_POSITIONS),
]


class ChangedNumber(BaseModel):
    """A number that replaces a computed one: ``value``, at the ``place`` [row, column] of a step such as "scores"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: Annotated[StrictStr, Field(min_length=1, max_length=MAX_LABEL)]
    place: Annotated[
        tuple[Annotated[StrictInt, Field(ge=0, lt=MAX_OUTPUT)], ...], Field(fail_fast=True, min_length=2, max_length=3)
    ]  # counted from 0; [query, row, column] for the weighted values
    value: _Finite


class WalkDocument(BaseModel):
    """The numbers and options of a walkthrough.

    They are the keys of a file for ``saccade explain``, and of the request that the studio's Walk page sends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: _Inputs | None = None
    source: _Inputs | None = None
    W_query: _Projection | None = None
    W_key: _Projection | None = None
    W_value: _Projection | None = None
    queries: _Matrix | None = None
    keys: _Matrix | None = None
    values: _Matrix | None = None
    W_output: _Output | None = None
    W_score: _Matrix | None = None
    heads: Annotated[StrictInt, Field(ge=1, le=MAX_WIDTH)] = 1
    tokens: _Labels | None = None
    source_tokens: _Labels | None = None
    value_names: _Labels | None = None
    mask: Annotated[
        Annotated[StrictStr, Tag("name")] | Annotated[_Allowed, Tag("matrix")],
        Discriminator(lambda mask: "matrix" if isinstance(mask, list | tuple) else "name"),
    ] = "none"
    bias: _Matrix | None = None
    score: Annotated[StrictStr, Field(max_length=MAX_LABEL)] = "scaled_dot"
    weights: Annotated[StrictStr, Field(max_length=MAX_LABEL)] = "softmax"
    scale: StrictBool | None = None
    temperature: Annotated[_Finite, Field(gt=0)] | None = None
    changed: Annotated[tuple[ChangedNumber, ...], Field(fail_fast=True, max_length=MAX_CHANGES)] | None = None

    def walkthrough(self) -> Walkthrough:
        changed: dict[str, dict[tuple[int, ...], float]] = {}
        for change in self.changed or ():
            cells = changed.setdefault(change.step, {})
            if change.place in cells:
                entry = change.step + "".join(f"[{index}]" for index in change.place)
                raise OptionError(f"{entry} is changed twice, to {cells[change.place]} and to {change.value}.")
            cells[change.place] = change.value
        arguments = {name: getattr(self, name) for name in type(self).model_fields}
        return walkthrough(**arguments | {"changed": changed})


def read_document(path: Path) -> WalkDocument:
    """Return the content of a file for ``saccade explain``, after checking that its walkthrough can be computed."""
    # NaN and Infinity pass here, as in TOML, so that the check of the numbers can name the entry.
    parse_json = partial(json.loads, object_pairs_hook=_unique_keys)
    readers: dict[str, Callable[[str], Any]] = {".json": parse_json, ".toml": tomllib.loads}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FileError(f"{path}: the name of an explain file must end in .json or .toml.")
    text = _read_text(path)
    if not text.strip():
        raise FileError(f"{path}: the file is empty.")
    try:
        content = reader(text)
    except RecursionError:
        raise FileError(f"{path}: brackets are nested too deeply.") from None
    except ValueError as error:  # both parsers raise ValueErrors that name line and column
        raise FileError(f"{path}: not valid {path.suffix[1:].upper()}: {error}.") from None
    if not isinstance(content, dict):
        raise FileError(
            f"{path}: the file must contain keys such as inputs or queries, not a {type(content).__name__}."
        )
    try:
        document = WalkDocument.model_validate(content)
        document.walkthrough()
    except ValidationError as error:
        raise FileError(f"{path}: {_sentence(error.errors(include_url=False))}") from None
    except SaccadeError as error:
        raise FileError(f"{path}: {error}") from None
    return document


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: {(error.strerror or str(error)).lower()}.") from None
    if len(content) > MAX_BYTES:
        raise FileError(f"{path}: the file is larger than {MAX_BYTES} bytes, the limit for an explain file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: the file is not UTF-8 text (byte {error.start} is invalid).") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise an error for a repeated key, of which Python would silently keep the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"the key {twice!r} appears twice")
    return content


def _sentence(errors: list[ErrorDetails]) -> str:
    """Describe the first error in one sentence; a misspelt key comes first, because it explains the others."""
    error = min(errors, key=lambda one: one["type"] != "extra_forbidden")
    first, *parts = error["loc"]
    if first == "mask":
        parts = [part for part in parts if isinstance(part, int)]  # leave out the tag of the union
    field = str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    context = error.get("ctx", {})
    if error["type"] == "extra_forbidden":
        allowed = list(ChangedNumber.model_fields if parts else WalkDocument.model_fields)
        near = difflib.get_close_matches(str(error["loc"][-1]), allowed, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(allowed)}."
        return f"there is no key {_short(field)}; {hint}"
    if error["type"] == "missing":
        return f"{field} is missing."
    if error["type"] in ("too_long", "string_too_long"):
        unit = "characters" if error["type"] == "string_too_long" else "entries"
        return f"{field} is too long; the limit is {context['max_length']} {unit}."
    if error["type"] in ("too_short", "string_too_short"):
        return f"{field} is empty."
    expected = {
        "finite_number": "a finite number",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "a string",
        "tuple_type": "a list",
        "int_type": "a whole number",
        "greater_than_equal": "an index, which starts at 0",
        "less_than": f"an index below {MAX_OUTPUT}",
        "model_type": "step, place and value",
    }
    return f"{field} is {_short(error['input'])}; expected {expected.get(error['type'], error['msg'])}."


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
