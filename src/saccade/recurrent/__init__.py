"""Recurrent networks: cells written as their equations, one loop that unrolls them, and their gradient flow."""

from saccade.recurrent.cells import (
    CELLS,
    GRU,
    LSTM,
    MUT1,
    MUT2,
    MUT3,
    RNN,
    Cell,
    OutputRNN,
    State,
    TorchGRU,
)
from saccade.recurrent.gradient_flow import GradientFlow, gradient_flow
from saccade.recurrent.unroll import KERNELS, Kernel, Recurrent, RecurrentState, reorder, unroll

__all__ = [
    "CELLS",
    "GRU",
    "KERNELS",
    "LSTM",
    "MUT1",
    "MUT2",
    "MUT3",
    "RNN",
    "Cell",
    "GradientFlow",
    "Kernel",
    "OutputRNN",
    "Recurrent",
    "RecurrentState",
    "State",
    "TorchGRU",
    "gradient_flow",
    "reorder",
    "unroll",
]
