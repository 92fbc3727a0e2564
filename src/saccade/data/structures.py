"""Read RNA sequences and their base pairs from tables, dot-bracket files, connectivity tables (CT) and FASTA files.

A structure is a list of partners: ``partners[i]`` is the index of the base that base i pairs with, counted from 0, or
-1 if base i is unpaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.paths import column
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError, counted

__all__ = [
    "UNPAIRED",
    "Molecule",
    "check_sequence",
    "describe_molecules",
    "from_dot_bracket",
    "pairs_of",
    "partners_of",
    "read_molecules",
    "to_connectivity_table",
    "to_dot_bracket",
]

#: The columns of a table, unless others are chosen.
COLUMNS = ("sequence", "structure")

UNPAIRED = -1
#: The bases, and the letters that stand for one of several bases (IUPAC), which the model reads as unknown.
BASES, AMBIGUOUS = "ACGU", "NRYSWKMBDHV"
#: Kinds of brackets. Pairs that cross other pairs use the next kind that is free.
BRACKETS = ("()", "[]", "{}", "<>")
TABLES = (".csv", ".tsv", ".jsonl")
FASTA, DOT_BRACKET = (".fa", ".fasta", ".fna"), (".dbn", ".db", ".dot")


@dataclass(frozen=True)
class Molecule:
    """A sequence of bases in capital letters, and its structure, if it is known."""

    sequence: str
    partners: tuple[int, ...] | None
    name: str
    line: int
    file: str

    @property
    def source(self) -> str:  # molecules with equal sequences go to the same part of the data
        return self.sequence

    @property
    def length(self) -> int:
        return len(self.sequence)


def pairs_of(partners: Sequence[int]) -> list[tuple[int, int]]:
    """Return the base pairs (i, j), with i < j, of a list of partners."""
    return [(i, j) for i, j in enumerate(partners) if j > i]


def partners_of(pairs: Iterable[tuple[int, int]], length: int) -> tuple[int, ...]:
    """Return the partner of each base; the inverse of ``pairs_of``."""
    partners = [UNPAIRED] * length
    for i, j in pairs:
        partners[i], partners[j] = j, i
    return tuple(partners)


def check_sequence(text: str, where: str) -> str:
    """Return the sequence in capital letters, with U for T. Raises an error that names the first letter that is not a
    base."""
    sequence = "".join(text.split()).upper().replace("T", "U")
    if not sequence:
        raise FileError(f"{where}: the sequence is empty.")
    for place, letter in enumerate(sequence, start=1):
        if letter not in BASES and letter not in AMBIGUOUS:
            raise FileError(
                f"{where}: {letter!r} at position {place} is not a base; expected A, C, G, U (or T), or one of "
                f"{', '.join(AMBIGUOUS)} where the base is uncertain."
            )
    return sequence


# --- notations of a structure ---


def from_dot_bracket(text: str, length: int, where: str) -> tuple[int, ...]:
    """Return the partners in a structure such as ``((..[[))..]]``."""
    structure = text.strip()
    if len(structure) != length:
        raise FileError(
            f"{where}: the structure has {counted(len(structure), 'symbol')}, but the sequence has "
            f"{counted(length, 'base')}."
        )
    partners = [UNPAIRED] * length
    opened: dict[str, list[int]] = {kind: [] for kind in BRACKETS}
    for place, symbol in enumerate(structure):
        kind = next((kind for kind in BRACKETS if symbol in kind), None)
        if kind is None:
            if symbol not in ".-:_,":
                raise FileError(
                    f"{where}: {symbol!r} at position {place + 1} of the structure is not a dot or one of "
                    f"{' '.join(BRACKETS)}."
                )
        elif symbol == kind[0]:
            opened[kind].append(place)
        elif not opened[kind]:
            raise FileError(f"{where}: the bracket {symbol!r} at position {place + 1} closes nothing.")
        else:
            other = opened[kind].pop()
            partners[place], partners[other] = other, place
    for kind, places in opened.items():
        if places:
            raise FileError(f"{where}: the bracket {kind[0]!r} at position {places[-1] + 1} is never closed.")
    return tuple(partners)


def to_dot_bracket(partners: Sequence[int]) -> str:
    """Return a structure in dot-bracket notation. Pairs that cross other pairs use other kinds of brackets."""
    text = ["."] * len(partners)
    drawn: list[list[tuple[int, int]]] = [[] for _ in BRACKETS]
    for i, j in pairs_of(partners):
        for kind, pairs in zip(BRACKETS, drawn, strict=True):
            if not any(a < i < b < j or i < a < j < b for a, b in pairs):
                pairs.append((i, j))
                text[i], text[j] = kind[0], kind[1]
                break
        else:
            raise OptionError(
                f"So many base pairs cross each other that dot-bracket notation would need more than {len(BRACKETS)} "
                "kinds of brackets."
            )
    return "".join(text)


def to_connectivity_table(molecule: Molecule) -> str:
    """Return a molecule in CT format: the number of each base (from 1), its letter, the previous and the next base, its
    partner, and its number again."""
    assert molecule.partners is not None
    lines = [f"{molecule.length}\t{molecule.name}"]
    for place, (base, partner) in enumerate(zip(molecule.sequence, molecule.partners, strict=True), start=1):
        following = place + 1 if place < molecule.length else 0
        lines.append(f"{place}\t{base}\t{place - 1}\t{following}\t{partner + 1}\t{place}")
    return "\n".join(lines) + "\n"


# --- files ---


def read_molecules(
    path: Path,
    *,
    columns: Sequence[str] = COLUMNS,
    id_column: str | None = None,
    encoding: str | None = None,
    structures: bool = True,
) -> list[Molecule]:
    """Read the molecules in a file, whose suffix gives its format.

    Tables (.csv, .tsv, .jsonl) have the sequence and the structure in ``columns``. A dot-bracket file has a name after
    ``>``, the sequence and the structure, each on a separate line. FASTA files have no structures. CT files (.ct) may
    contain several molecules. If ``structures`` is False, structures may be missing, and are not read from tables.
    """
    kind = suffix(path)
    if kind in TABLES:
        found = _from_table(path, columns if structures else columns[:1], id_column, encoding)
    elif kind == ".ct":
        found = _from_connectivity_table(path, choose_encoding(path, encoding)[0])
    elif kind in FASTA or kind in DOT_BRACKET:
        found = _from_records(path, choose_encoding(path, encoding)[0])
    else:
        raise FileError(
            f"{path} ends in {kind or 'nothing'!r}; expected a table ({', '.join(TABLES)}), dot-bracket "
            f"({', '.join(DOT_BRACKET)}), .ct or FASTA ({', '.join(FASTA)})."
        )
    molecules = list(found)
    if not molecules:
        raise FileError(f"There are no sequences in {path}.")
    if structures:
        for one in molecules:
            if one.partners is None:
                raise FileError(f"{path}, line {one.line}: {one.name} has no structure, which training needs.")
    return molecules


def _from_table(path: Path, columns: Sequence[str], id_column: str | None, encoding: str | None) -> Iterator[Molecule]:
    wanted = [*columns, *([id_column] if id_column is not None else [])]
    _, rows = read_columns(path, tuple(map(column, wanted)), encoding=encoding, in_order=COLUMNS[: len(wanted)])
    for line, cells in rows:
        if not any(cells):
            continue
        where = f"{path}, line {line}"
        sequence = check_sequence(cells[0], where)
        partners = from_dot_bracket(cells[1], len(sequence), where) if len(columns) > 1 else None
        name = cells[-1] if id_column is not None else f"line {line}"
        yield Molecule(sequence, partners, name, line, str(path))


def _from_records(path: Path, encoding: str) -> Iterator[Molecule]:
    """Read records that begin with ``>`` and a name; sequences and structures may span several lines."""
    name, first = "", 0
    letters: list[tuple[int, str]] = []  # (line number, its part of the sequence)
    brackets: list[tuple[int, str]] = []

    def molecule() -> Molecule:
        sequence = "".join(check_sequence(part, f"{path}, line {line}") for line, part in letters)
        partners = None
        if brackets:
            lines = sorted({brackets[0][0], brackets[-1][0]})
            where = f"{path}, line{'s' if len(lines) > 1 else ''} {' to '.join(map(str, lines))}"
            partners = from_dot_bracket("".join(part for _, part in brackets), len(sequence), where)
        return Molecule(sequence, partners, name or f"line {first}", first, str(path))

    for line, text in read_lines(path, encoding):
        text = text.strip()
        if not text or text.startswith(("#", ";")):
            continue
        if text.startswith(">"):
            if letters:
                yield molecule()
            elif first:
                raise FileError(f"{path}, line {first}: the name {name!r} is not followed by a sequence.")
            name, first, letters, brackets = text[1:].strip(), line, [], []
        elif text[0].isalpha():
            if brackets:  # records without names follow each other directly
                yield molecule()
                name, first, letters, brackets = "", line, [], []
            first = first or line
            letters.append((line, text))
        else:
            brackets.append((line, text.split()[0]))  # an energy may follow the structure
    if letters:
        yield molecule()
    elif first:
        raise FileError(f"{path}, line {first}: the name {name!r} is not followed by a sequence.")


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # Python refuses to convert numbers of thousands of digits


def _from_connectivity_table(path: Path, encoding: str) -> Iterator[Molecule]:
    lines = ((line, text.split()) for line, text in read_lines(path, encoding) if text.strip() and text[0] != "#")
    for first, header in lines:
        if not _is_count(header[0]):
            raise FileError(f"{path}, line {first}: expected the number of bases and a name, not {header[0][:40]!r}.")
        length, name = int(header[0]), " ".join(header[1:]) or f"line {first}"
        letters, partners, numbers = [], [], []
        for place in range(1, length + 1):
            line, cells = next(lines, (first, []))
            if len(cells) < 5 or cells[0] != str(place) or len(cells[1]) != 1 or not _is_count(cells[4]):
                raise FileError(
                    f"{path}, line {line}: expected base {place} of {length} in {name}: its number and letter, and the "
                    "numbers of the previous base, the next base and its partner."
                )
            letters.append(check_sequence(cells[1], f"{path}, line {line}"))
            partners.append(int(cells[4]) - 1)
            numbers.append(line)
        for place, partner in enumerate(partners):
            where = f"{path}, line {numbers[place]}"
            if partner == place:
                raise FileError(f"{where}: base {place + 1} pairs with itself.")
            if partner >= length:
                raise FileError(
                    f"{where}: base {place + 1} pairs with base {partner + 1}, but the sequence has only "
                    f"{counted(length, 'base')}."
                )
            if partner >= 0 and partners[partner] != place:
                raise FileError(
                    f"{where}: base {place + 1} pairs with base {partner + 1}, which does not pair with base "
                    f"{place + 1}."
                )
        if not letters:
            raise FileError(f"{path}, line {first}: the sequence is empty.")
        yield Molecule("".join(letters), tuple(partners), name, first, str(path))


def describe_molecules(molecules: Sequence[Molecule], what: str) -> tuple[str, str]:
    """Return a row of the data report that summarises the molecules: their number, lengths and base pairs."""
    lengths = sorted(one.length for one in molecules)
    paired = sum(2 * len(pairs_of(one.partners)) for one in molecules if one.partners is not None)
    return what, (
        f"{counted(len(molecules), 'molecule')} of {lengths[0]} to {lengths[-1]} bases (median "
        f"{lengths[len(lengths) // 2]}), "
        f"{100 * paired / sum(lengths):.0f}% paired"
    )
