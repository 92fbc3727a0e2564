"""Saccade: attention models that you can see through.

output = saccade.attend(query, key, value, mask=saccade.causal)

with saccade.watch(model) as seen:
    model(inputs)
seen["encoder.0.self"].tile(slice(0, 8), slice(0, 8), head=2, batch=0)
saccade.view(seen, tokens).save("attention.html")

model = saccade.open("runs/demo")
model.predict(["The black cat ate the mouse."])[0].attention.alignment
"""

from saccade.attention import MultiHead, Resize, Trace, Watch, attend, causal, dense, edit, padding, rule, watch, window
from saccade.errors import SaccadeError
from saccade.lens.view import View, view
from saccade.tasks.base.model_folder import open_model

open = open_model  # not in __all__: ``from saccade import *`` must not hide Python's own

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
    "padding",
    "rule",
    "view",
    "watch",
    "window",
]
