"""Training examples saved with a model, each with its code vector, so that new inputs can be compared with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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

__all__ = ["AT_ONCE", "MOST_BYTES", "MOST_KEPT", "CodeAnswer", "Kept", "Neighbour", "NeighbourOptions", "evenly_spaced"]

#: How many examples are encoded at once.
AT_ONCE = 128

#: The most examples that are saved,
MOST_KEPT = 1000
#: and the most bytes that their images may take.
MOST_BYTES = 16 << 20


class NeighbourOptions(Config):
    """What an autoencoder shows besides its answer."""

    neighbours: int = Field(5, ge=0, le=100, description="Nearest training examples shown")


class Neighbour(NamedTuple):
    """A training example close to a code."""

    distance: float  # between the two codes
    line: int  # in the training file
    text: str  # empty for an image
    pixels: Pixels | None  # None for a text


@dataclass(frozen=True)
class Kept:
    """Codes, and the texts or images that they encode."""

    codes: Float[Tensor, "n E"]
    lines: list[int]
    texts: list[str]  # empty if they are images
    images: UInt8[Tensor, "n H W C"] | None

    def nearest(self, code: Float[Tensor, " E"], count: int) -> list[Neighbour]:
        """The examples with the nearest codes, nearest first."""
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
        """The files that store them in the model folder."""
        tensors = {"codes": self.codes.contiguous()}
        if self.images is not None:
            tensors["images"] = self.images.contiguous()
        about = {"lines": self.lines, "texts": self.texts}
        return {
            "neighbours.safetensors": safetensors.torch.save(tensors),
            "neighbours.json": json.dumps(about, ensure_ascii=False).encode(),
        }

    @classmethod
    def load(cls, description: Mapping[str, Any], read: Callable[[str], bytes], where: str) -> Kept | None:
        """Load them from a model folder; None if it has none."""
        if not description["neighbours"]:
            return None
        return cls.from_files(read("neighbours.safetensors"), read("neighbours.json"), where)

    @classmethod
    def from_files(cls, tensors: bytes, about: bytes, where: str) -> Kept:
        try:
            found, described = safetensors.torch.load(tensors), json.loads(about)
            codes, lines, texts = found["codes"], list(described["lines"]), list(described["texts"])
        except (KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise FileError(f"{where}: the neighbours cannot be read ({error}).") from None
        if not bool(torch.isfinite(codes).all()) or not len(codes) == len(lines):
            raise FileError(f"{where}: neighbours: {len(lines)}, codes: {len(codes)}; the numbers must be equal.")
        return cls(codes, lines, texts, found.get("images"))


@dataclass(frozen=True)
class CodeAnswer(Answer):
    """The reconstruction, the code vector that it was decoded from, and the nearest training examples."""

    text: str
    score: float
    code: list[float]
    neighbours: list[Neighbour] = field(repr=False)
    look: Callable[[], View] = field(repr=False)

    @cached_property
    def view(self) -> View:
        return self.look()

    def numbers(self) -> Text:
        return Text("code  " + " ".join(f"{number:+.2f}" for number in self.code))


def evenly_spaced(count: int, most: int) -> Sequence[int]:
    """At most ``most`` numbers below ``count``, evenly_spaced spaced."""
    return range(count) if count <= most else [int(place) for place in np.linspace(0, count - 1, most)]
