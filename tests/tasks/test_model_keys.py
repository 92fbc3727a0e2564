"""Every key of ``[model]`` changes the network that it is a key of, or cannot be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from every_network import NETWORKS, Case, drawn, make, write_files

from saccade.errors import OptionError, SaccadeError
from saccade.models import Config
from saccade.tasks.base.networks import read_network

#: Key -> another value, and keys without which it has no effect. Of keys that are missing here, any value will do.
OTHER: dict[str, tuple[Any, dict[str, Any]]] = {
    "width": (24, {}),
    "num_heads": (6, {}),
    "num_key_heads": (1, {}),
    "head_width": (5, {}),
    "projection_bias": (False, {}),
    "shared_layers": (True, {"encoder_layers": 2, "decoder_layers": 2}),
    "attention_window": (1, {}),
    "encoder_window": (0, {}),
    "norm_epsilon": (0.5, {}),
    "final_norm": (False, {}),
    "score": ("cosine", {}),
    "weights": ("sparsemax", {}),
    "position_width": (4, {"position": "sinusoidal", "tied_output": False}),
    "position_slope": (0.5, {"position": "linear"}),
    "position_offset": (0.5, {"position": "linear"}),
    "sines_first": (True, {"position": "sinusoidal"}),
    "max_length": (12, {"position": "learned"}),
    "skipped_positions": (2, {"position": "learned"}),
    "rotary_base": (3.0, {"position": "rotary"}),
    "rotary_width": (2, {"position": "rotary"}),
    "rotary_interleaved": (True, {"position": "rotary"}),
    "rotary_factor": (2.0, {"position": "rotary"}),
    "rotary_bands": ([1.0, 2000.0], {"position": "rotary", "rotary_factor": 2.0}),
    "rotary_trained_length": (16, {"position": "rotary", "rotary_factor": 2.0, "rotary_bands": [1.0, 4.0]}),
    "relative_buckets": (8, {"position": "relative"}),
    "relative_distance": (5, {"position": "relative", "relative_buckets": 8}),
    "one_hot": (True, {"unit": "pieces", "width": 300, "tied_output": False}),
    "embedding_width": (8, {"unit": "pieces"}),
    "scaled_embedding": (True, {"unit": "pieces"}),
    "embedding_norm": (True, {"unit": "pieces"}),
    "token_types": (2, {"unit": "pieces"}),
    "patch": (1, {"stem": "patch"}),
    "stem_layers": (2, {"stem": "convolution"}),
    "stem_norm": (True, {"stem": "convolution"}),
    "distillation": ("output", {"pooling": "class"}),
    "cell": ("gru", {}),
    "attention_width": (3, {"attention": "output"}),
    "kernel": (7, {}),
    "whole_length": (9, {}),
    "spelling_width": (4, {}),
    "character_kernel": (3, {"spelling": "convolution"}),
    "attention_heads": (2, {}),
    "stages": (1, {}),
    "diverse": (2, {"latent": 3}),
    "triangle_attention_layers": (0, {}),
    "convolution": (0, {}),
    "pair_width": (12, {}),
}
#: The data decides about these two, so that only one value fits.
OF_IMAGES = {"image_size": [6, 4], "channels": 3}
#: Keys that would have an effect on some networks which cannot have them.
IMPOSSIBLE = {"embedding_width", "position_width"}
#: One network of every kind of every task.
PLAIN = list({(task, kind): name for name, (task, kind, *_) in reversed(NETWORKS.items())}.values())[::-1]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def other_value(config: type[Config], key: str, own: Any) -> Any:
    """A value that differs from ``own``."""
    if key in OTHER:
        return OTHER[key][0]
    if isinstance(own, bool):
        return not own
    if isinstance(own, str):
        return next(value for value in get_args(config.model_fields[key].annotation) if value != own)
    return own + 0.25 if isinstance(own, float) else own + 1


def computed(case: Case, kind: str, config: Config) -> object:
    """The names and shapes of a network's weights and its loss in training, or a sentence that says why it has none."""
    try:
        torch.manual_seed(5)
        network = case.task.build(kind, config).train()
        with torch.no_grad():
            for parameter in network.parameters():  # what begins with zeros shall matter too
                parameter.add_(0.1 * torch.randn_like(parameter))
        shapes = {name: value.shape for name, value in network.state_dict().items()}
        return shapes, case.task.loss(network, drawn(case, case.examples[:4])).total.item()
    except SaccadeError as error:
        return str(error)


@pytest.mark.parametrize("name", PLAIN)
def test_every_key_changes_the_network(name: str, files: Path) -> None:
    case, (_, kind, fields, _) = make(files, name), NETWORKS[name]
    task = type(case.task)
    network = task.networks[kind].config
    used = network.used_fields()
    for key in [key for key in used if key not in OF_IMAGES]:
        needed = {one: value for one, value in OTHER.get(key, (None, {}))[1].items() if one in used}
        given = {"kind": kind, **fields, **needed}
        one = read_network(given, task, name)[1]
        other = read_network({**given, key: other_value(network, key, getattr(one, key))}, task, name)[1]
        assert one != other, f"{name}: {key} has this value already"
        assert computed(case, kind, one) != computed(case, kind, other), f"{name}: {key} changes nothing"
    for key in OF_IMAGES.keys() & used:
        with pytest.raises(OptionError, match=r"model\.(image_size|channels)"):
            case.task.build(kind, read_network({"kind": kind, **fields, key: OF_IMAGES[key]}, task, name)[1])


@pytest.mark.parametrize("name", PLAIN)
def test_a_key_without_effect_cannot_be_chosen(name: str, files: Path) -> None:
    case, (_, kind, fields, _) = make(files, name), NETWORKS[name]
    task = type(case.task)
    network = task.networks[kind].config
    plain = {"kind": kind, **fields}
    expected = read_network(plain, task, name)[1]
    for key in network.unused:
        default = network.model_fields[key].default
        value = other_value(network, key, default)
        with pytest.raises(OptionError, match=rf"^{name}: {key} does not apply to networks of kind {kind}"):
            read_network({**plain, key: value}, task, name)
        assert read_network({**plain, key: default}, task, name)[1] == expected
        assert read_network({**plain, key: value}, task, name, saved=True)[1] == expected
        if key not in IMPOSSIBLE:
            ignored = expected.model_copy(update={key: value})
            assert computed(case, kind, ignored) == computed(case, kind, expected), f"{name}: {key} has an effect"
