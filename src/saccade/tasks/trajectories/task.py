"""Trajectories: predict several possible futures for the paths of all agents in a scene."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.tracks import Scene
from saccade.models import Config
from saccade.models.agents import AgentConfig, AgentMLP, AgentMLPConfig, AgentTransformer
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Evaluation,
    Loss,
    Network,
    Probe,
    ReadFile,
    Task,
    TaskState,
    device_of,
)

__all__ = ["SamplingOptions", "Trajectories", "TrajectoriesState"]

#: The maximum number of agents in a training scene; if there are more, some are chosen at random.
MOST_TRAINED = 32
#: A path that ends further than this from the truth, in the units of the data, counts as missed.
MISS_DISTANCE = 2.0
#: Two agents that come closer than this collide.
COLLISION_DISTANCE = 0.1
#: For the varied constant-velocity baseline: the standard deviations of the angle and of the logarithm of the speed.
ANGLE_DEVIATION, SPEED_DEVIATION = math.radians(25), 0.3


class TrajectoriesTraining(TrainingSettings):
    """How the model is trained; the size of a batch is in paths."""

    batch_key = "batch_paths"

    batch_paths: int = Field(64, ge=1, description="Paths in a batch, padding included")
    samples: int = Field(
        20, ge=1, le=1000, description="Futures predicted for each scene in training; the loss uses the best of them"
    )
    squared: bool = Field(False, description="Whether the losses are squared distances, so large errors count more")
    likely: float = Field(0.3, ge=0, description="Weight of the most likely future's distance to the true one")
    reconstruction: float = Field(0.3, ge=0, description="Weight of reconstructing the future from the posterior")
    divergence: float = Field(0.3, ge=0, description="Weight of the posterior's divergence from the prior")
    free_nats: float = Field(2.0, ge=0, description="Divergence per agent up to which there is no penalty")
    rotate: bool = Field(True, description="Whether each scene is turned by a random angle")
    validation_sample: int = Field(
        300, ge=1, description="Number of windows that each validation scores; they are always the same"
    )


class SamplingOptions(Config):
    """How futures are sampled."""

    samples: int = Field(20, ge=1, le=1000, description="Number of futures to sample for each scene")
    seed: int = Field(1, ge=0, lt=2**32, description="Random seed for sampling")


@dataclass(frozen=True)
class TrajectoriesBatch(Batch):
    """Scenes padded to the same number of agents, with positions in the network's unit of length."""

    on_cpu = ("counts",)

    past: Float[Tensor, "B P N 2"]
    future: Float[Tensor, "B F N 2"]
    counts: Int[Tensor, " B"]  # agents in each scene
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.counts.sum())


class Prediction(NamedTuple):
    """The most likely future of one scene, and futures drawn at random, in the units of the data."""

    likely: Float[np.ndarray, "F N 2"]
    drawn: Float[np.ndarray, "K F N 2"]


@dataclass(frozen=True)
class TrajectoriesState(TaskState):
    """The unit of length in which the network computes, and how many time steps it observes and predicts."""

    scale: float
    past: int  # observed moments
    future: int  # predicted moments

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Scene], tokenizer: Any = None) -> Self:
        steps = np.concatenate([np.diff(one.positions, axis=0).reshape(-1, 2) for one in train])
        typical = float(np.sqrt(np.square(steps).sum(-1).mean()))
        # With the distance covered in a few time steps as the unit, the network sees numbers close to 1.
        return cls(max(4 * typical, 1e-6), train[0].past, len(train[0].positions) - train[0].past)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(float(description["scale"]), int(description["past"]), int(description["future"]))

    def description(self) -> dict[str, Any]:
        return {"scale": self.scale, "past": self.past, "future": self.future}


class Trajectories(Task):
    """Trains with a weighted sum of four losses: the distance from the true future of the best of several sampled
    futures, of the most likely future, and of a reconstruction from the posterior of the latent variable, and the
    divergence of this posterior from the prior."""

    name = "trajectories"
    about = "predicts where several agents will go"
    metrics = ("best_ade", "best_fde", "ade", "fde", "loss")
    losses = metrics
    state_class = TrajectoriesState
    tables: ClassVar = {"decoding": SamplingOptions, "training": TrajectoriesTraining}
    networks: ClassVar = {
        "agents": Network(AgentConfig, lambda config, state: AgentTransformer(config, state.past, state.future)),
        "mlp": Network(AgentMLPConfig, lambda config, state: AgentMLP(config, state.past, state.future)),
    }

    state: TrajectoriesState
    training: TrajectoriesTraining

    def encode(self, examples: Sequence[Scene]) -> list[Scene]:
        return list(examples)

    def lengths(self, examples: Sequence[Scene]) -> Int[np.ndarray, "n 1"]:
        return np.array([[min(len(one.agents), MOST_TRAINED)] for one in examples], dtype=np.int64)

    def batch(self, examples: Sequence[Scene]) -> TrajectoriesBatch:
        """Return a batch of scenes to train on, each rotated by a random angle and with at most 32 agents; if a scene
        has more, 32 are chosen at random."""
        chosen = []
        for one in examples:
            positions = self._centred(one)
            if positions.shape[1] > MOST_TRAINED:
                positions = positions[:, torch.randperm(positions.shape[1])[:MOST_TRAINED]]
            if self.training.rotate:
                angle = float(torch.rand(())) * 2 * math.pi
                turn = torch.tensor(
                    [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=positions.dtype
                )
                positions = positions @ turn.T
            chosen.append(positions)
        return self._batch(chosen, examples)

    def plain_batch(self, examples: Sequence[Scene]) -> TrajectoriesBatch:
        return self._batch([self._centred(one) for one in examples], examples)

    def _centred(self, window: Scene) -> Float[Tensor, "T N 2"]:
        """Return positions relative to the middle of the observed positions, in float64 because map coordinates are
        large."""
        positions = torch.from_numpy(window.positions)
        return positions - positions[: self.state.past].mean(dim=(0, 1))

    def _batch(self, scenes: Sequence[Float[Tensor, "T N 2"]], examples: Sequence[Scene]) -> TrajectoriesBatch:
        counts, past = torch.tensor([scene.shape[1] for scene in scenes]), self.state.past
        padded = torch.zeros(len(scenes), len(scenes[0]), int(counts.max()), 2)
        for row, scene in enumerate(scenes):
            padded[row, :, : scene.shape[1]] = scene / self.state.scale
        return TrajectoriesBatch(padded[:, :past], padded[:, past:], counts, [one.line for one in examples])

    def loss(self, model: nn.Module, batch: TrajectoriesBatch) -> Loss:
        samples = self.training.samples if model.training else self.settings["decoding"].samples
        found = model(batch.past, batch.counts, samples, batch.future)
        agents = torch.arange(batch.past.shape[2], device=batch.counts.device)
        real = (agents < batch.counts[:, None]).to(batch.past.device)
        squared = self.training.squared
        total = (_apart(found.drawn, batch.future, squared).amin(dim=0) * real).sum()
        if found.likely is not None and found.reconstructed is not None and model.training:
            weights = self.training
            each = _apart(torch.stack([found.likely, found.reconstructed]), batch.future, squared)
            nats = found.divergence.clamp(min=weights.free_nats)
            others = weights.likely * each[0] + weights.reconstruction * each[1] + weights.divergence * nats
            total = total + (others * real).sum()
        return Loss(total, batch.count)

    @torch.inference_mode()
    def predicted(self, model: nn.Module, window: Scene, options: SamplingOptions) -> Prediction:
        """Return the most likely future of a scene, and ``options.samples`` futures drawn at random."""
        past = torch.from_numpy(window.positions[: self.state.past])
        centre = past.mean(dim=(0, 1))
        scaled = ((past - centre) / self.state.scale).float()[None].to(device_of(model))
        counts = torch.tensor([len(window.agents)])
        with torch.random.fork_rng():
            torch.manual_seed(options.seed)
            drawn = model(scaled, counts, options.samples).drawn[:, 0]
        likely = model(scaled, counts).drawn[0, 0]
        found = [(one.cpu().double() * self.state.scale + centre).numpy() for one in (likely, drawn)]
        return Prediction(found[0], found[1])

    def validate(
        self, model: nn.Module, examples: Sequence[Scene], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(self.settings["decoding"].seed)
            loss = self.mean_loss(model, examples, self.training.batch_size, check_cancelled)
        return {"loss": loss, **self._scores(model, examples, self.settings["decoding"], check_cancelled)}

    def _scores(
        self, model: nn.Module, examples: Sequence[Scene], options: SamplingOptions, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        return _summary(self._predictions(model, examples, options, check_cancelled), examples)

    def _predictions(
        self, model: nn.Module, examples: Sequence[Scene], options: SamplingOptions, check_cancelled: CheckCancelled
    ) -> list[Prediction]:
        found = []
        for window in examples:
            check_cancelled()
            found.append(self.predicted(model, window, options))
        return found

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Scene],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        """Return the scores of the model, and lines that compare them with a baseline in which each agent keeps its
        velocity, and with the model's own scores on windows with at least two agents."""
        options = options or self.settings["decoding"]
        predictions = self._predictions(model, examples, options, check_cancelled)
        scores = _summary(predictions, examples)
        straight = [walk_straight(window, self.state.future)[None] for window in examples]
        varied = [walk_varied(window, self.state.future, options) for window in examples]
        lines = [f"{'method':46} {'ADE':>8} {'FDE':>8}"]
        named = (
            ("this model, most likely", {"ade": scores["ade"], "fde": scores["fde"]}),
            (f"this model, best of {options.samples}", {"ade": scores["best_ade"], "fde": scores["best_fde"]}),
            ("constant velocity", distances(straight, examples)),
            (f"constant velocity, varied, best of {options.samples}", distances(varied, examples)),
        )
        lines += [f"{name:46} {found['ade']:8.3f} {found['fde']:8.3f}" for name, found in named]
        together = [number for number, window in enumerate(examples) if len(window.agents) >= 2]
        if together and len(together) < len(examples):
            only = _summary([predictions[number] for number in together], [examples[number] for number in together])
            lines.append(
                f"{f'this model, best of {options.samples}, windows of 2 or more agents':46} {only['best_ade']:8.3f} "
                f"{only['best_fde']:8.3f}"
            )
        return Evaluation(scores, lines=lines)

    def probe(self, model: nn.Module, example: Scene) -> Probe:
        likely, _ = self.predicted(model, example, SamplingOptions(samples=1))
        ends = [f"({x:.2f}, {y:.2f})" for x, y in likely[-1]]
        return Probe([f"agent {name}" for name in example.agents], ends, " ".join(ends), [])

    def facts(self) -> list[str]:
        return [
            f"{self.state.past} observed and {self.state.future} predicted time steps",
            "ADE and FDE: the mean and the final distance to the truth, in the units of the data",
            "best_ade and best_fde: the same for the best of several sampled futures of each agent",
        ]


def _apart(
    paths: Float[Tensor, "K B F N 2"], future: Float[Tensor, "B F N 2"], squared: bool
) -> Float[Tensor, "K B N"]:
    """Return the distances or their squares, summed over the time steps."""
    squares = (paths - future).square().sum(-1)
    # A small number keeps the gradient of a distance of 0 finite.
    return (squares if squared else (squares + 1e-6).sqrt()).sum(-2)


def _summary(predictions: Sequence[Prediction], examples: Sequence[Scene]) -> dict[str, float]:
    single = distances([found.likely[None] for found in predictions], examples)
    best = distances([found.drawn for found in predictions], examples)
    return {
        "best_ade": best["ade"],
        "best_fde": best["fde"],
        "ade": single["ade"],
        "fde": single["fde"],
        "missed": best["missed"],
        "collisions": single["collisions"],
    }


def walk_straight(window: Scene, moments: int) -> Float[np.ndarray, "F N 2"]:
    """Return the paths on which each agent keeps its last observed velocity."""
    past = window.positions[: window.past].astype(np.float64)
    times = np.arange(1, moments + 1)[:, None, None]
    found: np.ndarray = past[-1] + times * (past[-1] - past[-2])
    return found


def walk_varied(window: Scene, moments: int, options: SamplingOptions) -> Float[np.ndarray, "K F N 2"]:
    """Return ``options.samples`` paths for each agent, which keep its last observed velocity after one random change of
    direction and speed. On the first path, nothing is changed."""
    draw = np.random.default_rng(options.seed)
    past = window.positions[: window.past].astype(np.float64)
    count, agents = options.samples, len(window.agents)
    angles = draw.normal(0, ANGLE_DEVIATION, (count, agents))
    speeds = np.exp(draw.normal(0, SPEED_DEVIATION, (count, agents)))
    angles[0], speeds[0] = 0, 1
    step = (past[-1] - past[-2])[None] * speeds[..., None]
    cosine, sine = np.cos(angles), np.sin(angles)
    turned = np.stack([cosine * step[..., 0] - sine * step[..., 1], sine * step[..., 0] + cosine * step[..., 1]], -1)
    found: np.ndarray = past[-1] + np.arange(1, moments + 1)[:, None, None] * turned[:, None]
    return found


def distances(paths: Sequence[Float[np.ndarray, "K F N 2"]], examples: Sequence[Scene]) -> dict[str, float]:
    """Return ADE and FDE: for each agent, the smallest mean distance and the smallest final distance of any of its K
    paths from the true path, averaged over agents.

    ``missed`` is the percentage of agents none of whose paths ends near the true end, and ``collisions`` the percentage
    of agents whose first path comes too close to the first path of another agent at the same time.
    """
    average, final, hits = [], [], []
    for drawn, window in zip(paths, examples, strict=True):
        apart = np.linalg.norm(drawn - window.positions[window.past :].astype(np.float64), axis=-1)  # (K, F, N)
        average.append(apart.mean(axis=1).min(axis=0))
        final.append(apart[:, -1].min(axis=0))
        between = np.linalg.norm(drawn[0][:, :, None] - drawn[0][:, None], axis=-1)
        between[:, np.arange(between.shape[1]), np.arange(between.shape[1])] = np.inf
        hits.append((between < COLLISION_DISTANCE).any(axis=(0, 2)))
    ends = np.concatenate(final)
    return {
        "ade": float(np.concatenate(average).mean()),
        "fde": float(ends.mean()),
        "missed": 100 * float((ends > MISS_DISTANCE).mean()),
        "collisions": 100 * float(np.concatenate(hits).mean()),
    }
