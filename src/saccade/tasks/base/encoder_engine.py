"""Encode texts with ONNX Runtime instead of torch: the same weights and nearly the same numbers, but faster for short
texts.

Attention is still computed by Saccade's own network.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, counted
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.models.tagger import Tagger, without_frame
from saccade.models.transformer_layers import InputLayer
from saccade.pretrained.onnx import graphs, run_graph, runtime, write_graph
from saccade.tasks.base.snapshot import Copied

__all__ = ["EncoderEngine", "open_encoder"]

#: Texts with more tokens are encoded by torch: ONNX Runtime is not faster there, and keeps all scores in memory.
LONGEST = 512
#: The number of words, padding included, that a graph which reads their characters is given at once; more are slower.
WORDS_AT_ONCE = 512
#: How much a number may differ from torch's when the graph is checked, as a fraction of the largest.
_TOLERANCE = 1e-4


class EncoderEngine(nn.Module):
    """A network that reads a text as a whole and that ONNX Runtime runs; it is called like the network."""

    name = "ONNX Runtime"
    network: Any
    _has_types: bool = False

    def __init__(self, network: nn.Module, device: str, precision: str, workers: int = 1) -> None:
        super().__init__()
        onnxruntime = runtime("--engine onnx")
        if device != "cpu":
            raise OptionError(f"--engine onnx runs on the cpu, not on {device}.")
        if precision != "fp32":
            raise OptionError(f"--engine onnx computes in fp32, not in {precision}.")
        if workers != 1:
            raise OptionError(
                f"--engine onnx runs in one process, which uses several threads, not with {counted(workers, 'worker')}."
            )
        self._arguments = network, device, precision, workers
        self.network = network
        self.copied = Copied(network, self.name)
        self._has_types = isinstance(network, Classifier) and network.has_types
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.inter_op_num_threads = 1
        (graph,) = graphs(network, has_types=self._has_types).values()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            with torch.no_grad():
                write_graph(graph, path)
            self._session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self._check()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the arguments, because ONNX Runtime's memory cannot be copied."""
        return type(self), self._arguments

    @torch.inference_mode()
    def _check(self) -> None:
        """Raise an error unless the graph computes what the network computes, for random texts."""
        for given in self._random_inputs(torch.Generator().manual_seed(0)):
            ours, found = self.network(**given), self(**given)
            if not torch.allclose(found, ours, rtol=0, atol=_TOLERANCE * float(ours.abs().max().clamp(min=1))):
                difference = float((found - ours).abs().max())
                raise OptionError(
                    f"ONNX Runtime does not compute what this network computes (the largest difference is "
                    f"{difference:.2g}); leave out --engine onnx."
                )

    @abstractmethod
    def _random_inputs(self, drawn: torch.Generator) -> Sequence[Mapping[str, Tensor]]:
        """Return random arguments for the network, which together vary everything that can affect its answer."""

    def _reads(self, length: int) -> bool:
        """Whether ONNX Runtime reads rows of this length. The network reads the others, or says that it has too few
        positions."""
        config = self.network.config
        return 0 < length <= min(LONGEST, config.max_length if config.position == "learned" else LONGEST)

    def _run(self, given: Mapping[str, Tensor]) -> Tensor:
        (found,) = run_graph(self._session, given).values()
        return found


class _TextEngine(EncoderEngine):
    """A network that turns each text into one vector, or one row of logits."""

    network: Classifier | SentenceEncoder

    def _random_inputs(self, drawn: torch.Generator) -> Sequence[Mapping[str, Tensor]]:
        tokens = torch.randint(cast(InputLayer, self.network.input).vocabulary, (4, 6), generator=drawn)
        given = {"tokens": tokens, "lengths": torch.tensor([6, 4, 1, 6])}
        return [given | ({"types": torch.randint(2, tokens.shape, generator=drawn)} if self._has_types else {})]

    def forward(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B D"]:
        if not self._reads(tokens.shape[1]):
            found: Tensor = self.network(tokens, lengths, *(() if types is None else (types,)))
            return found
        given = {"tokens": tokens, "lengths": lengths}
        if self._has_types:
            given["types"] = torch.zeros_like(tokens) if types is None else types
        return self._run(given)


class _TaggerEngine(EncoderEngine):
    """A network that gives each word a row of logits."""

    network: Tagger

    def _random_inputs(self, drawn: torch.Generator) -> Sequence[Mapping[str, Tensor]]:
        """Sentences of 3, 2 and 1 words with a frame, and the last one alone, without it. A word may have no pieces, or
        no characters."""
        sizes, lengths = self.network.sizes, torch.tensor([3, 2, 1])
        pieces = torch.tensor([[1, 2, 0, 3, 1], [1, 1, 2, 1, 0], [1, 1, 1, 0, 0]])
        characters = torch.tensor([[4, 1, 0], [2, 5, 0], [3, 0, 0]])

        def random_ids(size: int, counts: Int[Tensor, "*B"]) -> Int[Tensor, "*B N"]:
            places = torch.arange(int(counts.max()))
            ids = torch.randint(1, size, (*counts.shape, len(places)), generator=drawn)
            return ids.masked_fill(places >= counts[..., None], 0)

        given = {
            "words": random_ids(sizes["words"], lengths),
            "pieces": random_ids(sizes["pieces"], pieces),
            "characters": random_ids(sizes["characters"], characters),
            "lengths": lengths,
        }
        if self.network.feature_sizes:
            each = [torch.randint(size, (3, 3), generator=drawn) for size in self.network.feature_sizes]
            given["features"] = torch.stack(each, dim=-1)
        inner = given | {"pieces": given["pieces"][:, 1:-1]}
        return [given, {name: one[2:] if one.ndim == 1 else one[2:, :1] for name, one in inner.items()}]

    def forward(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
        at: Bool[Tensor, "B N"] | None = None,
        features: Int[Tensor, "B N F"] | None = None,
    ) -> Float[Tensor, "B N L"] | Float[Tensor, "W L"]:
        length = int((pieces != 0).sum(dim=(1, 2)).amax()) if self.network.by_pieces else words.shape[1]
        if not self._reads(length):
            found: Tensor = self.network(words, pieces, characters, lengths, at, features)
            return found
        if self.network.by_pieces:
            logits = self.network.logits_of_words(self._of_pieces, words, pieces)
        else:
            inner = pieces[:, without_frame(words, pieces)].contiguous()
            given = {"words": words, "pieces": inner, "characters": characters, "lengths": lengths}
            given |= {} if features is None else {"features": features}
            sentences = max(1, WORDS_AT_ONCE // length)
            parts = [torch.split(one, sentences) for one in given.values()]
            logits = torch.cat([self._run(dict(zip(given, part, strict=True))) for part in zip(*parts, strict=True)])
        return logits if at is None else logits[at]

    def _of_pieces(self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T L"]:
        return self._run({"tokens": tokens, "lengths": lengths})


def open_encoder(network: nn.Module, device: str, precision: str, workers: int = 1) -> EncoderEngine:
    """Let ONNX Runtime run a network. Raises an error if it cannot run networks of this kind."""
    if isinstance(network, Classifier | SentenceEncoder):
        return _TextEngine(network, device, precision, workers)
    if isinstance(network, Tagger):
        return _TaggerEngine(network, device, precision, workers)
    raise OptionError(f"--engine onnx does not run the network {type(network).__name__}.")
