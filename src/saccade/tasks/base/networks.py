"""Choose a network by the ``kind`` in the ``[model]`` table of a recipe; define networks that several tasks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError
from saccade.models import (
    Config,
    ConvolutionalConfig,
    ConvolutionalSeq2Seq,
    EncoderDecoder,
    EncoderDecoderConfig,
    RecurrentConfig,
    RecurrentSeq2Seq,
)
from saccade.models.resized import ResizedConfig, ResizedSeq2Seq
from saccade.recurrent import Recurrent
from saccade.tasks.base.task import Network, Task

__all__ = ["SEQ2SEQ", "Decodable", "read_network", "truncated"]


class Decodable(Protocol):
    """The methods that decoding needs from every sequence-to-sequence network."""

    def start(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, max_length: int) -> Any: ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]: ...

    def reorder(self, state: Any, index: Int[Tensor, "*N"]) -> Any: ...


def read_network(values: Mapping[str, Any], task: type[Task], where: str, *, saved: bool = False) -> tuple[str, Config]:
    """Read a ``[model]`` table, and return the kind of network and its configuration.

    A key that has no effect on this kind of network is refused, unless it has its default value. If the table was
    ``saved`` with a run or a model, such keys are ignored: earlier versions accepted and saved them.
    """
    fields = dict(values)
    kind = fields.pop("kind", next(iter(task.networks)))
    if not isinstance(kind, str) or kind not in task.networks:
        raise UnknownNameError("network of kind", kind, task.networks, f"{where}: the task {task.name} has")
    config = task.networks[kind].config
    for key in [key for key in fields if key in config.unused]:
        if saved or fields[key] == config.model_fields[key].default:
            del fields[key]
    for key in fields:
        kinds = [other for other, network in task.networks.items() if key in network.config.used_fields()]
        if kind not in kinds and (kinds or key in config.unused):
            others = f", only to {' and '.join(kinds)}" if kinds else f" for the task {task.name}; leave it out"
            raise OptionError(f"{where}: {key} does not apply to networks of kind {kind}{others}.")
    return kind, config.read({**task.model_defaults.get(kind, {}), **fields}, where)


def truncated(model: nn.Module, kind: str, steps: int | None) -> nn.Module:
    """Return the network after limiting the steps through which it back-propagates; None does not limit them."""
    if steps is None:
        return model
    recurrences = [part for part in model.modules() if isinstance(part, Recurrent)]
    if not recurrences:
        raise OptionError(f"training.truncate only applies to recurrent networks, not to those of kind {kind}.")
    for part in recurrences:
        part.truncate = steps
    return model


def _seq2seq(network: type[nn.Module]) -> Callable[[Any, Any], nn.Module]:
    def build(config: Config, state: Any) -> nn.Module:
        return cast(Any, network)(config, state.source.vocabulary_size, state.target.vocabulary_size)  # type: ignore[no-any-return]

    return build


#: Sequence-to-sequence networks, for tasks whose state has the tokenizers ``source`` and ``target``.
SEQ2SEQ = {
    "transformer": Network(EncoderDecoderConfig, _seq2seq(EncoderDecoder)),
    "recurrent": Network(RecurrentConfig, _seq2seq(RecurrentSeq2Seq)),
    "convolutional": Network(ConvolutionalConfig, _seq2seq(ConvolutionalSeq2Seq)),
    "resized": Network(ResizedConfig, _seq2seq(ResizedSeq2Seq)),
}
