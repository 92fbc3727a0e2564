"""``saccade export``: write a model in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Model, console

__all__ = ["export"]


def export(
    model: Model,
    to: Annotated[str, typer.Option("--to", help="Format: huggingface, ctranslate2 or onnx.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.", show_default=False)],
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="File with texts or names of pictures, one per line, for comparing the answers; by default, built-in "
            "inputs."
        ),
    ] = None,
) -> None:
    """Write a model in the format of another library.

    Before the folder is written, that library opens the model, and its answers are compared with Saccade's. If they
    differ by more than rounding, nothing is written. A model that the format cannot express is refused.

    \b
    Examples:
      saccade export runs/demo --to ctranslate2 -o demo-ctranslate2
      saccade export runs/shakespeare --to huggingface -o shakespeare
      saccade export runs/sst2 --to onnx -o sst2-onnx
    """
    from saccade.data.inputs import read_texts
    from saccade.tasks.base.exporting import export as export_model

    texts = [] if inputs is None else [text for text in read_texts(inputs)[0] if text.strip()]
    shown = console()
    shown.print(export_model(Path(model), to, output, texts), markup=False)
    shown.print(f"The model is in {output}.", markup=False)
