"""Recipes: read, refused in one sentence, written back, and explained key by key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tiny_runs import tables, write_recipe

import untrained
from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.tasks.base.networks import SEQ2SEQ, read_network
from saccade.tasks.masked.predictor import FillOptions
from saccade.tasks.masked.task import MaskedLanguageModel, MaskedLanguageModelState
from saccade.tasks.registry import TASKS, task_named
from saccade.text import Tokenizer
from saccade.training.recipe import Recipe, read_recipe, read_tables
from saccade.training.recipe_text import commented
from saccade.training.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
DATA = {"data": {"table": "pairs.tsv"}}


def read(values: dict[str, Any], *overrides: str) -> Recipe:
    return read_tables({**DATA, **values}, "r.toml", overrides)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"traning": {}}, r"r\.toml has no key 'traning'; .* Did you mean 'training'\?"),
        ({"training": {"stpes": 5}}, r"r\.toml: \[training\] has no key 'stpes'; .* Did you mean 'steps'\?"),
        ({"model": {"num_head": 5}}, r"r\.toml: \[model\] has no key 'num_head'; .* Did you mean 'num_heads'\?"),
        (
            {"model": {"kind": "transformr"}},
            r"the task translation has no network of kind 'transformr'; .* Did you mean 'transformer'\?",
        ),
        ({"metric": "blue"}, r"The task translation has no metric 'blue'; .* Did you mean 'bleu'\?"),
        ({"task": "translate"}, r"r\.toml: there is no task 'translate'; .* Did you mean 'translation'\?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnknownNameError, match=sentence):
        read(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"training": {"steps": "many"}}, r"r\.toml: \[training\]: steps must be a whole number, not 'many'\."),
        ({"training": {"steps": 0}}, r"steps must be at least 1, not 0\."),
        ({"training": {"final": "worst"}}, r"final must be 'last', 'best', 'average' or 'ema', not 'worst'\."),
        ({"training": 5}, r"r\.toml: training must be a table, written \[training\]\."),
        ({"data": {}}, r"r\.toml: \[data\]: give one of builtin, source \(with target\), table, nettalk\."),
        ({"data": {"builtin": "grammar", "languages": []}}, r"languages must have at least 1 item, not \[\]\."),
        ({"training": {"frozen": ["a", 5]}}, r"\[training\]: item 2 of frozen must be a text, not 5\."),
        ({"model": {"rotary_bands": [1.0]}}, r"\[model\]: rotary_bands has too few items: \[1\.0\]\."),
        (
            {"task": "images", "data": {"images": "a", "cut_from": "a"}},
            r"cut_from must be a list or a whole number, not 'a'\.",
        ),
        ({"data": {"source": "a.en"}}, r"give both source and target, or neither"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read(values)


def test_a_path_is_asked_for_by_name() -> None:
    with pytest.raises(OptionError, match=r"^alignments must be a path, not 5\.$"):
        task_named("translation").predictor.scoring.read({"alignments": 5}, "")


def test_set_overrides_a_key() -> None:
    recipe = read({"training": {"lr": 0.5}}, "training.lr=3e-4", "training.final=ema", "text.shared = false")
    assert (recipe.training.lr, recipe.training.final, recipe.settings["text"].shared) == (3e-4, "ema", False)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("training.lr", r"--set takes table\.key=value, such as training\.lr=3e-4, not 'training\.lr'\."),
        ("=5", "--set takes table.key=value"),
        ("training..lr=5", "--set takes table.key=value"),
        ("task.name.first=5", "task is not a table"),
        ("training.lr=fast", r"^--set training\.lr=fast: \[training\]: lr must be a number, not 'fast'\.$"),
        ("training.lr=true", r"^--set training\.lr=true: \[training\]: lr must be a number, not true\.$"),
        ("training.steps=7", r"^--set training\.steps=7: \[training\]: warmup = 200 must be less than steps = 7\.$"),
        ("training.batch_images=5", r"^--set training\.batch_images=5: .*does not apply to this task"),
        ("training=5", r"training must be a table, written \[training\]"),
    ],
)
def test_a_bad_override_is_refused(override: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read({"task": "translation"}, override)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("training.warmpu=5", r"^--set training\.warmpu=5: \[training\] has no key 'warmpu'; .* Did you mean 'warmup'"),
        ("traning.lr=5", r"^--set traning\.lr=5: a recipe has no key 'traning'; .* Did you mean 'training'"),
        ("metric=blue", r"^--set metric=blue: The task translation has no metric 'blue'"),
        ("task=tags", r"^--set task=tags: there is no task 'tags'"),
    ],
)
def test_an_unknown_name_in_an_override_is_answered_with_the_nearest(override: str, sentence: str) -> None:
    with pytest.raises(UnknownNameError, match=sentence):
        read({}, "training.lr=3e-4", override)


def test_a_wrong_key_of_the_file_is_not_blamed_on_an_override() -> None:
    with pytest.raises(UnknownNameError, match=r"^r\.toml: \[training\] has no key 'stpes'"):
        read({"training": {"stpes": 5}}, "training.lr=3e-4")


def test_a_recipe_that_names_no_task_is_read_as_translation_and_says_so() -> None:
    said: list[str] = []
    assert read_tables({**DATA}, "r.toml", (), said.append).task.name == "translation"
    assert said == ["r.toml does not name a task, so it is read as a recipe for translation."]
    read_tables({**DATA}, "r.toml", ["task=translation"], said.append)
    assert len(said) == 1


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    with pytest.raises(FileError, match=rf"There is no recipe {path}\."):
        read_recipe(path)
    path.write_text('task = "translation"\n[training]\nsteps = = 5\n')
    with pytest.raises(FileError, match=rf"{path} is not valid TOML, as a recipe must be: .*line 3"):
        read_recipe(path)
    path.with_suffix(".en").write_text("The black cat.\n")
    with pytest.raises(FileError, match=r"if it is data, give it with --data, or --source and --target\.$"):
        read_recipe(path.with_suffix(".en"))
    path.write_bytes(b'task = "\xff"\n')
    with pytest.raises(FileError, match=rf"{path} is not UTF-8 text"):
        read_recipe(path)
    with pytest.raises(FileError, match=rf"{tmp_path} cannot be read: Is a directory"):
        read_recipe(tmp_path)


@pytest.mark.parametrize("kind", SEQ2SEQ)
def test_a_recipe_comes_back_from_its_toml(kind: str) -> None:
    recipe = read({"model": {"kind": kind}, "training": {"lr": 1e-7, "final": "ema"}})
    assert read_tables(tomllib.loads(recipe.toml()), "r.toml") == recipe


@pytest.mark.parametrize("kind", SEQ2SEQ)
def test_a_commented_recipe_is_the_same_and_explains_every_key(kind: str) -> None:
    recipe = read({"model": {"kind": kind}, "training": {"lr": 1e-7}})
    text = commented(recipe, ["A heading."])
    assert text.startswith("# A heading.\n")
    assert read_tables(tomllib.loads(text), "r.toml") == recipe
    keys = [line for line in text.splitlines()[1:] if line and not line.startswith("[")]
    assert len(keys) > 60
    for line in keys:
        code, comment, explanation = line.removeprefix("# ").partition("  # ")
        assert comment, line
        assert explanation.strip(), line
        assert explanation != code.split(" =")[0].replace("_", " "), f"{line}: says only its name"


def test_every_table_of_every_task_describes_itself_and_its_keys() -> None:
    """In words that add something to the name, in the class and in its JSON schema."""
    for name in TASKS:
        entry = task_named(name)
        networks = [network.config for network in entry.task.networks.values()]
        tables = [entry.data.settings, *entry.task.tables.values(), *networks]
        for table in tables:
            assert "__doc__" in vars(table), f"{table.__name__} has no docstring of its own"
            assert table.__doc__
            for key, shown in table.model_json_schema()["properties"].items():
                assert shown.get("description"), f"{table.__name__}.{key} has no description"
                assert shown["description"].lower() != key.replace("_", " "), (
                    f"{table.__name__}.{key} says only its name"
                )


@pytest.mark.parametrize("task", TASKS)
def test_the_recipe_of_every_task_has_its_descriptions_as_comments(task: str) -> None:
    fields = task_named(task).data.settings.model_fields
    key = next(key for key in ("table", "file", "images", "texts", "files") if key in fields)
    recipe = read_tables({"task": task, "data": {key: ["a.tsv"] if key == "files" else "a.tsv"}}, "r.toml")
    parts = commented(recipe, []).split("\n\n")[1:]
    for part, (name, section) in zip(parts, recipe.sections.items(), strict=True):
        heading, *lines = part.splitlines()
        assert re.fullmatch(rf"\[{name}\]  # [A-Z].+", heading)
        shown = [re.fullmatch(r"(?:# )?(\w+) =.*? # (.+)", line) for line in lines]
        described = [(key, field.description) for key, field in type(section).used_fields().items()]
        assert [one and one.groups() for one in shown][name == "model" :] == described  # the kind comes first


def test_differences_name_both_values(tmp_path: Path) -> None:
    ours = read_recipe(write_recipe(tmp_path))
    other = tables(tmp_path, "recurrent", steps=41)
    theirs = read_tables(other, "there")
    found = ours.differences(theirs)
    assert "training.steps: 41 there, 40 here" in found
    assert "model.cell: gru there, None here" in found
    assert ours.differences(ours) == []


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "recipes").glob("*.toml"), ROOT / "src/saccade/training/demo.toml"]),
    ids=lambda path: path.stem,
)
def test_every_key_of_our_recipes_has_a_comment(path: Path) -> None:
    read_recipe(path)
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            assert re.search(r"\S +# \S", line), line


@pytest.mark.parametrize("name", TASKS)
def test_a_key_of_another_network_says_so(name: str) -> None:
    """Such as num_heads with --set model.kind=recurrent: the key is there, for another kind."""
    networks = TASKS[name].task.networks
    for kind, network in networks.items():
        others = {key for other in networks.values() for key in other.config.used_fields()}
        for key in sorted(others - set(network.config.model_fields)):
            with pytest.raises(
                OptionError, match=rf"\[model\]: {key} does not apply to networks of kind {kind}, only to"
            ):
                read_network({"kind": kind, key: 1}, TASKS[name].task, "[model]")


NO_EFFECT = [
    ("images", "images", "decoder_layers=3"),
    ("images", "images", "max_length=9"),
    ("tagging", "file", "tied_embeddings=true"),
    ("classification", "file", "attention_window=5"),
    ("masked-language-model", "text", "decoder_layers=3"),
    ("language-model", "text", "encoder_layers=3"),
]


@pytest.mark.parametrize(("task", "source", "setting"), NO_EFFECT)
def test_a_key_without_effect_is_refused_and_not_shown(task: str, source: str, setting: str) -> None:
    given = {"task": task, "data": {source: "a"}, "model": {"kind": "transformer"}}
    key = setting.partition("=")[0]
    sentence = (
        rf"^--set model\.{setting}: \[model\]: {key} does not apply to networks of kind transformer"
        rf" for the task {task}; leave it out\.$"
    )
    recipe = read_tables(given, "r.toml")
    assert key not in recipe.tables()["model"]
    shown = commented(recipe, [])
    assert f"\n{key} =" not in shown
    assert f"\n# {key} =" not in shown
    with pytest.raises(OptionError, match=sentence):
        read_tables(given, "r.toml", [f"model.{setting}"])


def test_a_saved_recipe_may_have_keys_without_effect(tmp_path: Path) -> None:
    """Earlier versions saved all of them, with the values of the model that a run started from."""
    given = {"task": "tagging", "data": {"file": "a.txt"}, "model": {"kind": "transformer", "width": 12}}
    recipe = read_tables(given, "r.toml")
    RunFolder(recipe, tmp_path / "run")
    saved = tmp_path / "run" / "recipe.toml"
    old = {"decoder_layers": 0, "tied_embeddings": False, "output_transform": True, "scaled_output": True}
    saved.write_text(tomli_w.dumps({**recipe.tables(), "model": {**recipe.tables()["model"], **old}}))
    assert read_recipe(saved, saved=True) == recipe
    assert not RunFolder(recipe, tmp_path / "run").extended
    with pytest.raises(OptionError, match=r"recipe\.toml: \[model\]: output_transform does not apply"):
        read_recipe(saved)


def test_keys_without_effect_are_not_inherited(tmp_path: Path) -> None:
    state = MaskedLanguageModelState(Tokenizer.train(["a text"], "word"), 8)
    keys = "width = 24\noutput_transform = true"
    folder = untrained.write_untrained(
        tmp_path / "reader",
        MaskedLanguageModel(state),
        FillOptions(),
        recipe=f'[model]\nkind = "transformer"\n{keys}\n',
        output_transform=True,
    )
    given = {"task": "tagging", "data": {"file": "a.txt"}, "model": {"kind": "transformer"}}
    model = read_tables(given, "r.toml", init=folder).tables()["model"]
    assert (model["width"], model["unit"]) == (24, "pieces")
    assert "output_transform" not in model


def test_a_flag_is_not_a_number() -> None:
    for key in ("training.steps=true", "training.warmup=false", "training.lr=true"):
        with pytest.raises(OptionError, match=r"must be a number, not (true|false)"):
            read_tables({"task": "tagging", "data": {"file": "a.txt"}}, "r.toml", [key])
    assert read_tables({"task": "tagging", "data": {"file": "a.txt"}}, "r.toml", ["training.tensorboard=true"])
