"""Numbers that can be checked by hand, and those that the lectures print (000, 001)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from saccade import attend, causal, watch
from saccade.attention import Hard, Kernel, ScaledDot

KERNELS: list[Kernel] = ["equation", "fused"]
E = math.e


def close(actual: Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=5e-5, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_projection_example(kernel: Kernel) -> None:
    inputs = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    key = inputs @ torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
    query = inputs @ torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
    value = inputs @ torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
    with watch() as seen:
        output = attend(query, key, value, score="dot", kernel=kernel)
    close(query @ key.T, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])
    close(seen["attention"].row(0)[0], [[0.0634, 0.4683, 0.4683]])
    close(output, [[1.9366, 6.6831, 1.5951], [2.0000, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]])


RETRIEVAL_OUTPUTS = {
    3: [[-2.1612, 4.0746, 2.5047], [-2.1286, 4.0524, 2.5159], [-2.2000, 4.1000, 2.5000]],
    4: [
        [-2.1805, 4.0872, 2.5024],
        [-2.1640, 4.0760, 2.5080],
        [-2.2000, 4.1000, 2.5000],
        [-2.1997, 4.0998, 2.5001],
    ],
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tokens", [3, 4])
def test_retrieval_example(tokens: int, kernel: Kernel) -> None:
    query = torch.tensor([[0.3, 1.2, 2.2], [0.1, 6.2, 2.1], [2.1, 2.5, 5.2], [1.1, 6.6, 4.3]])
    key = torch.tensor([[0.4, 1.4, 0], [0.2, -1.1, 0], [0.3, 1.2, 4], [0.3, 1.2, 4]])
    value = torch.tensor([[2.3, 1.1, 3.5], [3, 1, 0.5], [-2.2, 4.1, 2.5], [-2.2, 4.1, 2.5]])
    output = attend(query[:tokens], key[:tokens], value[:tokens], kernel=kernel)
    close(output, RETRIEVAL_OUTPUTS[tokens])


@pytest.mark.parametrize("kernel", KERNELS)
def test_softmax_of_zero_and_one(kernel: Kernel) -> None:
    """Scores 0 and 1 give 1/(1+e) and e/(1+e)."""
    query, key, value = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]]), torch.eye(2)
    torch.testing.assert_close(
        attend(query, key, value, kernel=kernel), torch.tensor([[1 / (1 + E), E / (1 + E)]]), atol=1e-6, rtol=0
    )


def test_the_scale_is_the_root_of_the_width() -> None:
    """q·k = 8 over a width of 64 is a score of 1, the lecture's division by 8."""
    query, key, value = torch.ones(1, 64), torch.stack([torch.zeros(64), torch.full((64,), 1 / 8)]), torch.eye(2)
    expected = torch.tensor([[1 / (1 + E), E / (1 + E)]])
    torch.testing.assert_close(attend(query, key, value), expected)
    torch.testing.assert_close(attend(query, key, value, score=ScaledDot(1 / 8)), expected)


def test_other_weights_by_hand() -> None:
    """Scores (1, -1, 0.5): sparsemax's threshold is (1.5 - 1)/2 = 0.25; relu keeps the positive ones."""
    query, key, value = torch.tensor([[1.0]]), torch.tensor([[1.0], [-1.0], [0.5]]), torch.eye(3)

    def answer(weights: str | Hard) -> list[float]:
        return attend(query, key, value, weights=weights)[0].tolist()

    assert answer("sparsemax") == [0.75, 0.0, 0.25]
    assert answer("relu") == [1.0, 0.0, 0.5]
    assert answer("hard") == [1.0, 0.0, 0.0]
    assert answer(Hard("straight_through")) == [1.0, 0.0, 0.0]


def test_cosine_by_hand() -> None:
    """(3, 4) with (4, 3): 24/25; with itself, however long: 1; with nothing: 0."""
    query = torch.tensor([[3.0, 4.0]])
    key = torch.tensor([[4.0, 3.0], [30.0, 40.0], [0.0, 0.0]])
    scores = attend(query, key, torch.eye(3), score="cosine", weights="relu")
    torch.testing.assert_close(scores, torch.tensor([[24 / 25, 1.0, 0.0]]))


def test_a_sampled_key_follows_its_probability() -> None:
    """Scores 0 and log 3: the second key is drawn three times in four, and its log-probability is kept."""
    rows = 4000
    weights = Hard("sample", torch.Generator().manual_seed(0))
    query, key = torch.ones(rows, 1), torch.tensor([[0.0], [math.log(3)]])
    drawn = attend(query, key, torch.eye(2), weights=weights)
    assert set(drawn.flatten().tolist()) == {0.0, 1.0}
    share = drawn[:, 1].mean().item()
    assert abs(share - 0.75) < 4 * math.sqrt(0.75 * 0.25 / rows)
    assert weights.log_probability is not None
    expected = torch.where(drawn[:, 1] == 1, math.log(3 / 4), math.log(1 / 4))
    torch.testing.assert_close(weights.log_probability[0, 0], expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_causal_by_hand(kernel: Kernel) -> None:
    """Equal scores: row i spreads 1/(i+1) over what came before it."""
    output = attend(torch.zeros(3, 2), torch.zeros(3, 2), torch.eye(3), mask=causal, kernel=kernel)
    torch.testing.assert_close(output, torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_dropout_drops_or_enlarges_a_weight(kernel: Kernel) -> None:
    """Of equal weights 1/K each is dropped, or becomes 1/K/(1 - share)."""
    torch.manual_seed(0)
    size, share = 64, 0.25
    output = attend(torch.zeros(size, 2), torch.zeros(size, 2), torch.eye(size), dropout=share, kernel=kernel)
    kept = 1 / size / (1 - share)
    torch.testing.assert_close(output, torch.where(output > 0, kept, 0.0))
    dropped = (output == 0).double().mean().item()
    assert abs(dropped - share) < 4 * math.sqrt(share * (1 - share)) / size


def test_leading_dimensions() -> None:
    """None, (batch,), (batch, heads) and more give the same numbers."""
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 7, 4), torch.randn(2, 3, 5, 11, 4), torch.randn(2, 3, 5, 11, 6)
    whole = attend(query, key, value)
    assert whole.shape == (2, 3, 5, 7, 6)
    torch.testing.assert_close(attend(query[1], key[1], value[1]), whole[1])
    torch.testing.assert_close(attend(query[1, 2], key[1, 2], value[1, 2]), whole[1, 2])
    torch.testing.assert_close(attend(query[1, 2, 3], key[1, 2, 3], value[1, 2, 3]), whole[1, 2, 3])
