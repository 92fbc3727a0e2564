"""A recipe: one TOML file that says everything about a training run."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.models import Config
from saccade.tasks.networks import SEQ2SEQ, read_network
from saccade.tasks.search import SearchOptions
from saccade.tasks.translation import TextSettings, Translation
from saccade.tasks.translation_data import TranslationData
from saccade.training.settings import TrainingSettings

__all__ = ["Recipe", "read_recipe", "read_tables"]

TABLES = ("data", "text", "model", "training", "decoding")
FIELDS: dict[str, type[Config]] = {
    "training": TrainingSettings,
    "data": TranslationData,
    "text": TextSettings,
    "decoding": SearchOptions,
}
KEYS = ("task", "metric", *TABLES)


@dataclass(frozen=True)
class Recipe:
    """All settings of a run, each checked."""

    task: str
    metric: str
    data: TranslationData
    text: TextSettings
    kind: str  # of network
    model: Config
    training: TrainingSettings
    decoding: SearchOptions

    def tables(self) -> dict[str, Any]:
        """The same as nested tables, defaults included; what is None is left out, as TOML has no such value."""
        return {
            "task": self.task,
            "metric": self.metric,
            "data": self.data.model_dump(exclude_none=True),
            "text": self.text.model_dump(exclude_none=True),
            "model": {"kind": self.kind, **self.model.model_dump(exclude_none=True)},
            "training": self.training.model_dump(exclude_none=True),
            "decoding": self.decoding.model_dump(exclude_none=True),
        }

    def toml(self) -> str:
        """The resolved recipe, as it is saved with the run and the model."""
        return tomli_w.dumps(self.tables())

    def differences(self, other: Recipe) -> list[str]:
        """The keys in which two recipes differ, with both values."""
        ours, theirs = _flat(self.tables()), _flat(other.tables())
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        return [f"{key}: {theirs.get(key)} there, {ours.get(key)} here" for key in keys]


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe file with ``key.key=value`` overrides."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"There is no recipe {path}.") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text; a recipe is a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path} is not valid TOML: {error}.") from None
    return read_tables(tables, str(path), overrides)


def read_tables(tables: dict[str, Any], where: str, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe from nested tables; an error says where the value stands."""
    for override in overrides:
        _override(tables, override)
    for key in tables:
        homes = [table for table, fields in FIELDS.items() if key in fields.model_fields]
        if homes and key not in KEYS:
            raise OptionError(f"{where}: {key} stands in a table; did you mean {homes[0]}.{key}?")
        if key not in KEYS:
            raise UnknownNameError(f"key in {where}", key, KEYS)
    for key in TABLES:
        if not isinstance(tables.get(key, {}), dict):
            raise OptionError(f"{where}: {key} is a table, written [{key}].")
    task = tables.get("task", Translation.name)
    if task != Translation.name:
        raise UnknownNameError(f"task in {where}", task, (Translation.name,))
    kind, model = read_network(_defaults(tables.get("model", {})), SEQ2SEQ, f"{where}: [model]")
    recipe = Recipe(
        task,
        tables.get("metric", "bleu"),
        TranslationData.read(tables.get("data", {}), f"{where}: [data]"),
        TextSettings.read(tables.get("text", {}), f"{where}: [text]"),
        kind,
        model,
        TrainingSettings.read(tables.get("training", {}), f"{where}: [training]"),
        SearchOptions.read(tables.get("decoding", {}), f"{where}: [decoding]"),
    )
    Translation.check_metric(recipe.metric)
    return recipe


def _defaults(model: dict[str, Any]) -> dict[str, Any]:
    """A translation's Transformer has layers on both sides, if the recipe does not say how many."""
    if model.get("kind", "transformer") == "transformer":
        return {"encoder_layers": 3, "decoder_layers": 3, **model}
    return model


def _override(tables: dict[str, Any], text: str) -> None:
    """``training.lr=3e-4``: the value is read as TOML, or as plain text where it is no TOML value."""
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise OptionError(f"--set takes table.key=value, such as training.lr=3e-4; not {text!r}.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    table = tables
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise OptionError(f"--set {text}: {name} is no table.")
    table[path[-1]] = parsed


def _flat(tables: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tables.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
