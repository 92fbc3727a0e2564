"""Add a checksum to each line of a file of JSON objects, to which lines are added over time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["seal", "unseal"]

CHECKSUM = "sha256"


def seal(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON, with the first 16 digits of its SHA-256 as a checksum."""
    return json.dumps({**record, CHECKSUM: _digest(record)})


def unseal(text: str, fields: Collection[str]) -> dict[str, Any] | None:
    """Return the record in a line that `seal` wrote, or None if the line has changed since.

    Earlier versions wrote no checksum, so a record without one is accepted if it has no fields besides ``fields``.
    """
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            return None
        if CHECKSUM not in record:
            return record if record.keys() <= set(fields) else None
        return record if record.pop(CHECKSUM) == _digest(record) else None
    except (ValueError, RecursionError):
        return None


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16]
