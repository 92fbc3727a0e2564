"""The interface of a model that generates tokens, so that one search works with every model.

A model that writes its output token by token has a *state*: the recurrent vectors, or the keys and values of the
tokens so far, and what it keeps of the source. It creates the first state itself, in a method `start(...) -> state`
whose arguments depend on the model (a source sentence, an image, nothing). From then on all models are alike: `step`
takes the next token of every row and returns the logits of the one after it, and `reorder` selects rows of the state.

Shapes: B rows of the batch, N chosen rows, T steps, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["Stepper", "first_tokens"]

State = TypeVar("State")


class Stepper(Protocol[State]):
    """A model that generates one token after another.

    Both methods may change the state in place (a static cache is overwritten, not copied), so a caller must continue
    with the state that is returned and never with the one it passed.
    """

    def step(self, tokens: Int[Tensor, " B"], state: State) -> tuple[Float[Tensor, "B V"], State]:
        """Read one more token per row; return the logits of the token after it."""
        ...

    def reorder(self, state: State, index: Int[Tensor, "*N"]) -> State:
        """Return a state whose row n is row `index[n]` of this one; rows may be repeated or left out.

        If `index` has shape (S, W), the caller also guarantees that the W entries in each of its rows belong to the
        same sentence, as W hypotheses for it, so the model can store once what they have in common.
        """
        ...


def first_tokens(start_token: int | Tensor, batch_size: int, device: torch.device | str | None) -> Int[Tensor, "B T"]:
    """Return the tokens (B, T) to read before generating. `start_token` is one number for all rows, or has shape (B,)
    or (B, T)."""
    if batch_size < 0:
        raise OptionError(f"batch_size must be 0 or more, not {batch_size}.")
    if not isinstance(start_token, Tensor):
        return torch.full((batch_size, 1), start_token, device=device)
    tokens = start_token.to(device=device or start_token.device, dtype=torch.long)
    tokens = tokens.unsqueeze(1) if tokens.dim() == 1 else tokens
    if tokens.dim() != 2 or len(tokens) != batch_size or tokens.shape[1] == 0:
        raise ShapeError(
            f"start_token must be a number or a tensor of shape ({batch_size},) or ({batch_size}, T) with T ≥ 1, "
            f"not of shape {tuple(start_token.shape)}."
        )
    return tokens
