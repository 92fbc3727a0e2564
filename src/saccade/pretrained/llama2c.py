"""Open checkpoints of llama2.c (Karpathy 2023): one file with seven sizes and then the weights, in a fixed order."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from saccade.errors import FileError, SaccadeError, describe_invalid
from saccade.models import DecoderOnly, TransformerConfig
from saccade.models.weights import assign
from saccade.pretrained.family import Pretrained

__all__ = ["find_llama2c", "read_llama2c"]

_HEADER = struct.Struct("<7i")


class _Header(NamedTuple):
    width: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int  # negative if the output layer has weights of its own, not those of the embedding
    length: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the names and shapes of the tensors, in the order of the file."""
        head = self.width // self.heads
        narrow, layers, width, words = self.key_heads * head, self.layers, self.width, abs(self.vocabulary)
        return {
            "words": (words, width),
            "self_norm": (layers, width),
            "query": (layers, width, width),
            "key": (layers, narrow, width),
            "value": (layers, narrow, width),
            "output": (layers, width, width),
            "feedforward_norm": (layers, width),
            "gate": (layers, self.hidden, width),
            "outer": (layers, width, self.hidden),
            "inner": (layers, self.hidden, width),
            "norm": (width,),
            "sines and cosines": (2, self.length, head // 2),
            **({"logits": (words, width)} if self.vocabulary < 0 else {}),
        }


def find_llama2c(path: Path) -> Path | None:
    """Return the file at this path, or the only one in this folder, that is a llama2.c checkpoint.

    Return None if there is no checkpoint, or if there are several.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.bin")) if path.is_dir() else []
    found = [file for file in files if _header(file) is not None]
    return found[0] if len(found) == 1 else None


def _header(path: Path) -> _Header | None:
    """Return the header of a checkpoint; None if the size of the file is not the one that the header implies."""
    try:
        with path.open("rb") as file:
            header = _Header(*_HEADER.unpack(file.read(_HEADER.size)))
        if min(header[:5]) < 1 or not header.vocabulary or header.length < 1 or header.width % header.heads:
            return None
        count = sum(int(np.prod(shape, dtype=object)) for shape in header.shapes().values())
        return header if path.stat().st_size == _HEADER.size + 4 * count else None
    except (OSError, struct.error):
        return None


def read_llama2c(path: Path) -> Pretrained:
    """Open a checkpoint that ``find_llama2c`` returned."""
    header = _header(path)
    assert header is not None
    numbers, found, start = np.memmap(path, dtype="<f4", mode="r", offset=_HEADER.size), {}, 0
    for name, shape in header.shapes().items():
        size = int(np.prod(shape))
        found[name] = torch.from_numpy(numbers[start : start + size].reshape(shape).copy())
        start += size
        if not bool(torch.isfinite(found[name]).all()):
            raise FileError(f"{path}: {name} contains NaN or infinity; weights must be finite.")
    try:
        config = TransformerConfig(
            width=header.width,
            num_heads=header.heads,
            num_key_heads=header.key_heads,
            decoder_layers=header.layers,
            feedforward_width=header.hidden,
            activation="silu",
            gated=True,
            bias=False,
            norm="rms",
            position="rotary",
            rotary_interleaved=True,
            tied_output=header.vocabulary > 0,
        )
        with torch.device("meta"):
            network = DecoderOnly(config, abs(header.vocabulary))
    except ValidationError as error:
        first = error.errors()[0]
        said = describe_invalid(first, ".".join(map(str, first["loc"])))
        raise FileError(f"{path} describes a network that cannot be built ({said}).") from None
    except SaccadeError as error:
        raise FileError(f"{path} describes a network that cannot be built: {error}") from None
    assign(network, _ours(header, found))
    fields = {"bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": header.length}
    return Pretrained("Llama (llama2.c)", "continue", config, network.eval(), fields, abs(header.vocabulary))


def _ours(header: _Header, found: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {"input.words.weight": found["words"], "decoder_norm.weight": found["norm"]}
    if header.vocabulary < 0:
        tensors["output.words.weight"] = found["logits"]
    for number in range(header.layers):
        layer = {
            "self_norm": found["self_norm"][number],
            "self.query": found["query"][number],
            "self.key_value": torch.cat([found["key"][number], found["value"][number]]),
            "self.output": found["output"][number],
            "feedforward_norm": found["feedforward_norm"][number],
            "feedforward.inner": torch.cat([found["gate"][number], found["inner"][number]]),
            "feedforward.outer": found["outer"][number],
        }
        tensors |= {f"decoder.{number}.{name}.weight": tensor for name, tensor in layer.items()}
    return tensors
