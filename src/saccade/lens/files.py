"""Write pictures, pages and numbers to files; if writing fails, no incomplete file is left."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import safetensors.torch
from jaxtyping import Float
from torch import Tensor

from saccade import storage
from saccade.errors import FileError, StorageError

__all__ = ["write_file", "write_numbers"]

_NUMBER_SUFFIXES = (".npy", ".safetensors")


def write_file(path: Path, content: bytes, what: str = "file") -> Path:
    """Write ``content`` to ``path``, whose folder must exist, and return the path.

    ``what`` says in an error message what the file is, such as "picture".
    """
    try:
        if not path.parent.is_dir():
            raise FileError(f"{path}: the {what} cannot be written: No such file or directory.")
        storage.write_file(path, content)
    except StorageError as error:
        reason = getattr(error.__cause__, "strerror", None) or error.__cause__
        raise FileError(f"{path}: the {what} cannot be written: {reason}.") from error
    return path


def write_numbers(path: Path, weights: Float[Tensor, "Q K"]) -> Path:
    """Write weights as float32: an array in a ``.npy`` file, or the tensor "weights" in a ``.safetensors`` file."""
    if path.suffix not in _NUMBER_SUFFIXES:
        raise FileError(f"{path}: numbers can be saved as {' or '.join(_NUMBER_SUFFIXES)}, not as {path.suffix!r}.")
    weights = weights.float().cpu().contiguous()
    if path.suffix == ".safetensors":
        return write_file(path, safetensors.torch.save({"weights": weights}), "numbers")
    content = io.BytesIO()
    np.save(content, weights.numpy(), allow_pickle=False)
    return write_file(path, content.getvalue(), "numbers")
