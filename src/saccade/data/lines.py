"""Read text files as numbered lines, in any encoding, compressed with gzip or not. Only a line feed ends a line."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, cast

from saccade.errors import FileError, OptionError

__all__ = [
    "LONGEST_LINE",
    "ChosenEncoding",
    "InheritedEncoding",
    "choose_encoding",
    "is_marked",
    "is_tabbed",
    "open_bytes",
    "read_lines",
    "suffix",
    "unreadable",
]

#: How a user can set the encoding of a file.
HOW_TO_SET = "--encoding for predict and evaluate, data.encoding for training"
_BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
#: The maximum number of characters in a line (of bytes in UTF-8). Tokenizing a text of 100 MB would take gigabytes.
LONGEST_LINE = 1 << 22
#: The number of bytes that are examined to see whether a file is western (starting shortly before the first byte that
#: is not UTF-8), or whether it is a table.
_SAMPLE = 1 << 17
#: The encoding of most files that are not UTF-8. It also reads Latin-1.
_WESTERN = "cp1252"
#: Characters other than letters that can stand between the letters of western text, such as apostrophes and dashes.
_IN_WORDS = "\u2018\u2019\u2013\u2014\u2026\xad\xb7\xa0"
#: The largest fraction of non-ASCII characters that can be other symbols inside words if a file is western.
_FEW = 0.05
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # checked before UTF-16, because it begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_lines(path: str | Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file, without their endings, and their numbers from 1, one line in memory at a time.

    Only a line feed ends a line, with or without a carriage return before it. Python's own text mode would also end a
    line at a lone carriage return, and `str.splitlines` at U+2028, U+0085 or a vertical tab. But these characters occur
    inside sentences, and in two parallel files, one line too many would pair every later sentence with the wrong one. A
    byte order mark is skipped. Without an encoding, `choose_encoding` finds one.
    """
    encoding = encoding or choose_encoding(path)[0]
    return _utf8_lines(path) if codecs.lookup(encoding).name == "utf-8" else _encoded_lines(path, encoding)


def suffix(path: str | Path) -> str:
    """Return the suffix of a file in lower case, ignoring ``.gz``: ``.tsv`` for pairs.TSV.gz."""
    name = Path(path)
    return Path(name.stem if name.suffix.lower() == ".gz" else name.name).suffix.lower()


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed if it is gzip; all errors become a ``FileError``."""
    try:
        with Path(path).open("rb") as raw:
            packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            yield cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if packed else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{path} cannot be decompressed: {error}.") from None
    except OSError as error:
        raise unreadable(path, error) from error


def is_tabbed(path: str | Path) -> bool:
    """Return whether the first lines of a file all have the same number of tabs, so that it is a table. A file with
    fastText's labels is never a table, even if its texts contain tabs."""
    with open_bytes(path) as stream:
        sample = stream.read(_SAMPLE)
    if sample.startswith(b"\0\0") and not sample.startswith(codecs.BOM_UTF32_BE):
        return False  # not a text: idx files begin like this
    lines = sample.split(b"\n")
    lines = [line.replace(b"\0", b"") for line in lines[: max(1, len(lines) - 1)] if line.strip()]
    counts = {line.count(b"\t") for line in lines}
    return len(counts) == 1 and counts != {0} and not all(is_marked(line.decode("latin-1")) for line in lines)


def is_marked(line: str) -> bool:
    """Return whether a line begins with a label in the format of fastText, followed by a space."""
    return re.match(r"[\xef\xbb\xbf\xfe\xff\ufeff]*\s*__label__\S+ ", line) is not None  # after a byte order mark


def _utf8_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            _check_length(path, number, line)
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FileError(
                    f"{path}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is "
                    f"not UTF-8; fix it, or give the file's encoding ({HOW_TO_SET})."
                ) from None
            yield number, text.removesuffix("\n").removesuffix("\r")


def _encoded_lines(path: str | Path, encoding: str) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="\n") as stream:
            for number, text in enumerate(iter(lambda: stream.readline(LONGEST_LINE), ""), start=1):
                _check_length(path, number, text)
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeError as error:
        raise FileError(f"{path}, after line {number}: the text is not {encoding} ({error}).") from None


def _check_length(path: str | Path, number: int, line: str | bytes) -> None:
    if len(line) >= LONGEST_LINE:
        raise FileError(
            f"{path}, line {number}: the line is longer than {LONGEST_LINE:,} bytes; break it into shorter lines."
        )


def unreadable(path: str | Path, error: OSError) -> FileError:
    """Return the error for a file that the operating system cannot open or read."""
    if isinstance(error, FileNotFoundError):
        return FileError(f"There is no file {path}.")
    if isinstance(error, IsADirectoryError):
        return FileError(f"{path} is a folder; expected a file.")
    return FileError(f"{path} cannot be read: {error.strerror or error}.")


# --- encodings ---


class InheritedEncoding(str):
    """An encoding that the user gave for other files, such as the training files of a model. It is only used for files
    that are not UTF-8."""


class ChosenEncoding(str):
    """An encoding that the user gave for a file to predict or to score. It is used even if the file is valid UTF-8."""


def choose_encoding(path: str | Path, given: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Find the encoding of a file, and return it with notes on how it was found.

    The encoding is UTF-8 if the bytes are valid UTF-8, because text in other encodings almost never is. Otherwise it is
    Windows-1252 if the text looks western, and a note says so. Other encodings are not guessed, because they cannot be
    told apart reliably: the file is refused. UTF-8 with a few invalid bytes is an error too, because any other encoding
    would garble the rest.

    If an encoding is ``given``, it is used. But if the file is also valid UTF-8, and not just ASCII, an error is
    raised, because a model that is trained on the file would later read similar files as UTF-8. A `ChosenEncoding` is
    used in this case too, with a note; an `InheritedEncoding` is not used, and the file is read as UTF-8.
    """
    if given is not None:
        return _given_encoding(path, given)
    with open_bytes(path) as stream:
        beginning = stream.read(4)
        stream.seek(0)
        sample = _not_utf8(iter(lambda: stream.read(_BLOCK), b""))
    for mark, name in _MARKS.items():
        if beginning.startswith(mark):
            return name, (f"{path} is {name.upper()}, according to its byte order mark",)
    if sample is None:
        return "utf-8", ()
    if b"\0" in sample or _is_broken_utf8(path):
        for _ in _utf8_lines(path):  # raises an error that names the first invalid byte
            pass
    if not _looks_western(sample):
        raise FileError(
            f"{path} is neither UTF-8 nor western text (cp1252); give its encoding, such as cp1250, cp1251, shift_jis "
            f"or gb18030 ({HOW_TO_SET})."
        )
    said = f"{path} is not UTF-8; it was read as {_WESTERN} (if that is wrong, give its encoding: {HOW_TO_SET})"
    return _WESTERN, (said,)


def _given_encoding(path: str | Path, given: str) -> tuple[str, tuple[str, ...]]:
    try:
        "é中".encode(given, "ignore")  # unlike codecs.lookup, this only finds encodings of text
        is_like_ascii = "a".encode(given) == b"a"
    except (LookupError, ValueError):
        raise OptionError(f"There is no encoding {given!r}; try utf-8, utf-16, latin-1, cp1252 or gb18030.") from None
    if codecs.lookup(given).name.removesuffix("-sig") == "utf-8" or not (letters := _utf8_letters(path, given)):
        return given, ()
    if isinstance(given, InheritedEncoding):
        return "utf-8", () if letters == "ascii" else (f"{path} is UTF-8, so it was not read as {given}",)
    if letters == "ascii" and is_like_ascii:  # both encodings read the same
        return given, ()
    if isinstance(given, ChosenEncoding):
        return given, (f"{path} was read as {given}, as asked for, although it is valid UTF-8",)
    raise FileError(
        f"{path} is valid UTF-8, but data.encoding is {given}; leave out data.encoding or, if the file really is "
        f"{given}, convert it to UTF-8."
    )


def _utf8_letters(path: str | Path, given: str) -> str:
    """Return "ascii" if a file is ASCII, "other" if it is UTF-8 with other letters, and an empty text for other files.

    The text is also empty if the file may be in the given encoding although it is valid UTF-8: if it has zero bytes,
    or if the encoding writes other letters as ASCII, as UTF-7 does.
    """
    is_plain, decoder = True, codecs.getincrementaldecoder("utf-8")()
    with open_bytes(path) as stream:
        for block in chain(iter(lambda: stream.read(_BLOCK), b""), [b""]):
            is_plain = is_plain and block.isascii()
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                return ""
            if b"\0" in block:
                return ""
    written = "é中".encode(given, "ignore")  # every encoding of text has at least one of the two
    return "" if is_plain and written and written.isascii() else "ascii" if is_plain else "other"


def _is_broken_utf8(path: str | Path) -> bool:
    """Return whether most non-ASCII characters of a file are valid UTF-8, and only a few are not."""
    right = wrong = 0
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="") as stream:
        for text in iter(lambda: stream.read(_BLOCK), ""):
            bad = text.count("\ufffd")
            wrong += bad
            right += len(text) - bad - sum(map(str.isascii, text))
    return right > wrong


def _looks_western(sample: bytes) -> bool:
    """Return whether these bytes look like a western language in Windows-1252: most non-ASCII letters are among ASCII
    letters, unlike in Cyrillic or Chinese, and hardly any are symbols inside a word, which are frequent in text of
    another code page (the Polish ``cały`` would be read as ``ca\xb3y``)."""
    try:
        text = sample.decode(_WESTERN)
    except UnicodeDecodeError:
        return False
    runs = re.findall(r"[^\x00-\x7f]+", text)
    count = sum(map(len, runs))
    odd = [one for one in re.findall(rf"(?<=[^\W\d_])[^\x00-\x7f{_IN_WORDS}](?=[^\W\d_])", text) if not one.isalpha()]
    return 2 * sum(len(run) for run in runs if len(run) > 2) <= count and len(odd) <= _FEW * count


def _not_utf8(blocks: Iterator[bytes]) -> bytes | None:
    """Return the part of the file around the first invalid UTF-8 bytes, or None if the whole file is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = b""
    for block in blocks:
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            start = max(0, len(before) + error.start - 1024)
            return (before + block)[start : start + _SAMPLE]
        before = block[-1024:]
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:  # the file ends within a character
        return before
    return None
