"""Write a model for another library, after that library has given the same answers as Saccade to real inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from saccade.errors import UnknownNameError
from saccade.storage import write_folder
from saccade.tasks.base.exporting.ctranslate2 import to_ctranslate2
from saccade.tasks.base.exporting.files import Export
from saccade.tasks.base.exporting.huggingface import to_huggingface
from saccade.tasks.base.exporting.inputs import given_inputs
from saccade.tasks.base.exporting.onnx import to_onnx
from saccade.tasks.base.model_folder import read_bundle
from saccade.tasks.base.task import Bundle

__all__ = ["FORMATS", "export"]

#: How a model is written in each format.
FORMATS: Mapping[str, Callable[[Bundle, Sequence[str]], Export]] = {
    "huggingface": to_huggingface,
    "ctranslate2": to_ctranslate2,
    "onnx": to_onnx,
}


def export(path: Path, to: str, output: Path, inputs: Sequence[str] = ()) -> str:
    """Write a model as a folder for another library; returns a sentence that says what was compared.

    ``inputs`` are the texts, or the names of pictures, for which answers are compared; by default, built-in inputs.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    bundle = read_bundle(path)
    with torch.no_grad():
        exported = FORMATS[to](bundle, given_inputs(bundle, inputs))
    card = _card(bundle, path, to, exported)
    write_folder(output, {**exported.files, "README.md": card.encode()})
    return exported.checked


def _card(bundle: Bundle, path: Path, to: str, exported: Export) -> str:
    """The README of the folder."""
    network: nn.Module = bundle.model
    count = sum(parameter.numel() for parameter in network.parameters())
    lines: Iterable[str] = [
        f"# {bundle.task.name}: {bundle.task.about}",
        "",
        f"A {bundle.family or bundle.kind} network with {count:,} parameters, exported by Saccade from `{path.name}` "
        f"for {to}.",
        "",
        *(f"- {fact}" for fact in bundle.task.facts()),
        f"- check: {exported.checked}",
        "",
        "## Use",
        "",
        "```python",
        exported.use,
        "```",
        "",
        *exported.notes,
    ]
    return "\n".join(lines)
