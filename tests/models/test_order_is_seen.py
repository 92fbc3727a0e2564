"""Shuffling the tokens changes what a model computes, however their positions and its norms are chosen."""

from itertools import product
from typing import Any, get_args

import pytest
import torch

from saccade.models import EncoderOnly, TransformerConfig
from saccade.models.layers import NormKind
from saccade.models.transformer_config import PositionKind

TABLES = ("linear", "sinusoidal", "learned")


def moved(**fields: Any) -> float:
    """How far the largest logit moves if the tokens are shuffled, apart from moving with its token."""
    torch.manual_seed(0)
    config = TransformerConfig(width=24, num_heads=3, feedforward_width=31, encoder_layers=2, **fields)
    model = EncoderOnly(config, 13).double().eval()
    tokens, order = torch.randint(13, (2, 11)), torch.randperm(11)
    with torch.inference_mode():
        return (model(tokens)[:, order] - model(tokens[:, order])).abs().max().item()


@pytest.mark.parametrize(
    ("position", "norm", "norm_first"), [*product(get_args(PositionKind), get_args(NormKind), (True, False))]
)
@pytest.mark.parametrize("embedding_norm", [False, True])
def test_order_is_seen(position: str, norm: str, norm_first: bool, embedding_norm: bool) -> None:
    fields = {"position": position, "norm": norm, "norm_first": norm_first, "embedding_norm": embedding_norm}
    if position == "none":
        assert moved(**fields) < 1e-12
        return
    assert moved(**fields) > 1e-4
    if position in TABLES:
        assert moved(**fields, position_width=5, tied_output=False) > 1e-4


def test_the_slope_and_the_offset_can_be_set() -> None:
    config = TransformerConfig(
        width=24, num_heads=3, encoder_layers=1, position="linear", position_slope=0.1, position_offset=2.0
    )
    positions = EncoderOnly(config, 13).input.positions
    assert positions is not None
    torch.testing.assert_close(positions.table(3, 1)[0], 2.3 * positions.direction)
    with pytest.raises(ValueError, match="position_slope = 0 gives every position the same vector"):
        TransformerConfig(position="linear", position_slope=0.0)
