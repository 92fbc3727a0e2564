"""A predicted structure: its base pairs with their probabilities, and the attention behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from rich.console import RenderableType
from rich.text import Text

from saccade.attention.watching.coverage import Coverage
from saccade.data.structures import Molecule, pairs_of, to_connectivity_table
from saccade.errors import OptionError
from saccade.lens.figures.pairs import pair_matrix
from saccade.lens.view import View, view
from saccade.tasks.base.answer import Answer
from saccade.tasks.base_pairs.folding import pair_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from saccade.attention import Watch

__all__ = ["BasePairsAnswer", "Triangle"]

#: Bases per line in the terminal.
LINE = 80
#: Why the view of an answer lacks the triangle attentions.
BETWEEN_PAIRS = "pairs of bases attend to each other there; answer.triangle(i, j) has the weights"


@dataclass(frozen=True)
class Triangle:
    """How much each head of one triangle attention attends to each third base k for the pair of bases (i, j)."""

    name: str  # the attention, such as "blocks.0.starting"
    weights: Float[torch.Tensor, "H L"]

    def strongest(self, count: int = 5) -> list[tuple[int, int, float]]:
        """Return the ``count`` largest weights as (head, base, weight), counting heads from 0 and bases from 1."""
        values, places = self.weights.flatten().topk(min(count, self.weights.numel()))
        length = self.weights.shape[1]
        return [
            (place // length, place % length + 1, value)
            for value, place in zip(values.tolist(), places.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class BasePairsAnswer(Answer):
    """A predicted structure; ``text`` has it in dot-bracket notation, and ``score`` is the mean probability, over all
    bases, of the predicted partner or of being unpaired."""

    text: str
    score: float
    molecule: Molecule  # as it was given, with its true structure if that was known
    partners: tuple[int, ...]
    paired: Float[np.ndarray, "L L"] = field(repr=False)  # the probability of each pair
    compute_attention: Callable[[], Watch] = field(repr=False)

    @property
    def pairs(self) -> list[tuple[int, int, float]]:
        """The predicted base pairs as (base, base, probability), counting bases from 1."""
        return [(i + 1, j + 1, float(self.paired[i, j])) for i, j in pairs_of(self.partners)]

    @property
    def dot_bracket(self) -> str:
        """The molecule's name, its sequence and the predicted structure, each on its own line."""
        return f">{self.molecule.name}\n{self.molecule.sequence}\n{self.text}\n"

    @property
    def matrix(self) -> str:
        """The probability of each pair as a CSV table: a line for each base, with a number for each possible
        partner."""
        return "".join(",".join(f"{one:.6f}" for one in row) + "\n" for row in self.paired)

    @property
    def connectivity_table(self) -> str:
        """The predicted structure in CT format (connectivity table)."""
        one = self.molecule
        return to_connectivity_table(Molecule(one.sequence, self.partners, one.name, one.line, one.file))

    @property
    def certainty(self) -> str:
        return f"mean probability of each base's partner, or of being unpaired: {self.score:.1%}"

    def record(self) -> dict[str, Any]:
        pairs = [[i, j, round(probability, 6)] for i, j, probability in self.pairs]
        return {
            "name": self.molecule.name,
            "sequence": self.molecule.sequence,
            "structure": self.text,
            "pairs": pairs,
            "score": self.score,
        }

    def extras(self) -> dict[str, Any]:
        true = self.molecule.partners
        return {
            "pairs": self.record()["pairs"],
            "probabilities": self.paired.round(4).tolist(),
            "true_pairs": None if true is None else [[i + 1, j + 1] for i, j in pairs_of(true)],
        }

    @cached_property
    def _seen(self) -> Watch:
        return self.compute_attention()

    @cached_property
    def view(self) -> View:
        """The self-attention between bases; for the attention between pairs of bases, call ``triangle``."""
        seen = {name: trace for name, trace in self._seen.items() if name.endswith(".self")}
        others = dict.fromkeys((name for name in self._seen if name not in seen), BETWEEN_PAIRS)
        return replace(view(seen, self.tokens), coverage=Coverage(tuple(seen), others, {}))

    @property
    def tokens(self) -> list[str]:
        """The bases of the molecule, as letters."""
        return list(self.molecule.sequence)

    def triangle(self, i: int, j: int) -> list[Triangle]:
        """Return the weights of each triangle attention for the pair of bases i and j, counting from 1.

        In triangle attention around the starting node, the pair (i, j) attends to the pairs (i, k); around the ending
        node, it attends to the pairs (k, j).
        """
        length = len(self.molecule.sequence)
        for base in (i, j):
            if not 1 <= base <= length:
                raise OptionError(f"There is no base {base}; this sequence has {length} bases, numbered from 1.")
        found = []
        for name, trace in self._seen.items():
            if name.endswith((".starting", ".ending")):
                sequence, row = (i - 1, j - 1) if name.endswith(".starting") else (j - 1, i - 1)
                found.append(Triangle(name, trace.row(row, batch=sequence)))
        if not found:
            raise OptionError("This model has no triangle attention (model.triangle_attention_layers = 0).")
        return found

    def between(self, first: int, second: int) -> list[dict[str, Any]]:
        return [{"name": one.name, "weights": one.weights.tolist()} for one in self.triangle(first, second)]

    @property
    def nbytes(self) -> int:
        return sum(trace.nbytes for name, trace in self._seen.items() if not name.endswith(".self"))

    def terminal(self) -> Iterator[RenderableType]:
        sequence, structure = self.molecule.sequence, self.text
        for start in range(0, len(sequence), LINE):
            yield Text(sequence[start : start + LINE])
            yield Text(structure[start : start + LINE], style="bold")
        yield Text(f"{len(self.pairs)} base pairs; mean probability {self.score:.3f}")
        if self.molecule.partners is not None:
            scores = pair_scores(set(pairs_of(self.partners)), set(pairs_of(self.molecule.partners)))
            yield Text("precision {:.3f}, recall {:.3f}, F1 {:.3f}".format(*scores))

    def figure(self, dark: bool) -> Figure:
        true = None if self.molecule.partners is None else pairs_of(self.molecule.partners)
        title = f"{self.molecule.name}: probability of each base pair"
        return pair_matrix(self.paired, pairs_of(self.partners), true, title=title, dark=dark)
