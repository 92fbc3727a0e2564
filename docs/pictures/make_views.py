"""Draw the pictures of docs/how-to/looking.md: every kind of view, at 12 and at 60 tokens, light and dark.

    python docs/pictures/make_views.py runs/demo

The model folder is the one that `saccade demo` trains. The image is seen by a network that learned nothing: only the
drawing is shown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import saccade
from saccade.lens.figures.formats import save
from saccade.lens.view import View, view
from saccade.models.vit import VisionConfig, VisionTransformer
from saccade.tasks.translation.predictor import TranslationPredictor

HERE = Path(__file__).parent
LARGE = 130_000  # bytes; pictures above it are saved in 256 colours
SHORT = "The black cat ate the mouse because it was hungry."  # 12 tokens with the end
SHORT_GOLD = "0-0 2-1 1-2 3-3 3-4 4-5 5-6 6-7 6-8 6-9 7-10 8-11 9-12 10-13"
LONG = (
    "The black cat ate the mouse because it was hungry. I arrived at the bank after crossing the river. "
    "The white dog slept in the garden. The red car crossed the street. The old man did not see the small bird. "
    "The mouse slept because it was tired, and the dog ate."
)  # 60 tokens
BANKS = ("I arrived at the bank after crossing the river.", "I arrived at the bank after crossing the street.")
LAST_SELF, LAST_CROSS = "encoder.1.self", "decoder.1.cross"


def look(model: TranslationPredictor, text: str) -> View:
    """A text and its translation: the decoder is given a start token and then the translation."""
    attention = model.predict([text])[0].attention
    return view(
        attention.traces,
        ["<s>", *attention.target_tokens],
        source_tokens=attention.source_tokens,
        words=[None, *attention.target_words],
        source_words=attention.source_words,
    )


def look_at_predictions(model: TranslationPredictor, text: str, gold: str) -> View:
    """Only what is looked at in the source, with each row under the word that is predicted from it."""
    attention = model.predict([text])[0].attention
    links = [tuple(map(int, link.split("-"))) for link in gold.split()]
    return view(
        {name: trace for name, trace in attention.traces.items() if name.endswith("cross")},
        [*attention.target_tokens, "</s>"],
        source_tokens=attention.source_tokens,
        gold=frozenset((source, target) for source, target in links),
    )


def look_at_image() -> tuple[View, np.ndarray, tuple[int, int]]:
    """A disc on a ground that grows lighter, 32×32, in patches of 4."""
    torch.manual_seed(3)
    down, across = np.mgrid[0:32, 0:32]
    ground = np.stack([0.2 + 0.3 * across / 31, 0.45 + 0.2 * down / 31, np.full((32, 32), 0.35)], axis=-1)
    disc = (down - 12) ** 2 + (across - 19) ** 2 < 60
    image = np.where(disc[..., None], np.array([0.95, 0.8, 0.3]), ground)
    config = VisionConfig(image_size=(32, 32), channels=3, patch=4, width=32, num_heads=4, encoder_layers=2)
    network = VisionTransformer(config, 2).eval()
    with torch.no_grad(), saccade.watch(network) as seen:
        for parameter in network.parameters():
            parameter.mul_(2.5)  # so that its heads have preferences
        network(torch.tensor(image, dtype=torch.float32).permute(2, 0, 1)[None])
    return view(seen), image, config.grid


def pictures(model: TranslationPredictor) -> dict[str, tuple[View, str, dict[str, Any]]]:
    """What is drawn: by name of the file, a view, the kind of its figure, and the options."""
    short, long = look(model, SHORT), look(model, LONG)
    river, street = (look(model, text) for text in BANKS)
    image, pixels, grid = look_at_image()
    it = short.rows[LAST_SELF].joined.index("it")
    return {
        "heatmap-12": (short, "heatmap", {"name": LAST_SELF, "head": 0, "words": True}),
        "heatmap-60": (long, "heatmap", {"name": LAST_SELF, "head": 0, "words": True}),
        "arcs-12": (short, "arcs", {"name": LAST_SELF, "row": it, "words": True}),
        "arcs-60": (long, "arcs", {"name": LAST_SELF, "row": it, "words": True}),
        "grid": (short, "grid", {}),
        "alignment": (look_at_predictions(model, SHORT, SHORT_GOLD), "alignment", {}),
        "rollout": (short, "rollout", {"words": True}),
        "difference": (river, "difference", {"other": street, "name": LAST_SELF, "words": True}),
        "entropy": (short, "entropy", {}),
        "patches": (image, "patches", {"image": pixels, "grid": grid}),
    }


def main() -> None:
    model = saccade.open(sys.argv[1])
    dark = ("heatmap-12", "arcs-12", "difference", "heatmap-60")
    for name, (seen, kind, options) in pictures(model).items():
        for theme in ("light", "dark") if name in dark else ("light",):
            path = HERE / f"view-{name}{'-dark' * (theme == 'dark')}.png"
            save(seen.figure(kind, theme=theme, **options), path)
            if path.stat().st_size > LARGE:
                Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


if __name__ == "__main__":
    main()
