"""The chunked loss of the output layer against torch's own on the whole logits."""

import pytest
import torch
import torch.nn.functional as F

from saccade.kernels import vocabulary_loss as module
from saccade.kernels.vocabulary_loss import vocabulary_loss

ROWS, WIDTH, WORDS = 23, 7, 11


@pytest.fixture(autouse=True)
def chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a test are few; all the same they are taken in chunks."""
    monkeypatch.setattr(module, "SMALL_VOCABULARY", 0)


@pytest.fixture(params=[True, False], ids=["bias", "no-bias"])
def case(request: pytest.FixtureRequest) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(3)

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    targets = torch.randint(WORDS, (ROWS,), generator=draw)
    return leaf(ROWS, WIDTH), leaf(WORDS, WIDTH), leaf(WORDS) if request.param else None, targets


def gradients(loss: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.autograd.grad(3.0 * loss, leaves))


@pytest.mark.parametrize("chunk", [1, WORDS * 5, 1 << 21], ids=["a row a chunk", "5 rows a chunk", "one chunk"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torch(case, chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_NUMBERS", chunk)
    features, weight, bias, targets = case
    expected = F.cross_entropy(F.linear(features, weight, bias), targets, reduction="sum", label_smoothing=smoothing)
    found = vocabulary_loss(features, weight, bias, targets, smoothing)
    torch.testing.assert_close(found, expected)
    leaves = [tensor for tensor in (features, weight, bias) if tensor is not None]
    for ours, theirs in zip(gradients(found, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_few_words_have_the_same_loss_and_gradients(case, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [tensor for tensor in case[:3] if tensor is not None]
    chunked = vocabulary_loss(*case, 0.1)
    expected = gradients(chunked, leaves)
    monkeypatch.setattr(module, "SMALL_VOCABULARY", WORDS)
    plain = vocabulary_loss(*case, 0.1)
    torch.testing.assert_close(plain, chunked)
    for ours, theirs in zip(gradients(plain, leaves), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_large_logits_do_not_overflow(case) -> None:
    features, weight, bias, targets = case
    expected = F.cross_entropy(F.linear(1e4 * features, weight, bias), targets, reduction="sum")
    torch.testing.assert_close(vocabulary_loss(1e4 * features, weight, bias, targets), expected)


def test_without_gradient_nothing_is_kept(case) -> None:
    with torch.no_grad():
        assert not vocabulary_loss(*case).requires_grad


def test_no_rows_are_no_loss() -> None:
    weight = torch.ones(WORDS, WIDTH, requires_grad=True)
    loss = vocabulary_loss(torch.ones(0, WIDTH), weight, None, torch.zeros(0, dtype=torch.long), 0.1)
    loss.backward()
    assert loss == 0
    assert torch.equal(weight.grad, torch.zeros(WORDS, WIDTH))


def test_bf16_under_autocast_is_near(case) -> None:
    features, weight, bias, targets = (
        None if t is None else t.detach().to(torch.float32 if t.is_floating_point() else t.dtype) for t in case
    )
    features.requires_grad_()
    exact = vocabulary_loss(features, weight, bias, targets)
    with torch.autocast("cpu", torch.bfloat16):
        near = vocabulary_loss(features, weight, bias, targets)
    assert near != exact  # else autocast did not reach it
    torch.testing.assert_close(near, exact, rtol=0.02, atol=0)
    (ours,), (theirs,) = torch.autograd.grad(near, features), torch.autograd.grad(exact, features)
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)
