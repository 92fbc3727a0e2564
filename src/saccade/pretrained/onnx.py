"""Describe Transformers as ONNX graphs: their inputs and outputs, and which axes may have any length.

A network that computes its answer in one step is one graph. A model that writes text from a source is two graphs:
``encoder`` reads the source once; ``decoder`` takes the new tokens, and the keys and values that it returned earlier
for the tokens before them. A language model, which has no source, has only the decoder.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from saccade.attention import KeyValue, padding
from saccade.errors import OptionError
from saccade.extras import needs_extra
from saccade.models import (
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    TransformerConfig,
    VisionConfig,
    VisionTransformer,
)
from saccade.models.autoencoder import PatchAutoencoder, TransformerAutoencoder
from saccade.models.captioner import Captioner
from saccade.models.classifier import Classifier
from saccade.models.encoders import run_encoder
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.models.tagger import Tagger, TransformerTaggerConfig
from saccade.models.transformer import CrossDecoder
from saccade.models.transformer_layers import decoder_masks

__all__ = ["Graph", "graphs", "kept_names", "run_graph", "runtime", "write_graph"]

#: The sizes of the example that a graph is traced with. All are different, so that no axis can be mistaken for another.
BATCH, TOKENS, PAST, SOURCE = 2, 3, 5, 7


@dataclass(frozen=True)
class Graph:
    """A network, or a part of one, that is exported as one ONNX file."""

    module: nn.Module
    examples: tuple[Any, ...]  # an example of each argument
    axes: tuple[Any, ...]  # the names of the axes of each argument that may have any length
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def graphs(network: nn.Module, *, has_types: bool = False) -> dict[str, Graph]:
    """Return the graphs of a network by the names of their files, without suffix, or raise an error if the network
    cannot be exported. With ``has_types``, a classifier's graph also takes token types: which of two texts a token
    belongs to."""
    if not isinstance(getattr(network, "config", None), TransformerConfig):
        raise OptionError(f"Only Transformers can be exported to ONNX, not the network {type(network).__name__}.")
    if isinstance(network, DecoderOnly):
        return {"decoder": _decoder(_StepDecoder(network), network)}
    if isinstance(network, Captioner | EncoderDecoder):
        return {"encoder": _source(network), "decoder": _decoder(_StepCrossDecoder(network), network)}
    if isinstance(network, VisionTransformer | PatchAutoencoder):
        config = network.config
        output = "logits" if isinstance(network, VisionTransformer) else "rebuilt"
        return {"model": Graph(network, (_images(config),), ({0: "batch"},), ("images",), (output,))}
    if isinstance(network, Tagger):
        return {"model": _tagger(network)}
    if isinstance(network, Classifier | EncoderOnly | SentenceEncoder):
        output = "vectors" if isinstance(network, SentenceEncoder) else "logits"
        return {"model": _tokens(network, output, has_types=has_types)}
    raise OptionError(f"The network {type(network).__name__} cannot be exported to ONNX.")


def runtime(what: str) -> Any:
    """Return the package onnxruntime. If it or a package that writes graphs is not installed, raise an error that names
    ``what`` needs them."""
    with needs_extra("onnx", what):
        import onnx  # noqa: F401 - named here, so that the error says what is missing
        import onnxruntime
        import onnxscript  # noqa: F401
    return onnxruntime


def run_graph(session: Any, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run a graph in a session of ONNX Runtime, and return its outputs by name."""
    names = [one.name for one in session.get_outputs()]
    wanted = {one.name for one in session.get_inputs()}  # an input that changes nothing is not in the graph
    found = session.run(names, {name: one.numpy() for name, one in given.items() if name in wanted})
    return {name: torch.from_numpy(one) for name, one in zip(names, found, strict=True)}


def write_graph(graph: Graph, path: Path) -> None:
    """Trace a graph and write it; if the weights are too large for one file, they go into a second file."""
    module = graph.module.eval()
    examples = [one for one in tree_leaves(graph.examples) if isinstance(one, Tensor)]
    assert len({id(one) for one in examples}) == len(examples), "torch takes the same tensor for the same input"
    with _quietly():
        torch.onnx.export(
            module,
            graph.examples,
            path,
            dynamo=True,
            dynamic_shapes=graph.axes,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            external_data=sum(one.numel() for one in module.parameters()) > 1 << 28,
            verbose=False,
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter's remarks about missing packages and changed names."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def kept_names(layers: int, kind: str) -> list[str]:
    """Return the names of a graph's inputs or outputs for the keys and values of every layer.

    ``kind`` is "past" for inputs, "present" for outputs (past and new tokens), or "source" for those of the source.
    """
    return [f"{kind}_{part}.{layer}" for part in ("key", "value") for layer in range(layers)]


def _tokens(module: nn.Module, output: str, *, has_types: bool = False) -> Graph:
    examples: tuple[Tensor, ...] = (torch.ones(BATCH, SOURCE, dtype=torch.long), torch.tensor([SOURCE, SOURCE - 2]))
    axes: tuple[dict[int, str], ...] = ({0: "batch", 1: "length"}, {0: "batch"})
    names: tuple[str, ...] = ("tokens", "lengths")
    if has_types:
        types = torch.zeros_like(examples[0])
        examples, axes, names = (*examples, types), (*axes, axes[0]), (*names, "types")
    return Graph(module, examples, axes, names, (output,))


def _images(config: VisionConfig) -> Tensor:
    return torch.zeros(BATCH, config.channels, *config.image_size)


# --- taggers ---


class _Pieces(nn.Module):
    """A tagger that returns the logits of each word piece; the logits of a word are the mean over its pieces."""

    def __init__(self, network: Tagger) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N L"]:
        network = self.network
        x = run_encoder(network.encoder, network.encoder_norm, network.input(tokens), lengths)
        logits: Tensor = network.output(x)
        return logits


class _Words(nn.Module):
    def __init__(self, network: Tagger) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, words: Tensor, pieces: Tensor, characters: Tensor, lengths: Tensor, features: Tensor | None = None
    ) -> Float[Tensor, "B N L"]:
        logits: Tensor = self.network(words, pieces, characters, lengths, features=features)
        return logits


def _tagger(network: Tagger) -> Graph:
    config = network.config
    if network.by_pieces:
        return _tokens(_Pieces(network), "logits")
    assert isinstance(config, TransformerTaggerConfig)
    if config.spelling not in ("none", "convolution"):
        raise OptionError(
            f"A tagger with spelling = {config.spelling} cannot be exported to ONNX; convolution and none can."
        )
    words, lengths = torch.ones(BATCH, SOURCE, dtype=torch.long), torch.tensor([SOURCE, SOURCE - 2])
    parts = (torch.ones(BATCH, SOURCE, 3, dtype=torch.long), torch.ones(BATCH, SOURCE, PAST, dtype=torch.long))
    plain = {0: "batch", 1: "length"}
    examples: tuple[Tensor, ...] = (words, *parts, lengths)
    axes: tuple[dict[int, str], ...] = (plain, plain | {2: "pieces"}, plain | {2: "characters"}, {0: "batch"})
    names: tuple[str, ...] = ("words", "pieces", "characters", "lengths")
    if network.feature_sizes:
        features = torch.zeros(BATCH, SOURCE, len(network.feature_sizes), dtype=torch.long)
        examples, axes, names = (*examples, features), (*axes, plain), (*names, "features")
    return Graph(_Words(network), examples, axes, names, ("logits",))


# --- networks that write text ---


class _GivenCache:
    """A cache whose earlier keys and values are inputs of a graph, and whose keys and values at the end are outputs."""

    positions: list[int]
    beside = None  # every row has a separate cache

    def __init__(self, past: KeyValue) -> None:
        self.kept = past

    @property
    def length(self) -> int:
        return self.kept.key.shape[2]

    def append(self, new: KeyValue) -> KeyValue:
        self.kept = KeyValue(*(torch.cat(pair, dim=2) for pair in zip(self.kept, new, strict=True)))
        return self.kept

    def reorder(self, index: Tensor) -> None:
        raise AssertionError("a graph does not reorder its caches")


class _StepDecoder(nn.Module):
    """A decoder that continues a text. It returns the logits after each new token, and the keys and values of all
    tokens."""

    def __init__(self, network: DecoderOnly | CrossDecoder) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], *given: Any) -> Any:
        network = self.network
        caches = [_GivenCache(KeyValue(*pair)) for pair in zip(keys, values, strict=True)]
        inputs = network.input if isinstance(network, DecoderOnly) else network.target
        x = inputs(tokens, first=caches[0].length)
        masks, sources = decoder_masks(network.config), self.sources(*given)
        for number, (block, mask, cache) in enumerate(zip(network.decoder, masks, caches, strict=True)):
            x = block(x, mask=mask, cache=cache, **(sources[number] if sources else {}))
        x = x if network.decoder_norm is None else network.decoder_norm(x)
        return network.output(x), [one.kept.key for one in caches], [one.kept.value for one in caches]

    def sources(self) -> list[dict[str, Any]]:
        """Return the source that each block also attends to; a decoder without cross-attention has none."""
        return []


class _StepCrossDecoder(_StepDecoder):
    """A decoder that also attends to a source, whose keys and values are further inputs."""

    def forward(
        self,
        tokens: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        source_keys: Sequence[Tensor],
        source_values: Sequence[Tensor],
        *lengths: Tensor,
    ) -> Any:
        return super().forward(tokens, keys, values, source_keys, source_values, *lengths)

    def sources(  # type: ignore[override]
        self, keys: Sequence[Tensor], values: Sequence[Tensor], lengths: Tensor | None = None
    ) -> list[dict[str, Any]]:
        mask = None if lengths is None else padding(lengths)
        return [{"source": KeyValue(*pair), "source_mask": mask} for pair in zip(keys, values, strict=True)]


def _heads(config: Any, length: int) -> Tensor:
    width = config.head_width or config.width // config.num_heads
    return torch.zeros(BATCH, config.num_key_heads or config.num_heads, length, width)


def _decoder(module: nn.Module, network: Any) -> Graph:
    config, layers = network.config, len(network.decoder)
    tokens = torch.ones(BATCH, TOKENS, dtype=torch.long)
    examples: list[Any] = [tokens, *([_heads(config, PAST) for _ in range(layers)] for _ in range(2))]
    past = [{0: "batch", 2: "past"} for _ in range(layers)]
    axes: list[Any] = [{0: "batch", 1: "tokens"}, past, past]
    names = ["tokens", *kept_names(layers, "past")]
    if not isinstance(network, DecoderOnly):
        examples += [[_heads(config, _source_length(network)) for _ in range(layers)] for _ in range(2)]
        one: Mapping[int, str] = {0: "batch", 2: "source"} if _attends_to_tokens(network) else {0: "batch"}
        axes += [[dict(one) for _ in range(layers)] for _ in range(2)]
        names += kept_names(layers, "source")
    if _attends_to_tokens(network):
        examples.append(torch.tensor([SOURCE, SOURCE - 2]))
        axes.append(({0: "batch"},))
        names.append("lengths")
    return Graph(module, tuple(examples), tuple(axes), tuple(names), ("logits", *kept_names(layers, "present")))


def _attends_to_tokens(network: Any) -> bool:
    """Return whether the decoder attends to the tokens of a source, some of which may be padding."""
    return isinstance(network, EncoderDecoder) and not isinstance(network, TransformerAutoencoder)


def _source_length(network: Any) -> int:
    """Return the number of source vectors that the decoder attends to."""
    if _attends_to_tokens(network):
        return SOURCE
    if isinstance(network, Captioner):
        rows, columns = network.config.grid
        return int(rows * columns + network.config.leading_tokens)
    return 1


class _Source(nn.Module):
    """An encoder, which returns the keys and values of the source for each layer of the decoder."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, *given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        memory = self.network.encode(*given)
        found = [block.cross.project(memory) for block in self.network.decoder]
        return [one.key for one in found], [one.value for one in found]


def _source(network: Captioner | EncoderDecoder) -> Graph:
    outputs = tuple(kept_names(len(network.decoder), "source"))
    if isinstance(network, Captioner):
        return Graph(_Source(network), (_images(network.config),), (({0: "batch"},),), ("images",), outputs)
    found = _tokens(_Source(network), "")
    return Graph(found.module, found.examples, (found.axes,), ("source", "lengths"), outputs)
