"""Saccade: attention models that you can see through.

output = saccade.attend(query, key, value, mask=saccade.causal)

with saccade.watch(model) as seen:
    model(inputs)
seen["encoder.0.self"].tile(slice(0, 8), slice(0, 8), head=2, batch=0)
"""

from saccade.attention import MultiHead, Resize, Trace, Watch, attend, causal, dense, padding, rule, watch, window
from saccade.errors import SaccadeError

__all__ = [
    "MultiHead",
    "Resize",
    "SaccadeError",
    "Trace",
    "Watch",
    "attend",
    "causal",
    "dense",
    "padding",
    "rule",
    "watch",
    "window",
]
