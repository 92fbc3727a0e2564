"""Agent-aware attention against hand-computed numbers and loops, and the invariants of networks that predict paths."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from saccade.attention import AgentAware, attend, edit, watch
from saccade.errors import ShapeError
from saccade.models.agents import (
    AgentConfig,
    AgentMLP,
    AgentMLPConfig,
    AgentTransformer,
    PathNetwork,
    _divergence,
    scene_mask,
)

B, H, N, T, D = 2, 3, 3, 4, 5
PAST, FUTURE = 5, 4
CONFIG = AgentConfig(width=12, num_heads=2, latent=3, feedforward_width=10, dropout=0.0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def test_agent_aware_score_by_hand() -> None:
    """Two agents at one moment: the diagonal uses the first halves, everything else the second halves."""
    query = torch.tensor([[1.0, 10.0], [2.0, 20.0]])[None, None]
    key = torch.tensor([[3.0, 30.0], [4.0, 40.0]])[None, None]
    found = AgentAware(2)(query, key, torch.arange(2), torch.arange(2))
    assert found[0, 0].tolist() == [[3.0, 400.0], [600.0, 8.0]]


def test_agent_aware_attention_equals_loops() -> None:
    query, key = (torch.randn(B, H, N * T, 2 * D, dtype=torch.float64) for _ in range(2))
    value = torch.randn(B, H, N * T, D, dtype=torch.float64)
    counts = torch.tensor([3, 2])
    found = attend(query, key, value, score=AgentAware(N), mask=scene_mask(N, counts, causal=True))
    for b in range(B):
        for h in range(H):
            for i in range(N * T):
                seen = [j for j in range(N * T) if j % N < counts[b] and j // N <= i // N]
                halves = [slice(0, D) if i % N == j % N else slice(D, 2 * D) for j in seen]
                scores = torch.stack(
                    [
                        query[b, h, i, half] @ key[b, h, j, half] / math.sqrt(D)
                        for j, half in zip(seen, halves, strict=True)
                    ]
                )
                expected = scores.softmax(0) @ value[b, h, seen]
                torch.testing.assert_close(found[b, h, i], expected, rtol=0, atol=1e-10)


def test_agent_aware_attention_has_right_gradients() -> None:
    parts = [torch.randn(1, 1, 4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    value = torch.randn(1, 1, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, score=AgentAware(2)), (*parts, value))


def test_equal_projections_give_plain_attention() -> None:
    half_query, half_key, value = (torch.randn(B, H, N * T, D, dtype=torch.float64) for _ in range(3))
    query, key = (torch.cat([half, half], dim=-1) for half in (half_query, half_key))
    torch.testing.assert_close(attend(query, key, value, score=AgentAware(N)), attend(half_query, half_key, value))


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ShapeError, match="two projections of equal width; got 5"):
        attend(*(torch.randn(2, 5) for _ in range(3)), score=AgentAware(2))


def randomised(network: PathNetwork) -> PathNetwork:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network.double().eval()


DIVERSE = {"diverse": 6, "turned": True}


@pytest.fixture(params=["agent_aware", "plain", "alone", "diverse", "mlp", "diverse mlp"])
def network(request: pytest.FixtureRequest) -> PathNetwork:
    more = DIVERSE if request.param.startswith("diverse") else {}
    if request.param.endswith("mlp"):
        config = AgentMLPConfig(width=12, latent=3, hidden_width=9, **more)  # type: ignore[arg-type]
        return randomised(AgentMLP(config, PAST, FUTURE))
    interaction = "agent_aware" if more else request.param
    return randomised(AgentTransformer(CONFIG.model_copy(update={"interaction": interaction} | more), PAST, FUTURE))


def paths(agents: int = N, scenes: int = 1) -> Tensor:
    return torch.randn(scenes, PAST, agents, 2, dtype=torch.float64).cumsum(dim=1)


def test_permuting_agents_permutes_their_futures(network: PathNetwork) -> None:
    past, order = paths(), torch.tensor([2, 0, 1])
    counts = torch.tensor([N])
    found = network(past, counts).drawn
    torch.testing.assert_close(network(past[:, :, order], counts).drawn, found[:, :, :, order], rtol=0, atol=1e-9)


def test_moving_the_scene_moves_the_futures(network: PathNetwork) -> None:
    past, by = paths(), torch.tensor([30.0, -7.0], dtype=torch.float64)
    counts = torch.tensor([N])
    moved = network(past + by, counts).drawn
    torch.testing.assert_close(moved, network(past, counts).drawn + by, rtol=0, atol=1e-9)


def test_padding_changes_nothing(network: PathNetwork) -> None:
    one, two = paths(2), paths(N)
    padded = torch.cat([one, torch.full((1, PAST, 1, 2), 99.0, dtype=torch.float64)], dim=2)
    together = network(torch.cat([padded, two]), torch.tensor([2, N])).drawn[0]
    torch.testing.assert_close(together[0, :, :2], network(one, torch.tensor([2])).drawn[0, 0], rtol=0, atol=1e-9)
    torch.testing.assert_close(together[1], network(two, torch.tensor([N])).drawn[0, 0], rtol=0, atol=1e-9)


def test_others_matter_only_where_agents_see_each_other(network: PathNetwork) -> None:
    past, counts = paths(), torch.tensor([N])
    other = past.clone()
    other[:, :, 2] += torch.linspace(0, 1, PAST, dtype=torch.float64)[None, :, None]
    # keep the middle of the scene where it is, which everyone is measured from
    other[:, :, 2] -= (other[:, :, 2] - past[:, :, 2]).mean(dim=1, keepdim=True)
    same = torch.allclose(network(past, counts).drawn[..., 0, :], network(other, counts).drawn[..., 0, :], atol=1e-9)
    assert same == (not isinstance(network, AgentTransformer) or network.config.interaction == "alone")


def test_an_untrained_network_walks_straight_on() -> None:
    network = AgentTransformer(CONFIG, PAST, FUTURE).eval()
    past = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).repeat(1, 1, 1)[None].expand(1, -1, -1, -1)
    past = torch.stack([torch.arange(PAST).float(), 2 * torch.arange(PAST).float()], dim=-1)[None, :, None]
    found = network(past, torch.tensor([1])).drawn[0, 0, :, 0]
    expected = torch.tensor([[PAST + t, 2.0 * (PAST + t)] for t in range(FUTURE)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_the_decoder_sees_no_later_moment() -> None:
    network = randomised(AgentTransformer(CONFIG, PAST, FUTURE))
    with watch(network) as seen:
        network(paths(), torch.tensor([N]))
    weights = seen["decoder.1.self"].tile(slice(None), slice(None), head=0, batch=0)
    moment = torch.arange(FUTURE * N) // N
    assert bool((weights[moment[:, None] < moment[None, :]] == 0).all())
    assert bool((weights[moment[:, None] == moment[None, :]] > 0).all())  # everyone of the same moment is seen
    part = seen["decoder.1.self"].tile(slice(4, 9), slice(1, 7), head=0, batch=0)
    torch.testing.assert_close(part, weights[4:9, 1:7])


def test_heads_can_be_switched_off() -> None:
    network = randomised(AgentTransformer(CONFIG, PAST, FUTURE))
    past, counts = paths(), torch.tensor([N])
    plain = network(past, counts).drawn
    with edit(network, without_heads=["encoder.0.self:1"]):
        changed = network(past, counts).drawn
    assert not torch.allclose(plain, changed)
    with torch.no_grad():
        network.encoder[0].self.output.weight[:, 6:] = 0  # type: ignore[union-attr, index]
    torch.testing.assert_close(network(past, counts).drawn, changed, rtol=0, atol=1e-9)


def test_the_divergence_by_hand() -> None:
    zero, one = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    assert _divergence(zero, zero, zero, zero).item() == 0
    assert _divergence(one, zero, zero, zero).item() == pytest.approx(0.5)
    deviation = torch.full((1, 1, 1), math.log(2))
    assert _divergence(zero, deviation, zero, zero).item() == pytest.approx(0.5 * (4 - 1) - math.log(2))


def test_drawn_futures_differ(network: PathNetwork) -> None:
    found = network(paths(scenes=2), torch.tensor([N, N]), 6)
    assert found.drawn.shape == (6, 2, FUTURE, N, 2)
    assert not torch.allclose(found.drawn[0], found.drawn[1])


def test_diverse_futures_are_predicted_and_further_ones_sampled() -> None:
    network = randomised(AgentMLP(AgentMLPConfig(width=12, latent=3, hidden_width=9, diverse=6), PAST, FUTURE))
    past, counts = paths(), torch.tensor([N])
    every = network(past, counts, 6).drawn
    assert torch.equal(network(past, counts, 6).drawn, every)  # nothing is random
    more = network(past, counts, 8).drawn
    torch.testing.assert_close(more[:6], every)
    assert not torch.allclose(network(past, counts, 8).drawn[6:], more[6:])
    for one in network(past, counts, 4).drawn:
        assert any(torch.allclose(one, other) for other in every)


def test_turning_an_agent_turns_its_path() -> None:
    network = randomised(AgentMLP(AgentMLPConfig(width=12, latent=3, hidden_width=9, **DIVERSE), PAST, FUTURE))  # type: ignore[arg-type]
    past, counts = paths(), torch.tensor([N])
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    turned = network(past @ turn.T, counts, 6).drawn
    torch.testing.assert_close(turned, network(past, counts, 6).drawn @ turn.T, rtol=0, atol=1e-9)
    still = past.clone()
    still[:, -1] = still[:, -2]
    assert bool(network(still, counts, 6).drawn.isfinite().all())


def test_diverse_futures_need_a_latent_vector() -> None:
    with pytest.raises(ValueError, match="diverse = 5 futures need a latent vector, but latent = 0"):
        AgentConfig(latent=0, diverse=5)


def test_training_gets_the_best_future_of_each_agent_and_a_reconstruction(network: PathNetwork) -> None:
    past, future = paths(scenes=2), torch.randn(2, FUTURE, N, 2, dtype=torch.float64)
    counts = torch.tensor([N, N])
    found = network(past, counts, 6, future)
    assert found.drawn.shape == (1, 2, FUTURE, N, 2)
    assert found.likely is not None
    torch.testing.assert_close(found.likely, network(past, counts).drawn[0])
    assert found.reconstructed is not None
    assert found.reconstructed.shape == future.shape
    assert found.divergence is not None
    assert bool((found.divergence > 0).all())
    if isinstance(network, AgentMLP):
        torch.manual_seed(3)  # it predicts from an agent's own past, by which the best future is chosen
        best = network(past, counts, 6, future).drawn[0]
        torch.manual_seed(3)
        every = network(past, counts, 6).drawn
        chosen = (every - future).norm(dim=-1).sum(dim=2).argmin(dim=0)
        expected = every.gather(0, chosen[None, :, None, :, None].expand(1, -1, FUTURE, -1, 2))[0]
        torch.testing.assert_close(best, expected, rtol=0, atol=1e-9)
