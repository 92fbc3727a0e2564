"""Read the text of a masked language model, as the ``[data]`` table of a recipe describes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from saccade.data.documents import Document, Unit, has_blank_line
from saccade.data.paths import resolve_path
from saccade.tasks.base.data import Size, Splits
from saccade.tasks.language_model.data import LanguageModelFiles, TextData

__all__ = ["MaskedLanguageModelData", "MaskedLanguageModelFiles"]


class MaskedLanguageModelData(TextData):
    """Plain text, or one column of a table; paths may use ~ and $SACCADE_DATA."""

    documents: Unit = Field(
        "line", description="What a document is: file, line or paragraph (separated by blank lines)"
    )


#: Width, layers and most updates.
NETWORKS: dict[Size, tuple[int, int, int]] = {
    "tiny": (64, 2, 6_000),
    "small": (128, 4, 6_000),
    "medium": (256, 6, 50_000),
}


class MaskedLanguageModelFiles(LanguageModelFiles):
    """Reads the same files as for a language model. A text with blank lines, such as a book, is read in paragraphs."""

    settings = MaskedLanguageModelData

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        table = super().table(files, columns)
        texts = [path for key, path in table.items() if key.endswith("text")]
        if any(has_blank_line(resolve_path(path)) for path in texts):
            table["documents"] = "paragraph"
        return table

    @classmethod
    def suitable(cls, splits: Splits[Document]) -> Size:
        return "small" if sum(document.characters for document in splits.train) <= 5_000_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[Document], size: Size) -> dict[str, Any]:
        characters = sum(document.characters for document in splits.train)
        width, layers, most = NETWORKS[size]
        return {
            "text": {"vocabulary": max(300, min(8_000, characters // 100))},
            "model": {
                "kind": "transformer",
                "width": width,
                "num_heads": 4,
                "encoder_layers": layers,
                "feedforward_width": 4 * width,
                "activation": "gelu",
                "dropout": 0.1,
                "scaled_embedding": True,
            },
            "training": {
                "steps": max(2_000, min(most, characters // 100)),
                "batch_tokens": 4096,
                "lr": 1e-3 if width <= 128 else 5e-4,
            },
        }
