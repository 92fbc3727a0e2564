"""Read the text of a masked language model, as the ``[data]`` table of a recipe describes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from saccade.data.documents import Document, Unit, has_blank_line
from saccade.data.grammar import generate
from saccade.data.paths import resolve_path
from saccade.tasks.base.data import Size, Splits, draw_splits
from saccade.tasks.language_model.data import LanguageModelFiles, TextData

__all__ = ["MaskedLanguageModelData", "MaskedLanguageModelFiles"]


class MaskedLanguageModelData(TextData):
    """Plain text, one column of a table, or built-in sentences; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["grammar"] | None = Field(
        None, description="grammar: the English sentences of the built-in corpus, instead of text or table"
    )
    sentences: int = Field(20000, ge=100, description="Training sentences drawn from the built-in corpus")
    documents: Unit = Field(
        "line", description="What a document is: file, line or paragraph (separated by blank lines)"
    )


#: The width, the number of layers and the maximum number of updates of each size.
NETWORKS: dict[Size, tuple[int, int, int]] = {
    "tiny": (64, 2, 6_000),
    "small": (128, 4, 6_000),
    "medium": (256, 6, 50_000),
}


#: The number of built-in sentences held out for validation, and as many again for test.
BUILTIN_HELD_OUT = 1000


class MaskedLanguageModelFiles(LanguageModelFiles):
    """Reads the same files as a language model does. Of a text with blank lines, such as a book, each paragraph is a
    document; otherwise each line is one."""

    settings = MaskedLanguageModelData
    most_updates = 3_000

    @classmethod
    def read(cls, settings: TextData, seed: int) -> Splits[Document]:
        assert isinstance(settings, MaskedLanguageModelData)
        if settings.builtin is None:
            return super().read(settings, seed)
        return draw_splits(settings.sentences, BUILTIN_HELD_OUT, seed, _sentences)

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


def _sentences(count: int, seed: int, split: str) -> list[Document]:
    drawn = generate(count, seed, split)
    return [Document(sentence.source_text, number) for number, sentence in enumerate(drawn, start=1)]
