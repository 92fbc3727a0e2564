"""Read plain text: one long text, one document per line, or documents separated by blank lines.

Nothing is guessed: the caller says how the file is organised, and the error for a file that does not fit names the
file, the line and what was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.data.lines import LONGEST_LINE, choose_encoding, read_lines, reading
from saccade.data.report import Lengths
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError

__all__ = ["Document", "Unit", "document_rows", "has_blank_line", "read_documents", "read_text_column", "split_end"]

#: What a document is: the whole file, one line, or the lines up to a blank line.
Unit = Literal["file", "line", "paragraph"]


@dataclass(frozen=True)
class Document:
    """A text, and the number of the line where it begins, counting from 1."""

    text: str
    line: int


def read_documents(
    path: str | Path, unit: Unit, *, labelled: bool = False, encoding: str | None = None
) -> list[Document]:
    """Read the documents in a text file in order, without its byte order mark.

    A file that is one document keeps every character, including line endings. With ``labelled``, the first word of
    each line is a label, and is dropped.
    """
    if labelled and unit != "line":
        raise OptionError(f"Labelled documents must be lines, not {unit!r}: the label is the first word of a line.")
    name, _ = choose_encoding(path, encoding)
    if unit == "file":
        found = [Document(_read_all(path, name), 1)]
    elif unit == "line":
        found = []
        for number, text in read_lines(path, name):
            if labelled:
                label, _, text = text.strip().partition(" ")
                if not text.strip():
                    raise FileError(f"{path}, line {number}: expected a label, a space and a text; got {label[:40]!r}.")
            found.append(Document(text.strip() if labelled else text, number))
    else:
        found = _paragraphs(path, name)
    if not any(document.text.strip() for document in found):
        raise FileError(f"{path}, line 1: the file contains no text; expected at least one document.")
    for document in found:
        if not document.text.strip():
            raise FileError(
                f"{path}, line {document.line}: the document is empty; expected text on every line "
                "(if blank lines separate documents, use --set data.documents=paragraph)."
            )
    return found


def has_blank_line(path: str | Path) -> bool:
    return any(not text.strip() for _, text in read_lines(path))


def read_text_column(path: str | Path, column: str | int, encoding: str | None = None) -> list[Document]:
    """Read one column of a .tsv, .csv or .jsonl file, with one document per row."""
    _, rows = read_columns(path, (column,), encoding=encoding)
    found = [Document(cells[0], line) for line, cells in rows]
    if not found:
        raise FileError(f"{path}, line 1: the file contains no text; expected a column {column!r}.")
    for document in found:
        if not document.text.strip():
            raise FileError(f"{path}, line {document.line}: the document is empty; expected text in column {column!r}.")
    return found


def split_end(documents: Sequence[Document], shares: Sequence[float]) -> list[list[Document]]:
    """Split the text in order: one part for each share at its end, after the remainder.

    A single document is cut between two characters: with a share of 0.1, the first part is the first 90% of its
    characters. Several documents are not cut, and each counts the same, whatever its length.
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
    """Summarise the documents as (name, value) rows of a table."""
    sizes = [len(document.text) for document in documents]
    alphabet = set().union(*(set(document.text) for document in documents))
    rows = [("file", str(path)), ("characters", f"{sum(sizes):,}"), ("different characters", f"{len(alphabet)}")]
    if len(documents) == 1:
        return [*rows, ("lines", f"{documents[0].text.count(chr(10)) + 1:,}")]
    return [*rows, ("documents", f"{len(documents):,}"), ("characters per document", str(Lengths.of(sizes)))]


def _read_all(path: str | Path, encoding: str) -> str:
    with reading(path) as stream:
        data = stream.read()
    if len(data) > LONGEST_LINE:
        for _ in read_lines(path, encoding):  # raises an error if a line is too long
            pass
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        for _ in read_lines(path, encoding):  # raises an error that names the line and the byte
            pass
        raise AssertionError(f"the file is not {encoding}, but every line is") from None


def _paragraphs(path: str | Path, encoding: str) -> list[Document]:
    """Read documents that are separated by one or more blank lines."""
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
