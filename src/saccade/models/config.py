"""What all model configurations share: frozen, unknown keys refused with the nearest right one named."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from saccade.errors import OptionError, UnknownNameError

__all__ = ["Config"]

#: The highest numbers that make sense, by how the name of a key ends; a key may have a lower limit of its own. A file
#: from outside must not make us build a million layers before we see that its weights are not theirs.
HIGHEST = {
    "layers": 1000,
    "width": 1 << 18,
    "heads": 1 << 12,
    "kernel": 1 << 12,
    "radius": 1 << 12,
    "patch": 1 << 14,
    "channels": 1 << 12,
    "image_size": 1 << 14,
    "length": 1 << 24,
    "context": 1 << 24,
    "token_types": 1 << 16,
    "": 1 << 53,
}


class Config(BaseModel):
    """Base of all configurations."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*", mode="after")
    @classmethod
    def _bounded(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        most = next(most for end, most in HIGHEST.items() if name.endswith(end))
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int) and one > most:
                raise ValueError(f"must be at most {most:,}")
        return value

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
            given = repr(first["input"])
            what = f"{key} = {given if len(given) <= 200 else f'{given[:197]}...'}: " if key else ""
            raise OptionError(f"{where}: {what}{said}.") from None
