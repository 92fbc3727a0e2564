"""Train a small network on examples that are drawn at random for each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Examples", "accuracy", "train"]


class Examples(NamedTuple):
    """Inputs, and the right answers to them."""

    inputs: Tensor
    answers: Tensor


def train(model: nn.Module, draw: Callable[[int], Examples], *, steps: int, lr: float = 3e-3, batch: int = 64) -> float:
    """Train with AdamW and a cosine schedule; return the mean loss of the last tenth of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    model.train()
    for _ in range(steps):
        inputs, answers = draw(batch)
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), answers.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


@torch.inference_mode()
def accuracy(model: nn.Module, examples: Examples) -> float:
    """Return the percentage of right answers."""
    model.eval()
    right = model(examples.inputs).argmax(-1) == examples.answers
    return 100 * float(right.float().mean())
