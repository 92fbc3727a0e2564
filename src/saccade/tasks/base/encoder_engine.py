"""Encode texts with ONNX Runtime instead of torch: the same weights and nearly the same numbers, but faster for short
texts.

Attention is still computed by Saccade's own network.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError
from saccade.extras import needs_extra
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.pretrained.onnx import graphs, write_graph
from saccade.tasks.base.snapshot import Snapshot, check_copied, checksums

__all__ = ["EncoderEngine"]

#: Texts with more tokens are encoded by torch: ONNX Runtime is not faster there, and keeps all scores in memory.
LONGEST = 512


class EncoderEngine(nn.Module):
    """A network that reads a text as a whole and that ONNX Runtime runs; it is called like the network."""

    name = "ONNX Runtime"

    def __init__(self, network: nn.Module, device: str, precision: str, workers: int = 1) -> None:
        super().__init__()
        with needs_extra("onnx", "--engine onnx"):
            import onnx  # noqa: F401 - named here, so that the error says what is missing
            import onnxruntime
            import onnxscript  # noqa: F401
        if device != "cpu" or precision != "fp32" or workers != 1:
            raise OptionError(
                f"--engine onnx runs on the cpu, in fp32 and with 1 worker, not on {device}, in {precision} and with "
                f"{workers}; it uses as many threads as torch."
            )
        if not isinstance(network, Classifier | SentenceEncoder):
            raise OptionError(f"--engine onnx does not run the network {type(network).__name__}.")
        self.network = network
        self._checksums = checksums(network)  # of the weights that the graph copies next
        self._has_types = isinstance(network, Classifier) and network.has_types
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.inter_op_num_threads = 1
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            with torch.no_grad():
                write_graph(graphs(network, has_types=self._has_types)["model"], path)
            self._session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self._names = {one.name for one in self._session.get_inputs()}

    def check_unchanged(self, now: Snapshot) -> None:
        """Raise an error if the weights of the model have changed since ONNX Runtime copied them."""
        check_copied(now, self._checksums, self.name)

    def forward(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B D"]:
        if not 0 < tokens.shape[1] <= LONGEST:
            found: Tensor = self.network(tokens, lengths, *(() if types is None else (types,)))
            return found
        given = {"tokens": tokens, "lengths": lengths}
        if self._has_types:
            given["types"] = torch.zeros_like(tokens) if types is None else types
        # An input that changes nothing is not in the graph.
        (rows,) = self._session.run(None, {name: one.numpy() for name, one in given.items() if name in self._names})
        return torch.from_numpy(rows)
