"""Start from the weights of another model: choose which are trained, with which learning rate, or add LoRA."""

from __future__ import annotations

import re
from collections.abc import Collection

from torch import nn

from saccade.errors import OptionError, UnknownNameError
from saccade.models.low_rank import add_low_rank
from saccade.models.weights import unshared
from saccade.tasks.base.model_folder import load_weights, read_bundle
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.task import Task
from saccade.training.run_folder import RunFolder

__all__ = ["copy_initial_weights", "prepare_layers", "rate_share"]

#: The layers of a network that have a row for each label.
OUTPUTS = ("output", "distilled_output")
_BLOCK = re.compile(r"(encoder|decoder)\.(\d+)\.")


def copy_initial_weights(run: RunFolder, network: nn.Module, task: Task) -> tuple[set[str], str]:
    """Copy the weights of the --init model into ``network``: all of them if the task is the same, otherwise those that
    both models have under the same name and in the same shape.

    If the labels differ, the output layer is not copied, because its rows belong to the old labels. Returns the names
    of the tensors that were copied, and a sentence for the user, which is empty if all were copied.
    """
    if run.init is None:
        return set(), ""
    other = read_bundle(run.init)
    theirs, ours = unshared(other.model), unshared(network)
    is_same, is_relabelled = isinstance(other.task, run.recipe.task), _labels(other.task) != _labels(task)
    if is_same and not is_relabelled:
        load_weights(network, theirs, str(run.init))
        return set(ours), ""
    shared = {name for name in ours if name in theirs and theirs[name].shape == ours[name].shape}
    if is_same:
        shared = {name for name in shared if name.split(".")[0] not in OUTPUTS}
    if not shared:
        raise OptionError(
            f"{run.init} ({other.task.name}, {other.kind}) shares no weights with the {run.recipe.kind} network of "
            "this recipe; use a network with the same sizes."
        )
    load_weights(network, ours | {name: theirs[name] for name in shared}, str(run.init))
    return shared, f"Starting from {run.init}: {len(shared)} of {len(ours)} tensors are copied."


def _labels(task: Task) -> list[str] | None:
    return getattr(task, "labels", None)


def prepare_layers(network: nn.Module, settings: TrainingSettings, copied: Collection[str]) -> None:
    """Freeze the parts of the network that ``training.frozen`` names, and add LoRA's matrices if the recipe asks for
    them.

    With LoRA, the copied weights are frozen too; only its matrices and the weights that were not copied are trained.
    """
    parameters = dict(network.named_parameters())
    if settings.lora_rank:
        if not copied:
            raise OptionError("training.lora_rank needs a model to start from; give one with --init.")
        if getattr(network.config, "shared_layers", False):
            raise OptionError("training.lora_rank does not apply to a network whose blocks share their weights.")
        for name in copied:
            if name in parameters:
                parameters[name].requires_grad_(False)
        if not add_low_rank(network, settings.lora_rank, settings.lora_on):
            raise OptionError(
                f"training.lora_rank only applies to Transformers: this network has no layer {settings.lora_on}."
            )
    for part in settings.frozen:
        names = [name for name in parameters if name == part or name.startswith(f"{part}.")]
        if not names:
            parts = dict.fromkeys(name for full in parameters for name in _parts(full))
            raise UnknownNameError("part in training.frozen", part, list(parts))
        for name in names:
            parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise OptionError(
            "training.frozen names all parts of the network, so nothing would be trained; remove a part from it."
        )


def _parts(name: str) -> list[str]:
    """The parts of the network that contain a parameter, as training.frozen names them: input, encoder, encoder.0."""
    block = _BLOCK.match(name)
    return [name.split(".")[0]] if block is None else [block[1], f"{block[1]}.{block[2]}"]


def rate_share(name: str, names: Collection[str], decay: float) -> float:
    """Return the learning rate of a parameter as a fraction of the highest rate, that of the output layer and of the
    top block.

    Each block has ``decay`` times the rate of the block above it; the embeddings have ``decay`` times that of block 0.
    """
    block = _BLOCK.match(name)
    if block is None and name.split(".")[0] not in ("input", "source", "target"):
        return 1.0
    blocks = [one for one in map(_BLOCK.match, names) if one and (block is None or one[1] == block[1])]
    top = max((int(one[2]) for one in blocks), default=-1)
    return decay ** (top - (int(block[2]) if block else -1))
