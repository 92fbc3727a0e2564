"""The gradient's way back through time: numbers that follow by hand, and the claims of the lectures."""

from __future__ import annotations

from math import exp

import pytest
import torch

from saccade.errors import OptionError, UnknownNameError
from saccade.recurrent import CELLS, LSTM, RNN, gradient_flow

T = 50
SIGMOID_1 = 1 / (1 + exp(-1))


@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_without_input_the_rnn_multiplies_by_its_radius(radius: float) -> None:
    """At h = 0 tanh' is 1, so ∂h_T/∂h_t is the (T-t)th power of radius times an orthogonal matrix."""
    flow = gradient_flow("rnn", T, spectral_radius=radius, input_scale=0)
    assert flow.state.tolist() == pytest.approx([radius ** (T - t) for t in range(T + 1)], rel=1e-9)
    assert flow.cell_path is None


def test_without_input_the_cell_path_multiplies_by_the_forget_gate() -> None:
    """At h = c = 0 the forget gate is σ of its bias, 1."""
    flow = gradient_flow("lstm", T, spectral_radius=0.5, input_scale=0)
    assert flow.cell_path is not None
    assert flow.cell_path.tolist() == pytest.approx([SIGMOID_1 ** (T - t) for t in range(T + 1)], rel=1e-9)


@pytest.mark.parametrize("name", CELLS)
def test_norms_are_those_of_the_whole_computation(name: str) -> None:
    """The product of single steps is what autograd finds for many steps at once."""
    torch.manual_seed(4)
    cell = CELLS[name](3, 3).double()
    flow = gradient_flow(cell, 6, input_scale=2.0, seed=5)
    torch.manual_seed(5)
    projected = cell.project(2.0 * torch.randn(6, 3, dtype=torch.float64))
    states = [cell.initial(1)]
    for t in range(6):
        states.append(cell.step(projected[t : t + 1], states[-1]))
    for t in range(7):

        def rest(h: torch.Tensor, t: int = t) -> torch.Tensor:
            state = (h, *states[t][1:])
            for later in range(t, 6):
                state = cell.step(projected[later : later + 1], state)
            return state[0]

        jacobian = torch.autograd.functional.jacobian(rest, states[t][0])[0, :, 0]
        assert flow.state[t].item() == pytest.approx(torch.linalg.matrix_norm(jacobian, ord=2).item())


@pytest.mark.parametrize("name", [name for name in CELLS if not name.startswith("lstm_no_")])  # c lasts longer there
def test_below_radius_1_every_cell_vanishes(name: str) -> None:
    flow = gradient_flow(name, T, spectral_radius=0.5)
    assert flow.state[0] < 1e-3
    assert flow.state[-1] == 1


def test_above_radius_1_the_rnn_explodes_near_its_linear_region() -> None:
    assert gradient_flow("rnn", T, spectral_radius=1.5, input_scale=0.01).state[0] > 1e3


def test_saturated_units_make_the_rnn_vanish_even_above_radius_1() -> None:
    """tanh' is below 1 wherever the unit is driven: the lecture's other factor."""
    assert gradient_flow("rnn", T, spectral_radius=1.1, input_scale=3).state[0] < 1e-3


@pytest.mark.parametrize("input_scale", [0.01, 0.1, 1.0])
def test_the_lstm_decays_slower_and_still_vanishes(input_scale: float) -> None:
    rnn = gradient_flow("rnn", T, spectral_radius=0.5, input_scale=input_scale).state[0]
    lstm = gradient_flow("lstm", T, spectral_radius=0.5, input_scale=input_scale)
    assert lstm.cell_path is not None
    assert lstm.cell_path[0] > 1e6 * rnn
    assert lstm.state[0] > 1e6 * rnn
    assert lstm.cell_path[0] < 1e-5


def test_a_forget_gate_held_open_keeps_the_cell_path() -> None:
    """f → 1 keeps c, and its gradient, for as long as one likes; no matrix is in the way."""
    cell = LSTM(8, 8)
    with torch.no_grad():
        cell.bias[8:16] = 10.0
    flow = gradient_flow(cell, T, spectral_radius=0.5)
    assert flow.cell_path is not None
    assert flow.cell_path[0] > 0.99


def test_measuring_changes_neither_the_cell_nor_the_random_numbers() -> None:
    cell = RNN(3, 3)
    before = cell.state_weight.clone()
    random_state = torch.get_rng_state()
    flow = gradient_flow(cell, 4, spectral_radius=2.0)
    assert cell.state_weight.equal(before)
    assert cell.state_weight.dtype == torch.float32
    assert torch.get_rng_state().equal(random_state)
    assert flow.state.equal(gradient_flow(cell, 4, spectral_radius=2.0).state)
    assert not flow.state.equal(gradient_flow(cell, 4, spectral_radius=2.0, seed=1).state)


def test_the_plot_shows_both_curves() -> None:
    flow = gradient_flow("lstm", 9, spectral_radius=0.5, width=3)
    (axes,) = flow.plot().axes
    assert axes.get_yscale() == "log"
    assert [line.get_label() for line in axes.lines] == ["lstm", "lstm, path along c"]
    assert flow.cell_path is not None
    for line, curve in zip(axes.lines, (flow.state, flow.cell_path), strict=True):
        assert list(line.get_xdata()) == list(range(10))
        assert list(line.get_ydata()) == curve.tolist()


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="no cell 'lstn'"):
        gradient_flow("lstn", 5)
    with pytest.raises(OptionError, match="steps must be at least 1, got 0"):
        gradient_flow("lstm", 0)
    with pytest.raises(OptionError, match="spectral_radius must be a number of at least 0, got -1"):
        gradient_flow("lstm", 5, spectral_radius=-1)


def test_a_gradient_beyond_all_numbers_is_infinite() -> None:
    flow = gradient_flow("rnn", 3000, spectral_radius=1.5, input_scale=0.0, width=4)
    assert flow.state[0] == float("inf")
    assert flow.state[-2] == pytest.approx(1.5)
