"""Read plain text: one long text, one document per line, or documents separated by blank lines.

Nothing is guessed: the caller says how the file is organised. If a file is organised differently, an error names the
file, the line and what was expected.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.data.lines import LONGEST_LINE, choose_encoding, open_bytes, read_lines
from saccade.data.report import Lengths
from saccade.data.tables import read_columns
from saccade.errors import FileError, OptionError

__all__ = [
    "Document",
    "LongText",
    "Unit",
    "document_rows",
    "has_blank_line",
    "read_documents",
    "read_text_column",
    "split_end",
]

#: What a document is: the whole file, one line, or the lines up to a blank line.
Unit = Literal["file", "line", "paragraph"]
#: The size in bytes from which a text stays in its file (``LongText``).
LONG = 1 << 25
#: The number of bytes of a file that are decoded at a time, and the least number of characters in a chunk of text.
BLOCK, CHUNK = 1 << 20, 1 << 18
#: A single space between two words, where a text can be cut so that the tokens stay the same.
_BETWEEN_WORDS = re.compile(r"(?<=\S) (?=\S)")


@dataclass(frozen=True)
class Document:
    """A text, and the number of the line where it begins, counting from 1."""

    text: str
    line: int

    @property
    def characters(self) -> int:
        return len(self.text)

    def blocks(self) -> Iterator[str]:
        """Yield the text in one or more consecutive parts, whose size does not matter."""
        yield self.text


class LongText(Document):
    """A document that is read from its file when it is needed, because it may be larger than the memory.

    It is a range of bytes of a UTF-8 file. Each call of ``blocks`` or ``chunks`` reads the file again, a megabyte at
    a time.
    """

    path: Path
    start: int  # the first byte
    stop: int  # one past the last byte
    count: int  # the number of characters

    def __init__(self, path: Path, start: int, stop: int, line: int, count: int) -> None:
        given = {"path": path, "start": start, "stop": stop, "line": line, "count": count}
        for name, value in given.items():
            object.__setattr__(self, name, value)  # because a document is frozen

    @classmethod
    def whole(cls, path: Path) -> LongText:
        """Return the whole file as one document, without the byte order mark."""
        with open_bytes(path) as stream:
            start = len(codecs.BOM_UTF8) if stream.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0
        found = cls(path, start, path.stat().st_size, 1, 0)
        return cls(path, start, found.stop, 1, sum(map(len, found.blocks())))

    @property
    def text(self) -> str:
        """The text as one string, for the few callers that need it in memory."""
        return "".join(self.blocks())

    @property
    def characters(self) -> int:
        return self.count

    def blocks(self) -> Iterator[str]:
        return map(_with_line_feeds, self._decoded())

    def _decoded(self) -> Iterator[str]:
        """Yield the text of the file in blocks, which never end inside a Windows line ending."""
        decoder, kept = codecs.getincrementaldecoder("utf-8")(), ""
        with open_bytes(self.path) as stream:
            stream.seek(self.start)
            left = self.stop - self.start
            while left > 0 and (read := stream.read(min(BLOCK, left))):
                left -= len(read)
                block = kept + decoder.decode(read)
                kept = "\r" if block.endswith("\r") else ""
                yield block.removesuffix(kept)
        yield kept + decoder.decode(b"", final=True)

    def chunks(self) -> Iterator[str]:
        """Yield the text in chunks; each chunk after the first begins with the space between two words.

        A text without spaces between words, such as Chinese, is cut anywhere.
        """
        rest = ""
        for block in self.blocks():
            rest += block
            start = 0
            while len(rest) - start > 2 * CHUNK + 1:
                found = _BETWEEN_WORDS.search(rest, start + CHUNK, start + 2 * CHUNK + 1)
                end = start + 2 * CHUNK if found is None else found.start()
                yield rest[start:end]
                start = end
            rest = rest[start:]
        yield rest

    def cut(self, ends: Sequence[int]) -> list[LongText]:
        """Return the consecutive parts of the text that end before these positions. They are counted in characters, in
        increasing order; the last one is the length of the text."""
        places: list[tuple[int, int]] = []  # the byte and the line of each end
        byte, line, characters = self.start, self.line, 0
        for block in self._decoded():
            size = len(_with_line_feeds(block))
            while len(places) < len(ends) and ends[len(places)] <= characters + size:
                before = _beginning(block, ends[len(places)] - characters)
                places.append((byte + len(before.encode()), line + before.count("\n")))
            byte, line, characters = byte + len(block.encode()), line + block.count("\n"), characters + size
        starts = [(self.start, self.line), *places[:-1]]
        counts = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return [
            LongText(self.path, first, last, number, count)
            for (first, number), (last, _), count in zip(starts, places, counts, strict=True)
        ]


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def _beginning(text: str, count: int) -> str:
    """Return the first ``count`` characters of a text, counting a Windows line ending as one character."""
    taken = 0
    for line in text.split("\r\n"):
        if count <= len(line):
            break
        taken, count = taken + len(line) + 2, count - len(line) - 1
    return text[: taken + count]


def read_documents(
    path: str | Path, unit: Unit, *, labelled: bool = False, encoding: str | None = None
) -> list[Document]:
    """Return the documents in a text file, in order. A byte order mark is skipped.

    If the whole file is one document (``unit`` is "file"), every character is kept, except that Windows line endings
    become line feeds, and a long UTF-8 file is not loaded into memory (see ``LongText``). With ``labelled``, the first
    word of each line is a label, and is dropped.
    """
    if labelled and unit != "line":
        raise OptionError(f"Labelled documents must be lines, not {unit!r}: the label is the first word of a line.")
    name, _ = choose_encoding(path, encoding)
    if unit == "file" and is_long(path, name):
        return [LongText.whole(Path(path))]
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


def is_long(path: str | Path, encoding: str) -> bool:
    """Return whether a file is to be read piece by piece (see ``LongText``): it is large, in UTF-8 and not
    compressed."""
    if Path(path).stat().st_size < LONG or codecs.lookup(encoding).name != "utf-8":
        return False
    with open_bytes(path) as stream, Path(path).open("rb") as raw:
        return stream.read(2) == raw.read(2)  # it is not compressed


def has_blank_line(path: str | Path) -> bool:
    return any(not text.strip() for _, text in read_lines(path))


def read_text_column(
    path: str | Path, column: str | int, encoding: str | None = None, separator: str | None = None
) -> list[Document]:
    """Read one column of a .tsv, .csv or .jsonl file, with one document per row."""
    _, rows = read_columns(path, (column,), encoding=encoding, in_order=("text",), separator=separator)
    found = [Document(cells[0], line) for line, cells in rows]
    if not found:
        raise FileError(f"{path}, line 1: the file contains no text; expected a column {column!r}.")
    for document in found:
        if not document.text.strip():
            raise FileError(f"{path}, line {document.line}: the document is empty; expected text in column {column!r}.")
    return found


def split_end(documents: Sequence[Document], shares: Sequence[float]) -> list[list[Document]]:
    """Split documents, in order, into one part more than there are ``shares``: first the rest, then a part for each
    share, which is a fraction of the whole.

    A single document is cut between two characters: with one share of 0.1, the first part is the first 90% of its
    characters. Several documents are not cut; a share is then a fraction of their number, whatever their lengths.
    """
    size = documents[0].characters if len(documents) == 1 else len(documents)
    ends = [int(size * round(1 - sum(shares[number:]), 12)) for number in range(len(shares))] + [size]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    if len(documents) > 1:
        return [list(documents[start:end]) for start, end in spans]
    (whole,) = documents
    if isinstance(whole, LongText):
        return [[part] if part.characters else [] for part in whole.cut(ends)]
    return [
        [Document(whole.text[start:end], whole.line + whole.text.count("\n", 0, start))] if start < end else []
        for start, end in spans
    ]


def document_rows(path: str | Path, documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Summarise the documents as (name, value) rows of a table."""
    sizes = [document.characters for document in documents]
    alphabet: set[str] = set()
    lines, last = 0, ""
    for document in documents:
        for block in document.blocks():
            alphabet.update(block)
            lines, last = lines + block.count("\n"), block or last
    rows = [("file", str(path)), ("characters", f"{sum(sizes):,}"), ("different characters", f"{len(alphabet)}")]
    if len(documents) == 1:
        ends = last.endswith("\n")
        return [*rows, ("lines", f"{lines if ends else lines + 1:,}")]
    return [*rows, ("documents", f"{len(documents):,}"), ("characters per document", str(Lengths.of(sizes)))]


def _read_all(path: str | Path, encoding: str) -> str:
    with open_bytes(path) as stream:
        data = stream.read()
    if len(data) > LONGEST_LINE:
        for _ in read_lines(path, encoding):  # raises an error if a line is too long
            pass
    try:
        return _with_line_feeds(data.decode(encoding).removeprefix("\ufeff"))
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
