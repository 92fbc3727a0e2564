"""Plain text: one long text, a document a line, or documents with blank lines between them.

Nothing is guessed: what a file holds is said by the caller, and a file that does not hold it is refused in one
sentence that names the file, the line and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.data.lines import LONGEST_LINE, choose_encoding, read_lines, unreadable
from saccade.data.report import Lengths
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError

__all__ = ["Document", "Unit", "document_rows", "has_blank_line", "read_documents", "read_text_column", "split_end"]

#: What a document is: the whole file, a line, or lines up to a blank one.
Unit = Literal["file", "line", "paragraph"]


@dataclass(frozen=True)
class Document:
    """A text, with the line of its file where it begins, counted from 1."""

    text: str
    line: int


def read_documents(
    path: str | Path, unit: Unit, *, labelled: bool = False, encoding: str | None = None
) -> list[Document]:
    """The documents of a text file, in their order; a byte order mark is no part of the text.

    A whole file is taken character by character, line ends included. With ``labelled`` the first word of each line
    is a label, which is left out.
    """
    if labelled and unit != "line":
        raise OptionError(f"Labels stand before lines, so documents are lines; not {unit!r}.")
    name, _ = choose_encoding(path, encoding)
    if unit == "file":
        found = [Document(_whole(path, name), 1)]
    elif unit == "line":
        found = [Document(text, number) for number, text in read_lines(path, name)]
        if labelled:
            found = [Document(_after_label(path, document), document.line) for document in found]
    else:
        found = _paragraphs(path, name)
    if not any(document.text.strip() for document in found):
        raise FileError(f"{path}, line 1: there is no text in this file; expected at least one document.")
    for document in found:
        if not document.text.strip():
            raise FileError(
                f"{path}, line {document.line}: an empty document; expected text on every line "
                "(where blank lines stand between documents: --set data.documents=paragraph)."
            )
    return found


def has_blank_line(path: str | Path) -> bool:
    return any(not text.strip() for _, text in read_lines(path))


def read_text_column(path: str | Path, column: str | int, encoding: str | None = None) -> list[Document]:
    """The texts in one column of a .tsv, .csv or .jsonl file."""
    _, rows = read_columns(path, (column,), encoding=encoding)
    found = [Document(cells[0], line) for line, cells in rows]
    if not found:
        raise FileError(f"{path}, line 1: there is no text in this file; expected a column {column!r}.")
    for document in found:
        if not document.text.strip():
            raise FileError(f"{path}, line {document.line}: an empty document; expected text in column {column!r}.")
    return found


def split_end(documents: Sequence[Document], shares: Sequence[float]) -> list[list[Document]]:
    """Parts in the order of the text: what the shares leave, then one part for each share, the last at the end.

    A single document is cut between two characters, so that with a share of 0.1 the first 90% of the characters are
    the first part; several are counted as wholes.
    """
    size = len(documents[0].text) if len(documents) == 1 else len(documents)
    ends = [int(size * round(1 - sum(shares[number:]), 12)) for number in range(len(shares))] + [size]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    if len(documents) > 1:
        return [list(documents[start:end]) for start, end in spans]
    (whole,) = documents
    return [
        [Document(whole.text[start:end], whole.line + whole.text.count("\n", 0, start))] if start < end else []
        for start, end in spans
    ]


def document_rows(path: str | Path, documents: Sequence[Document]) -> list[tuple[str, str]]:
    """What was found, as rows (what, value) of a table."""
    sizes = [len(document.text) for document in documents]
    rows = [("file", str(path)), ("characters", f"{sum(sizes):,}"), ("different characters", f"{_alphabet(documents)}")]
    if len(documents) == 1:
        return [*rows, ("lines", f"{documents[0].text.count(chr(10)) + 1:,}")]
    return [*rows, ("documents", f"{len(documents):,}"), ("characters a document", str(Lengths.of(sizes)))]


def _alphabet(documents: Iterable[Document]) -> int:
    return len(set().union(*(set(document.text) for document in documents)))


def _whole(path: str | Path, encoding: str) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > LONGEST_LINE:
        for _ in read_lines(path, encoding):  # refuses a line that is too long
            pass
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        for _ in read_lines(path, encoding):  # names the line and the byte
            pass
        raise AssertionError(f"what is not {encoding} as a whole is not in some line") from None


def _after_label(path: str | Path, document: Document) -> str:
    label, _, text = document.text.strip().partition(" ")
    if not text.strip():
        raise FileError(f"{path}, line {document.line}: expected a label, a space and a text; got {label[:40]!r}.")
    return text.strip()


def _paragraphs(path: str | Path, encoding: str) -> list[Document]:
    """Blank lines stand between documents, however many there are."""
    found: list[Document] = []
    lines: list[str] = []
    first = 1
    for number, text in read_lines(path, encoding):
        if text.strip():
            first = first if lines else number
            lines.append(text)
        elif lines:
            found.append(Document("\n".join(lines), first))
            lines = []
    return [*found, Document("\n".join(lines), first)] if lines else found
