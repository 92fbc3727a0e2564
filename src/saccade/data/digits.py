"""The built-in images: the 1,797 handwritten digits that come with scikit-learn, 8×8 pixels in 17 levels of grey.

They are the test split of Alpaydin & Kaynak's data set (UCI, 1998). Captioned images are made from them: one or two
digits in a wider image, with words that describe them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saccade.data.images import LabelledImage, Pixels
from saccade.extras import needs_extra

__all__ = ["CAPTION_SIZE", "DIGIT_NAMES", "Captioned", "captioned_digits", "read_digits"]

DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
#: Height and width of an image that holds two digits side by side.
CAPTION_SIZE = (8, 16)


@dataclass(frozen=True)
class Captioned:
    """An image and the text that describes it."""

    pixels: Pixels
    text: str
    line: int
    where: str

    @property
    def source(self) -> str:
        """A hash of the image, which decides whether the example is for training, validation or test. Examples with
        equal images go to the same part."""
        return LabelledImage(self.pixels, "", self.line, self.where).source


def read_digits() -> list[LabelledImage]:
    """Return all digits in scikit-learn's order, with the labels "0" to "9"."""
    with needs_extra("digits", "Reading the built-in digits"):
        from sklearn.datasets import load_digits  # type: ignore[import-untyped, import-not-found, unused-ignore]
    found = load_digits()
    pixels = np.round(found.images * (255 / 16)).astype(np.uint8)[..., None]
    return [
        LabelledImage(image, str(label), number, f"digits, image {number}")
        for number, (image, label) in enumerate(zip(pixels, found.target.tolist(), strict=True), start=1)
    ]


def captioned_digits(digits: Sequence[LabelledImage], count: int, seed: int) -> list[Captioned]:
    """Make captioned images: half have one digit anywhere in the image, half have two digits side by side.

    Captions are like "a seven" or, for two digits from left to right, "a zero and a three".
    """
    draw = np.random.default_rng([seed, count])
    found = []
    for number in range(1, count + 1):
        canvas = np.zeros((*CAPTION_SIZE, 1), dtype=np.uint8)
        chosen = [digits[index] for index in draw.integers(len(digits), size=2)[: 1 + number % 2]]
        first = int(draw.integers(9)) if len(chosen) == 1 else 0
        for place, digit in enumerate(chosen):
            canvas[:, first + 8 * place : first + 8 * place + 8] = digit.pixels
        names = [DIGIT_NAMES[int(digit.label)] for digit in chosen]
        text = " and ".join(f"{'an' if name == 'eight' else 'a'} {name}" for name in names)
        found.append(Captioned(canvas, text, number, f"captioned digits, image {number}"))
    return found
