"""The base class of all configurations, which are immutable and refuse unknown keys, suggesting a similar name."""

from __future__ import annotations

from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo

from saccade.errors import OptionError, UnknownNameError, describe_invalid

__all__ = ["Config"]

#: The largest sensible value of a key, by the ending of its name; a key may set a lower limit itself. Without these
#: limits, a config file from outside could make us build a million layers before we notice that its weights do not fit.
LARGEST = {
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
    """The base class of the settings of a network: immutable, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    #: Inherited fields that have no effect on this network. They can only have their default value, and recipes and
    #: model folders leave them out.
    unused: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="after")
    @classmethod
    def _bounded(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        most = next(most for end, most in LARGEST.items() if name.endswith(end))
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, int) and item > most:
                raise ValueError(f"must be at most {most:,}")
        return value

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        for name in sorted(self.unused):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} does not apply to this network")
        return self

    @classmethod
    def used_fields(cls) -> dict[str, FieldInfo]:
        """Return the fields that have an effect."""
        return {name: field for name, field in cls.model_fields.items() if name not in cls.unused}

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> Self:
        """Validate values that come from a file or a command, and return them as a configuration.

        An error message is one sentence that begins with ``where``, which says where the values come from.
        """
        prefix = f"{where}: " if where else ""
        for key in values:
            if key not in cls.model_fields:
                raise UnknownNameError(
                    "key" if where else "option", key, cls.used_fields(), f"{where} has" if where else "There is"
                )
            kinds = _kinds(cls.model_fields[key].annotation)
            if isinstance(values[key], bool) and bool not in kinds and kinds & {int, float}:
                raise OptionError(f"{prefix}{key} must be a number, not {str(values[key]).lower()}.")
        try:
            return cls.model_validate(values, strict=False)
        except ValidationError as error:
            raise OptionError(f"{prefix}{_describe(error, values)}.") from None


def _describe(error: ValidationError, values: dict[str, Any]) -> str:
    """Describe the first wrong value, without the full stop."""
    first, *others = error.errors()
    key, *inside = first["loc"] or ("",)
    items = [part for part in inside if isinstance(part, int)]  # the other parts are names of types
    if items and first["type"] == "missing":
        return f"{key} has too few items: {values[str(key)]!r}"
    if items:
        return describe_invalid(first, f"item {items[0] + 1} of {key}")
    said = describe_invalid(first, str(key))
    # The key may have one of several types.
    if " must be " in said and inside and others and len(others[0]["loc"]) == len(first["loc"]):
        either = describe_invalid(others[0], str(key)).removeprefix(f"{key} must be ")
        said = said.replace(f", not {first['input']!r}", f" or {either}")
    return said


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that a field may have, such as int and None."""
    parts = get_args(annotation)
    return {annotation} if not parts else {kind for part in parts for kind in _kinds(part)}
