"""The dropout of the networks: how many numbers fall, what becomes of the others, and that a seed repeats it."""

import pytest
import torch

from saccade.kernels.dropout import dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_share_falls_and_the_rest_keeps_the_mean(share: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(301, 333)
    dropped = dropout(x, share, True)
    assert dropped.unique().tolist() == [0.0, pytest.approx(1 / (1 - share))]
    # Of 100,233 draws the fraction is within 4 standard deviations.
    spread = 4 * (share * (1 - share) / x.numel()) ** 0.5
    assert (dropped == 0).float().mean().item() == pytest.approx(share, abs=spread)


def test_neighbours_fall_independently() -> None:
    torch.manual_seed(1)
    fallen = (dropout(torch.ones(200_003), 0.5, True) == 0).float()
    for lag in (1, 2, 3, 4):  # four numbers come of one draw
        both = (fallen[lag:] * fallen[:-lag]).mean().item()
        assert both == pytest.approx(0.25, abs=0.005)


def test_a_seed_repeats_it_and_the_gradient_follows() -> None:
    x = torch.full((7, 5), 2.0, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(x, 0.4, True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.4, True))
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(gradient, first.detach() / 2)


def test_outside_training_it_is_the_input() -> None:
    x = torch.ones(3)
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (2, 3, 5)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert dropout(torch.ones(shape), 0.5, True).shape == shape
