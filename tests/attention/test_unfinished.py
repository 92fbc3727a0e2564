"""A forward pass that does not finish: it has no rollout, says what it is, and replaces no complete one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from test_never_wrong import Attends
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

import saccade
from saccade.errors import OptionError

ERRORS = [ValueError, KeyboardInterrupt, SystemExit]
REST = "the rest of the forward pass"


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attends(), Attends()
        self.between: Callable[[Tensor], Tensor] = lambda x: x

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self.first(x)))


def failing(error: type[BaseException]) -> Callable[[Tensor], Tensor]:
    def fail(x: Tensor) -> Tensor:
        raise error

    return fail


def run(model: Chain, length: int, error: type[BaseException] | None = None) -> None:
    model.between = failing(error) if error else lambda x: x
    with contextlib.suppress(ValueError, KeyboardInterrupt, SystemExit):
        model(torch.randn(1, length, 12))


@torch.no_grad()
@pytest.mark.parametrize("error", ERRORS)
def test_what_an_error_ended_says_so_and_has_no_rollout(error: type[BaseException]) -> None:
    model = Chain().eval()
    with saccade.watch(model) as seen:
        run(model, 5, error)
    assert list(seen) == ["first"]
    assert seen.refused == {REST: "the forward pass ended with an error before it was finished"}
    with pytest.raises(OptionError, match=f"no rollout of first: it would leave out {REST}"):
        saccade.view(seen).rollout()


@torch.no_grad()
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_complete_pass_is_not_replaced(error: type[BaseException], is_inside: bool) -> None:
    model = Chain().eval()
    seen = saccade.watch(model)
    try:
        with seen:
            run(model, 5)
            if is_inside:
                run(model, 4, error)
            else:
                model.between = failing(error)
                model(torch.randn(1, 4, 12))
    except (ValueError, KeyboardInterrupt, SystemExit):
        assert not is_inside
    assert {name: trace.shape[2] for name, trace in seen.items()} == {"first": 5, "second": 5}
    assert "a later forward pass ended with an error" in str(seen.coverage)
    assert saccade.view(seen).rollout().shape == (5, 5)


@torch.no_grad()
@pytest.mark.parametrize("error", ERRORS)
def test_a_complete_pass_replaces_an_unfinished_one(error: type[BaseException]) -> None:
    model = Chain().eval()
    with saccade.watch(model) as seen:
        run(model, 5, error)
        run(model, 4, error)
        run(model, 6)
        assert seen.coverage.is_complete
        assert saccade.view(seen).rollout().shape == (6, 6)
    assert {name: trace.shape[2] for name, trace in seen.items()} == {"first": 6, "second": 6}
    assert seen.coverage.is_complete


@torch.no_grad()
def test_a_pass_that_is_still_running_has_no_rollout() -> None:
    model, found = Chain().eval(), []

    def look(x: Tensor) -> Tensor:
        found.append((dict(seen.refused), saccade.view(seen).stacks))
        return x

    with saccade.watch(model) as seen:
        model.between = look
        model(torch.randn(1, 5, 12))
        assert saccade.view(seen).rollout().shape == (5, 5)
    assert found == [({REST: "the forward pass is still running"}, {})]


@torch.no_grad()
def test_a_step_that_fails_leaves_the_steps_before_it() -> None:
    config = GPT2Config(n_embd=12, n_layer=2, n_head=3, vocab_size=31, eos_token_id=None, pad_token_id=0)
    model, steps = GPT2LMHeadModel(config).eval(), []

    def fail_at_the_fifth(module: nn.Module, given: tuple[Tensor]) -> None:
        steps.append(given)
        if len(steps) == 5:
            raise ValueError

    model.transformer.h[1].attn.c_proj.register_forward_pre_hook(fail_at_the_fifth)
    with saccade.watch(model) as seen, pytest.raises(ValueError, match=r"^$"):
        model.generate(torch.arange(1, 8)[None], max_new_tokens=9, do_sample=False)
    assert [trace.shape for trace in seen.values()] == [(1, 3, 10, 10)] * 2
    assert "ended with an error" in str(seen.coverage)
