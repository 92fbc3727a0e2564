"""Merge the weights of word pieces into weights of words, and make the characters of tokens visible.

The weight that a word receives as a key is the sum over its pieces, and the weight that it gives as a query is the mean
over its pieces. So rows that sum to 1 still sum to 1 after merging.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import torch
from jaxtyping import Float
from rich.cells import cell_len
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["code_point", "letters", "merge", "right_to_left", "shorten", "visible", "visible_text"]

_MARKS = {" ": "·", "\t": "⇥", "\n": "↵"}
_OTHER_SPACE = "⍽"  # no-break, narrow, ideographic, ...
_EMPTY = "∅"
_ELLIPSIS = "…"
#: Invisible characters: controls, formatting (all bidi controls), lone surrogates, and the two line separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Code points that Unicode never assigns; the last two of every 65,536 are not assigned either.
_NONCHARACTERS = range(0xFDD0, 0xFDF0)
_CODE_POINT = re.compile(r"(⟨U\+[0-9A-F]{4,6}⟩)")  # never split
_JOINERS = frozenset("\u200c\u200d")


def merge(
    weights: Float[Tensor, "*BH Q K"], query_words: Sequence[int], key_words: Sequence[int]
) -> Float[Tensor, "*BH words_of_queries words_of_keys"]:
    """Merge weights between pieces into weights between words: summed over keys, averaged over queries.

    ``query_words[i]`` is the index, from 0, of the word that piece i belongs to. A special token counts as a word of
    its own.
    """
    queries = _words("query", query_words, weights.shape[-2], weights.device)
    keys = _words("key", key_words, weights.shape[-1], weights.device)
    num_pieces = torch.bincount(queries)
    summed = weights.new_zeros(*weights.shape[:-1], _count(keys)).index_add(-1, keys, weights)
    total = summed.new_zeros(*summed.shape[:-2], _count(queries), summed.shape[-1]).index_add(-2, queries, summed)
    return total / num_pieces.to(total.dtype).unsqueeze(-1)


def visible(token: str) -> str:
    """Return a token with every character visible: a space as ·, control and bidi characters as their code points.

    Zero-width joiners and non-joiners are kept between characters that are not ASCII, because some scripts and emoji
    need them there. A combining mark at the start, which a piece of a word may have, is put on a dotted circle.
    """
    if not token:
        return _EMPTY
    shown = [_visible_character(token, position) for position in range(len(token))]
    first = "◌" if unicodedata.category(token[0]).startswith("M") else ""
    return first + "".join(shown)


def code_point(character: str) -> str:
    """Return the text that is shown for a character that cannot be displayed: its code point, such as ⟨U+200B⟩."""
    return f"⟨U+{ord(character):04X}⟩"


def visible_text(text: str) -> str:
    """Return a title or sentence with every character visible, as `visible` does, but with its spaces kept."""
    return " ".join(visible(word) for word in text.split(" ") if word)


def shorten(text: str, width: int) -> str:
    """Shorten a text to at most ``width`` terminal cells by replacing its middle with an ellipsis."""
    if width < 1:
        raise OptionError(f"shorten() needs a width of at least 1, not {width}.")
    if cell_len(text) <= width:
        return text
    clusters = [part for run in _CODE_POINT.split(text) for part in ([run] if _CODE_POINT.match(run) else letters(run))]
    tail_width = (width - 1) // 2
    tail = _fitting(clusters[::-1], tail_width)[::-1]
    head = _fitting(clusters, width - 1 - cell_len("".join(tail)))
    return "".join([*head, _ELLIPSIS, *tail])


def letters(text: str) -> list[str]:
    """Split a text into parts that must stay together: a letter with its marks, an emoji with its modifiers."""
    clusters: list[str] = []
    for character in text:
        is_skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
        is_mark = character in _JOINERS or unicodedata.category(character).startswith("M")
        if clusters and (is_skin_tone or is_mark or clusters[-1].endswith("\u200d")):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def right_to_left(text: str) -> bool:
    """Return whether any letter of the text is written from right to left."""
    return any(unicodedata.bidirectional(character) in {"R", "AL"} for character in text)


def _visible_character(token: str, position: int) -> str:
    character = token[position]
    if character in _MARKS:
        return _MARKS[character]
    category = unicodedata.category(character)
    if category == "Zs":
        return _OTHER_SPACE
    code = ord(character)
    is_hidden = category in _HIDDEN or code in _NONCHARACTERS or code & 0xFFFE == 0xFFFE
    is_inside = 0 < position < len(token) - 1
    joins = is_inside and character in _JOINERS and not (token[position - 1] + token[position + 1]).isascii()
    return character if joins or not is_hidden else code_point(character)


def _fitting(clusters: Sequence[str], width: int) -> list[str]:
    """Return as many of the first clusters as fit into ``width`` terminal cells."""
    taken: list[str] = []
    for cluster in clusters:
        width -= cell_len(cluster)
        if width < 0:
            break
        taken.append(cluster)
    return taken


def _words(what: str, words: Sequence[int], num_pieces: int, device: torch.device) -> Tensor:
    if len(words) != num_pieces:
        raise ShapeError(f"merge() needs a word for each of the {num_pieces} {what} pieces; it got {len(words)}.")
    missing = set(range(max(words, default=-1) + 1)) ^ set(words)
    if missing:
        wrong = min(missing)
        problem = "is negative" if wrong < 0 else "is missing"
        raise OptionError(f"merge() needs words numbered from 0 without gaps; {wrong} {problem}.")
    return torch.tensor(list(words), dtype=torch.long, device=device)


def _count(words: Tensor) -> int:
    return int(words.max()) + 1 if len(words) else 0
