"""Recipes: TOML files with all settings of a training run."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import tomli_w

from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.models import Config
from saccade.tasks.base.data import Say
from saccade.tasks.base.model_folder import bundle_recipe
from saccade.tasks.base.networks import read_network
from saccade.tasks.base.predictor import NoOptions
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.task import Task, TaskState
from saccade.tasks.registry import DEFAULT_TASK, Entry, task_named
from saccade.training.distributed import DistributedSettings

__all__ = ["Recipe", "read_recipe", "read_tables", "tables_of_model"]

#: The keys that say how long a run trains; a run without one of them has no such limit.
LIMITS = ("training.steps", "training.minutes")


@dataclass(frozen=True)
class Recipe:
    """All settings of a run, validated."""

    entry: Entry
    metric: str
    settings: Mapping[str, Config]  # every table except [model]: data, text, training, decoding, ...
    kind: str  # the kind of network
    model: Config
    distributed: DistributedSettings = field(default_factory=DistributedSettings)

    @property
    def task(self) -> type[Task]:
        return self.entry.task

    @property
    def training(self) -> TrainingSettings:
        return cast(TrainingSettings, self.settings["training"])

    def build_task(self, state: TaskState) -> Task:
        """Return the task with the settings of this recipe and ``state``: its tokenizers, labels and so on."""
        return self.task(state, self.settings, self.metric)

    @property
    def decoding(self) -> Config:
        """The options that control how answers are generated; most tasks have none."""
        return self.settings.get("decoding", NoOptions())

    @property
    def sections(self) -> dict[str, Config]:
        """Every table of the recipe, in the order in which a recipe file lists them."""
        last = {name: self.settings[name] for name in ("training", "decoding") if name in self.settings}
        return {
            **{name: table for name, table in self.settings.items() if name not in last},
            "model": self.model,
            **last,
            "distributed": self.distributed,
        }

    def tables(self) -> dict[str, Any]:
        """Return the recipe as nested tables, with defaults filled in. Keys whose value is None are left out, because
        TOML has no null, and so is ``[distributed]`` if it has its defaults."""
        tables = {
            name: section.model_dump(exclude=set(section.unused), exclude_none=True)
            for name, section in self.sections.items()
        }
        tables["model"] = {"kind": self.kind, **tables["model"]}
        if self.distributed == DistributedSettings():
            del tables["distributed"]
        return {"task": self.task.name, "metric": self.metric, **tables}

    def toml(self) -> str:
        """Return the recipe as TOML, with defaults filled in, as it is saved with the run and the model."""
        return tomli_w.dumps(self.tables())

    def differences(self, other: Recipe) -> list[str]:
        """Return a message with both values for each key in which the two recipes differ, except for those that only
        say how several processes work together."""
        ours, theirs = self._keys(), other._keys()
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        return [f"{key}: {theirs.get(key)} there, {ours.get(key)} here" for key in keys]

    def extends(self, other: Recipe) -> bool:
        """Return whether this recipe differs from another only in that it trains longer: more updates, more minutes,
        or both."""
        ours, theirs = self._keys(), other._keys()
        limits = {key: (ours.pop(key, math.inf), theirs.pop(key, math.inf)) for key in LIMITS}
        return (
            ours == theirs
            and all(one >= two for one, two in limits.values())
            and any(one > two for one, two in limits.values())
        )

    def _keys(self) -> dict[str, Any]:
        """Return every key, except those that only say how several processes work together, which may change during a
        run."""
        return _flat(replace(self, distributed=DistributedSettings()).tables())


def read_recipe(
    path: Path,
    overrides: Sequence[str] = (),
    say: Say = lambda note: None,
    init: Path | None = None,
    *,
    saved: bool = False,
) -> Recipe:
    """Read a recipe file, and apply overrides of the form ``table.key=value``. ``say`` is called with notes for the
    user. If ``init`` is the folder of a model to start from, settings of the network and of the inputs that the recipe
    leaves out are taken from that model. ``saved`` is for the recipe of a run that exists, as in ``read_network``.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"There is no recipe {path}.") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text; a recipe is a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        advice = "" if path.suffix == ".toml" else "; if it is data, give it with --data, or --source and --target"
        raise FileError(f"{path} is not valid TOML, as a recipe must be: {error}{advice}.") from None
    except RecursionError:
        raise FileError(f"{path} is not valid TOML: it nests brackets too deeply.") from None
    return read_tables(tables, str(path), overrides, say, init, saved=saved)


def read_tables(
    tables: dict[str, Any],
    where: str,
    overrides: Sequence[str] = (),
    say: Say = lambda note: None,
    init: Path | None = None,
    *,
    saved: bool = False,
) -> Recipe:
    """Validate a recipe given as nested tables; errors name ``where`` it comes from. The other arguments are as in
    ``read_recipe``."""
    for override in overrides:
        _override(tables, override)
    if "task" not in tables:
        say(f"{where} does not name a task, so it is read as a recipe for {DEFAULT_TASK}.")
    try:
        return _checked(tables, where, init, saved)
    except (OptionError, UnknownNameError) as error:
        error.args = (_blame_override(str(error), where, overrides),)
        raise


def _blame_override(sentence: str, where: str, overrides: Sequence[str]) -> str:
    """If an error is about a value that an override set, name the override instead of the file."""
    subject = sentence.partition(";")[0]
    for override in reversed(overrides):
        table, _, name = override.partition("=")[0].strip().rpartition(".")
        named = re.search(rf"\b{re.escape(name)}\b", subject) is not None and table in subject
        if named or f"no key {table!r}" in subject:
            said = sentence.removeprefix(f"{where}: ")
            shown = override if len(override) <= 80 else f"{override[:77]}..."
            return f"--set {shown}: {re.sub(f'^{re.escape(where)} has', 'a recipe has', said)}"
    return sentence


def _checked(tables: dict[str, Any], where: str, init: Path | None, saved: bool) -> Recipe:
    entry = task_named(tables.get("task", DEFAULT_TASK), where)
    for name, table in ({} if init is None else tables_of_model(entry.task.name, init)).items():
        given = tables.get(name, {})
        if isinstance(given, dict) and given.get("kind", table.get("kind")) == table.get("kind"):
            tables[name] = {**table, **given}
    fields = {"data": entry.data.settings, **entry.task.tables}
    _check_keys({**fields, "distributed": DistributedSettings}, tables, where)
    kind, model = read_network(tables.get("model", {}), entry.task, f"{where}: [model]", saved=saved)
    settings = {name: table.read(tables.get(name, {}), f"{where}: [{name}]") for name, table in fields.items()}
    distributed = DistributedSettings.read(tables.get("distributed", {}), f"{where}: [distributed]")
    recipe = Recipe(entry, tables.get("metric", entry.task.metrics[0]), settings, kind, model, distributed)
    entry.task.check_metric(recipe.metric)
    return recipe


def tables_of_model(task: str, init: Path) -> dict[str, dict[str, Any]]:
    """Return the settings that a recipe inherits from the model that it starts from: those of the network, and those
    that say how inputs are read."""
    theirs, found = bundle_recipe(init), task_named(task)
    entry = found.task
    network = entry.networks.get(theirs["model"]["kind"])
    if network is None:
        raise OptionError(f"A {task} model cannot start from a model whose kind is {theirs['model']['kind']}.")
    known = {"model": {"kind", *network.config.used_fields()}, "data": set(found.data.inherited)}
    known |= {name: set(entry.tables[name].model_fields) for name in entry.inherited_tables if name in entry.tables}
    kept = {
        name: {key: one for key, one in theirs.get(name, {}).items() if key in keys} for name, keys in known.items()
    }
    if theirs["task"] != task:
        kept["model"] |= entry.init_defaults
    return kept


def _check_keys(fields: Mapping[str, type[Config]], tables: dict[str, Any], where: str) -> None:
    """Refuse unknown tables and keys; if a key is outside its table, say where it belongs."""
    names = (*fields, "model")
    keys = ("task", "metric", *names)
    for key in tables:
        homes = [table for table, config in fields.items() if key in config.model_fields]
        if homes and key not in keys:
            raise OptionError(f"{where}: {key} must be in a table; did you mean {homes[0]}.{key}?")
        if key not in keys:
            raise UnknownNameError("key", key, keys, f"{where} has")
    for name in names:
        if not isinstance(tables.get(name, {}), dict):
            raise OptionError(f"{where}: {name} must be a table, written [{name}].")


def _override(tables: dict[str, Any], text: str) -> None:
    """Apply an override such as ``training.lr=3e-4``; a value that is not valid TOML is used as plain text."""
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise OptionError(f"--set takes table.key=value, such as training.lr=3e-4, not {text!r}.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value.strip()
    table = tables
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise OptionError(f"--set {text}: {name} is not a table.")
    table[path[-1]] = parsed


def _flat(tables: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables under keys such as ``training.lr``."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
