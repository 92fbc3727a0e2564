"""What the loop promises of every cell: lengths, directions, layers, truncation, steps, and clear refusals."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.errors import KernelError, OptionError, ShapeError, UnknownNameError
from saccade.kernels.gated_cells import GATED
from saccade.recurrent import (
    CELLS,
    KERNELS,
    LSTM,
    RNN,
    Cell,
    Kernel,
    OutputRNN,
    Recurrent,
    State,
    reorder,
    unroll,
)

B, T, D = 4, 7, 5
LENGTHS = torch.tensor([3, 7, 1, 6])
FUSED = [name for name, cell in CELLS.items() if cell.fused_kernel is not None or cell in GATED]
EVERY_PATH = [*((name, "equation") for name in CELLS), *((name, "fused") for name in FUSED)]
every_path = pytest.mark.parametrize(("name", "kernel"), EVERY_PATH)


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(B, T, D)


@every_path
def test_unrolled_is_step_by_step(name: str, kernel: Kernel, x: Tensor) -> None:
    cell = CELLS[name](D, D)
    outputs, final = unroll(cell, x, kernel=kernel)
    state = cell.initial(B)
    for t in range(T):
        state = cell(x[:, t], state)
        torch.testing.assert_close(outputs[:, t], state[0])
    torch.testing.assert_close(final, state)


@every_path
def test_a_batch_with_lengths_is_its_sequences_one_by_one(name: str, kernel: Kernel, x: Tensor) -> None:
    # Two layers in two directions; MUT1 and MUT2 add x itself, so their second layer cannot read both.
    layers = 1 if name in ("mut1", "mut2") else 2
    network = Recurrent(name, D, D, num_layers=layers, bidirectional=True, kernel=kernel)
    outputs, final = network(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, alone_final = network(x[row : row + 1, :length])
        torch.testing.assert_close(outputs[row, :length], alone[0])
        assert not outputs[row, length:].any()
        for parts, alone_parts in zip(final, alone_final, strict=True):
            for part, alone_part in zip(parts, alone_parts, strict=True):
                torch.testing.assert_close(part[row], alone_part[0])


@every_path
def test_the_padding_may_hold_anything(name: str, kernel: Kernel, x: Tensor) -> None:
    network = Recurrent(name, D, D, kernel=kernel)
    spoilt = x.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        spoilt[row, length:] = torch.nan
    gradients = []
    for inputs in (x, spoilt):
        network.zero_grad()
        network(inputs, LENGTHS)[0].square().sum().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    torch.testing.assert_close(*gradients)


@every_path
def test_reverse_reads_from_the_end(name: str, kernel: Kernel, x: Tensor) -> None:
    cell = CELLS[name](D, D)
    outputs, final = unroll(cell, x, reverse=True, kernel=kernel)
    expected, expected_final = unroll(cell, x.flip(1), kernel=kernel)
    torch.testing.assert_close(outputs, expected.flip(1))
    torch.testing.assert_close(final, expected_final)


def test_an_empty_sequence_keeps_its_state() -> None:
    for name, kernel in EVERY_PATH:
        cell = CELLS[name](D, D)
        state = tuple(torch.randn(2, D) for _ in range(cell.state_parts))
        outputs, final = unroll(cell, torch.randn(2, T, D), torch.tensor([0, T]), state, kernel=kernel)
        assert not outputs[0].any()
        for part, before in zip(final, state, strict=True):
            assert part[0].equal(before[0])


@every_path
def test_gradients_of_the_whole_loop(name: str, kernel: Kernel) -> None:
    """Finite differences in double precision, over the inputs, the first state and every parameter."""
    torch.manual_seed(6)
    cell = CELLS[name](2, 2).double()
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(cell.state_parts)]

    def run(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        outputs, final = unroll(cell, x, torch.tensor([3, 2]), rest[: len(state)], kernel=kernel)
        return outputs, *final

    assert torch.autograd.gradcheck(run, (x, *state, *cell.parameters()))


@every_path
@pytest.mark.parametrize("lengths", [None, torch.full((B,), T)], ids=["whole", "lengths"])
def test_truncation_stops_the_gradient_at_every_third_step(
    name: str, kernel: Kernel, lengths: Tensor | None, x: Tensor
) -> None:
    """Steps 0-2, 3-5 and 6 are the pieces: h_t has a gradient for x_s only within its own, up to t."""
    cell = CELLS[name](D, D)
    x.requires_grad_()
    outputs, _ = unroll(cell, x, lengths, truncate=3, kernel=kernel)
    for t in range(T):
        (gradient,) = torch.autograd.grad(outputs[:, t].sum(), x, retain_graph=True)
        reached = [s for s in range(T) if gradient[:, s].any()]
        assert reached == list(range(3 * (t // 3), t + 1))


def test_truncation_changes_no_output(x: Tensor) -> None:
    for name, kernel in EVERY_PATH:
        cell = CELLS[name](D, D)
        torch.testing.assert_close(
            unroll(cell, x, truncate=2, kernel=kernel), unroll(cell, x, kernel=kernel), rtol=0, atol=1e-6
        )


def test_reversed_truncation_counts_from_each_end(x: Tensor) -> None:
    x.requires_grad_()
    outputs, _ = unroll(RNN(D, D), x, LENGTHS, reverse=True, truncate=2)
    (gradient,) = torch.autograd.grad(outputs[0, 0].sum(), x)  # length 3: read as 2, 1 | 0
    assert [s for s in range(T) if gradient[0, s].any()] == [0]
    outputs, _ = unroll(RNN(D, D), x, LENGTHS, reverse=True, truncate=2)
    (gradient,) = torch.autograd.grad(outputs[0, 1].sum(), x)
    assert [s for s in range(T) if gradient[0, s].any()] == [1, 2]


@pytest.mark.parametrize("name", CELLS)
def test_stepping_a_stack_is_unrolling_it(name: str, x: Tensor) -> None:
    network = Recurrent(name, D, D, num_layers=3)
    outputs, final = network(x)
    state = network.initial(B)
    for t in range(T):
        output, state = network.step(x[:, t], state)
        torch.testing.assert_close(output, outputs[:, t])
    torch.testing.assert_close(state, final)


def test_a_sequence_may_be_continued(x: Tensor) -> None:
    network = Recurrent("lstm", D, 3, num_layers=2)
    outputs, final = network(x)
    first, state = network(x[:, :4])
    second, state = network(x[:, 4:], state=state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), outputs)
    torch.testing.assert_close(state, final)


def test_reorder_takes_rows() -> None:
    network = Recurrent("lstm", 2, 3, num_layers=2)
    _, state = network(torch.randn(4, 5, 2))
    reordered = reorder(state, torch.tensor([3, 3, 0]))
    for parts, new_parts in zip(state, reordered, strict=True):
        for part, new in zip(parts, new_parts, strict=True):
            assert new.equal(torch.stack((part[3], part[3], part[0])))


def test_dropout_falls_between_layers_only() -> None:
    x = torch.randn(B, T, D)
    one = Recurrent("rnn", D, D, dropout=0.9)
    torch.testing.assert_close(one(x)[0], one.eval()(x)[0])
    two = Recurrent("rnn", D, 50, num_layers=2, dropout=0.9)
    assert not torch.allclose(two(x)[0], two.eval()(x)[0])
    two.train()
    with torch.no_grad():  # a second layer that shows its input: tanh of it, and nothing of its own state
        second = two.layers[1][0]
        second.input_weight.copy_(torch.eye(50))
        second.state_weight.zero_()
    shown, _ = two(x)
    assert 0.85 < (shown == 0).double().mean() < 0.95


def test_output_rnn_predicts_every_step(x: Tensor) -> None:
    cell = OutputRNN(D, 3, 11)
    outputs, _ = unroll(cell, x)
    prediction = cell.predict(outputs)
    assert prediction.shape == (B, T, 11)
    torch.testing.assert_close(prediction.sum(dim=-1), torch.ones(B, T))


@pytest.mark.parametrize("name", ["lstm", "gru", "mut1", "mut2", "mut3"])
def test_auto_takes_the_fused_kernel(name: str, x: Tensor) -> None:
    """Told from the graph: the plain loop stacks its steps, these kernels do not."""

    def graph(network: Recurrent) -> set[str]:
        todo, seen = [network(x)[0].grad_fn], set()
        while todo:
            node = todo.pop()
            seen.add(type(node).__name__)
            todo += [parent for parent, _ in node.next_functions if parent is not None]
        return seen

    assert "StackBackward0" not in graph(Recurrent(name, D, D))
    assert "StackBackward0" in graph(Recurrent(name, D, D, kernel="equation"))


@every_path
def test_mixed_precision(name: str, kernel: Kernel, x: Tensor) -> None:
    """Under autocast everything runs, to the precision of bfloat16, and the weights get their gradients."""
    network = Recurrent(name, D, D, kernel=kernel)
    exact, _ = network(x, LENGTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, state = network(x, LENGTHS)
        network.step(x[:, 0], state)
        outputs.float().sum().backward()
    torch.testing.assert_close(outputs.float(), exact, rtol=0, atol=0.03)
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


class Decay(Cell):
    """A cell of one's own: h' = h / 2 + x."""

    name = "decay"
    recurrent_weights = ()

    def project(self, x: Tensor) -> Tensor:
        return x

    def step(self, projected: Tensor, state: State) -> State:
        return (state[0] / 2 + projected,)


def test_a_cell_of_ones_own_unrolls_by_its_equation() -> None:
    x = torch.tensor([[[4.0], [2.0], [1.0]]])
    outputs, _ = unroll(Decay(1, 1), x, state=(torch.tensor([[8.0]]),))
    assert outputs.flatten().tolist() == [8.0, 6.0, 4.0]


def test_a_kernel_that_a_cell_has_not_is_refused() -> None:
    with pytest.raises(KernelError, match="Decay has no fused kernel; use 'auto' or 'equation'"):
        unroll(Decay(1, 1), torch.zeros(1, 3, 1), state=(torch.zeros(1, 1),), kernel="fused")


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=f"no kernel 'fast'; allowed: {', '.join(sorted(KERNELS))}"):
        Recurrent("lstm", 2, 3, kernel="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 5), (4, 0, 5), (4, 7, 6)])
def test_inputs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"x of shape \(B, T ≥ 1, 5\), got "):
        Recurrent("gru", 5, 3)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 3], "4 integer lengths"),
        ([1.0, 2.0, 3.0, 4.0], "4 integer lengths"),
        ([1, 2, 8, 3], r"between 0 and 7, the number of steps, got \[1, 2, 8, 3\]"),
        ([1, 2, -1, 3], "between 0 and 7"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths: list[float], message: str, x: Tensor) -> None:
    with pytest.raises(ShapeError, match=message):
        Recurrent("lstm", D, 3)(x, torch.tensor(lengths))


def test_states_that_do_not_fit_are_refused(x: Tensor) -> None:
    network = Recurrent("lstm", D, 3, num_layers=2)
    with pytest.raises(ShapeError, match="Expected 2 states, one per layer and direction, got 1"):
        network(x, state=network.initial(B)[:1])
    with pytest.raises(ShapeError, match=r"'lstm' expected a state of shapes \[\(4, 3\), \(4, 3\)\], got \[\(2, 3\)"):
        network(x, state=network.initial(2))
    with pytest.raises(ShapeError, match=r"got \[\(4, 3\)\]"):
        unroll(LSTM(D, 3), x, state=(torch.zeros(B, 3),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
        ({"truncate": 0}, "truncate must be at least 1 step, or None, got 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Recurrent("rnn", D, D, **options)  # type: ignore[arg-type]


def test_only_one_direction_can_be_stepped(x: Tensor) -> None:
    network = Recurrent("rnn", D, D, bidirectional=True)
    with pytest.raises(OptionError, match="A bidirectional network cannot run step by step"):
        network.step(x[:, 0], network.initial(B))
    network = Recurrent("rnn", D, D)
    with pytest.raises(ShapeError, match=r"\(B, 5\), got \(4, 6\)"):
        network.step(torch.zeros(4, 6), network.initial(B))
