"""Predict the paths of several agents with AgentFormer's attention, which tells agents apart (Yuan 2021).

A scene of N agents is one sequence: all agents at the first time step, then all at the second, and so on. Attention
treats an agent's own tokens differently from those of others, and the order of the agents does not matter. Each agent's
latent vector decides which possible future is predicted. Shapes: B scenes, N agents, P past and F future time steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import attend
from saccade.attention.masks import Mask, rule
from saccade.attention.positions import Sinusoidal
from saccade.attention.scores import AgentAware, ScaledDot, Score
from saccade.errors import ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.layers import FeedForward

__all__ = ["AgentConfig", "AgentMLP", "AgentMLPConfig", "AgentTransformer", "Futures", "scene_mask"]

Interaction = Literal["agent_aware", "plain", "alone"]


class PathConfig(Config):
    """The settings of every network that predicts paths."""

    width: int = Field(64, ge=2, description="Width of the vector of a token")
    latent: int = Field(
        16, ge=0, description="Width of each agent's latent vector; with 0, a single future is predicted"
    )
    hidden_width: int = Field(
        256, ge=1, description="Width of the hidden layers that predict a path from the agent's own past"
    )
    diverse: int = Field(
        0,
        ge=0,
        le=1000,
        description="Number of futures that are trained to differ from each other; with 0, all are sampled at random",
    )
    turned: bool = Field(
        False,
        description="Whether an agent's own past is read relative to the direction that it moves in",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Fraction of values dropped in training")

    @model_validator(mode="after")
    def _latent_differs(self) -> Self:
        if self.diverse and not self.latent:
            raise ValueError(f"diverse = {self.diverse} futures need a latent vector, but latent = 0")
        return self


class AgentConfig(PathConfig):
    """A Transformer over all agents and time steps of a scene."""

    num_heads: int = Field(4, ge=1, description="Number of attention heads")
    encoder_layers: int = Field(2, ge=1, description="Number of blocks that read the past")
    decoder_layers: int = Field(2, ge=1, description="Number of blocks that predict the future")
    feedforward_width: int = Field(128, ge=1, description="Hidden width of the feed-forward layers")
    interaction: Interaction = Field(
        "agent_aware",
        description="How agents attend to each other: agent_aware, plain (the same attention for all agents) or "
        "alone (no attention between agents)",
    )

    @model_validator(mode="after")
    def _consistent(self) -> AgentConfig:
        if self.width % self.num_heads:
            raise ValueError(f"num_heads = {self.num_heads} must divide width = {self.width}")
        return self


class AgentMLPConfig(PathConfig):
    """A network that sees each agent alone, without attention: the baseline for attention between agents."""

    unused = frozenset({"dropout"})


class Futures(NamedTuple):
    """Predicted paths, as positions; in training also the divergence of the two distributions of latent vectors."""

    drawn: Float[Tensor, "K B F N 2"]  # one future for each of K latent vectors from the prior, or the best one
    likely: Float[Tensor, "B F N 2"] | None = None  # from the mean of the prior
    reconstructed: Float[Tensor, "B F N 2"] | None = None  # from the posterior, which has seen the future
    divergence: Float[Tensor, "B N"] | None = None  # of the posterior from the prior, in nats


def scene_mask(num_agents: int, counts: Int[Tensor, " B"], *, causal: bool = False, alone: bool = False) -> Mask | None:
    """Return a mask by which tokens attend only to agents that are present; if ``causal``, not to later time steps; if
    ``alone``, not to other agents. Return None if every token may attend to every token."""
    padded = bool((counts < num_agents).any())
    if not (padded or causal or alone):
        return None

    def allowed(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        seen = column % num_agents < counts.to(column.device)[batch] if padded else torch.ones_like(column).bool()
        if causal:
            seen = seen & (column // num_agents <= row // num_agents)
        if alone:
            seen = seen & (column % num_agents == row % num_agents)
        return seen

    return rule(allowed)


class AgentAttention(nn.Module):
    """Attention over all agents and time steps; if agent-aware, with separate queries and keys for the own agent."""

    attends = True

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.num_heads, self.aware = config.num_heads, config.interaction == "agent_aware"
        both = 2 if self.aware else 1
        self.query = nn.Linear(config.width, both * config.width)
        self.key = nn.Linear(config.width, both * config.width)
        self.value = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(
        self, x: Float[Tensor, "B Q D"], source: Float[Tensor, "B K D"], num_agents: int, mask: Mask | None
    ) -> Float[Tensor, "B Q D"]:
        score: Score = AgentAware(num_agents) if self.aware else ScaledDot()
        query, key, value = self._split(self.query(x)), self._split(self.key(source)), self._split(self.value(source))
        attended = attend(query, key, value, score=score, mask=mask, owner=self)
        joined: Tensor = self.output(attended.transpose(1, 2).flatten(-2))
        return joined

    def _split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T d"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)


class AgentBlock(nn.Module):
    """Self-attention, in the decoder also cross-attention to the past, and a feed-forward layer, each after a norm."""

    def __init__(self, config: AgentConfig, *, crosses: bool) -> None:
        super().__init__()
        self.share = config.dropout
        self.self_norm, self.self = nn.LayerNorm(config.width), AgentAttention(config)
        self.cross_norm = nn.LayerNorm(config.width) if crosses else None
        self.cross = AgentAttention(config) if crosses else None
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.feedforward = FeedForward(config.width, config.feedforward_width, "relu")

    def forward(
        self,
        x: Tensor,
        num_agents: int,
        mask: Mask | None,
        source: Tensor | None = None,
        source_mask: Mask | None = None,
    ) -> Tensor:
        normed = self.self_norm(x)
        x = x + dropout(self.self(normed, normed, num_agents, mask), self.share, self.training)
        if self.cross is not None and self.cross_norm is not None:
            assert source is not None
            # All futures of a scene are queries to the same past, so that its keys and values are computed once.
            scenes, (_, tokens, width) = len(source), x.shape
            normed = self.cross_norm(x).view(-1, scenes, tokens, width).transpose(0, 1).reshape(scenes, -1, width)
            seen = self.cross(normed, source, num_agents, source_mask).view(scenes, -1, tokens, width).transpose(0, 1)
            x = x + dropout(seen.reshape_as(x), self.share, self.training)
        return x + dropout(self.feedforward(self.feedforward_norm(x)), self.share, self.training)


class OwnPath(nn.Module):
    """Predicts an agent's path from its own past alone, relative to its last position. If ``turned``, the path is also
    relative to the direction in which the agent last moved."""

    def __init__(self, config: PathConfig, past: int, future: int) -> None:
        super().__init__()
        hidden, self.future, self.turned = config.hidden_width, future, config.turned
        self.reader = nn.Sequential(nn.Linear(4 * past, hidden), nn.ReLU(), nn.Linear(hidden, config.width))
        self.writer = nn.Sequential(
            nn.Linear(config.width + config.latent, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            _zero(nn.Linear(hidden, 2 * future)),
        )

    def read(self, past: Float[Tensor, "B P N 2"]) -> Float[Tensor, "B N D"]:
        seen = torch.cat([self.inward(past - past[:, -1:], past), self.inward(_velocities(past), past)], dim=-1)
        summary: Tensor = self.reader(seen.permute(0, 2, 1, 3).flatten(-2))
        return summary

    def write(
        self, summary: Float[Tensor, "B N D"], latents: Float[Tensor, "K B N Z"], past: Float[Tensor, "B P N 2"]
    ) -> Float[Tensor, "K B F N 2"]:
        repeated = summary.expand(len(latents), -1, -1, -1)
        predicted: Tensor = self.writer(torch.cat([repeated, latents], dim=-1))
        steps = predicted.view(*predicted.shape[:3], self.future, 2).transpose(2, 3)
        return _turn(steps, _directions(past)) if self.turned else steps

    def inward(self, steps: Float[Tensor, "B T N 2"], past: Float[Tensor, "B P N 2"]) -> Float[Tensor, "B T N 2"]:
        """If ``turned``, return the steps rotated so that the first axis is the direction in which the agent moves."""
        return _turn(steps, _directions(past) * past.new_tensor([1.0, -1.0])) if self.turned else steps


class PathNetwork(nn.Module, ABC):
    """A conditional variational autoencoder of paths, with one latent vector for each agent.

    The prior of the latent vectors is predicted from the past, and in training the posterior from past and future. The
    network predicts how a path differs from one that keeps the last observed velocity.
    """

    config: PathConfig

    def __init__(self, config: PathConfig, past: int, future: int) -> None:
        super().__init__()
        self.past, self.future = past, future  # observed and predicted moments
        self.own = OwnPath(config, past, future)
        if config.latent:
            self.prior = nn.Linear(config.width, 2 * config.latent)
            if config.diverse:
                self.sampler = nn.Linear(config.width, config.diverse * config.latent)
            self.posterior = nn.Sequential(
                nn.Linear(config.width + 2 * future, 2 * config.width),
                nn.ReLU(),
                nn.Linear(2 * config.width, 2 * config.latent),
            )

    @abstractmethod
    def encode(
        self, past: Float[Tensor, "B P N 2"], counts: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B N D"], Tensor]:
        """Return a vector that summarises each agent, and the encoded past, which ``decode`` takes as ``context``."""

    @abstractmethod
    def decode(
        self,
        summary: Float[Tensor, "B N D"],
        context: Tensor,
        past: Float[Tensor, "B P N 2"],
        latents: Float[Tensor, "K B N Z"],
        counts: Int[Tensor, " B"],
    ) -> Float[Tensor, "K B F N 2"]:
        """Return how each path differs from one that keeps its last velocity, for K latent vectors of each agent."""

    def forward(
        self,
        past: Float[Tensor, "B P N 2"],
        counts: Int[Tensor, " B"],
        samples: int = 0,
        future: Float[Tensor, "B F N 2"] | None = None,
    ) -> Futures:
        """Predict ``samples`` futures with latent vectors from the prior; if 0, only the most likely future.

        In scene b, agents from counts[b] on are padding. If the true ``future`` is given, as in training, each agent
        gets the one of its latent vectors whose prediction from its own past comes closest to the true path. One future
        is predicted from these vectors: the loss is that of the best sample, so the others need no gradient.
        """
        if past.ndim != 4 or past.shape[1] != self.past or past.shape[-1] != 2:
            raise ShapeError(
                f"This model takes paths of shape (scenes, {self.past} time steps, agents, 2); got {tuple(past.shape)}."
            )
        centre = _centre(past, counts)
        past = past - centre
        summary, context = self.encode(past, counts)
        straight = _straight(past, self.future)
        if not self.config.latent:
            found = straight + self.decode(summary, context, past, summary[None, ..., :0], counts) + centre
            return Futures(found.expand(max(1, samples), *found.shape[1:]))
        mean, log_deviation = self.prior(summary).chunk(2, dim=-1)
        latents = self._latents(summary, mean, log_deviation, samples)
        if future is None:
            return Futures(straight + self.decode(summary, context, past, latents, counts) + centre)
        differs = future - centre - straight
        with torch.no_grad():
            apart = (self.own.write(summary, latents, past) - differs).norm(dim=-1).sum(dim=2)
        best = latents.gather(0, apart.argmin(dim=0)[None, :, :, None].expand(-1, -1, -1, latents.shape[-1]))
        seen = torch.cat([summary, self.own.inward(differs, past).permute(0, 2, 1, 3).flatten(-2)], dim=-1)
        there_mean, there_log = self.posterior(seen).chunk(2, dim=-1)
        there = there_mean + torch.randn_like(there_mean) * there_log.exp()
        drawn = self.decode(summary, context, past, torch.cat([best, mean[None], there[None]]), counts)
        paths = straight + drawn + centre
        return Futures(paths[:1], paths[1], paths[2], _divergence(there_mean, there_log, mean, log_deviation))

    def _latents(
        self, summary: Float[Tensor, "B N D"], mean: Float[Tensor, "B N Z"], log_deviation: Tensor, samples: int
    ) -> Float[Tensor, "K B N Z"]:
        """Return the latent vectors of ``samples`` futures, or the mean of the prior if 0.

        With ``diverse``, a layer predicts vectors that are trained to differ (Yuan and Kitani 2020). If fewer are
        wanted, some of them are chosen at random; if more, the rest are sampled from the prior.
        """
        if not samples:
            return mean[None]
        predicted = mean.new_zeros(0, *mean.shape)
        if self.config.diverse:
            every = self.sampler(summary).unflatten(-1, (self.config.diverse, -1)).movedim(-2, 0)
            predicted = every[torch.randperm(len(every))[:samples]] if samples < len(every) else every
        noise = torch.randn(samples - len(predicted), *mean.shape, device=mean.device, dtype=mean.dtype)
        return torch.cat([predicted, mean + noise * log_deviation.exp()])


class AgentTransformer(PathNetwork):
    """Reads the past of all agents at once, then predicts all future time steps at once; none sees a later one."""

    config: AgentConfig

    def __init__(self, config: AgentConfig, past: int, future: int) -> None:
        super().__init__(config, past, future)
        self.config = config
        self.past_input = nn.Linear(4, config.width)
        self.future_input = nn.Linear(4 + config.width + config.latent, config.width)
        self.times = Sinusoidal(config.width)
        self.past_time, self.future_time = (nn.Linear(2 * config.width, config.width) for _ in range(2))
        self.encoder = nn.ModuleList(AgentBlock(config, crosses=False) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(AgentBlock(config, crosses=True) for _ in range(config.decoder_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.output = _zero(nn.Linear(config.width, 2))

    def encode(self, past: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        agents = past.shape[2]
        x = self._timed(self.past_input(torch.cat([past, _velocities(past)], dim=-1)), self.past_time)
        mask = scene_mask(agents, counts, alone=self.config.interaction == "alone")
        for block in self.encoder:
            x = block(x, agents, mask)
        context: Tensor = self.encoder_norm(x)
        return self.own.read(past) + context.view(len(past), -1, agents, context.shape[-1]).mean(dim=1), context

    def decode(self, summary: Tensor, context: Tensor, past: Tensor, latents: Tensor, counts: Tensor) -> Tensor:
        agents, moments, count = past.shape[2], self.future, len(latents)
        now = torch.cat([past[:, -1], past[:, -1] - past[:, -2], summary], dim=-1).expand(count, -1, -1, -1)
        started = self.future_input(torch.cat([now, latents], dim=-1)).flatten(0, 1)
        x = self._timed(started[:, None].expand(-1, moments, -1, -1), self.future_time)
        alone = self.config.interaction == "alone"
        mask = scene_mask(agents, counts.repeat(count), causal=True, alone=alone)
        source_mask = scene_mask(agents, counts, alone=alone)
        for block in self.decoder:
            x = block(x, agents, mask, context, source_mask)
        predicted: Tensor = self.output(self.decoder_norm(x))
        return self.own.write(summary, latents, past) + predicted.view(count, len(past), moments, agents, 2)

    def _timed(self, x: Float[Tensor, "B T N D"], layer: nn.Module) -> Float[Tensor, "B TN D"]:
        """Concatenate each token with the encoding of its time step, which is the same for all agents."""
        times = self.times.table(0, x.shape[1]).to(x.dtype)[:, None].expand_as(x)
        timed: Tensor = layer(torch.cat([x, times], dim=-1))
        return timed.flatten(1, 2)


class AgentMLP(PathNetwork):
    """Predicts each agent's path from its own past and nothing else."""

    config: AgentMLPConfig

    def __init__(self, config: AgentMLPConfig, past: int, future: int) -> None:
        super().__init__(config, past, future)
        self.config = config

    def encode(self, past: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        summary = self.own.read(past)
        return summary, summary

    def decode(self, summary: Tensor, context: Tensor, past: Tensor, latents: Tensor, counts: Tensor) -> Tensor:
        return self.own.write(summary, latents, past)


def _centre(past: Float[Tensor, "B P N 2"], counts: Int[Tensor, " B"]) -> Float[Tensor, "B 1 1 2"]:
    """The mean of all observed positions of the agents that are present."""
    real = (torch.arange(past.shape[2], device=past.device) < counts.to(past.device)[:, None])[:, None, :, None]
    total = (past * real).sum(dim=(1, 2), keepdim=True)
    return total / (counts.to(past)[:, None, None, None].clamp(min=1) * past.shape[1])


def _velocities(past: Float[Tensor, "B P N 2"]) -> Float[Tensor, "B P N 2"]:
    """The step that leads to each position; the first is copied from the second."""
    steps = past[:, 1:] - past[:, :-1]
    return torch.cat([steps[:, :1], steps], dim=1)


def _straight(past: Float[Tensor, "B P N 2"], moments: int) -> Float[Tensor, "B F N 2"]:
    """Continue each path at the last observed velocity."""
    times = torch.arange(1, moments + 1, device=past.device, dtype=past.dtype)[None, :, None, None]
    return past[:, -1:] + times * (past[:, -1:] - past[:, -2:-1])


def _directions(past: Float[Tensor, "B P N 2"]) -> Float[Tensor, "B 1 N 2"]:
    """The direction of each agent's last observed step, as a vector of length 1; the first axis if it stands still."""
    last = past[:, -1:] - past[:, -2:-1]
    length = last.norm(dim=-1, keepdim=True)
    return torch.where(length > 1e-6, last / length.clamp(min=1e-6), past.new_tensor([1.0, 0.0]))


def _turn(steps: Float[Tensor, "*K B T N 2"], direction: Float[Tensor, "B 1 N 2"]) -> Float[Tensor, "*K B T N 2"]:
    """Turn steps so that the first axis becomes the given direction: a product of complex numbers."""
    (x, y), (along, across) = steps.unbind(-1), direction.unbind(-1)
    return torch.stack([along * x - across * y, across * x + along * y], dim=-1)


def _divergence(mean: Tensor, log_deviation: Tensor, prior_mean: Tensor, prior_log: Tensor) -> Float[Tensor, "B N"]:
    """The Kullback-Leibler divergence of one normal distribution from another, in nats, summed over the last axis."""
    ratio = ((log_deviation - prior_log) * 2).exp()
    apart = ((mean - prior_mean) * (-prior_log).exp()).square()
    return 0.5 * (ratio + apart - 1 - 2 * (log_deviation - prior_log)).sum(-1)


def _zero(layer: nn.Linear) -> nn.Linear:
    """Set the layer to zero, so that an untrained network predicts constant velocity."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
