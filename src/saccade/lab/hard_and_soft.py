"""Hard attention samples one position; soft attention computes a weighted mean over all positions, which is
differentiable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.lab.experiment import Experiment, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

KEYS, VALUES, WIDTH, BATCH = 8, 8, 32, 64
BATCHES, NETWORKS = 400, 8  # batches whose gradients are compared, in each of several networks
KINDS = {"soft": False, "hard": True}


class LookUp(nn.Module):
    """Looks up the value of a key among items that have a key and a value. Hard attention reads the value of one item,
    soft attention the weighted mean of all values."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.question = nn.Embedding(KEYS, WIDTH), nn.Embedding(KEYS, WIDTH)
        self.value, self.output = nn.Embedding(VALUES, WIDTH), nn.Linear(WIDTH, VALUES)

    def forward(self, keys: Tensor, values: Tensor, asked: Tensor, *, hard: bool) -> tuple[Tensor, Tensor]:
        """Return logits (B, VALUES), and the log-probability of the item that hard attention chose; 0 for soft
        attention."""
        scores = torch.einsum("bd,bkd->bk", self.question(asked), self.key(keys)) / WIDTH**0.5
        weights = scores.softmax(-1)
        if not hard:
            return self.output((weights[..., None] * self.value(values)).sum(1)), weights.new_zeros(len(keys))
        drawn = torch.multinomial(weights, 1) if self.training else weights.argmax(-1, keepdim=True)
        found = self.value(values.gather(1, drawn)[:, 0])
        return self.output(found), weights.gather(1, drawn)[:, 0].log()


def draw_items(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    keys = torch.rand(count, KEYS).argsort(dim=1)
    values, asked = torch.randint(VALUES, (count, KEYS)), torch.randint(KEYS, (count,))
    return keys, values, asked, values.gather(1, keys.argsort(dim=1)).gather(1, asked[:, None])[:, 0]


def loss_of(model: LookUp, *, hard: bool) -> Tensor:
    """Return the loss of a new batch. With hard attention, a sampled position is rewarded if the loss of its answer is
    below the mean of the batch."""
    *items, answers = draw_items(BATCH)
    logits, drawn = model(*items, hard=hard)
    losses = F.cross_entropy(logits, answers, reduction="none")
    advantage = losses.detach() - losses.detach().mean()
    loss: Tensor = losses.mean() + (advantage * drawn).mean()
    return loss


def gradient_noise(model: LookUp, *, hard: bool) -> float:
    """Return the variance over batches of the gradient of queries and keys, divided by the square of its mean.

    A mean over a finite number of batches is itself noisy: its square is too large by its variance, on average, so this
    variance is subtracted from it.
    """
    gradients = []
    for _ in range(BATCHES):
        model.zero_grad()
        loss_of(model, hard=hard).backward()  # type: ignore[no-untyped-call]
        parts = [one.weight.grad for one in (model.key, model.question)]
        gradients.append(torch.cat([part.flatten() for part in parts if part is not None]))
    together = torch.stack(gradients)
    variance, square = together.var(0).sum(), together.mean(0).square().sum()
    return float(variance / (square - variance / BATCHES).clamp(min=variance / 1e4))


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for name, hard in KINDS.items():
        torch.manual_seed(trial.seed)
        models = [LookUp() for _ in range(trial.choose(NETWORKS, 2))]
        noises = [math.log10(gradient_noise(model, hard=hard)) for model in models]
        found[f"{name}, noise in powers of ten"] = fmean(noises)
        model = models[0]
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(trial.choose(3000, 300)):
            optimizer.zero_grad()
            loss_of(model, hard=hard).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        *items, answers = draw_items(2000)
        right = model.eval()(*items, hard=hard)[0].argmax(-1) == answers
        found[f"{name}, accuracy"] = 100 * float(right.float().mean())
    soft, hard_ = (found[f"{name}, noise in powers of ten"] for name in KINDS)
    return found | {"gradient noise in powers of ten, hard minus soft": hard_ - soft}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for place, name in enumerate(KINDS):
        noise, right = 10 ** found[f"{name}, noise in powers of ten"].mean, found[f"{name}, accuracy"].mean
        axes.bar(name, noise, color="tab:blue")
        axes.annotate(f"accuracy {right:.0f} %", (place, noise), ha="center", va="bottom")
    axes.set_yscale("log")
    axes.set_ylabel("variance of the gradient over its squared mean")


EXPERIMENT = Experiment(
    name="hard-and-soft",
    lecture="004",
    claim="Hard attention that is trained by reinforcement has far noisier gradients than soft attention.",
    method=f"A question names one of {KEYS} keys, and the network must answer with its value. The same network either "
    "reads one value that it samples (trained by reinforcement with a baseline) or the weighted mean of all values. We "
    f"measure the noise of the gradient of queries and keys over {BATCHES} batches before training, as the "
    f"geometric mean of {NETWORKS} networks, and the accuracy after training. The bound is a factor of 5.",
    measure=measure,
    decisive="gradient noise in powers of ten, hard minus soft",
    direction="at least",
    bound=0.7,
    draw=draw,
)
