"""Find the training examples nearest to an input of an autoencoder: some training examples are saved with the model,
each with its code vector, so that new inputs can be compared with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from rich.text import Text
from torch import Tensor

from saccade.data.images import Pixels
from saccade.errors import FileError
from saccade.models import Config
from saccade.tasks.base.answer import Answer

if TYPE_CHECKING:
    from saccade.lens.view import View

__all__ = [
    "AT_ONCE",
    "MOST_BYTES",
    "MOST_SAVED",
    "CodeAnswer",
    "Neighbour",
    "NeighbourIndex",
    "NeighbourOptions",
    "evenly_spaced",
]

#: The number of examples that are encoded at once.
AT_ONCE = 128
#: The maximum number of examples that are saved, and of the bytes that their images take up.
MOST_SAVED, MOST_BYTES = 1000, 16 << 20


class NeighbourOptions(Config):
    """The prediction options of an autoencoder."""

    neighbours: int = Field(5, ge=0, le=100, description="Number of nearest training examples to show")


class Neighbour(NamedTuple):
    """A training example whose code vector is close to that of an input."""

    distance: float  # between the two codes
    line: int  # line number in the training file
    text: str  # empty if the example is an image
    pixels: Pixels | None  # None if the example is a text


@dataclass(frozen=True)
class NeighbourIndex:
    """The code vectors of some training examples, and the texts or images themselves; empty before training."""

    codes: Float[Tensor, "n E"] = field(default_factory=lambda: torch.zeros(0, 1))
    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # empty if the examples are images
    images: UInt8[Tensor, "n H W C"] | None = None

    def nearest(self, code: Float[Tensor, " E"], count: int) -> list[Neighbour]:
        """Return the ``count`` saved examples whose codes are nearest to this one, nearest first."""
        away = (self.codes - code.to(self.codes)).norm(dim=1)
        best = away.topk(min(count, len(away)), largest=False)
        return [
            Neighbour(
                float(distance),
                self.lines[index],
                self.texts[index] if self.texts else "",
                None if self.images is None else np.asarray(self.images[index]),
            )
            for distance, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def files(self) -> dict[str, bytes]:
        """Return the files that store the index in the model folder, by name; none if the index is empty."""
        if not self.lines:
            return {}
        tensors = {"codes": self.codes.contiguous()}
        if self.images is not None:
            tensors["images"] = self.images.contiguous()
        about = {"lines": self.lines, "texts": self.texts}
        return {
            "neighbours.safetensors": safetensors.torch.save(tensors),
            "neighbours.json": json.dumps(about, ensure_ascii=False).encode(),
        }

    @classmethod
    def load(cls, description: Mapping[str, Any], read: Callable[[str], bytes], where: str) -> NeighbourIndex:
        """Load the index from a model folder."""
        if not description["neighbours"]:
            return cls()
        return cls.from_files(read("neighbours.safetensors"), read("neighbours.json"), where)

    @classmethod
    def from_files(cls, tensors: bytes, about: bytes, where: str) -> NeighbourIndex:
        try:
            found, described = safetensors.torch.load(tensors), json.loads(about)
            codes, lines, texts = found["codes"], list(described["lines"]), list(described["texts"])
        except (KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise FileError(f"{where}: the neighbours cannot be read ({error}).") from None
        if not bool(torch.isfinite(codes).all()) or not len(codes) == len(lines):
            raise FileError(
                f"{where}: there are {len(lines)} neighbours and {len(codes)} code vectors; each neighbour must have "
                "one, with finite numbers."
            )
        return cls(codes, lines, texts, found.get("images"))


@dataclass(frozen=True)
class CodeAnswer(Answer):
    """A reconstruction, the code vector that it was decoded from, and the nearest training examples."""

    text: str
    score: float
    code: list[float]
    neighbours: list[Neighbour] = field(repr=False)
    compute_attention: Callable[[], View] = field(repr=False)

    def code_line(self) -> Text:
        """Return the code as a line for the terminal."""
        return Text("code  " + " ".join(f"{number:+.2f}" for number in self.code))


def evenly_spaced(count: int, most: int) -> Sequence[int]:
    """Return at most ``most`` evenly spaced numbers from 0 to ``count`` - 1."""
    return range(count) if count <= most else [int(place) for place in np.linspace(0, count - 1, most)]
