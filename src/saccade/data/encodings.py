"""Which encoding a text file is in: the one that is given, or one that is found, and then said."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

import charset_normalizer

from saccade.data.lines import unreadable
from saccade.errors import FileError, OptionError

__all__ = ["choose_encoding"]

_BLOCK = 1 << 20
#: Bytes that a guess is made from, beginning shortly before the first that is not UTF-8.
_SAMPLE = 1 << 17
#: What most files that are not UTF-8 are in, and how much more like a language another guess must read.
_WESTERN, _MARGIN = "cp1252", 0.1
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def choose_encoding(path: str | Path, given: str | None = None) -> tuple[str, tuple[str, ...]]:
    """The encoding of a file, and notes on how it was found.

    UTF-8 wherever the bytes are UTF-8, which other text almost never is by chance; else a guess by
    ``charset_normalizer``, with a note that says what was taken.
    """
    if given is not None:
        return _checked(given), ()
    try:
        with Path(path).open("rb") as stream:
            beginning = stream.read(4)
            stream.seek(0)
            sample = _not_utf8(iter(lambda: stream.read(_BLOCK), b""))
    except OSError as error:
        raise unreadable(path, error) from error
    for mark, name in _MARKS.items():
        if beginning.startswith(mark):
            return name, (f"{path} is {name.upper()}, by the mark at its beginning",)
    if sample is None:
        return "utf-8", ()
    guess = _guess(sample)
    if guess is None:
        raise FileError(f"{path} is not UTF-8, and no other encoding fits it; say which it is: data.encoding.")
    return guess, (f"{path} is not UTF-8; it was read as {guess} (data.encoding says another)",)


def _guess(sample: bytes) -> str | None:
    """What reads most like some language: ranked by odd characters alone, French would be taken for Baltic.

    A few lines hardly tell encodings apart, so where the western one fits, another must be clearly better; code pages
    of DOS, which few files are in, never are.
    """
    matches = list(charset_normalizer.from_bytes(sample))
    best = max(matches, key=lambda match: match.coherence, default=None)
    if best is None:
        return None
    western = max((one.coherence for one in matches if _WESTERN in one.could_be_from_charset), default=-1.0)
    near = western >= 0 and (best.coherence - western <= _MARGIN or _of_dos(best.encoding))
    return _WESTERN if near else best.encoding


def _of_dos(encoding: str) -> bool:
    """cp437, cp720 to cp869; the three digits of others (cp932, cp949) are of East Asia."""
    return encoding in ("cp437", "cp1125") or (encoding[:3] in ("cp7", "cp8") and len(encoding) == 5)


def _checked(given: str) -> str:
    try:
        "".encode(given)  # not codecs.lookup, which also knows codecs that are of no text
    except LookupError:
        raise OptionError(f"There is no encoding {given!r}; such as utf-8, utf-16, latin-1, cp1252, gb18030.") from None
    return given


def _not_utf8(blocks: Iterator[bytes]) -> bytes | None:
    """A part of the file around the first bytes that are not UTF-8; None if all of it is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = b""
    for block in blocks:
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            start = max(0, len(before) + error.start - 1024)
            return (before + block)[start : start + _SAMPLE]
        before = block[-1024:]
    return None if _ends(decoder) else before


def _ends(decoder: codecs.IncrementalDecoder) -> bool:
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
