"""Saccade: a toolkit that trains and runs attention models, and shows exactly what they attend to.

output = saccade.attend(query, key, value, mask=saccade.causal)

with saccade.watch(model) as seen:
    model(inputs)
seen["encoder.0.self"].tile(slice(0, 8), slice(0, 8), head=2, batch=0)
saccade.view(seen, tokens).save("attention.html")

run = saccade.train(files=["a.en", "a.fr"], output="run", minutes=30)
model = saccade.open("runs/demo")
model.predict(["The black cat ate the mouse."])[0].attention.alignment
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "MultiHead",
    "Resize",
    "SaccadeError",
    "Trace",
    "View",
    "Watch",
    "attend",
    "causal",
    "dense",
    "edit",
    "logit_difference",
    "padding",
    "patch",
    "rule",
    "train",
    "view",
    "watch",
    "window",
]  # open is missing, because ``from saccade import *`` must not hide Python's own

if TYPE_CHECKING:
    from saccade.attention import (
        MultiHead,
        Resize,
        Trace,
        Watch,
        attend,
        causal,
        dense,
        edit,
        padding,
        rule,
        watch,
        window,
    )
    from saccade.errors import SaccadeError
    from saccade.lens.patch import logit_difference, patch
    from saccade.lens.view import View, view
    from saccade.tasks.base.model_folder import open_model
    from saccade.training.session import train

    open = open_model
    __version__: str
else:
    # Everything is loaded on first use, so that `saccade --help` need not wait for PyTorch.
    _ELSEWHERE = {
        "SaccadeError": "saccade.errors:SaccadeError",
        "View": "saccade.lens.view:View",
        "logit_difference": "saccade.lens.patch:logit_difference",
        "open": "saccade.tasks.base.model_folder:open_model",
        "patch": "saccade.lens.patch:patch",
        "train": "saccade.training.session:train",
        "view": "saccade.lens.view:view",
    }

    def __getattr__(name):
        import importlib
        import pkgutil

        if name in __all__ or name in _ELSEWHERE:
            value = pkgutil.resolve_name(_ELSEWHERE.get(name, f"saccade.attention:{name}"))
        elif name == "__version__":
            value = importlib.import_module("importlib.metadata").version("saccade")
        elif name in {module.name for module in pkgutil.iter_modules(__path__)}:
            value = importlib.import_module(f"saccade.{name}")
        else:
            raise AttributeError(f"module 'saccade' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__, "open", "__version__"})
