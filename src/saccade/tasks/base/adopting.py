"""A model of another library as a model of ours: the same ``Bundle`` that a folder of ours gives.

What a pretrained model is for decides its task, and the task's state takes its tokenizer (``State.adopt``); so whoever
has a bundle need not know where it came from.
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

#: The task that each use of a pretrained model is.
TASK_OF: Mapping[Use, str] = {
    "fill": "masked-language-model",
    "continue": "language-model",
    "rewrite": "translation",
    "encode": "sentence-similarity",
}


def adopt(path: Path) -> Bundle:
    """Open the folder of another library."""
    model = read_pretrained(path)
    entry = task_of_model(TASK_OF[model.use])
    ids = {
        "pad": model.id("pad_token_id"),
        "start": model.id("decoder_start_token_id", "bos_token_id"),
        "end": model.id("eos_token_id"),
    }
    state = entry.task.state_class.adopt(model, read_foreign(path, model.vocabulary, ids))
    return Bundle(
        entry.task(state),
        "transformer",
        model.config,
        model.network,
        entry.predictor.options(),
        family=model.family.name,
        unused=model.unused,
    )
