"""How much of the gradient survives T steps: the norm of ∂h_T/∂h_t for every t.

A vanilla network multiplies the gradient by its recurrent matrix at every step, so the gradient shrinks or grows like
a power of the matrix's spectral radius (Bengio et al. 1994; Pascanu et al. 2013). The LSTM has a second path, along c,
without any matrix: ∂c_T/∂c_t = f_T ⊙ ... ⊙ f_{t+1}. The gradient along this path is multiplied by a forget gate, which
is less than 1, at every step, so it can still vanish.

Shapes: T steps, D width, S width of the whole state (D, or 2D for the LSTM because of c).
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
    """What `gradient_flow` measured over T steps; entry t of `state` and `cell_path` is for step t, from 0 to T.

    `state` holds the spectral norm of ∂h_T/∂h_t: the largest factor by which this matrix stretches any vector. For the
    LSTM, it includes every path from h_t to h_T, with c_t held fixed. `cell_path` holds the spectral norm of the path
    along c alone (None for other cells). The matrix of that path is diagonal, so its spectral norm is the largest
    product of forget gates. `outputs` holds h after each step.
    """

    cell: str
    spectral_radius: float | None
    state: Float[Tensor, " T+1"]
    cell_path: Float[Tensor, " T+1"] | None
    outputs: Float[Tensor, "T D"]

    def plot(self) -> Figure:
        """Draw the norms as a function of t in a new figure, with a logarithmic vertical axis."""
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
        """Add the curves to existing axes: a solid line for `state`, a dashed one for `cell_path`."""
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
    """Measure how the gradient flows back through `steps` steps, on random inputs from N(0, input_scale²).

    If `cell` is a name, a new cell is created with orthogonal recurrent matrices, which stretch all directions equally.
    If it is a cell, such as a trained one, a copy of it is measured as it is, and `width` is not used. If
    `spectral_radius` is given, every recurrent matrix is rescaled to have it. The cell you pass never changes.
    """
    if steps < 1:
        raise OptionError(f"steps must be at least 1, got {steps}.")
    if spectral_radius is not None and not 0 <= spectral_radius < math.inf:
        raise OptionError(f"spectral_radius must be a number of at least 0, got {spectral_radius}.")
    if not isinstance(cell, str | Cell):
        raise OptionError(f"cell must be the name of a cell or a Cell, got {type(cell).__name__}.")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        # In double precision, because a norm of 1e-60 is a valid result here and must not become 0.
        own = cell_named(cell)(width, width) if isinstance(cell, str) else copy.deepcopy(cell).cpu()
        measured = own.double()
        if isinstance(cell, str):
            for matrix in measured.recurrent_matrices():
                nn.init.orthogonal_(matrix)
        if spectral_radius is not None:
            for matrix in measured.recurrent_matrices():
                matrix.mul_(spectral_radius / torch.linalg.eigvals(matrix).abs().max())
        inputs = input_scale * torch.randn(steps, measured.input_width, dtype=torch.float64)
        state, cell_path, outputs = _norms(measured, measured.project(inputs))
    return GradientFlow(measured.name, spectral_radius, state, cell_path, outputs)


def _norms(
    cell: Cell, projected: Float[Tensor, "T G"]
) -> tuple[Float[Tensor, " T+1"], Tensor | None, Float[Tensor, "T D"]]:
    """Multiply the Jacobians of the steps, from the last to the first, and take the norm after each product. Also
    return the outputs of the steps."""
    jacobians, forgets, outputs = [], [], []
    state = cell.initial(1)
    for x_t in projected[:, None]:
        jacobians.append(_jacobian(cell, x_t, state))
        if isinstance(cell, LSTM):
            forgets.append(cell.gates(x_t, state[0])[1][0])
        state = cell.step(x_t, state)
        outputs.append(state[0][0])
    back = torch.eye(len(jacobians[0]), dtype=torch.float64)
    products = [back]
    for jacobian in reversed(jacobians):
        back = back @ jacobian
        products.append(back)
    h_to_h = torch.stack(products[::-1])[:, : cell.width, : cell.width]
    finite = torch.isfinite(h_to_h).all(dim=(1, 2))  # an exploding gradient overflows in the end
    norms = torch.where(
        finite, torch.linalg.matrix_norm(h_to_h.masked_fill(~finite[:, None, None], 0.0), ord=2), math.inf
    )
    if not forgets:
        return norms, None, torch.stack(outputs)
    ones = torch.ones(1, cell.width, dtype=torch.float64)
    survival = torch.cat((ones, torch.stack(forgets[::-1]))).cumprod(dim=0)
    return norms, survival.amax(dim=1).flip(0), torch.stack(outputs)


def _jacobian(cell: Cell, x_t: Float[Tensor, "1 G"], state: State) -> Float[Tensor, "S S"]:
    """The derivative of the whole state after the step with respect to the whole state before it."""

    def step(flat: Float[Tensor, " S"]) -> Float[Tensor, " S"]:
        parts = cell.step(x_t, tuple(flat[None].chunk(len(state), dim=-1)))
        return torch.cat(parts, dim=-1)[0]

    flat = torch.cat(state, dim=-1)[0]
    return torch.func.jacrev(step)(flat)  # type: ignore[no-any-return]
