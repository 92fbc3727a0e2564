"""Compare a fixed matrix with attention weights (lecture 000): a feed-forward layer's W and attention's A, for two
inputs.

A layer of fixed weights computes Y = X W with the same W for every X. Attention computes Z = A V, and A itself depends
on X. So if the inputs X change, W stays the same but A changes.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from saccade.errors import OptionError
from saccade.lens.walk.document import WalkDocument
from saccade.lens.walk.step import Step

__all__ = ["fixed_and_dynamic"]


def fixed_and_dynamic(document: WalkDocument) -> list[tuple[str, list[Step]]]:
    """Return X, W, X W, A and A V for the inputs of a document, and for the same inputs with the numbers of each row
    in reverse order. W is the value matrix of the document, taken as the weights of a feed-forward layer."""
    if document.inputs is None or document.W_value is None or document.heads > 1:
        raise OptionError(
            "Comparing a fixed matrix with attention weights needs inputs, W_query, W_key, W_value and one head, as "
            "in the example "
            "'projection'."
        )
    reverse = tuple(tuple(reversed(row)) for row in document.inputs)
    other = document.model_copy(update={"inputs": reverse})
    return [
        ("The inputs", _side(document)),
        ("Other inputs: the same numbers in reverse order in each row", _side(other)),
    ]


def _side(document: WalkDocument) -> list[Step]:
    walk = document.walkthrough()
    inputs, weight, attention = walk["inputs"], walk["W_value"], walk["weights"]
    product = replace(
        walk["sum"],
        name="feedforward",
        title="Feed-forward",
        equation="Y = X W",
        code="feedforward = inputs @ W",
        values=torch.as_tensor(inputs.values @ weight.values),
        row_labels=inputs.row_labels,
    )
    return [
        inputs,
        replace(weight, name="W_fixed", equation="W (fixed)"),
        product,
        replace(attention, equation="A (from X)"),
        replace(walk["sum"], equation="Z = A V"),
    ]
