"""Read the inputs of a request and check them against the server's limits. An input is never used as a file name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from saccade.errors import FileError
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.models import Served

__all__ = ["read_file", "read_input", "read_inputs", "replaced"]


def read_inputs(served: Served, given: Sequence[Any], limits: Limits) -> list[Any]:
    """Check the inputs of one request against the limits; return them in the form that ``predict`` expects."""
    _check_number(given, limits)
    served.predictor.check_request(given)
    return [read_input(served, one, limits.characters, limits.tokens) for one in given]


def read_input(served: Served, given: Any, characters: int, tokens: int) -> Any:
    """Return one input in the form that ``predict`` expects; refuse it if it has too many characters or tokens."""
    return _check_size(served, served.predictor.from_json(given), characters, tokens)


def replaced(served: Served, given: Any, words: tuple[str, str], limits: Limits) -> Any:
    """Return an input in which the first of ``words`` is replaced by the second; check it against the limits again."""
    return _check_size(served, served.predictor.replaced(given, *words), limits.characters, limits.tokens)


def read_file(served: Served, content: bytes, limits: Limits) -> tuple[list[Any], str]:
    """Read a file in the format of the model's training files; return its inputs, and a sentence that says how it
    was read."""
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.GzipFile(fileobj=BytesIO(content)).read(limits.body_bytes + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise Refused(400, f"The file cannot be decompressed: {error}.") from None
        if len(content) > limits.body_bytes:
            raise Refused(413, f"The decompressed file is larger than {limits.body_bytes:,} bytes, which is the limit.")
    try:
        inputs, how = served.predictor.read_bytes(content)
    except FileError as error:
        if "--" not in str(error):
            raise
        raise FileError(
            f"{error} These are options of saccade predict; over HTTP, send the inputs as JSON to "
            f"/api/models/{served.name}/predict instead."
        ) from None
    _check_number(inputs, limits)
    return [_check_size(served, one, limits.characters, limits.tokens) for one in inputs], how


def _check_number(given: Sequence[Any], limits: Limits) -> None:
    if not given:
        raise Refused(400, "There is no input; give at least one.")
    if len(given) > limits.texts:
        raise Refused(
            413,
            f"The request has {len(given)} inputs; the limit is {limits.texts}. Send them in several requests, or use "
            "saccade predict, which has no limit.",
        )


def _check_size(served: Served, read: Any, characters: int, tokens: int) -> Any:
    parts = [read] if isinstance(read, str) else read if isinstance(read, list) else []  # a list of words
    if (size := sum(len(part) for part in parts if isinstance(part, str))) > characters:
        raise Refused(413, f"The text has {size:,} characters; the limit is {characters:,}.")
    found = served.predictor.count_tokens(read)
    if found > tokens:
        raise Refused(413, f"The text has {found:,} tokens; the limit is {tokens:,}.")
    return read
