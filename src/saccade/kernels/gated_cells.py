"""The loop over time, with a handwritten backward pass, for the recurrent cells whose reset gate r is multiplied with
the state before the matrix product W_c (r ⊙ h): GRU, MUT1, MUT2 and MUT3.

All four can be written in one form, in which z is the fraction of the new value c in the next state h':

    z = σ(x_z + W_z u),  u = h or tanh h;   MUT1's z does not depend on h and is computed beforehand
    r = σ(x_r + W_r h)
    c = tanh(x_c + W_c (r ⊙ h))
    h' = (1 - z) ⊙ h + z ⊙ c

With autograd, every time step would add to the gradient of every weight matrix: T products of small matrices, each of
which reads and writes the whole gradient. Here the backward pass collects the gradients of x_z, x_r and x_c over all
steps, and then computes the gradient of each weight matrix in a single product.

Shapes: B batch, T steps, D width of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.recurrent.cells import GRU, MUT1, MUT2, MUT3, Cell, State

__all__ = ["GATED", "GatedForm", "run_gated"]

TimeSteps = Float[Tensor, "T B D"]
SquareMatrix = Float[Tensor, "D D"]

# (gradient, value) -> gradient times the derivative of σ or tanh, which can be computed from the function's value.
_through_sigmoid = torch.ops.aten.sigmoid_backward
_through_tanh = torch.ops.aten.tanh_backward


class GatedForm(NamedTuple):
    """A cell's projected inputs and recurrent weights in the form that the loop uses."""

    x_z: TimeSteps  # z itself if update_weight is None
    x_r: TimeSteps
    x_c: TimeSteps
    update_weight: SquareMatrix | None
    reset_weight: SquareMatrix
    candidate_weight: SquareMatrix
    squash: bool = False  # u = tanh h instead of h


def _gru(cell: GRU, projected: Float[Tensor, "T B 3D"]) -> GatedForm:
    x_r, x_z, x_c = projected.chunk(3, dim=-1)
    reset_weight, update_weight = cell.gate_weight.chunk(2)
    # The GRU's z is the fraction of the old value; 1 - σ(a) = σ(-a).
    return GatedForm(-x_z, x_r, x_c, -update_weight, reset_weight, cell.candidate_weight)


def _mut1(cell: MUT1, projected: Float[Tensor, "T B 3D"]) -> GatedForm:
    z, x_r, x_c = projected.chunk(3, dim=-1)
    return GatedForm(z, x_r, x_c, None, cell.reset_weight, cell.candidate_weight)


def _mut2(cell: MUT2, projected: Float[Tensor, "T B 3D"]) -> GatedForm:
    x_z, x_r, x_c = projected.chunk(3, dim=-1)
    update_weight, reset_weight = cell.gate_weight.chunk(2)
    return GatedForm(x_z, x_r, x_c, update_weight, reset_weight, cell.candidate_weight)


def _mut3(cell: MUT3, projected: Float[Tensor, "T B 3D"]) -> GatedForm:
    x_z, x_r, x_c = projected.chunk(3, dim=-1)
    weights = (cell.update_weight, cell.reset_weight, cell.candidate_weight)
    return GatedForm(x_z, x_r, x_c, *weights, squash=True)


GATED: dict[type[Cell], Callable[[Any, Tensor], GatedForm]] = {
    GRU: _gru,
    MUT1: _mut1,
    MUT2: _mut2,
    MUT3: _mut3,
}


def run_gated(
    cell: Cell,
    x: Float[Tensor, "B T I"],
    lengths: Int[Tensor, " B"] | None,
    real: Bool[Tensor, "B T"] | None,
    state: State,
    truncate: int | None,
) -> tuple[Float[Tensor, "B T D"], State]:
    """Run the cell over all time steps; return its outputs and its last state. At padded positions (not ``real``), z is
    0, so the state does not change, and the output is 0."""
    # The loop runs in the precision of the weights; autocast applies only to the projection.
    first = state[0].to(next(cell.parameters()).dtype)
    projected = cell.project(x.transpose(0, 1).contiguous()).to(first.dtype)
    form = GATED[type(cell)](cell, projected)
    if real is not None:
        closed = 0 if form.update_weight is None else -torch.inf
        form = form._replace(x_z=form.x_z.masked_fill(~real.t()[..., None], closed))
    outputs: TimeSteps = _GatedLoop.apply(first, truncate, *form)  # type: ignore[no-untyped-call]
    last = outputs[-1]
    outputs = outputs.transpose(0, 1)
    return (outputs if real is None else outputs.masked_fill(~real[..., None], 0)), (last,)


class _GatedLoop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Float[Tensor, "B D"], truncate: int | None, *form: Any) -> TimeSteps:
        x_z, x_r, x_c, update_weight, reset_weight, candidate_weight, squash = form
        states = h.new_empty(len(x_r) + 1, *h.shape)
        states[0] = h
        z = x_z if update_weight is None else torch.empty_like(states[1:])
        r, c = torch.empty_like(states[1:]), torch.empty_like(states[1:])
        for t in range(len(r)):
            h = states[t]
            if update_weight is not None:
                u = h.tanh() if squash else h
                torch.addmm(x_z[t], u, update_weight.t(), out=z[t]).sigmoid_()
            torch.addmm(x_r[t], h, reset_weight.t(), out=r[t]).sigmoid_()
            torch.addmm(x_c[t], r[t] * h, candidate_weight.t(), out=c[t]).tanh_()
            torch.lerp(h, c[t], z[t], out=states[t + 1])
        ctx.save_for_backward(states, z, r, c, update_weight, reset_weight, candidate_weight)
        ctx.truncate, ctx.squash = truncate, squash
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: TimeSteps) -> tuple[Tensor | None, ...]:
        """Apply the chain rule from the last step to the first; d_y is the gradient of y before its σ or tanh."""
        states, z, r, c, update_weight, reset_weight, candidate_weight = ctx.saved_tensors
        h = states[:-1]
        u = h.tanh() if ctx.squash else h
        d_z, d_r, d_c = torch.empty_like(h), torch.empty_like(h), torch.empty_like(h)
        d_h = torch.zeros_like(h[0])
        d_reset_h, d_u = torch.empty_like(d_h), torch.empty_like(d_h)
        for t in reversed(range(len(h))):
            d_h = d_h + d_outputs[t]
            d_z[t] = d_h * (c[t] - h[t])
            d_new = d_h * z[t]
            d_c[t] = _through_tanh(d_new, c[t])
            torch.mm(d_c[t], candidate_weight, out=d_reset_h)
            d_r[t] = _through_sigmoid(d_reset_h * h[t], r[t])
            d_h.sub_(d_new).addcmul_(d_reset_h, r[t]).addmm_(d_r[t], reset_weight)
            if update_weight is not None:
                d_z[t] = _through_sigmoid(d_z[t], z[t])
                torch.mm(d_z[t], update_weight, out=d_u)
                d_h.add_(_through_tanh(d_u, u[t]) if ctx.squash else d_u)
            if ctx.truncate is not None and t > 0 and t % ctx.truncate == 0:
                d_h.zero_()
        d_update = None if update_weight is None else _weight_gradient(d_z, u)
        d_weights = (d_update, _weight_gradient(d_r, h), _weight_gradient(d_c, r * h))
        return d_h, None, d_z, d_r, d_c, *d_weights, None


def _weight_gradient(d_product: TimeSteps, factor: TimeSteps) -> SquareMatrix:
    """The sum of d_product ⊗ factor over steps and rows."""
    return d_product.flatten(0, 1).t() @ factor.flatten(0, 1)
