"""Reading and checking the inputs of a request: within the server's limits, and never the name of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.models import Served

__all__ = ["read_input", "read_inputs"]


def read_inputs(served: Served, given: Sequence[Any], limits: Limits) -> list[Any]:
    """All inputs of one request."""
    if not given:
        raise Refused(400, "There is no input; give at least one.")
    if len(given) > limits.texts:
        raise Refused(413, f"The request has {len(given)} inputs; the limit is {limits.texts}.")
    served.predictor.check_request(given)
    return [read_input(served, one, limits.characters, limits.tokens) for one in given]


def read_input(served: Served, given: Any, characters: int, tokens: int) -> Any:
    """One input as the model's ``predict`` expects it; refused if it has too many characters or tokens."""
    if isinstance(given, str) and len(given) > characters:
        raise Refused(413, f"The text has {len(given):,} characters; the limit is {characters:,}.")
    read = served.predictor.from_json(given)
    found = served.predictor.count_tokens(read)
    if found > tokens:
        raise Refused(413, f"The text has {found:,} tokens; the limit is {tokens:,}.")
    return read
