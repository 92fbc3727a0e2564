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
    RecurrentConfig,
    RecurrentSeq2Seq,
    TransformerConfig,
)
from saccade.models.resized import ResizedConfig, ResizedSeq2Seq
from saccade.tasks.base.task import Network, Task

__all__ = ["SEQ2SEQ", "Decodable", "read_network"]


class Decodable(Protocol):
    """The methods that decoding needs from every sequence-to-sequence network."""

    def start(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, max_length: int) -> Any: ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]: ...

    def reorder(self, state: Any, index: Int[Tensor, "*N"]) -> Any: ...


def read_network(values: Mapping[str, Any], task: type[Task], where: str) -> tuple[str, Config]:
    """Read a ``[model]`` table, and return the kind of network and its configuration."""
    fields = dict(values)
    kind = fields.pop("kind", next(iter(task.networks)))
    if not isinstance(kind, str) or kind not in task.networks:
        raise UnknownNameError("network of kind", kind, task.networks, f"{where}: the task {task.name} has")
    for key in fields:
        kinds = [other for other, network in task.networks.items() if key in network.config.model_fields]
        if kinds and kind not in kinds:
            raise OptionError(
                f"{where}: {key} does not apply to networks of kind {kind}, only to {' and '.join(kinds)}."
            )
    return kind, task.networks[kind].config.read({**task.model_defaults.get(kind, {}), **fields}, where)


def _seq2seq(network: type[nn.Module]) -> Callable[[Any, Any], nn.Module]:
    def build(config: Config, state: Any) -> nn.Module:
        return cast(Any, network)(config, state.source.vocabulary_size, state.target.vocabulary_size)  # type: ignore[no-any-return]

    return build


#: Sequence-to-sequence networks, for tasks whose state has the tokenizers ``source`` and ``target``.
SEQ2SEQ = {
    "transformer": Network(TransformerConfig, _seq2seq(EncoderDecoder)),
    "recurrent": Network(RecurrentConfig, _seq2seq(RecurrentSeq2Seq)),
    "convolutional": Network(ConvolutionalConfig, _seq2seq(ConvolutionalSeq2Seq)),
    "resized": Network(ResizedConfig, _seq2seq(ResizedSeq2Seq)),
}
