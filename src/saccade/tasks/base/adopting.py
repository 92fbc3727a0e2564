"""Open a model that another library trained, as the same kind of ``Bundle`` as one of our own.

What a pretrained model can do decides its task, and the state of the task uses its tokenizer (``TaskState.adopt``).
Code that uses a bundle need not know where it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from saccade.pretrained import read_pretrained
from saccade.pretrained.family import Use
from saccade.tasks.base.task import Bundle
from saccade.tasks.registry import task_of_model
from saccade.text import read_foreign

__all__ = ["adopt"]

#: The task for each use of a pretrained model.
TASK_OF: Mapping[Use, str] = {
    "fill": "masked-language-model",
    "continue": "language-model",
    "rewrite": "translation",
    "encode": "sentence-similarity",
    "label texts": "classification",
    "label words": "tagging",
}


def adopt(path: Path) -> Bundle:
    """Open a folder that another library wrote."""
    model = read_pretrained(path)
    entry = task_of_model(TASK_OF[model.use])
    ids = {
        "pad": model.id("pad_token_id"),
        "start": model.id("decoder_start_token_id", "bos_token_id"),
        "end": model.id("eos_token_id"),
    }
    state = entry.task.state_class.adopt(
        model, read_foreign(path if path.is_dir() else path.parent, model.vocabulary, ids)
    )
    return Bundle(
        entry.task(state),
        "transformer",
        model.config,
        model.network,
        entry.predictor.options(),
        family=model.family.name,
        unused=model.unused,
    )
