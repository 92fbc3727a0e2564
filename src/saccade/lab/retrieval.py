"""A task for one layer of attention: items with a key and a value, and a question that names two of the keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from saccade.attention import MultiHead
from saccade.lab.learning import Examples
from saccade.models.layers import FeedForward

__all__ = ["Retrieval", "draw_questions"]

KEYS, VALUES, WIDTH = 8, 4, 32


def draw_questions(count: int) -> Examples:
    """Return examples: the input is all keys in random order, their values, and the two keys that are asked for; the
    answer is the pair of values of these two keys, as one number."""
    keys = torch.rand(count, KEYS).argsort(dim=1)
    values = torch.randint(VALUES, (count, KEYS))
    asked = torch.rand(count, KEYS).argsort(dim=1)[:, :2]
    by_key = values.gather(1, keys.argsort(dim=1))
    found = by_key.gather(1, asked)
    return Examples(torch.cat([keys, values, asked], dim=1), (found[:, 0] * VALUES + found[:, 1])[:, None])


class Retrieval(nn.Module):
    """A network with one attention layer, in which the question attends to the items, and a feed-forward layer."""

    def __init__(self, num_heads: int, weights: str = "softmax") -> None:
        super().__init__()
        self.key, self.value = nn.Embedding(KEYS, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.first, self.second = nn.Embedding(KEYS, WIDTH), nn.Embedding(KEYS, WIDTH)
        self.attention = MultiHead(WIDTH, num_heads, weights=weights)
        self.feedforward = FeedForward(WIDTH, 4 * WIDTH, "relu")
        self.output = nn.Linear(WIDTH, VALUES**2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, 1, VALUES²), one for each pair of values."""
        keys, values, asked = inputs[:, :KEYS], inputs[:, KEYS : 2 * KEYS], inputs[:, 2 * KEYS :]
        items = self.key(keys) + self.value(values)
        question = (self.first(asked[:, 0]) + self.second(asked[:, 1]))[:, None]
        found = self.attention(question, items)
        logits: Tensor = self.output(found + self.feedforward(found))
        return logits
