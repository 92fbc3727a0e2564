"""Import optional packages: if one is missing, the error says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from saccade.errors import MissingExtraError

__all__ = ["MODULES", "needs_extra"]

#: The modules that each extra installs. If another module is missing, installing the extra would not help.
MODULES = {
    "plots": ("matplotlib",),
    "images": ("PIL",),
    "serving": ("fastapi", "starlette", "uvicorn", "python_multipart", "PIL"),
    "tensorboard": ("tensorboard",),
    "tune": ("optuna", "matplotlib"),
    "digits": ("sklearn",),
    "engines": ("ctranslate2",),
    "huggingface": ("transformers",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
}


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """A context in which to import the packages that an extra of Saccade installs: if one of them is missing, an error
    says how to install the extra. ``what`` is the feature that needs them, such as "Drawing pictures"."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in MODULES[extra]:
            raise
        raise MissingExtraError(
            f"{what} needs the package {package}, which is not installed; run: pip install 'saccade[{extra}]'"
        ) from None
