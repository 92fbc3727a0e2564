"""Computes attention with one function, ``attend``; has its masks, biases and scores; and shows its exact weights.

This package works on tensors, never on text.
"""

from saccade.attention.attend import Kernel, attend, weigh
from saccade.attention.equation import Bias
from saccade.attention.heads import Cache, GrowingCache, KeyValue, MultiHead, Resize, StaticCache
from saccade.attention.masks import Mask, causal, dense, padding, rule, window
from saccade.attention.positions import (
    ALiBi,
    Learned,
    LinearPositions,
    PositionTable,
    RelativePositions,
    Rotary,
    RotaryScaling,
    Sinusoidal,
)
from saccade.attention.scores import MLP, SCORES, Additive, AgentAware, Bilinear, Cosine, Dot, Equal, ScaledDot, Score
from saccade.attention.watching.edit import edit, editable
from saccade.attention.watching.interventions import Edit
from saccade.attention.watching.overview import Overview
from saccade.attention.watching.trace import KeyWeight, Trace
from saccade.attention.watching.watch import Watch, watch
from saccade.attention.weights import WEIGHTS, Hard, Lookup, Relu, Softmax, Sparsemax, Weights

__all__ = [
    "MLP",
    "SCORES",
    "WEIGHTS",
    "ALiBi",
    "Additive",
    "AgentAware",
    "Bias",
    "Bilinear",
    "Cache",
    "Cosine",
    "Dot",
    "Edit",
    "Equal",
    "GrowingCache",
    "Hard",
    "Kernel",
    "KeyValue",
    "KeyWeight",
    "Learned",
    "LinearPositions",
    "Lookup",
    "Mask",
    "MultiHead",
    "Overview",
    "PositionTable",
    "RelativePositions",
    "Relu",
    "Resize",
    "Rotary",
    "RotaryScaling",
    "ScaledDot",
    "Score",
    "Sinusoidal",
    "Softmax",
    "Sparsemax",
    "StaticCache",
    "Trace",
    "Watch",
    "Weights",
    "attend",
    "causal",
    "dense",
    "edit",
    "editable",
    "padding",
    "rule",
    "watch",
    "weigh",
    "window",
]
