"""The same numbers as torch.nn, forward and backward, from both kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.recurrent import CELLS, Kernel, Recurrent, TorchGRU

B, T, I, D = 5, 11, 3, 7  # noqa: E741
PEERS: dict[str, type[nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru_torch": nn.GRU}
LENGTHS = torch.tensor([4, 11, 1, 7, 11])


def pair(name: str, num_layers: int, bidirectional: bool, kernel: Kernel) -> tuple[Recurrent, nn.RNNBase]:
    """Our network and torch's, with torch's weights."""
    torch.manual_seed(1)
    ours = Recurrent(name, I, D, num_layers, bidirectional, kernel=kernel)
    peer = PEERS[name](I, D, num_layers, bidirectional=bidirectional, batch_first=True)
    weights = iter(peer.all_weights)
    with torch.no_grad():
        for cell in [cell for layer in ours.layers for cell in layer]:
            input_weight, state_weight, bias, state_bias = next(weights)
            cell.input_weight.copy_(input_weight)
            cell.state_weight.copy_(state_weight)
            if isinstance(cell, TorchGRU):
                cell.bias.copy_(bias)
                cell.state_bias.copy_(state_bias)
            else:
                cell.bias.copy_(bias + state_bias)
    return ours, peer


def peer_forward(peer: nn.RNNBase, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    if lengths is None:
        outputs, final = peer(x)
    else:
        packed, final = peer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=T)
    return outputs, final if isinstance(final, tuple) else (final,)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "packed"])
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (3, False), (2, True)])
@pytest.mark.parametrize("kernel", ["equation", "fused"])
@pytest.mark.parametrize("name", PEERS)
def test_same_as_torch(name: str, kernel: Kernel, num_layers: int, bidirectional: bool, lengths: Tensor | None) -> None:
    ours, peer = pair(name, num_layers, bidirectional, kernel)
    x = torch.randn(B, T, I)
    x_ours, x_peer = x.clone().requires_grad_(), x.clone().requires_grad_()
    outputs, final = ours(x_ours, lengths)
    expected, expected_final = peer_forward(peer, x_peer, lengths)
    close(outputs, expected)
    for part, expected_part in zip(zip(*final, strict=True), expected_final, strict=True):
        close(torch.stack(part), expected_part)

    # A loss that weighs every output and every final state differently.
    weight = torch.randn_like(outputs)
    loss_ours = (outputs * weight).sum() + sum(part.square().sum() for state in final for part in state)
    loss_peer = (expected * weight).sum() + sum(part.square().sum() for part in expected_final)
    loss_ours.backward()
    loss_peer.backward()
    assert x_ours.grad is not None
    assert x_peer.grad is not None
    close(x_ours.grad, x_peer.grad)
    cells = [cell for layer in ours.layers for cell in layer]
    for cell, (input_weight, state_weight, bias, state_bias) in zip(cells, peer.all_weights, strict=True):
        close(cell.input_weight.grad, input_weight.grad)
        close(cell.state_weight.grad, state_weight.grad)
        close(cell.bias.grad, bias.grad)
        if isinstance(cell, TorchGRU):
            close(cell.state_bias.grad, state_bias.grad)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CELLS if not name.startswith("lstm_")])  # they have no fused kernel
def test_fused_is_equation_with_everything_on(name: str) -> None:
    """Layers, directions, lengths (one empty), truncation and a given state, in double precision."""
    torch.manual_seed(2)
    layers = 1 if name in ("mut1", "mut2") else 2  # they add x itself, so a second layer cannot read both
    network = Recurrent(name, D, D, num_layers=layers, bidirectional=True, truncate=4).double()
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 11, 0, 7, 8])
    state = tuple(tuple(torch.randn_like(part) for part in parts) for parts in network.initial(B))
    for part in sum(state, ()):
        part.requires_grad_()
    sources = [x, *sum(state, ()), *network.parameters()]
    results = []
    for kernel in ("equation", "fused"):
        network.kernel = kernel
        outputs, final = network(x, lengths, state)
        loss = outputs.square().sum() + sum(part.sin().sum() for part in sum(final, ()))
        results.append([outputs, *sum(final, ()), *torch.autograd.grad(loss, sources)])
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)
