"""Recurrent cells, each written as its equations.

Every cell splits a step in two. `project` computes the part that depends only on the input, for all T steps at once:
one large matrix product instead of T small ones. `step` computes the rest, from one state to the next. A state is a
tuple of tensors (B, width). The first is h, the output of the network; the LSTM's state also has its cell state c.

Shapes: B batch, I input width, D width of the state, G width of the projected input (it depends on the cell).
σ is the logistic function, ⊙ the elementwise product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.errors import OptionError, UnknownNameError

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "MUT1",
    "MUT2",
    "MUT3",
    "RNN",
    "Cell",
    "CoupledLSTM",
    "LSTMVariant",
    "LSTMWithoutForget",
    "LSTMWithoutInput",
    "LSTMWithoutOutput",
    "OutputRNN",
    "PeepholeLSTM",
    "State",
    "TorchGRU",
    "cell_named",
]

State = tuple[Tensor, ...]  # each (B, width); the first is h


class Cell(nn.Module, ABC):
    """The base class of all cells. Calling a cell runs `project` and `step` for one input and returns the new state."""

    name: ClassVar[str]
    recurrent_weights: ClassVar[tuple[str, ...]]  # the parameters that multiply the state
    state_parts: ClassVar[int] = 1
    fused_kernel: ClassVar[Callable[..., Any] | None] = None  # torch's kernel for these equations, if it has one
    input_weight: nn.Parameter  # (G, I)
    state_weight: nn.Parameter  # only cells with a fused kernel need to have this one
    bias: nn.Parameter  # (G,)

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        if input_width < 1 or width < 1:
            raise OptionError(f"Widths must be at least 1, got input_width={input_width}, width={width}.")
        self.input_width = input_width
        self.width = width

    def project(self, x: Float[Tensor, "*steps I"]) -> Float[Tensor, "*steps G"]:
        """Compute the part of a step that depends only on the input, for inputs with any leading dimensions."""
        return F.linear(x, self.input_weight, self.bias)

    @abstractmethod
    def step(self, projected: Float[Tensor, "B G"], state: State) -> State:
        """The state after one more step; ``projected`` is what `project` returned for the input of the step."""

    def forward(self, x: Float[Tensor, "B I"], state: State | None = None) -> State:
        return self.step(self.project(x), self.initial(len(x)) if state is None else state)

    def initial(self, batch: int) -> State:
        """The state before the first step: zeros with the device and dtype of the parameters."""
        parameter = next(self.parameters())
        return tuple(parameter.new_zeros(batch, self.width) for _ in range(self.state_parts))

    def recurrent_matrices(self) -> tuple[Float[Tensor, "D D"], ...]:
        """The square matrices that multiply the state, as views: writing to one changes the cell."""
        weights = [self.get_parameter(name) for name in self.recurrent_weights]
        return tuple(matrix for weight in weights for matrix in torch.split(weight, self.width))

    def fused_weights(self) -> list[Tensor]:
        """The parameters in the order that `fused_kernel` expects: input and state weights, input and state biases."""
        return [self.input_weight, self.state_weight, self.bias, torch.zeros_like(self.bias)]

    def reset_parameters(self) -> None:
        """Initialise matrices uniformly in ±1/√D, as torch.nn does for recurrent layers, and biases with zeros."""
        bound = 1 / math.sqrt(self.width)
        for parameter in self.parameters():
            scale = bound if parameter.dim() == 2 else 0
            nn.init.uniform_(parameter, -scale, scale)

    def extra_repr(self) -> str:
        return f"{self.input_width}, {self.width}"


class RNN(Cell):
    """The vanilla recurrent network (Elman 1990):

        h' = tanh(W [h; x] + b) = tanh(W_h h + W_x x + b)

    The two halves of W are separate parameters, `state_weight` and `input_weight`, so that x can be projected first.
    """

    name = "rnn"
    recurrent_weights = ("state_weight",)
    fused_kernel = staticmethod(torch.rnn_tanh)

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.input_weight = _parameter(width, input_width)
        self.state_weight = _parameter(width, width)
        self.bias = _parameter(width)
        self.reset_parameters()

    def step(self, projected: Float[Tensor, "B D"], state: State) -> State:
        (h,) = state
        return (torch.tanh(_plus_product(projected, h, self.state_weight)),)


class OutputRNN(RNN):
    """The vanilla recurrent network with an output layer that classifies every step:

        a = b + W h + U x;   h' = tanh a;   o = c + V h';   ŷ = softmax o

    W is `state_weight`, U is `input_weight`, and V and c belong to `output`. The output is not part of the state, so
    `cell.predict(h)` can compute it for one step or for all steps at once.
    """

    def __init__(self, input_width: int, width: int, output_width: int) -> None:
        super().__init__(input_width, width)
        self.output = nn.Linear(width, output_width)

    def predict(self, h: Float[Tensor, "*steps D"]) -> Float[Tensor, "*steps O"]:
        """ŷ, a distribution over the outputs, for states h. For a loss, use the logits o, which are `output(h)`."""
        return torch.softmax(self.output(h), dim=-1)


class LSTM(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000):

        i, f, o = σ(W [h; x] + b);   g = tanh(W [h; x] + b)
        c' = f ⊙ c + i ⊙ g
        h' = o ⊙ tanh c'

    The rows of the weights are in torch's order: i, f, g, o. The forget gate's bias starts at 1, because with 0 an
    untrained cell forgets half of c at every step (Jozefowicz et al. 2015 measure the cost).
    """

    name = "lstm"
    recurrent_weights = ("state_weight",)
    state_parts = 2
    fused_kernel = staticmethod(torch.lstm)

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.input_weight = _parameter(4 * width, input_width)
        self.state_weight = _parameter(4 * width, width)
        self.bias = _parameter(4 * width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.ones_(self.bias[self.width : 2 * self.width])

    def gates(self, projected: Float[Tensor, "B 4D"], h: Float[Tensor, "B D"]) -> tuple[Tensor, ...]:
        """The gates i and f, the candidate g and the gate o, in this order, each (B, D)."""
        i, f, g, o = _plus_product(projected, h, self.state_weight).chunk(4, dim=-1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def step(self, projected: Float[Tensor, "B 4D"], state: State) -> State:
        h, c = state
        i, f, g, o = self.gates(projected, h)
        c = f * c + i * g
        return o * torch.tanh(c), c


class LSTMVariant(Cell):
    """The LSTM with one change (Greff et al. 2015, "LSTM: a search space odyssey"):

        i = σ(W_i [h; x] + b_i)      or 1 without an input gate, or 1 - f if the gates are coupled
        f = σ(W_f [h; x] + b_f)      or 1 without a forget gate
        g = tanh(W_g [h; x] + b_g)
        c' = f ⊙ c + i ⊙ g
        o = σ(W_o [h; x] + b_o)      or 1 without an output gate
        h' = o ⊙ tanh c'

    Peepholes let the gates see the cell state c: p_i ⊙ c and p_f ⊙ c are added inside i and f, and p_o ⊙ c' inside o.
    The rows of the weights are those of the gates, in the order of `gates`, then those of g.
    """

    recurrent_weights = ("state_weight",)
    state_parts = 2
    gates: ClassVar[str] = "ifo"  # the gates that have weights; the others are 1, or 1 - f
    coupled: ClassVar[bool] = False
    peepholes: ClassVar[bool] = False

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        rows = (len(self.gates) + 1) * width
        self.input_weight = _parameter(rows, input_width)
        self.state_weight = _parameter(rows, width)
        self.bias = _parameter(rows)
        self.peephole = _parameter(3 * width) if self.peepholes else None  # p_i, p_f, p_o
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if "f" in self.gates:
            nn.init.ones_(self.bias.view(-1, self.width)[self.gates.index("f")])

    def step(self, projected: Float[Tensor, "B G"], state: State) -> State:
        h, c = state
        parts = _plus_product(projected, h, self.state_weight).chunk(len(self.gates) + 1, dim=-1)
        before = dict(zip(f"{self.gates}g", parts, strict=True))
        if self.peephole is not None:
            p_i, p_f, p_o = self.peephole.chunk(3)
            before |= {"i": before["i"] + p_i * c, "f": before["f"] + p_f * c}
        one = torch.ones_like(c)
        f = torch.sigmoid(before["f"]) if "f" in before else one
        i = 1 - f if self.coupled else torch.sigmoid(before["i"]) if "i" in before else one
        c = f * c + i * torch.tanh(before["g"])
        if self.peephole is not None:
            before["o"] = before["o"] + p_o * c
        o = torch.sigmoid(before["o"]) if "o" in before else one
        return o * torch.tanh(c), c


class CoupledLSTM(LSTMVariant):
    """The LSTM that forgets exactly as much as it takes in: i = 1 - f."""

    name = "lstm_coupled"
    gates = "fo"
    coupled = True


class PeepholeLSTM(LSTMVariant):
    """The LSTM whose gates also see the cell state c (Gers & Schmidhuber 2000)."""

    name = "lstm_peephole"
    peepholes = True


class LSTMWithoutInput(LSTMVariant):
    """The LSTM without an input gate: i = 1."""

    name = "lstm_no_input"
    gates = "fo"


class LSTMWithoutForget(LSTMVariant):
    """The LSTM without a forget gate: f = 1, as in the original paper of 1997."""

    name = "lstm_no_forget"
    gates = "io"


class LSTMWithoutOutput(LSTMVariant):
    """The LSTM without an output gate: o = 1."""

    name = "lstm_no_output"
    gates = "if"


class GRU(Cell):
    """The gated recurrent unit as defined in its paper (Cho et al. 2014, eq. 5-8):

        r = σ(W_xr x + W_hr h + b_r)
        z = σ(W_xz x + W_hz h + b_z)
        h̃ = tanh(W_xh x + W_hh (r ⊙ h) + b_h)
        h' = z ⊙ h + (1 - z) ⊙ h̃

    torch.nn.GRU computes something else: it applies r after the product with W_hh. See `TorchGRU`.
    """

    name = "gru"
    recurrent_weights = ("gate_weight", "candidate_weight")

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.input_weight = _parameter(3 * width, input_width)  # W_xr, W_xz, W_xh
        self.gate_weight = _parameter(2 * width, width)  # W_hr, W_hz
        self.candidate_weight = _parameter(width, width)  # W_hh
        self.bias = _parameter(3 * width)  # b_r, b_z, b_h
        self.reset_parameters()

    def step(self, projected: Float[Tensor, "B 3D"], state: State) -> State:
        (h,) = state
        x_gates, x_candidate = torch.split(projected, [2 * self.width, self.width], dim=-1)
        r, z = torch.sigmoid(_plus_product(x_gates, h, self.gate_weight)).chunk(2, dim=-1)
        candidate = torch.tanh(_plus_product(x_candidate, r * h, self.candidate_weight))
        return (_blend(candidate, h, z),)


class TorchGRU(Cell):
    """The gated recurrent unit as torch.nn.GRU computes it, with r applied after the product, and a second bias:

        r = σ(W_xr x + b_r + W_hr h + d_r)
        z = σ(W_xz x + b_z + W_hz h + d_z)
        h̃ = tanh(W_xh x + b_h + r ⊙ (W_hh h + d_h))
        h' = z ⊙ h + (1 - z) ⊙ h̃

    b is `bias` and d is `state_bias`.
    """

    name = "gru_torch"
    recurrent_weights = ("state_weight",)
    fused_kernel = staticmethod(torch.gru)

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.input_weight = _parameter(3 * width, input_width)  # W_xr, W_xz, W_xh
        self.state_weight = _parameter(3 * width, width)  # W_hr, W_hz, W_hh
        self.bias = _parameter(3 * width)  # b
        self.state_bias = _parameter(3 * width)  # d
        self.reset_parameters()

    def step(self, projected: Float[Tensor, "B 3D"], state: State) -> State:
        (h,) = state
        x_r, x_z, x_h = projected.chunk(3, dim=-1)
        h_r, h_z, h_h = F.linear(h, self.state_weight, self.state_bias).chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        candidate = torch.tanh(x_h + r * h_h)
        return (_blend(candidate, h, z),)

    def fused_weights(self) -> list[Tensor]:
        return [self.input_weight, self.state_weight, self.bias, self.state_bias]


class MUT1(Cell):
    """The first of three cells found by an automatic search over architectures (Jozefowicz et al. 2015):

        z = σ(W_xz x + b_z)
        r = σ(W_xr x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + tanh(x) + b_h) ⊙ z + h ⊙ (1 - z)

    x is added to the state, so `input_width` must equal `width`. z does not depend on the state, so `project` computes
    it for all steps at once.
    """

    name = "mut1"
    recurrent_weights = ("reset_weight", "candidate_weight")

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        _check_one_width(self)
        self.input_weight = _parameter(2 * width, width)  # W_xz, W_xr
        self.reset_weight = _parameter(width, width)  # W_hr
        self.candidate_weight = _parameter(width, width)  # W_hh
        self.bias = _parameter(3 * width)  # b_z, b_r, b_h
        self.reset_parameters()

    def project(self, x: Float[Tensor, "*steps D"]) -> Float[Tensor, "*steps 3D"]:
        gate_bias, candidate_bias = torch.split(self.bias, [2 * self.width, self.width])
        x_z, x_r = F.linear(x, self.input_weight, gate_bias).chunk(2, dim=-1)
        return torch.cat((torch.sigmoid(x_z), x_r, torch.tanh(x) + candidate_bias), dim=-1)

    def step(self, projected: Float[Tensor, "B 3D"], state: State) -> State:
        (h,) = state
        z, x_r, x_candidate = projected.chunk(3, dim=-1)
        r = torch.sigmoid(_plus_product(x_r, h, self.reset_weight))
        candidate = torch.tanh(_plus_product(x_candidate, r * h, self.candidate_weight))
        return (_blend(h, candidate, z),)


class MUT2(Cell):
    """The second of three cells found by an automatic search over architectures (Jozefowicz et al. 2015):

        z = σ(W_xz x + W_hz h + b_z)
        r = σ(x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + W_xh x + b_h) ⊙ z + h ⊙ (1 - z)

    x is added to the state, so `input_width` must equal `width`.
    """

    name = "mut2"
    recurrent_weights = ("gate_weight", "candidate_weight")

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        _check_one_width(self)
        self.input_weight = _parameter(2 * width, width)  # W_xz, W_xh
        self.gate_weight = _parameter(2 * width, width)  # W_hz, W_hr
        self.candidate_weight = _parameter(width, width)  # W_hh
        self.bias = _parameter(3 * width)  # b_z, b_r, b_h
        self.reset_parameters()

    def project(self, x: Float[Tensor, "*steps D"]) -> Float[Tensor, "*steps 3D"]:
        x_z, x_candidate = F.linear(x, self.input_weight).chunk(2, dim=-1)
        return torch.cat((x_z, x, x_candidate), dim=-1) + self.bias

    def step(self, projected: Float[Tensor, "B 3D"], state: State) -> State:
        (h,) = state
        x_gates, x_candidate = torch.split(projected, [2 * self.width, self.width], dim=-1)
        z, r = torch.sigmoid(_plus_product(x_gates, h, self.gate_weight)).chunk(2, dim=-1)
        candidate = torch.tanh(_plus_product(x_candidate, r * h, self.candidate_weight))
        return (_blend(h, candidate, z),)


class MUT3(Cell):
    """The third of three cells found by an automatic search over architectures (Jozefowicz et al. 2015):

        z = σ(W_xz x + W_hz tanh(h) + b_z)
        r = σ(W_xr x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + W_xh x + b_h) ⊙ z + h ⊙ (1 - z)

    Unlike in MUT1 and MUT2, `input_width` may differ from `width`.
    """

    name = "mut3"
    recurrent_weights = ("update_weight", "reset_weight", "candidate_weight")

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.input_weight = _parameter(3 * width, input_width)  # W_xz, W_xr, W_xh
        self.update_weight = _parameter(width, width)  # W_hz
        self.reset_weight = _parameter(width, width)  # W_hr
        self.candidate_weight = _parameter(width, width)  # W_hh
        self.bias = _parameter(3 * width)  # b_z, b_r, b_h
        self.reset_parameters()

    def step(self, projected: Float[Tensor, "B 3D"], state: State) -> State:
        (h,) = state
        x_z, x_r, x_candidate = projected.chunk(3, dim=-1)
        z = torch.sigmoid(_plus_product(x_z, torch.tanh(h), self.update_weight))
        r = torch.sigmoid(_plus_product(x_r, h, self.reset_weight))
        candidate = torch.tanh(_plus_product(x_candidate, r * h, self.candidate_weight))
        return (_blend(h, candidate, z),)


CELLS: dict[str, type[Cell]] = {
    "rnn": RNN,
    "lstm": LSTM,
    "lstm_coupled": CoupledLSTM,
    "lstm_peephole": PeepholeLSTM,
    "lstm_no_input": LSTMWithoutInput,
    "lstm_no_forget": LSTMWithoutForget,
    "lstm_no_output": LSTMWithoutOutput,
    "gru": GRU,
    "gru_torch": TorchGRU,
    "mut1": MUT1,
    "mut2": MUT2,
    "mut3": MUT3,
}


def cell_named(name: str) -> type[Cell]:
    """Return the class of the cell with this name, which must be one of `CELLS`."""
    if name not in CELLS:
        raise UnknownNameError("cell", name, CELLS)
    return CELLS[name]


def _plus_product(
    projected: Float[Tensor, "B G"], state: Float[Tensor, "B D"], weight: Float[Tensor, "G D"]
) -> Float[Tensor, "B G"]:
    """projected + W state, in one call."""
    return torch.addmm(projected, state, weight.t())


def _blend(start: Tensor, end: Tensor, share: Tensor) -> Tensor:
    """(1 - share) ⊙ start + share ⊙ end, all (B, D). Under autocast, h has a wider dtype than matrix products."""
    dtype = torch.promote_types(start.dtype, end.dtype)
    return torch.lerp(start.to(dtype), end.to(dtype), share.to(dtype))


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape))


def _check_one_width(cell: Cell) -> None:
    if cell.input_width != cell.width:
        raise OptionError(
            f"The cell {cell.name!r} adds its input to its state, so input_width must equal width, "
            f"got input_width={cell.input_width}, width={cell.width}."
        )
