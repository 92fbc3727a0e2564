"""What all model configurations share: frozen, unknown keys refused with the nearest right one named."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from saccade.errors import OptionError, UnknownNameError

__all__ = ["Config"]


class Config(BaseModel):
    """Base of all configurations."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> Self:
        """A configuration from outside; an error is one sentence that begins with ``where`` it was found."""
        for key in values:
            if key not in cls.model_fields:
                raise UnknownNameError(f"key in {where}", key, cls.model_fields)
        try:
            return cls.model_validate(values, strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            said = first["msg"].removeprefix("Value error, ")
            # A rule that joins several keys has no key of its own, and its input is all of them.
            what = f"{key} = {first['input']!r}: " if key else ""
            raise OptionError(f"{where}: {what}{said}.") from None
