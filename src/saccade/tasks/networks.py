"""Networks by the ``kind`` of a recipe's ``[model]`` table: filled in one place."""

from __future__ import annotations

from collections.abc import Mapping
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

__all__ = ["SEQ2SEQ", "Seq2Seq", "build_seq2seq", "read_network"]


class Output(Protocol):
    """The layer from vectors to words."""

    def __call__(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]: ...

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]: ...


class Seq2Seq(Protocol):
    """What every network from one sequence to another offers."""

    output: Output
    config: Config

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]: ...

    def start(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, max_length: int) -> Any: ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]: ...

    def reorder(self, state: Any, index: Int[Tensor, "*N"]) -> Any: ...


#: kind -> its configuration, and the network
SEQ2SEQ: dict[str, tuple[type[Config], type[nn.Module]]] = {
    "transformer": (TransformerConfig, EncoderDecoder),
    "recurrent": (RecurrentConfig, RecurrentSeq2Seq),
    "convolutional": (ConvolutionalConfig, ConvolutionalSeq2Seq),
}


def read_network(
    values: Mapping[str, Any], networks: Mapping[str, tuple[type[Config], type[nn.Module]]], where: str
) -> tuple[str, Config]:
    """The kind and the configuration that a ``[model]`` table names."""
    fields = dict(values)
    kind = fields.pop("kind", "transformer")
    if not isinstance(kind, str) or kind not in networks:
        raise UnknownNameError(f"kind of model in {where}", kind, networks)
    return kind, networks[kind][0].read(fields, where)


def build_seq2seq(kind: str, config: Config, source_vocabulary: int, target_vocabulary: int) -> nn.Module:
    """A network of this kind with fresh weights."""
    if isinstance(config, TransformerConfig) and config.weights == "hard":
        raise OptionError(
            'model.weights = "hard" passes no gradient to the scores of a Transformer; '
            'a network of kind = "recurrent" learns it, by reinforcement.'
        )
    network = cast(Any, SEQ2SEQ[kind][1])
    built: nn.Module = network(config, source_vocabulary, target_vocabulary)
    return built
