"""Attention: one function, its rules, and the exact weights behind it. Tensors only."""

from saccade.attention.attend import Kernel, attend
from saccade.attention.equation import Bias
from saccade.attention.masks import Mask, causal, dense, padding, rule, window
from saccade.attention.overview import Overview
from saccade.attention.scores import MLP, SCORES, Additive, Bilinear, Cosine, Dot, ScaledDot, Score
from saccade.attention.trace import Link, Trace
from saccade.attention.watch import Watch, watch
from saccade.attention.weights import WEIGHTS, Hard, Relu, Softmax, Sparsemax, Weights

__all__ = [
    "MLP",
    "SCORES",
    "WEIGHTS",
    "Additive",
    "Bias",
    "Bilinear",
    "Cosine",
    "Dot",
    "Hard",
    "Kernel",
    "Link",
    "Mask",
    "Overview",
    "Relu",
    "ScaledDot",
    "Score",
    "Softmax",
    "Sparsemax",
    "Trace",
    "Watch",
    "Weights",
    "attend",
    "causal",
    "dense",
    "padding",
    "rule",
    "watch",
    "window",
]
