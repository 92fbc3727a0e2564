"""A model folder: what it holds, and folders that are well-formed but no model that can be read."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import untrained
from saccade.errors import DamagedError, FileError, OptionError, SaccadeError, UnknownNameError
from saccade.storage import write_folder
from saccade.tasks.base.model_folder import load_weights, open_model, read_bundle, unshared
from saccade.tasks.language_model.generation import GenerationOptions
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.trajectories.task import SamplingOptions, Trajectories, TrajectoriesState
from saccade.text import Tokenizer
from untrained import write_untrained


def test_a_folder_has_the_fields_layout(tiny_run: Path) -> None:
    folder = tiny_run / "model"
    names = {"config.json", "model.safetensors", "tokenizer.json", "recipe.toml", "manifest.json", "README.md"}
    assert {path.name for path in folder.iterdir()} == names
    readme = (folder / "README.md").read_text()
    bundle = read_bundle(folder)
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    assert f"{parameters:,} parameters" in readme
    scores = json.loads((tiny_run / "result.json").read_text())["scores"]
    assert f"| bleu | {scores['bleu']:.2f} |" in readme
    assert "saccade predict" in readme


def test_a_model_is_ready_to_answer(tiny_run: Path) -> None:
    bundle = read_bundle(tiny_run)
    assert not bundle.model.training
    assert bundle.kind == "transformer"
    assert bundle.decoding.beam == 5


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object], to: Path) -> Path:
    """A folder with another config.json, and a manifest that agrees with it."""
    files: dict[str, bytes] = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"
    }
    description = json.loads(files["config.json"])
    change(description)
    write_folder(to, {**files, "config.json": json.dumps(description).encode()})
    return to


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (
            lambda d: d.update(format=3),
            FileError,
            "has format 3, and this version of Saccade reads formats up to 2; up",
        ),
        (lambda d: d.update(format="x"), FileError, "format 1 or 2"),
        (lambda d: d.update(format=0), FileError, "format 1 or 2"),
        (lambda d: d.update(task="chess"), FileError, "the task 'chess', which is not installed"),
        (lambda d: d.pop("task"), FileError, "'task'"),
        (lambda d: d.pop("model"), FileError, "'model'"),
        (lambda d: d.pop("shared"), FileError, "'shared'"),
        (lambda d: d.pop("decoding"), FileError, "'decoding'"),
        (lambda d: d["model"].update(kind="oracle"), UnknownNameError, "'oracle'"),
        (lambda d: d["model"].update(colour="red"), UnknownNameError, "'colour'"),
        (lambda d: d["model"].update(width="wide"), OptionError, "width must be a whole number, not 'wide'"),
        (lambda d: d["model"].update(feedforward_width=65), DamagedError, "shape"),
        (lambda d: d["model"].update(decoder_layers=2), DamagedError, "decoder.1"),
        (lambda d: d["decoding"].update(beam=0), OptionError, "beam must be at least 1, not 0"),
        (lambda d: d["alignment"].update(heads=[]), OptionError, "heads"),
        (lambda d: d.update(metric="blue"), UnknownNameError, "'blue'"),
        (lambda d: d.update(shared=False), UnknownNameError, "source.tokenizer.json"),
        (lambda d: d.update(model=[]), SaccadeError, "config.json"),
        (lambda d: d.update(alignment=5), SaccadeError, "config.json"),
    ],
)
def test_a_description_that_does_not_fit_is_named(
    tiny_run: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], error: type[SaccadeError], said: str
) -> None:
    folder = rewritten(tiny_run / "model", change, tmp_path / "model")
    with pytest.raises(error) as raised:
        read_bundle(folder)
    assert said in str(raised.value)
    assert str(tmp_path) in str(raised.value) or "'blue'" in str(raised.value)


#: Keys that earlier versions saved with networks that do not use them.
IGNORED = {
    "decoder_layers": 3,
    "encoder_layers": 3,
    "attention_window": 1,
    "encoder_window": 1,
    "tied_embeddings": True,
    "scaled_output": True,
    "output_transform": True,
    "max_length": 7,
}


@pytest.mark.parametrize(
    ("task", "layers"),
    [
        ("images", "2 encoder layers, width 12"),
        ("tagging", "2 encoder layers, width 12"),
        ("classification", "2 encoder layers, width 12"),
        ("masked-language-model", "2 encoder layers, width 12"),
        ("language-model", "2 decoder layers, width 12"),
    ],
)
def test_keys_without_effect_of_earlier_versions_are_ignored(task: str, layers: str, tmp_path: Path) -> None:
    new = untrained.EVERY_TASK[task][0](tmp_path / "new")
    expected = read_bundle(new)
    keys = {key: value for key, value in IGNORED.items() if key in expected.config.unused}
    assert len(keys) >= 3
    assert not keys.keys() & json.loads((new / "config.json").read_text())["model"].keys()
    old = rewritten(new, lambda d: d["model"].update(keys), tmp_path / "old")
    assert read_bundle(old).config == expected.config
    sizes = open_model(old).describe()["sizes"]
    assert sizes.endswith(f" parameters, {layers}, 2 heads")


def test_a_description_that_is_no_table_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {"config.json": b"[]"})
    with pytest.raises(FileError, match=r"config\.json does not describe a model"):
        read_bundle(tmp_path / "model")


def test_a_model_set_aside_by_a_kill_is_put_back(tiny_run: Path, tmp_path: Path) -> None:
    """What a kill between the two renames of a replacement leaves: see docs/decisions/storage.md."""
    run = shutil.copytree(tiny_run, tmp_path / "run")
    (run / "model").rename(run / ".model.saccade-old")
    assert read_bundle(run).kind == "transformer"
    shutil.rmtree(run / "model")
    with pytest.raises(FileError, match="no model yet"):
        read_bundle(run)


def test_weights_are_copied_by_name_and_shape() -> None:
    one, other = torch.nn.Linear(3, 5), torch.nn.Linear(3, 5)
    load_weights(other, unshared(one), "here")
    assert torch.equal(one.weight, other.weight)
    assert one.weight is not other.weight
    with pytest.raises(DamagedError, match=r"here: weight has shape \(5, 3\); the model needs \(5, 2\)"):
        load_weights(torch.nn.Linear(2, 5), unshared(one), "here")
    with pytest.raises(DamagedError, match="here: bias is missing"):
        load_weights(other, {"weight": one.weight}, "here")


FORGED: list[tuple[dict[str, Any], str]] = [
    ({"width": 20_000}, "needs float32 of shape"),
    ({"feedforward_width": 200_000}, "needs float32 of shape"),
    ({"width": 10**9}, "at most 262,144"),
    ({"encoder_layers": 10**6}, "at most 1,000"),
    ({"encoder_layers": 900}, "encoder.1.self.query.weight is missing"),
    ({"encoder_layers": 10**400}, "at most 1,000"),
    ({"position": "learned"}, "is missing"),
    ({"max_length": 10**12}, "at most 16,777,216"),
    ({"norm_epsilon": float("inf")}, "finite"),
    ({"norm_epsilon": float("nan")}, "finite"),
    ({"num_heads": 10**6}, "at most 4,096"),
]


@pytest.mark.parametrize(("fields", "said"), FORGED)
def test_a_forged_description_takes_no_memory(
    fields: dict[str, Any], said: str, tiny_run: Path, tmp_path: Path
) -> None:
    """The manifest agrees, but the network is not the one that the weights are of."""
    folder = rewritten(tiny_run / "model", lambda d: d["model"].update(fields), tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SaccadeError) as refused:
        read_bundle(folder)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 700
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000  # kilobytes


@pytest.mark.parametrize(("key", "value"), [("longest", 0.5), ("longest", "x"), ("longest", 0), ("labels", 1e-320)])
def test_a_forged_setting_of_a_task_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    folder = rewritten(untrained.sorter(tmp_path / "made"), lambda d: d.update({key: value}), tmp_path / "model")
    with pytest.raises(FileError, match=r"config\.json has a value of the wrong kind"):
        read_bundle(folder)


@pytest.mark.parametrize("labels", [3.5, [1, 2], [None]])
def test_forged_labels_are_refused(labels: Any, tmp_path: Path) -> None:
    folder = rewritten(untrained.tagger(tmp_path / "made"), lambda d: d.update(labels=labels), tmp_path / "model")
    with pytest.raises(FileError, match=r"config\.json has a value of the wrong kind"):
        read_bundle(folder)


@pytest.mark.parametrize("ratio", [1e9, float("inf"), 101.0])
def test_a_forged_length_of_answers_is_refused(ratio: float, tiny_run: Path, tmp_path: Path) -> None:
    folder = rewritten(tiny_run / "model", lambda d: d["decoding"].update(max_ratio=ratio), tmp_path / "model")
    with pytest.raises(OptionError, match="max_ratio"):
        read_bundle(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda name, tensors: tensors.update(more=torch.zeros(3)), "contains more, which the model"),
        (lambda name, tensors: tensors.pop(name), "is missing; the model in config.json needs float32"),
        (lambda name, tensors: tensors.update({name: tensors[name].half()}), "is float16 of shape"),
        (lambda name, tensors: tensors.update({name: tensors[name].double()}), "is float64 of shape"),
        (lambda name, tensors: tensors.update({name: tensors[name].flatten()}), "of shape"),
        (lambda name, tensors: tensors[name].view(-1)[-1:].fill_(float("nan")), "contains NaN or infinity"),
        (lambda name, tensors: tensors[name].view(-1)[:1].fill_(-float("inf")), "contains NaN or infinity"),
    ],
)
def test_weights_that_are_not_the_models_are_refused(
    change: Callable[[str, dict[str, torch.Tensor]], object], said: str, tiny_run: Path, tmp_path: Path
) -> None:
    files: dict[str, Any] = {path.name: path.read_bytes() for path in (tiny_run / "model").iterdir()}
    del files["manifest.json"]
    tensors = safetensors.torch.load(files["model.safetensors"])
    change(max(tensors, key=lambda name: tensors[name].ndim), tensors)
    write_folder(tmp_path / "model", files | {"model.safetensors": tensors})
    with pytest.raises(DamagedError) as refused:
        read_bundle(tmp_path / "model")
    assert said in str(refused.value)


def test_linear_positions_of_earlier_versions_compute_what_they_did(tmp_path: Path) -> None:
    """They had no direction and no slope or offset of their own: position t added t to every dimension."""
    state = LanguageModelState(Tokenizer.train(["a small text to read"], "character"), 16, False)
    new = write_untrained(tmp_path / "new", LanguageModel(state), GenerationOptions(), position="linear", norm="rms")
    files: dict[str, Any] = {path.name: path.read_bytes() for path in new.iterdir() if path.name != "manifest.json"}
    description, tensors = json.loads(files["config.json"]), safetensors.torch.load(files["model.safetensors"])
    for key in ("position_slope", "position_offset"):
        del description["model"][key]
    del tensors["input.positions.direction"]
    description["format"] = 1
    write_folder(
        tmp_path / "old", files | {"config.json": json.dumps(description).encode(), "model.safetensors": tensors}
    )
    model = read_bundle(tmp_path / "old").model
    torch.testing.assert_close(
        model.input(torch.tensor([[3, 3, 3, 3]]))[0] - model.input(torch.tensor([[3]]))[0],
        torch.arange(4.0)[:, None].expand(4, 12),
    )


@pytest.mark.parametrize("kind", ["agents", "mlp"])
def test_the_first_models_of_trajectories_must_be_trained_again(kind: str, tmp_path: Path) -> None:
    """They had no layers for an agent's own past, or only these, under other names."""
    task = Trajectories(TrajectoriesState(1.5, 3, 2))
    new = write_untrained(tmp_path / "new", task, SamplingOptions(), kind=kind)
    files: dict[str, Any] = {path.name: path.read_bytes() for path in new.iterdir() if path.name != "manifest.json"}
    description, tensors = json.loads(files["config.json"]), safetensors.torch.load(files["model.safetensors"])
    own = {name: tensors.pop(name) for name in [*tensors] if name.startswith("own.")}
    if kind == "mlp":
        tensors |= {name.removeprefix("own."): tensor for name, tensor in own.items()}
    old = files | {"config.json": json.dumps(description | {"format": 1}).encode(), "model.safetensors": tensors}
    write_folder(tmp_path / "old", old)
    with pytest.raises(
        FileError,
        match=r"old contains a trajectories model of an earlier .*; train it again with: saccade train \S+old",
    ):
        read_bundle(tmp_path / "old")
    damaged = rewritten(tmp_path / "old", lambda d: d.update(format=2), tmp_path / "damaged")
    with pytest.raises(DamagedError, match=r"is missing|does not have"):
        read_bundle(damaged)
    assert read_bundle(rewritten(new, lambda d: d.update(format=1), tmp_path / "later")).kind == kind


def test_translators_with_parallel_blocks_of_earlier_versions_must_be_trained_again(tmp_path: Path) -> None:
    """Their decoders did not attend to the source, so the weights of this attention were never trained."""
    bundle = read_bundle(untrained.translator(tmp_path / "plain"))
    new = write_untrained(tmp_path / "new", bundle.task, bundle.decoding, parallel=True)
    assert read_bundle(new).config.parallel
    old = rewritten(new, lambda d: d.update(format=1), tmp_path / "old")
    with pytest.raises(FileError, match="contains a translation model of an earlier version"):
        read_bundle(old)
