"""Limits on requests and on what the server keeps, so that memory and time stay bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saccade.errors import OptionError, shortened
from saccade.serving.http.refusals import Refused
from saccade.tasks.base.predictor import Predictor

__all__ = ["Limits", "check_options", "described_options"]


@dataclass(frozen=True)
class Limits:
    """The limits of the server; a request that exceeds one is refused with 413 or 429 and one sentence.

    The limits whose names contain "strange" are lower, and apply to requests without the API key in a header.
    """

    body_bytes: int = 4 << 20  # bytes of one body,
    all_bodies: int = 128 << 20  # of all bodies being received or answered,
    address_bodies: int = 64 << 20  # and of those from one address
    strange_body_bytes: int = 64 << 10  # bytes of one body without the key in a header,
    strange_bodies: int = 4 << 20  # and of all such bodies; a quarter of this for one address
    texts: int = 128  # texts in one request
    sentences: int = 1024  # sentences in one translation request
    characters: int = 20_000  # characters of one text
    tokens: int = 4096  # tokens of one text
    map_characters: int = 1_000_000  # characters of a text for a map
    map_tokens: int = 65_536
    connections: int = 1024  # open connections; fewer if the system allows fewer open files
    requests: int = 256  # requests being answered, once their bodies are complete,
    address_requests: int = 192  # and from one address
    strange_requests: int = 64  # those without the key in a header; half of this from one address
    queue: int = 64  # waiting requests per model, separately for quick and for long ones
    batch: int = 64  # texts in one batch
    cost: int = 2_000_000  # token steps of one request: tokens read and written, times the beam or the samples
    quick: int = 4096  # token steps of a quick request, which does not wait for long ones,
    quick_steps: int = 256  # and its consecutive steps
    turn: float = 0.2  # seconds that one turn should take
    seconds: float = 60.0  # seconds that a request may wait, and again that it may compute
    map_seconds: float = 600.0  # seconds that reading a long text may take
    client_seconds: float = 60.0  # seconds to send a request, and seconds without reading any of its answer
    stranger_seconds: float = 5.0  # seconds to send a body without the key in a header
    looks: int = 64  # looks that are kept; the least recently used go first
    look_bytes: int = 1 << 29  # bytes of all looks together

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise OptionError(f"The limit {name} must be more than 0, not {value}.")


def check_options(predictor: Predictor, options: Mapping[str, Any]) -> None:
    """Refuse option values that would keep a model busy for too long. The model itself refuses unknown options."""
    for name, most in predictor.ceilings.items():
        given = options.get(name)
        size = len(given) if isinstance(given, list | str) else given
        if isinstance(size, int | float) and size > most:
            raise Refused(400, f"{name} can be at most {most:g} here, not {shortened(given, 40)}.")


def described_options(predictor: Predictor) -> dict[str, Any]:
    """Return the options of a model as JSON schemas, with the largest values that this server accepts."""
    found: dict[str, Any] = predictor.options.model_json_schema().get("properties", {})
    for name, most in predictor.ceilings.items():
        if found[name].get("type") in ("integer", "number"):
            found[name]["maximum"] = min(found[name].get("maximum", most), most)
    return found
