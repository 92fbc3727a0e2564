"""Text files as numbered lines: UTF-8 unless another encoding is given, ended by a line feed and by nothing else."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from saccade.errors import FileError

__all__ = ["read_lines", "unreadable"]


def read_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its ending) of a text file, one line in memory at a time.

    Only a line feed ends a line, with a carriage return before it or not. Python's own text mode would also
    break at a lone carriage return and `str.splitlines` at U+2028, U+0085 or a vertical tab: these occur inside
    sentences, and one such break shifts every pair after it. A byte order mark is skipped.
    """
    return _utf8_lines(path) if codecs.lookup(encoding).name == "utf-8" else _encoded_lines(path, encoding)


def _utf8_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    try:
        with Path(path).open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = _without_byte_order_mark(line, path)
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise FileError(
                        f"{path}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is "
                        "not UTF-8; convert the file to UTF-8."
                    ) from None
                yield number, text.removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise unreadable(path, error) from error


def _encoded_lines(path: str | Path, encoding: str) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with Path(path).open(encoding=encoding, newline="\n") as stream:
            for number, text in enumerate(stream, start=1):
                yield number, text.removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeError as error:
        raise FileError(f"{path}, after line {number}: not {encoding} ({error}).") from None


def _without_byte_order_mark(line: bytes, path: str | Path) -> bytes:
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileError(f"{path}, line 1: the file is UTF-16, not UTF-8; convert it to UTF-8.")
    return line.removeprefix(codecs.BOM_UTF8)


def unreadable(path: str | Path, error: OSError) -> FileError:
    """The sentence for a file that the system does not let us read."""
    if isinstance(error, FileNotFoundError):
        return FileError(f"There is no file {path}.")
    if isinstance(error, IsADirectoryError):
        return FileError(f"{path} is a folder; expected a file.")
    return FileError(f"{path} cannot be read: {error.strerror or error}.")
