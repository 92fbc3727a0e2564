"""Each cell against its equation written out for one unit, and its gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, tanh

import pytest
import torch

from saccade.errors import OptionError, UnknownNameError
from saccade.recurrent import CELLS, GRU, LSTM, MUT1, MUT2, MUT3, RNN, Cell, OutputRNN, Recurrent, TorchGRU

# One unit, one input: every parameter is a number of its own, so that none can stand in for another.
X, H, C = 0.7, -0.4, 0.9


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value))


def fill(cell: Cell, **values: list[float]) -> Cell:
    """The cell in double precision with each parameter set to the numbers, a row each."""
    cell = cell.double()
    assert {name for name, _ in cell.named_parameters()} == set(values)
    for name, numbers in values.items():
        parameter = cell.get_parameter(name)
        parameter.data = torch.tensor(numbers, dtype=torch.float64).view(parameter.shape)
    return cell


def one_step(cell: Cell) -> list[float]:
    state = (torch.tensor([[H]]), torch.tensor([[C]]))[: cell.state_parts]
    new = cell(torch.tensor([[X]], dtype=torch.float64), tuple(part.double() for part in state))
    return [part.item() for part in new]


def test_rnn() -> None:
    cell = fill(RNN(1, 1), input_weight=[0.5], state_weight=[-1.1], bias=[0.3])
    assert one_step(cell) == pytest.approx([tanh(-1.1 * H + 0.5 * X + 0.3)], abs=1e-7)


def test_rnn_is_one_matrix_on_state_and_input() -> None:
    cell = RNN(3, 2)
    x, h = torch.randn(5, 3), torch.randn(5, 2)
    w = torch.cat((cell.state_weight, cell.input_weight), dim=1)
    torch.testing.assert_close(cell(x, (h,))[0], torch.tanh(torch.cat((h, x), dim=1) @ w.t()))


def test_rnn_with_output() -> None:
    cell = OutputRNN(1, 1, 2)
    fill(
        cell,
        input_weight=[0.5],
        state_weight=[-1.1],
        bias=[0.3],
        **{"output.weight": [0.8, -0.6], "output.bias": [0.1, 0.2]},
    )
    (h,) = one_step(cell)
    a = 0.3 + -1.1 * H + 0.5 * X
    o = [0.1 + 0.8 * tanh(a), 0.2 + -0.6 * tanh(a)]
    expected = [exp(value) / (exp(o[0]) + exp(o[1])) for value in o]
    assert h == pytest.approx(tanh(a), abs=1e-7)
    assert cell.predict(torch.tensor([h], dtype=torch.float64)).tolist() == pytest.approx(expected, abs=1e-7)


def test_lstm() -> None:
    cell = fill(
        LSTM(1, 1),
        input_weight=[0.1, 0.2, 0.3, 0.4],
        state_weight=[-0.5, 0.6, 0.7, -0.8],
        bias=[0.9, 1.0, -1.1, 1.2],
    )
    i = sigmoid(0.1 * X - 0.5 * H + 0.9)
    f = sigmoid(0.2 * X + 0.6 * H + 1.0)
    g = tanh(0.3 * X + 0.7 * H - 1.1)
    o = sigmoid(0.4 * X - 0.8 * H + 1.2)
    c = f * C + i * g
    assert one_step(cell) == pytest.approx([o * tanh(c), c], abs=1e-7)


#: What each gate of a variant is before its σ: (input weight, state weight, bias).
GATES = {"i": (0.1, -0.5, 0.9), "f": (0.2, 0.6, 1.0), "o": (0.4, -0.8, 1.2), "g": (0.3, 0.7, -1.1)}


@pytest.mark.parametrize(
    ("name", "gates"),
    [
        ("lstm_coupled", "fo"),
        ("lstm_peephole", "ifo"),
        ("lstm_no_input", "fo"),
        ("lstm_no_forget", "io"),
        ("lstm_no_output", "if"),
    ],
)
def test_lstm_variants(name: str, gates: str) -> None:
    peepholes = {"i": 0.25, "f": -0.35, "o": 0.45} if name == "lstm_peephole" else {}
    columns = zip(*(GATES[gate] for gate in f"{gates}g"), strict=True)
    weights = dict(zip(("input_weight", "state_weight", "bias"), map(list, columns), strict=True))
    cell = fill(CELLS[name](1, 1), **weights, **({"peephole": list(peepholes.values())} if peepholes else {}))

    def before(gate: str, c: float) -> float:
        of_x, of_h, b = GATES[gate]
        return of_x * X + of_h * H + b + peepholes.get(gate, 0) * c

    f = sigmoid(before("f", C)) if "f" in gates else 1
    i = 1 - f if name == "lstm_coupled" else sigmoid(before("i", C)) if "i" in gates else 1
    c = f * C + i * tanh(before("g", C))
    o = sigmoid(before("o", c)) if "o" in gates else 1
    assert one_step(cell) == pytest.approx([o * tanh(c), c], abs=1e-7)


def test_a_variant_with_everything_is_the_lstm() -> None:
    """Peepholes start at 0, so the cell starts as the plain one; its rows are i, f, o, g instead of i, f, g, o."""
    torch.manual_seed(1)
    plain, variant = LSTM(3, 2), CELLS["lstm_peephole"](3, 2)
    order = [0, 1, 2, 3, 6, 7, 4, 5]
    with torch.no_grad():
        for name in ("input_weight", "state_weight", "bias"):
            variant.get_parameter(name).copy_(plain.get_parameter(name)[order])
    x, state = torch.randn(5, 3), (torch.randn(5, 2), torch.randn(5, 2))
    torch.testing.assert_close(variant(x, state), plain(x, state))


def test_gru_resets_before_the_product() -> None:
    cell = fill(
        GRU(1, 1),
        input_weight=[0.1, 0.2, 0.3],
        gate_weight=[-0.4, 0.5],
        candidate_weight=[1.6],
        bias=[0.7, -0.8, 0.9],
    )
    r = sigmoid(0.1 * X - 0.4 * H + 0.7)
    z = sigmoid(0.2 * X + 0.5 * H - 0.8)
    candidate = tanh(0.3 * X + 1.6 * (r * H) + 0.9)
    assert one_step(cell) == pytest.approx([z * H + (1 - z) * candidate], abs=1e-7)


def test_torch_gru_resets_after_the_product() -> None:
    cell = fill(
        TorchGRU(1, 1),
        input_weight=[0.1, 0.2, 0.3],
        state_weight=[-0.4, 0.5, 1.6],
        bias=[0.7, -0.8, 0.9],
        state_bias=[0.15, 0.25, -0.35],
    )
    r = sigmoid(0.1 * X + 0.7 - 0.4 * H + 0.15)
    z = sigmoid(0.2 * X - 0.8 + 0.5 * H + 0.25)
    candidate = tanh(0.3 * X + 0.9 + r * (1.6 * H - 0.35))
    assert one_step(cell) == pytest.approx([z * H + (1 - z) * candidate], abs=1e-7)


@pytest.mark.parametrize("name", ["gru", "gru_torch", "mut1", "mut2", "mut3"])
def test_which_unit_the_reset_silences(name: str) -> None:
    """Two units, r = (1, 0), z = (½, ½), x = 0; the first unit's candidate reads the second unit alone.

    W_hh (r ⊙ h) sees that unit reset, so the candidate is 0; r ⊙ (W_hh h), torch's order, sees it whole.
    """
    cell = CELLS[name](2, 2)
    reset_rows = slice(0, 2) if name.startswith("gru") else slice(2, 4)
    with torch.no_grad():
        for matrix in cell.recurrent_matrices():
            matrix.zero_()
        cell.recurrent_matrices()[-1][0, 1] = 1  # W_hh
        cell.get_parameter("bias")[reset_rows] = torch.tensor([30.0, -30.0])
        (h,) = cell(torch.zeros(1, 2), (torch.tensor([[0.9, -0.2]]),))
    candidate = tanh(-0.2) if name == "gru_torch" else 0
    assert h[0].tolist() == pytest.approx([0.45 + 0.5 * candidate, -0.1], abs=1e-6)


def test_mut1() -> None:
    cell = fill(
        MUT1(1, 1),
        input_weight=[0.1, 0.2],
        reset_weight=[-0.4],
        candidate_weight=[1.6],
        bias=[0.7, -0.8, 0.9],
    )
    z = sigmoid(0.1 * X + 0.7)
    r = sigmoid(0.2 * X - 0.4 * H - 0.8)
    assert one_step(cell) == pytest.approx([tanh(1.6 * (r * H) + tanh(X) + 0.9) * z + H * (1 - z)], abs=1e-7)


def test_mut2() -> None:
    cell = fill(
        MUT2(1, 1),
        input_weight=[0.1, 0.2],
        gate_weight=[0.5, -0.4],
        candidate_weight=[1.6],
        bias=[0.7, -0.8, 0.9],
    )
    z = sigmoid(0.1 * X + 0.5 * H + 0.7)
    r = sigmoid(X - 0.4 * H - 0.8)
    assert one_step(cell) == pytest.approx([tanh(1.6 * (r * H) + 0.2 * X + 0.9) * z + H * (1 - z)], abs=1e-7)


def test_mut3() -> None:
    cell = fill(
        MUT3(1, 1),
        input_weight=[0.1, 0.2, 0.3],
        update_weight=[0.5],
        reset_weight=[-0.4],
        candidate_weight=[1.6],
        bias=[0.7, -0.8, 0.9],
    )
    z = sigmoid(0.1 * X + 0.5 * tanh(H) + 0.7)
    r = sigmoid(0.2 * X - 0.4 * H - 0.8)
    assert one_step(cell) == pytest.approx([tanh(1.6 * (r * H) + 0.3 * X + 0.9) * z + H * (1 - z)], abs=1e-7)


@pytest.mark.parametrize("name", CELLS)
def test_gradients(name: str) -> None:
    """Finite differences in double precision, over the input, the state and every parameter."""
    torch.manual_seed(0)
    input_width = 3 if name in ("mut1", "mut2") else 2
    cell = CELLS[name](input_width, 3).double()
    x = torch.randn(2, input_width, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(cell.state_parts)]

    def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parameters = dict(zip(dict(cell.named_parameters()), tensors[1 + len(state) :], strict=True))
        inputs = (tensors[0], tensors[1 : 1 + len(state)])
        return torch.func.functional_call(cell, parameters, inputs)  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(step, (x, *state, *cell.parameters()))


@pytest.mark.parametrize("name", CELLS)
def test_projecting_ahead_is_projecting_each(name: str) -> None:
    cell = CELLS[name](5, 5)
    x = torch.randn(2, 3, 5)
    one_by_one = torch.stack([cell.project(x[:, t]) for t in range(3)], dim=1)
    torch.testing.assert_close(cell.project(x), one_by_one)


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_matrices_are_all_that_the_state_meets(name: str) -> None:
    """With every one of them zero, the gates and the candidate no longer depend on h."""
    cell = CELLS[name](3, 3)
    with torch.no_grad():
        for matrix in cell.recurrent_matrices():
            assert matrix.shape == (3, 3)
            matrix.zero_()
    for weight in cell.recurrent_weights:
        assert not cell.get_parameter(weight).any()


def test_the_forget_gate_starts_open() -> None:
    cell = LSTM(2, 3)
    assert cell.bias.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_registry_names() -> None:
    assert {name: cell.name for name, cell in CELLS.items()} == {name: name for name in CELLS}


@pytest.mark.parametrize("kind", [MUT1, MUT2])
def test_widths_must_be_one_where_x_itself_is_added(kind: Callable[[int, int], Cell]) -> None:
    with pytest.raises(OptionError, match="input_width must equal width, got input_width=5, width=7"):
        kind(5, 7)


def test_widths_are_positive() -> None:
    with pytest.raises(OptionError, match="at least 1, got input_width=0, width=7"):
        RNN(0, 7)


def test_an_unknown_cell_is_refused_with_the_allowed_names() -> None:
    with pytest.raises(UnknownNameError, match="no cell 'gru2'; allowed: gru, gru_torch, lstm, lstm_coupled") as error:
        Recurrent("gru2", 5, 7)
    assert "Did you mean 'gru'?" in str(error.value)
