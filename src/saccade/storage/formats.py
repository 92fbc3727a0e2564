"""Recognise folders and files of other programs by their names and first bytes, so that error messages can name their
format."""

from __future__ import annotations

from pathlib import Path

__all__ = ["foreign_format"]

#: Folder formats, and the file names that a folder of each format must contain; * matches anything.
_FOLDERS = {
    "a CTranslate2 folder": ("model.bin", "*vocabulary*"),
    "a spaCy folder": ("meta.json", "config.cfg"),
    "a TensorFlow SavedModel": ("saved_model.pb", "variables"),
    "a fairseq folder": ("*.pt", "dict.*.txt"),
    "a JoeyNMT folder": ("*.ckpt", "config.yaml"),
    "a folder of GGUF files": ("*.gguf",),
    "a folder of ONNX files": ("*.onnx",),
    "a folder of PyTorch checkpoints": ("*.pt",),
}
_FILES = {
    b"GGUF": "a GGUF file",
    b"PK\x03\x04": "a zip archive, perhaps a PyTorch checkpoint",
    b"\x80": "a pickle, perhaps a PyTorch checkpoint",
}


def foreign_format(path: Path) -> str | None:
    """Return a phrase such as "a CTranslate2 folder" if a model of another program is at this path; else None."""
    if not path.is_dir():
        try:
            with path.open("rb") as file:
                start = file.read(16)
        except OSError:  # whoever opens it next reports the reason
            return None
        if start[8:10] == b'{"':
            return "a file of tensors (safetensors)"
        return next((name for first, name in _FILES.items() if start.startswith(first)), None)
    folders = _FOLDERS.items()
    return next((name for name, patterns in folders if all(any(path.glob(one)) for one in patterns)), None)
