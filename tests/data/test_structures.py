"""RNA structures: notations, files, and what is wrong with bad ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.structures import (
    Molecule,
    from_dot_bracket,
    pairs_of,
    partners_of,
    read_molecules,
    to_connectivity_table,
    to_dot_bracket,
)
from saccade.errors import FileError, OptionError


def test_dot_bracket_by_hand() -> None:
    assert from_dot_bracket("((..[)).]", 9, "here") == (6, 5, -1, -1, 8, 1, 0, -1, 4)
    assert to_dot_bracket((6, 5, -1, -1, 8, 1, 0, -1, 4)) == "((..[)).]"


@given(st.lists(st.integers(0, 29), unique=True, max_size=20))
def test_notation_and_partners_say_the_same(places: list[int]) -> None:
    partners = [-1] * 30
    for i, j in zip(places[::2], places[1::2], strict=False):
        partners[i], partners[j] = j, i
    assert partners_of(pairs_of(partners), 30) == tuple(partners)
    with suppress(OptionError):  # pairs that cross more than four times have no notation
        assert from_dot_bracket(to_dot_bracket(partners), 30, "here") == tuple(partners)


FORMS = {
    "a.csv": "id,sequence,structure\nx,GGGAAAUCCC,(((....)))\n",
    "a.tsv": "structure\tsequence\n(((....)))\tgggaaatccc\n",
    "a.jsonl": '{"sequence": "GGGAAAUCCC", "structure": "(((....)))"}\n',
    "a.dbn": ">x\nGGGAA\nAUCCC\n(((....))) (-1.20)\n",
    "a.ct": to_connectivity_table(Molecule("GGGAAAUCCC", from_dot_bracket("(((....)))", 10, ""), "x", 1, "")),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_format_gives_the_same_molecule(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    (found,) = read_molecules(path)
    assert found.sequence == "GGGAAAUCCC"
    assert pairs_of(found.partners or ()) == [(0, 9), (1, 8), (2, 7)]


def test_fasta_has_sequences_only(tmp_path: Path) -> None:
    path = tmp_path / "a.fa"
    path.write_text(">one\nGGG\nAAA\n>two\nACGU\n")
    found = read_molecules(path, structures=False)
    assert [(one.name, one.sequence, one.partners) for one in found] == [("one", "GGGAAA", None), ("two", "ACGU", None)]
    with pytest.raises(FileError, match="line 1: one has no structure"):
        read_molecules(path)


BAD = {
    "letter.csv": ("sequence,structure\nGGXA,....\n", "line 2: 'X' at position 3 is not a base"),
    "open.csv": ("sequence,structure\nGGGA,((.)\n", "line 2: the bracket '(' at position 1 is never closed"),
    "close.csv": ("sequence,structure\nGGGA,.)..\n", "line 2: the bracket ')' at position 2 closes nothing"),
    "short.csv": ("sequence,structure\nGGGA,...\n", "line 2: the structure has 3 symbols, but the sequence has 4"),
    "symbol.csv": ("sequence,structure\nGGGA,..?.\n", "line 2: '?' at position 3 of the structure"),
    "empty.csv": ("sequence,structure\n", "There are no sequences"),
    "column.csv": ("id,letters,structure\nx,GGGA,....\n", "there is no column named 'sequence'"),
    "range.ct": ("2 x\n1 G 0 2 3 1\n2 C 1 0 0 2\n", "line 2: base 1 pairs with base 3, but the sequence has only 2 b"),
    "itself.ct": ("2 x\n1 G 0 2 1 1\n2 C 1 0 0 2\n", "line 2: base 1 pairs with itself"),
    "one-sided.ct": ("2 x\n1 G 0 2 2 1\n2 C 1 0 0 2\n", "base 2, which does not pair with base 1"),
    "cut.ct": ("3 x\n1 G 0 2 0 1\n", "expected base 2 of 3 in x"),
    "name.fa": (">x\n>y\nACGU\n", "line 1: the name 'x' is not followed by a sequence"),
    "letter.fa": (">x\nACGU\nACXU\n", "line 3: 'X' at position 3 is not a base"),
    "letter.ct": ("2 x\n1 G 0 2 2 1\n2 X 1 0 1 2\n", "line 3: 'X' at position 1 is not a base"),
    "letters.ct": ("2 x\n1 GG 0 2 2 1\n2 C 1 0 1 2\n", "line 2: expected base 1 of 2 in x"),
    "none.ct": ("0 x\n", "line 1: the sequence is empty"),
    "symbol.dbn": (">x\nGGGA\n.(?)\n", "line 3: '?' at position 3 of the structure"),
    "long.dbn": (">x\nGGGA\nCC\n(..)\n...\n", "lines 4 to 5: the structure has 7 symbols, but the sequence has 6"),
    "kind.pdf": ("", "ends in '.pdf'; expected a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    text, expected = BAD[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        read_molecules(path)
    assert expected in str(raised.value)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)
