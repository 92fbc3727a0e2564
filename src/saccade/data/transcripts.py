"""Long texts with a question at the end, to measure what a network forgets, as lecture 002 asks about a transcript of
20 pages: what was said in it, and how often.

- ``recall``: a text first names two people, each with a colour, then says other things, and ends on one of the two
  names; the label is the colour of that person. The distance is the number of other words in between.
- ``counting``: a text of a given length, and the question how often a word occurs in it.

A question ends on the word that it asks about, so that even the last word alone says what to look for.

The split of a text depends on a hash of the text, so no text is in two splits.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

from saccade.data.labelled import LabelledText
from saccade.errors import OptionError

__all__ = ["DISTANCES", "TRANSCRIPTS"]

NAMES = ("Anna", "Boris", "Clara", "David", "Elena", "Fritz", "Greta", "Hugo")
COLOURS = ("red", "green", "blue", "yellow", "black", "white")
COUNTED = ("cat", "dog", "horse", "bird", "fish", "snake")
# fmt: off
FILLER = (
    "the", "meeting", "went", "on", "and", "then", "we", "spoke", "about", "a", "plan", "for", "this", "year", "with",
    "many", "long", "questions", "but", "few", "answers", "so", "it", "took", "some", "time",
)
# fmt: on
#: Numbers of words between a statement and its question, and also the lengths of the texts in which a word is counted.
DISTANCES = (4, 16, 64, 128)
#: Number of people in a text, each with a colour of their own.
PEOPLE = 2
MOST_OFTEN = 5
#: Training distances go from 1 to 2 ** OCTAVES, the longest of DISTANCES.
OCTAVES = 7
#: The split of a text depends on the last digit of its hash: 8 digits for training, 1 each for the others.
PARTS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def _recall(draw: random.Random, distance: int) -> tuple[str, str, str]:
    names = draw.sample(NAMES, PEOPLE)
    colours = draw.sample(COLOURS, PEOPLE)
    said = " ".join(f"{name} {colour}" for name, colour in zip(names, colours, strict=True))
    number = draw.randrange(PEOPLE)
    filler = " ".join(draw.choices(FILLER, k=distance))
    return f"{said} {filler} {names[number]}", colours[number], f"distance {distance}"


def _counting(draw: random.Random, length: int) -> tuple[str, str, str]:
    asked, other = draw.sample(COUNTED, 2)
    often = draw.randint(0, min(MOST_OFTEN, length - 1))
    also = draw.randint(0, min(MOST_OFTEN, length - often))
    words = [asked] * often + [other] * also
    words += draw.choices(FILLER, k=length - len(words))
    draw.shuffle(words)
    return f"{' '.join(words)} . how often {asked}", str(often), f"length {length}"


def _mixed(draw: random.Random) -> int:
    """A distance for training, from 1 to 128. A range from 2ⁿ to 2ⁿ⁺¹ is half as frequent as the one below it, so each
    contributes about as many words: a network learns what to look for in short texts, and to look far in long ones."""
    octave = draw.choices(range(OCTAVES), [2.0**-number for number in range(OCTAVES)])[0]
    return draw.randint(2**octave, 2 ** (octave + 1))


def _drawn(
    build: Callable[[random.Random, int], tuple[str, str, str]], count: int, seed: int, split: str
) -> list[LabelledText]:
    """Draw different texts of one split. For training, all distances up to the longest are mixed; in the other splits,
    each of ``DISTANCES`` is equally frequent."""
    if count < 0:
        raise OptionError(f"The number of texts must be 0 or more, not {count}.")
    draw = random.Random(seed)
    found: dict[str, LabelledText] = {}
    while len(found) < count:
        distance = _mixed(draw) if split == "train" else DISTANCES[len(found) % len(DISTANCES)]
        text, label, kind = build(draw, distance)
        place = hashlib.blake2b(text.encode(), digest_size=4).digest()
        if text not in found and int.from_bytes(place, "big") % 10 in PARTS[split]:
            found[text] = LabelledText(text, label, len(found) + 1, "the built-in texts", kind)
    return list(found.values())


def recall(count: int, seed: int, split: str = "train") -> list[LabelledText]:
    return _drawn(_recall, count, seed, split)


def counting(count: int, seed: int, split: str = "train") -> list[LabelledText]:
    return _drawn(_counting, count, seed, split)


#: Built-in texts by name: (number of texts, seed, split) -> texts.
TRANSCRIPTS: dict[str, Callable[[int, int, str], list[LabelledText]]] = {"recall": recall, "counting": counting}
