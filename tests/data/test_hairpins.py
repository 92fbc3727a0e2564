"""Built-in molecules: what was built in is a valid structure, and the same seed gives the same molecules."""

from __future__ import annotations

from saccade.data.hairpins import generate_hairpins
from saccade.data.structures import from_dot_bracket, pairs_of, to_dot_bracket

ALLOWED = {"GC", "CG", "AU", "UA", "GU", "UG"}


def test_every_pair_can_pair_and_leaves_a_loop() -> None:
    for one in generate_hairpins(200, seed=3):
        assert one.partners is not None
        pairs = pairs_of(one.partners)
        assert len(pairs) >= 4
        for i, j in pairs:
            assert one.sequence[i] + one.sequence[j] in ALLOWED
            assert j - i > 3
        assert not any(i < k < j < m for i, j in pairs for k, m in pairs)  # no stems cross
        written = to_dot_bracket(one.partners)
        assert from_dot_bracket(written, len(one.sequence), "here") == one.partners
        assert set(written) <= set("(.)")


def test_stems_stand_alone_beside_and_inside_each_other() -> None:
    kinds = {to_dot_bracket(one.partners or ()).strip(".") for one in generate_hairpins(100, seed=1)}
    assert any(").(" in kind.replace("..", ".").replace("..", ".") for kind in kinds)  # beside
    assert any(kind.startswith("((((") and "(.(" in kind.replace("..", ".") for kind in kinds)  # inside


def test_a_decoy_repeats_the_second_stretch_of_its_stem() -> None:
    decoys = 0
    for one in generate_hairpins(100, seed=2):
        partners = one.partners or ()
        second = [place for place, partner in enumerate(partners) if -1 < partner < place]
        if len(second) == second[-1] - second[0] + 1:  # one stem
            decoys += one.sequence[second[0] : second[-1] + 1] in one.sequence[second[-1] + 3 :]
    assert decoys >= 25


def test_the_same_seed_gives_the_same_molecules_and_parts_differ() -> None:
    first = [one.sequence for one in generate_hairpins(30, seed=5)]
    assert [one.sequence for one in generate_hairpins(30, seed=5)] == first
    assert not {one.sequence for one in generate_hairpins(30, seed=5, part=1)} & set(first)
