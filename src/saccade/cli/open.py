"""``saccade open``: show what a model folder contains, and what the model can do."""

from __future__ import annotations

import saccade
from saccade.cli.options import Model, console

__all__ = ["open_folder"]


def open_folder(model: Model) -> None:
    """Show what a model is: its family, its sizes, its tokenizer, and what it can do.

    Besides the models that Saccade trains, this opens folders in the layout of Hugging Face: a config.json,
    weights as safetensors, and a tokenizer.

    \b
    Examples:
      saccade open runs/demo
      saccade open ~/models/bert-base-uncased
    """
    opened = saccade.open(model)
    shown = console()
    for name, said in opened.describe().items():
        shown.print(f"{name:<11}{said}", markup=False)
