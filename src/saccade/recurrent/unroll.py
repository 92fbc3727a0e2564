"""Run recurrent cells over sequences, forwards or backwards, with padding and with truncated back-propagation.

`unroll` runs one cell over a batch of sequences, with a fused kernel if the cell has one. `Recurrent` stacks cells in
layers, each with one direction or two.

Shapes: B batch, T steps, I input width, D width of the state.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from saccade.attention.attend import Kernel
from saccade.errors import KernelError, OptionError, ShapeError, UnknownNameError
from saccade.kernels.gated_cells import GATED, run_gated
from saccade.recurrent.cells import Cell, State, cell_named

__all__ = ["KERNELS", "Kernel", "Recurrent", "RecurrentState", "reorder", "unroll"]

KERNELS: tuple[Kernel, ...] = ("auto", "equation", "fused")

# (cell, x, lengths, mask of real steps, state, truncate) -> (outputs, state)
Runner = Callable[[Cell, Tensor, Tensor | None, Tensor | None, State, int | None], tuple[Tensor, State]]

RecurrentState = tuple[State, ...]  # one state for each layer and direction: forward 0, backward 0, forward 1, ...


def unroll(
    cell: Cell,
    x: Float[Tensor, "B T I"],
    lengths: Int[Tensor, " B"] | None = None,
    state: State | None = None,
    *,
    reverse: bool = False,
    truncate: int | None = None,
    kernel: Kernel = "auto",
) -> tuple[Float[Tensor, "B T D"], State]:
    """Run the cell over every sequence; returns h after each step and the state after the last step.

    In the padding the output is zero and the state does not change; what x contains there never matters. `reverse`
    reads each sequence from its end to its start; output t still belongs to input t. `truncate` limits
    back-propagation through time: after every `truncate` steps, in reading order, the state is detached, so that no
    gradient flows back further. The kernel "equation" calls the cell's own `step`. "fused" computes the same equations
    with torch's kernel or with our loop in `kernels/gated_cells.py`. "auto" is "fused" for cells that have such a
    kernel, else "equation".
    """
    _check_sequence(cell, x, lengths, truncate)
    state = cell.initial(len(x)) if state is None else state
    _check_state(cell, len(x), state)
    run = _runner(cell, kernel)
    real = None  # which steps are not padding
    if lengths is not None:
        real = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
        x = x.masked_fill(~real[..., None], 0)  # so that a NaN in the padding never reaches a gradient
    outputs, state = run(cell, _reversed(x, lengths) if reverse else x, lengths, real, state, truncate)
    return (_reversed(outputs, lengths) if reverse else outputs), state


def _equation(
    cell: Cell,
    x: Float[Tensor, "B T I"],
    lengths: Int[Tensor, " B"] | None,
    real: Bool[Tensor, "B T"] | None,
    state: State,
    truncate: int | None,
) -> tuple[Float[Tensor, "B T D"], State]:
    # Time is the first axis, so that each step is contiguous; unbind gives all slices one backward pass.
    projected = cell.project(x.transpose(0, 1).contiguous()).unbind(0)
    keep = None if real is None else real.t()[..., None].unbind(0)
    outputs = []
    for t, x_t in enumerate(projected):
        if truncate is not None and t > 0 and t % truncate == 0:
            state = _detached(state)
        new = cell.step(x_t, state)
        state = new if keep is None else _chosen(keep[t], new, state)
        outputs.append(state[0])
    stacked = torch.stack(outputs, dim=1)
    return (stacked if real is None else stacked.masked_fill(~real[..., None], 0)), state


def _torch_kernel(
    cell: Cell,
    x: Float[Tensor, "B T I"],
    lengths: Int[Tensor, " B"] | None,
    real: Bool[Tensor, "B T"] | None,
    state: State,
    truncate: int | None,
) -> tuple[Float[Tensor, "B T D"], State]:
    pieces = []
    size = truncate or x.shape[1]
    for start in range(0, x.shape[1], size):
        piece = slice(start, start + size)
        if start > 0:
            state = _detached(state)
        if lengths is None or real is None:
            outputs, state = _kernel_call(cell, x[:, piece], None, state)
        else:
            counts = (lengths.cpu() - start).clamp(max=min(size, x.shape[1] - start))
            # The kernel does not accept empty sequences: they get one step of padding, which is dropped afterwards.
            outputs, new = _kernel_call(cell, x[:, piece], counts.clamp(min=1), state)
            state = _chosen((counts > 0).to(x.device)[:, None], new, state)
            outputs = outputs.masked_fill(~real[:, piece, None], 0)
        pieces.append(outputs)
    return torch.cat(pieces, dim=1), state


def _kernel_call(
    cell: Cell, x: Float[Tensor, "B T I"], lengths: Int[Tensor, " B"] | None, state: State
) -> tuple[Float[Tensor, "B T D"], State]:
    """Call torch.lstm, torch.gru or torch.rnn_tanh for one layer and direction, with the cell's own parameters."""
    assert cell.fused_kernel is not None
    options = (cell.fused_weights(), True, 1, 0.0, cell.training, False)
    if lengths is None:
        outputs, *new = cell.fused_kernel(x, _kernel_state(state), *options, True)
        return outputs, tuple(part[0] for part in new)
    # Sort here, because the lengths are on the CPU: if torch did it, it would have to wait for the device.
    lengths, order = lengths.sort(descending=True)
    back, order = order.argsort().to(x.device), order.to(x.device)
    data, sizes, _, _ = pack_padded_sequence(x.index_select(0, order), lengths, batch_first=True)
    by_length = tuple(part[order] for part in state)
    data, *new = cell.fused_kernel(data, sizes, _kernel_state(by_length), *options)
    outputs, _ = pad_packed_sequence(PackedSequence(data, sizes), batch_first=True, total_length=x.shape[1])
    return outputs.index_select(0, back), tuple(part[0][back] for part in new)


def _kernel_state(state: State) -> Tensor | list[Tensor]:
    """The state as the kernels expect it: with an axis for layers, and as a list only if there is a c."""
    layers = [part.unsqueeze(0) for part in state]
    return layers if len(layers) > 1 else layers[0]


class Recurrent(nn.Module):
    """Layers of one kind of cell; each reads the outputs of the layer below it, in one direction or both.

    With two directions (Schuster & Paliwal 1997) the output of a layer is the forward h concatenated with the backward
    h. `dropout` is applied between layers, never to the last output. `truncate` and `kernel` are passed to `unroll`.
    """

    def __init__(
        self,
        cell: str,
        input_width: int,
        width: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        truncate: int | None = None,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise OptionError(f"num_layers must be at least 1, got {num_layers}.")
        if not 0 <= dropout < 1:
            raise OptionError(f"dropout must be at least 0 and less than 1, got {dropout}.")
        kind = cell_named(cell)
        self.input_width = input_width
        self.width = width
        self.directions = 2 if bidirectional else 1
        self.output_width = self.directions * width
        self.dropout = dropout
        self.truncate = truncate
        self.kernel: Kernel = kernel
        widths = [input_width] + [self.output_width] * (num_layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(kind(below, width) for _ in range(self.directions)) for below in widths
        )
        _runner(self._cells()[0][0], kernel)  # raises an error if the cell has no such kernel
        _check_truncate(truncate)

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        lengths: Int[Tensor, " B"] | None = None,
        state: RecurrentState | None = None,
    ) -> tuple[Float[Tensor, "B T D*directions"], RecurrentState]:
        """Return the last layer's output at every step, and the final state of each layer and direction."""
        states = iter(self._checked(state, len(x)))
        final: list[State] = []
        for number, cells in enumerate(self._cells()):
            outputs = []
            for direction, cell in enumerate(cells):
                output, last = unroll(
                    cell,
                    x,
                    lengths,
                    next(states),
                    reverse=direction == 1,
                    truncate=self.truncate,
                    kernel=self.kernel,
                )
                outputs.append(output)
                final.append(last)
            x = self._between(number, torch.cat(outputs, dim=-1))
        return x, tuple(final)

    def initial(self, batch: int) -> RecurrentState:
        """Return the state before the first step: zeros for every layer and direction."""
        return tuple(cell.initial(batch) for cells in self._cells() for cell in cells)

    def step(self, x: Float[Tensor, "B I"], state: RecurrentState) -> tuple[Float[Tensor, "B D"], RecurrentState]:
        """Run one step through all layers, for a decoder that generates token by token; return the output and state."""
        if self.directions == 2:
            raise OptionError(
                "A bidirectional network cannot run step by step, because it also reads backwards from the end."
            )
        if x.dim() != 2 or x.shape[1] != self.input_width:
            raise ShapeError(f"Expected x of shape (B, {self.input_width}), got {tuple(x.shape)}.")
        new = []
        for number, ((cell,), old) in enumerate(zip(self._cells(), self._checked(state, len(x)), strict=True)):
            new.append(cell(x, old))
            x = self._between(number, new[-1][0])
        return x, tuple(new)

    def _between(self, number: int, output: Tensor) -> Tensor:
        """Dropout after every layer but the last."""
        last = number == len(self.layers) - 1
        return output if last else F.dropout(output, self.dropout, self.training)

    def _cells(self) -> list[list[Cell]]:
        """The cells of each layer, with their type."""
        return [list(layer) for layer in self.layers]  # type: ignore[call-overload]

    def _checked(self, state: RecurrentState | None, batch: int) -> RecurrentState:
        expected = len(self.layers) * self.directions
        if state is not None and len(state) != expected:
            raise ShapeError(f"Expected {expected} states, one per layer and direction, got {len(state)}.")
        return self.initial(batch) if state is None else state


def reorder(state: RecurrentState, index: Int[Tensor, " N"]) -> RecurrentState:
    """Select rows of a state, as beam search does: row n of the result is row index[n] of `state`."""
    return tuple(tuple(part.index_select(0, index) for part in parts) for parts in state)


def _chosen(keep: Bool[Tensor, "B 1"], new: State, old: State) -> State:
    return tuple(torch.where(keep, after, before) for after, before in zip(new, old, strict=True))


def _detached(state: State) -> State:
    return tuple(part.detach() for part in state)


def _reversed(x: Float[Tensor, "B T F"], lengths: Int[Tensor, " B"] | None) -> Float[Tensor, "B T F"]:
    """Reverse each sequence and leave its padding at the end."""
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths.to(x.device)[:, None] - 1 - steps
    index = torch.where(mirrored >= 0, mirrored, steps)
    return x.gather(1, index[..., None].expand(x.shape))


def _runner(cell: Cell, kernel: Kernel) -> Runner:
    if kernel not in KERNELS:
        raise UnknownNameError("kernel", kernel, KERNELS)
    if kernel == "equation":
        return _equation
    if cell.fused_kernel is not None:
        return _torch_kernel
    if type(cell) in GATED:
        return run_gated
    if kernel == "fused":
        raise KernelError(f"{type(cell).__name__} has no fused kernel; use 'auto' or 'equation'.")
    return _equation


def _check_sequence(cell: Cell, x: Tensor, lengths: Tensor | None, truncate: int | None) -> None:
    if x.dim() != 3 or x.shape[1] == 0 or x.shape[2] != cell.input_width:
        raise ShapeError(f"Expected x of shape (B, T ≥ 1, {cell.input_width}), got {tuple(x.shape)}.")
    _check_truncate(truncate)
    if lengths is None:
        return
    if lengths.shape != x.shape[:1] or lengths.is_floating_point():
        raise ShapeError(f"Expected {len(x)} integer lengths, one per sequence, got {lengths}.")
    if lengths.min() < 0 or lengths.max() > x.shape[1]:
        raise ShapeError(f"Lengths must be between 0 and {x.shape[1]}, the number of steps, got {lengths.tolist()}.")


def _check_truncate(truncate: int | None) -> None:
    if truncate is not None and truncate < 1:
        raise OptionError(f"truncate must be at least 1 step, or None, got {truncate}.")


def _check_state(cell: Cell, batch: int, state: State) -> None:
    expected = [(batch, cell.width)] * cell.state_parts
    actual = [tuple(part.shape) for part in state]
    if actual != expected:
        raise ShapeError(f"The cell {cell.name!r} expected a state of shapes {expected}, got {actual}.")
