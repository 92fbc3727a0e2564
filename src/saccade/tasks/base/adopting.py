"""Open a model that another library trained, as a ``Bundle`` like those of Saccade's own models.

The task is chosen by what the pretrained model can do, such as filling in masked words, and the state of the task uses
the model's tokenizer (``TaskState.adopt``). Code that uses a bundle need not know which library trained the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from saccade.errors import UnsupportedError
from saccade.models import VisionConfig
from saccade.pretrained import Pretrained, read_pretrained
from saccade.pretrained.by_transformers import read_by_transformers
from saccade.pretrained.family import Use
from saccade.pretrained.foreign_networks import ForeignTagger
from saccade.pretrained.generation import unused_defaults
from saccade.tasks.base.task import Bundle
from saccade.tasks.registry import task_of_model
from saccade.text import ForeignTokenizer, read_foreign

__all__ = ["adopt", "adopt_foreign"]

#: The task for each use of a pretrained model.
TASK_OF: Mapping[Use, str] = {
    "fill": "masked-language-model",
    "continue": "language-model",
    "rewrite": "translation",
    "encode": "sentence-similarity",
    "label texts": "classification",
    "label words": "tagging",
    "label images": "images",
}


def adopt(path: Path) -> Bundle:
    """Open a folder that another library wrote, as one of Saccade's own networks."""
    return _bundle(path, read_pretrained(path), "transformer")


def adopt_foreign(path: Path, reason: str) -> Bundle:
    """Open a folder that another library wrote; ``transformers`` runs the network. ``reason`` is a sentence that says
    why Saccade's own networks are not used."""
    found = _bundle(path, read_by_transformers(path, reason), "transformers")
    return replace(found, engine="transformers", reason=reason)


def _bundle(path: Path, model: Pretrained, kind: str) -> Bundle:
    entry = task_of_model(TASK_OF[model.use])
    tokenizer = _tokenizer(path, model) if model.preparation is None and model.entries is None else None
    if isinstance(model.network, ForeignTagger) and tokenizer is not None:
        model.network.frame = tokenizer.frame
        if model.id("pad_token_id") != 0 and not any(0 in side for side in tokenizer.frame):
            raise UnsupportedError(
                f"{path}: the token with id 0 can occur in a text, but where Saccade tags words, 0 stands for padding."
            )
    state = entry.task.state_class.adopt(model, tokenizer)  # type: ignore[arg-type]
    return Bundle(
        entry.task(state),
        kind,
        model.config,
        model.network,
        entry.predictor.options(),
        data=_data(model),
        family=model.family,
        unused=(*model.unused, *unused_defaults(model.generation)),
    )


def _tokenizer(path: Path, model: Pretrained) -> ForeignTokenizer:
    ids = {
        "pad": model.id("pad_token_id"),
        "start": model.id("decoder_start_token_id", "bos_token_id"),
        "end": model.id("eos_token_id"),
    }
    kind = model.fields.get("model_type")
    return read_foreign(
        path if path.is_dir() else path.parent, model.vocabulary, ids, kind if isinstance(kind, str) else None
    )


def _data(model: Pretrained) -> dict[str, Any]:
    """Return the ``[data]`` table of images: how pictures are fitted to the size that the network takes."""
    found = model.preparation
    if found is None:
        return {}
    assert isinstance(model.config, VisionConfig)
    table = {"shape": [*model.config.image_size, model.config.channels], "filter": found.filter}
    cut = found.resized
    return table if cut is None else table | {"cut_from": cut if isinstance(cut, int) else list(cut)}
