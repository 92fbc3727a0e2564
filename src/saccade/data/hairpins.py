"""Generate RNA sequences with hairpins, whose base pairs are known because this module chose them.

A stem is two stretches of a sequence that pair base by base, one forwards and one backwards, with a loop between them.
A molecule has one of four shapes: one stem; two stems next to each other; one stem inside another; or one stem followed
by a decoy, a copy of the stem's second stretch further along, which could pair with the first stretch too but does not,
because it is farther away. All other bases are random.
"""

from __future__ import annotations

import numpy as np

from saccade.data.structures import UNPAIRED, Molecule

__all__ = ["generate_hairpins"]

#: The pairs of bases, and the probability of each in a stem.
PAIRS = ("GC", "CG", "AU", "UA", "GU", "UG")
OFTEN = (0.27, 0.27, 0.18, 0.18, 0.05, 0.05)


def generate_hairpins(count: int, seed: int, part: int = 0) -> list[Molecule]:
    """Return ``count`` random molecules. The same seed and ``part`` always give the same molecules."""
    draw = np.random.default_rng([seed, part])
    return [_molecule(draw, number) for number in range(1, count + 1)]


def _molecule(draw: np.random.Generator, number: int) -> Molecule:
    sequence: list[str] = []
    partners: list[int] = []
    _add_unpaired(draw, sequence, partners, int(draw.integers(1, 6)))
    kind = draw.choice(["one", "beside", "inside", "decoy", "decoy"])
    if kind == "inside":
        _add_stem(draw, sequence, partners, inner=True)
    elif kind == "decoy":
        _add_stem(draw, sequence, partners, inner=False)
        second = [place for place, partner in enumerate(partners) if UNPAIRED < partner < place]
        _add_unpaired(draw, sequence, partners, int(draw.integers(2, 7)))
        sequence += [sequence[place] for place in second]
        partners += [UNPAIRED] * len(second)
        _add_unpaired(draw, sequence, partners, int(draw.integers(1, 4)))
    else:
        for _ in range(1 if kind == "one" else 2):
            _add_stem(draw, sequence, partners, inner=False)
            _add_unpaired(draw, sequence, partners, int(draw.integers(1, 6)))
    return Molecule("".join(sequence), tuple(partners), f"hairpin {number}", number, "the hairpins")


def _add_unpaired(draw: np.random.Generator, sequence: list[str], partners: list[int], count: int) -> None:
    sequence += draw.choice(list("ACGU"), count).tolist()
    partners += [UNPAIRED] * count


def _add_stem(draw: np.random.Generator, sequence: list[str], partners: list[int], *, inner: bool) -> None:
    """Add a stem around a loop or, if ``inner``, around unpaired bases and another stem."""
    pairs = draw.choice(PAIRS, int(draw.integers(4, 8)), p=OFTEN).tolist()
    first = len(sequence)
    sequence += [pair[0] for pair in pairs]
    partners += [UNPAIRED] * len(pairs)
    if inner:
        _add_unpaired(draw, sequence, partners, int(draw.integers(1, 4)))
        _add_stem(draw, sequence, partners, inner=False)
        _add_unpaired(draw, sequence, partners, int(draw.integers(1, 4)))
    else:
        _add_unpaired(draw, sequence, partners, int(draw.integers(3, 8)))
    for place in reversed(range(len(pairs))):
        partners[first + place] = len(sequence)
        sequence.append(pairs[place][1])
        partners.append(first + place)
