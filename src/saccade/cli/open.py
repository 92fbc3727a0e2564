"""``saccade open``: show what a model folder contains, and what the model can do."""

from __future__ import annotations

import saccade
from saccade.cli.options import Model, console

__all__ = ["open_folder"]


def open_folder(model: Model) -> None:
    """Show what a model is and what it can do.

    This prints its architecture (family), its task, its sizes, its vocabularies, and the library that runs it. Besides
    models that Saccade trained, this opens folders in Hugging Face's layout: a config.json, weights as safetensors, and
    a tokenizer.

    \b
    Examples:
      saccade open runs/demo
      saccade open ~/models/bert-base-uncased
    """
    opened = saccade.open(model)
    shown = console()
    for name, said in opened.describe().items():
        shown.print(f"{name:<11}{said}", markup=False)
