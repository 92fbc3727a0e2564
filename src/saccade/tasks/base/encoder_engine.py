"""Encode texts with ONNX Runtime instead of torch: the same weights and nearly the same numbers, but faster for short
texts.

Attention is still computed by Saccade's own network.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, counted
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.pretrained.onnx import graphs, run_graph, runtime, write_graph
from saccade.tasks.base.snapshot import Copied

__all__ = ["EncoderEngine"]

#: Texts with more tokens are encoded by torch: ONNX Runtime is not faster there, and keeps all scores in memory.
LONGEST = 512
#: How much a number may differ from torch's when the graph is checked, as a fraction of the largest.
_TOLERANCE = 1e-4


class EncoderEngine(nn.Module):
    """A network that reads a text as a whole and that ONNX Runtime runs; it is called like the network, whose tokens
    are numbered from 0 to ``vocabulary`` - 1."""

    name = "ONNX Runtime"

    def __init__(self, network: nn.Module, vocabulary: int, device: str, precision: str, workers: int = 1) -> None:
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
        if not isinstance(network, Classifier | SentenceEncoder):
            raise OptionError(f"--engine onnx does not run the network {type(network).__name__}.")
        self._arguments = network, vocabulary, device, precision, workers
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
        self._check(vocabulary)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the arguments, because ONNX Runtime's memory cannot be copied."""
        return EncoderEngine, self._arguments

    @torch.inference_mode()
    def _check(self, vocabulary: int) -> None:
        """Raise an error unless the graph computes what the network computes, for texts of random tokens."""
        drawn = torch.Generator().manual_seed(0)
        tokens = torch.randint(vocabulary, (4, 6), generator=drawn)
        lengths = torch.tensor([6, 4, 1, 6])
        types = (torch.randint(2, tokens.shape, generator=drawn),) if self._has_types else ()
        ours, found = self.network(tokens, lengths, *types), self(tokens, lengths, *types)
        if not torch.allclose(found, ours, rtol=0, atol=_TOLERANCE * float(ours.abs().max().clamp(min=1))):
            difference = float((found - ours).abs().max())
            raise OptionError(
                f"ONNX Runtime does not compute what this network computes (the largest difference is "
                f"{difference:.2g}); leave out --engine onnx."
            )

    def forward(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B D"]:
        if not 0 < tokens.shape[1] <= LONGEST:
            found: Tensor = self.network(tokens, lengths, *(() if types is None else (types,)))
            return found
        given = {"tokens": tokens, "lengths": lengths}
        if self._has_types:
            given["types"] = torch.zeros_like(tokens) if types is None else types
        (rows,) = run_graph(self._session, given).values()
        return rows
