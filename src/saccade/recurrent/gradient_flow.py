"""How much of the gradient survives T steps: the norm of ∂h_T/∂h_t for every t.

A vanilla network multiplies the gradient by its recurrent matrix at every step, so that it shrinks or grows
like a power of the matrix's spectral radius (Bengio et al. 1994; Pascanu et al. 2013). The LSTM also has a
path along c that no matrix touches, ∂c_T/∂c_t = f_T ⊙ ... ⊙ f_{t+1}: it decays with the forget gates, and can
still vanish.

Shapes: T steps, D width, S the width of the whole state (D, or 2D with the LSTM's c).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import OptionError
from saccade.extras import needs_extra
from saccade.recurrent.cells import LSTM, Cell, State, cell_named

if TYPE_CHECKING:  # matplotlib is slow to import, and only a plot needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GradientFlow", "gradient_flow"]


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """The norms of one measured run; entry t is that of the gradient from step T back to step t = 0 ... T.

    `state` holds the spectral norm of the matrix ∂h_T/∂h_t, the most by which any direction is stretched. For
    the LSTM it counts every path, with c_t held fixed, and `cell_path` holds the path along c alone, whose
    matrix is diagonal: its spectral norm is the largest product of forget gates.
    """

    cell: str
    spectral_radius: float | None
    state: Float[Tensor, " T+1"]
    cell_path: Float[Tensor, " T+1"] | None

    def plot(self) -> Figure:
        """A figure of its own, norms on a logarithmic axis."""
        with needs_extra("plots", "Drawing a picture"):
            from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        self.draw(axes, self.cell)
        axes.set_xlabel("t")
        axes.set_ylabel("norm of ∂h_T/∂h_t")
        if self.spectral_radius is not None:
            axes.set_title(f"{self.cell}, spectral radius {self.spectral_radius:g}")
        axes.legend()
        return figure

    def draw(self, axes: Axes, label: str, color: str | None = None) -> None:
        """Add the curves to existing axes: whole, the state's; dashed, the cell path's."""
        (line,) = axes.semilogy(self.state.tolist(), label=label, color=color)
        if self.cell_path is not None:
            (path,) = axes.semilogy(self.cell_path.tolist(), "--", label=f"{label}, path along c")
            path.set_color(line.get_color())


def gradient_flow(
    cell: str | Cell,
    steps: int,
    *,
    spectral_radius: float | None = None,
    width: int = 32,
    input_scale: float = 0.1,
    seed: int = 0,
) -> GradientFlow:
    """Measure the gradient's way back through `steps` steps over inputs drawn from N(0, input_scale²).

    A cell given by name is drawn afresh, with orthogonal recurrent matrices, which stretch all directions
    alike; a cell of your own, such as a trained one, is measured as it is, `width` unused. `spectral_radius`
    rescales every recurrent matrix to that radius. The cell itself is never changed.
    """
    if steps < 1:
        raise OptionError(f"steps must be at least 1, got {steps}.")
    if spectral_radius is not None and not 0 <= spectral_radius < math.inf:
        raise OptionError(f"spectral_radius must be a number of at least 0, got {spectral_radius}.")
    if not isinstance(cell, str | Cell):
        raise OptionError(f"A cell is one of ours or its name, got {type(cell).__name__}.")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        # Double precision: a norm of 1e-60 is a finding here, not a zero.
        own = cell_named(cell)(width, width) if isinstance(cell, str) else copy.deepcopy(cell).cpu()
        measured = own.double()
        if isinstance(cell, str):
            for matrix in measured.recurrent_matrices():
                nn.init.orthogonal_(matrix)
        if spectral_radius is not None:
            for matrix in measured.recurrent_matrices():
                matrix.mul_(spectral_radius / torch.linalg.eigvals(matrix).abs().max())
        inputs = input_scale * torch.randn(steps, measured.input_width, dtype=torch.float64)
        state, cell_path = _norms(measured, measured.project(inputs))
    return GradientFlow(measured.name, spectral_radius, state, cell_path)


def _norms(cell: Cell, projected: Float[Tensor, "T G"]) -> tuple[Float[Tensor, " T+1"], Tensor | None]:
    """Multiply the Jacobians of single steps from the last to the first, taking the norm after each."""
    jacobians, forgets = [], []
    state = cell.initial(1)
    for x_t in projected[:, None]:
        jacobians.append(_jacobian(cell, x_t, state))
        if isinstance(cell, LSTM):
            forgets.append(cell.gates(x_t, state[0])[1][0])
        state = cell.step(x_t, state)
    back = torch.eye(len(jacobians[0]), dtype=torch.float64)
    products = [back]
    for jacobian in reversed(jacobians):
        back = back @ jacobian
        products.append(back)
    h_to_h = torch.stack(products[::-1])[:, : cell.width, : cell.width]
    sound = torch.isfinite(h_to_h).all(dim=(1, 2))  # an exploding gradient ends beyond what a number can hold
    norms = torch.where(
        sound, torch.linalg.matrix_norm(h_to_h.masked_fill(~sound[:, None, None], 0.0), ord=2), math.inf
    )
    if not forgets:
        return norms, None
    ones = torch.ones(1, cell.width, dtype=torch.float64)
    survival = torch.cat((ones, torch.stack(forgets[::-1]))).cumprod(dim=0)
    return norms, survival.amax(dim=1).flip(0)


def _jacobian(cell: Cell, x_t: Float[Tensor, "1 G"], state: State) -> Float[Tensor, "S S"]:
    """∂ whole state after the step / ∂ whole state before it."""

    def step(flat: Float[Tensor, " S"]) -> Float[Tensor, " S"]:
        parts = cell.step(x_t, tuple(flat[None].chunk(len(state), dim=-1)))
        return torch.cat(parts, dim=-1)[0]

    flat = torch.cat(state, dim=-1)[0]
    return torch.func.jacrev(step)(flat)  # type: ignore[no-any-return]
