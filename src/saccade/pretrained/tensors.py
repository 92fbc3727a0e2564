"""Read the tensors of a folder that has one safetensors file, or several with an index.

Names and shapes are read first, and the weights only when they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from saccade.errors import FileError
from saccade.storage import is_plain

__all__ = ["WHOLE", "TensorFiles", "find_tensors"]

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_LARGEST = 64 << 20  # bytes of an index


class StoredTensor(NamedTuple):
    """In which file and under which name a tensor is stored, and its shape."""

    file: Path
    name: str  # its name in the file
    shape: tuple[int, ...]


class TensorFiles(Mapping[str, StoredTensor]):
    """The stored tensors by name. Names that end in "gamma" or "beta" in old files end in "weight" or "bias" here."""

    def __init__(self, files: Mapping[Path, list[str] | None]) -> None:
        """``files`` lists, for each file, the tensors to read from it; None stands for all its tensors."""
        self.files = list(files)
        self._open: dict[Path, Any] = {}
        self._stored: dict[str, StoredTensor] = {}
        for path, wanted in files.items():
            file = self._open[path] = _opened(path)
            present = set(file.keys())
            for name in sorted(present) if wanted is None else wanted:
                if name not in present:
                    raise FileError(f"{path} does not have the tensor {name}, which the index expects in it.")
                shape = tuple(file.get_slice(name).get_shape())
                self._stored[_today(name)] = StoredTensor(path, name, shape)

    def __getitem__(self, name: str) -> StoredTensor:
        return self._stored[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def read(self, name: str) -> Tensor:
        """Read the numbers of a tensor and return them as float32."""
        stored = self._stored[name]
        found: Tensor = self._open[stored.file].get_tensor(stored.name)
        if not found.is_floating_point():
            raise FileError(f"{stored.file}: {stored.name} contains {found.dtype}, not floating-point numbers.")
        # A copy, because what is read is a view of the file: if the file were overwritten, the weights would change.
        found = found.clone() if found.dtype == torch.float32 else found.float()
        if found.numel() and not bool(torch.isfinite(torch.stack(found.aminmax())).all()):
            raise FileError(f"{stored.file}: {stored.name} contains NaN or infinity; weights must be finite.")
        return found


def find_tensors(folder: Path) -> TensorFiles:
    """Find the tensors of a folder, reading only their names and shapes."""
    if (folder / INDEX).exists():
        return TensorFiles(_indexed(folder))
    if (folder / WHOLE).exists():
        return TensorFiles({folder / WHOLE: None})
    pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    if pickles:
        raise FileError(
            f"{folder} has its weights only as a pickle ({pickles[0]}), which can run any code when it is loaded; save "
            "them as model.safetensors with transformers: AutoModel.from_pretrained(folder).save_pretrained(other)."
        )
    raise FileError(f"{folder} has no weights: there is neither {WHOLE} nor {INDEX}.")


def _indexed(folder: Path) -> dict[Path, list[str] | None]:
    path = folder / INDEX
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(f"{path} has {path.stat().st_size:,} bytes; an index may have at most {_LARGEST:,}.")
        places = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        pairs = [(str(name), str(file)) for name, file in places.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileError(f"{path} is not an index: it has no table weight_map.") from None
    files: dict[Path, list[str] | None] = {}
    for name, file in pairs:
        if not is_plain(file):
            raise FileError(
                f"{path} has the tensor {name} in {str(file)[:60]!r}, which is not the plain name of a file next to it."
            )
        wanted = files.setdefault(folder / file, [])
        assert wanted is not None
        wanted.append(name)
    return files


def _opened(path: Path) -> Any:
    """Open a file and check its header against its size, without reading the weights."""
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, ValueError) as error:
        raise FileError(f"{path} is not a safetensors file ({error}).") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None


def _today(name: str) -> str:
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
