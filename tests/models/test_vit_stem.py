"""The convolutions before the blocks of a Vision Transformer."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from saccade.models import VisionConfig, VisionTransformer

SMALL = {"image_size": (12, 8), "channels": 3, "patch": 4, "width": 20, "num_heads": 2, "encoder_layers": 1}


@pytest.mark.parametrize("stem_norm", [False, True])
@pytest.mark.parametrize(("stem_layers", "convolutions"), [(1, 3), (2, 5), (3, 7)])
def test_a_stem_has_its_convolutions_at_each_size_and_a_vector_for_each_patch(stem_layers, convolutions, stem_norm):
    config = VisionConfig(**SMALL, stem="convolution", stem_layers=stem_layers, stem_norm=stem_norm)
    model = VisionTransformer(config, 5)
    found = [layer for layer in model.patches if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in model.patches if isinstance(layer, nn.GroupNorm)]
    assert len(found) == convolutions  # the last one has 1×1 weights
    assert len(norms) == (convolutions - 1 if stem_norm else 0)
    assert [layer.out_channels for layer in found] == [10] * stem_layers + [20] * stem_layers + [20]
    assert model.patches(torch.randn(2, 3, 12, 8)).shape == (2, 20, 3, 2)


def test_what_one_image_looks_like_does_not_change_another():
    torch.manual_seed(0)
    model = VisionTransformer(VisionConfig(**SMALL, stem="convolution", stem_layers=2, stem_norm=True), 5)
    images = torch.randn(3, 3, 12, 8)
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", [{"stem_layers": 2}, {"stem_norm": True}])
def test_a_single_projection_has_no_further_layers(key):
    with pytest.raises(ValidationError, match='need stem = "convolution"'):
        VisionConfig(**SMALL, **key)
