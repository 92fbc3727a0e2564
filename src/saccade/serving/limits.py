"""How much one request may ask for, and how much the server keeps: memory and time stay bounded whatever comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saccade.errors import OptionError
from saccade.models import Config
from saccade.serving.http.refusals import Refused

__all__ = ["CEILINGS", "Limits", "check_options", "described_options"]

#: The highest values of options that cost time or memory; files of one's own may be answered with more.
CEILINGS: Mapping[str, float] = {
    "beam": 32,
    "n_best": 32,
    "tries": 32,
    "max_tokens": 2048,
    "max_length": 2048,
    "max_ratio": 4,
    "stop": 16,  # how many
}


@dataclass(frozen=True)
class Limits:
    """What the server takes. Above: refused with a sentence, 413 or 429."""

    body_bytes: int = 4 << 20  # of one request,
    all_bodies: int = 128 << 20  # of all that are on their way or being answered,
    address_bodies: int = 64 << 20  # and of those that come from one address
    strange_body_bytes: int = 64 << 10  # of one request whose key is not in a header,
    strange_bodies: int = 4 << 20  # and of all of these; a fourth of it for one address
    texts: int = 128  # in one request
    sentences: int = 1024  # in one request for a translation
    characters: int = 20_000  # of one text
    tokens: int = 4096  # of one text
    map_characters: int = 1_000_000  # of a text that is only read
    map_tokens: int = 65_536
    connections: int = 1024  # at once; fewer where the system allows fewer open files
    requests: int = 256  # that are whole, at once in the whole server,
    address_requests: int = 192  # and from one address
    strange_requests: int = 64  # of those whose key is not in a header; half of it from one address
    queue: int = 64  # requests that wait for one model: so many quick ones, and so many long ones
    batch: int = 64  # texts that are answered together
    cost: int = 2_000_000  # token steps of one request: tokens read and written, times the beam or the tries
    quick: int = 4096  # token steps of a request that does not wait for long ones,
    quick_steps: int = 256  # and steps of it that follow each other
    turn: float = 0.2  # seconds that a request, or a part of a long one, computes before others have their turn
    seconds: float = 60.0  # that a request may wait, and then that it may compute
    map_seconds: float = 600.0  # that reading a long text may take
    client_seconds: float = 60.0  # that a client may take to send a request, or without taking up its answer
    stranger_seconds: float = 5.0  # the same, for a body that comes without the key in a header
    looks: int = 64  # that are kept, the least recently used go first
    look_bytes: int = 1 << 30  # of all of them together

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise OptionError(f"The limit {name} is more than 0; not {value}.")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what would keep a model busy for too long; whether an option exists is the model's to say."""
    for name, most in CEILINGS.items():
        given = options.get(name)
        size = len(given) if isinstance(given, list | str) else given
        if isinstance(size, int | float) and size > most:
            raise Refused(400, f"{name} is at most {most:g} here; not {str(given)[:40]}.")


def described_options(options: type[Config]) -> dict[str, Any]:
    """The options of a model as JSON schemas, no higher than they are taken here."""
    found: dict[str, Any] = options.model_json_schema().get("properties", {})
    for name, schema in found.items():
        if name in CEILINGS and schema.get("type") in ("integer", "number"):
            schema["maximum"] = min(schema.get("maximum", CEILINGS[name]), CEILINGS[name])
    return found
