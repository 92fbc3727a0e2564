"""The ConvNet: its equation, what it cannot see, and a training through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import saccade
from saccade.cli.main import main
from saccade.errors import OptionError, ShapeError
from saccade.models.convnet import ConvNet, ConvNetConfig


def test_a_stage_computes_the_equation_of_its_docstring() -> None:
    """One map, one kernel of 3 by 3 that adds up its neighbours: the corner of an image of ones has 4 of them."""
    network = ConvNet(ConvNetConfig(image_size=(2, 4), width=1, stages=1), classes=3)
    convolution = network.stages[0]
    assert isinstance(convolution, torch.nn.Conv2d)
    with torch.no_grad():
        convolution.weight.fill_(1.0)
        convolution.bias.fill_(0.5)
    summed = convolution(torch.ones(1, 1, 2, 4))
    assert summed[0, 0].tolist() == [[4.5, 6.5, 6.5, 4.5], [4.5, 6.5, 6.5, 4.5]]


def test_an_image_is_answered_the_same_in_every_batch() -> None:
    torch.manual_seed(0)
    network = ConvNet(ConvNetConfig(image_size=(5, 7), channels=3, width=4, stages=2), classes=3).eval()
    images = torch.randn(4, 3, 5, 7)
    torch.testing.assert_close(network(images)[1:2], network(images[1:2]))
    assert network(images).shape == (4, 3)


def test_what_does_not_fit_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="3 stages halve an image of"):
        ConvNetConfig(image_size=(4, 28))
    with pytest.raises(ShapeError, match=r"takes images of shape \(B, C, H, W\) = \(B, 1, 28, 28\)"):
        ConvNet(ConvNetConfig(), classes=2)(torch.zeros(1, 1, 8, 8))


def stripes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of 6 by 8 pixels with stripes across or down."""
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 90, (count, 6, 8), dtype=np.uint8)
    down = draw.integers(2, size=count)
    for image, is_down in zip(pixels, down, strict=True):
        start = draw.integers(2)
        if is_down:
            image[:, start::2] += 120
        else:
            image[start::2] += 120
    return pixels, np.where(down, "down", "across")


def test_it_learns_from_a_recipe_and_has_nothing_to_look_at(tmp_path: Path, one_thread: None) -> None:
    for part, count in (("train", 120), ("test", 40)):
        pixels, labels = stripes(count, seed=count)
        np.savez(tmp_path / f"{part}.npz", images=pixels, labels=labels)
    chosen = {
        "model.kind": "convolutional",
        "model.width": 4,
        "model.stages": 1,
        "model.image_size": [6, 8],
        "images.shift": 0,
        "training.steps": 60,
        "training.warmup": 5,
        "training.lr": 1e-2,
        "training.batch_images": 16,
        "training.validate_every": 60,
        "data.test_images": tmp_path / "test.npz",
    }
    changes = [argument for key, value in chosen.items() for argument in ("--set", f"{key}={value}")]
    run = tmp_path / "run"
    with pytest.raises(SystemExit) as left:
        main(["train", "--task", "images", "--data", str(tmp_path / "train.npz"), "-o", str(run), *changes])
    assert left.value.code == 0
    assert json.loads((run / "result.json").read_text())["scores"]["accuracy"] >= 95
    pixels, labels = stripes(1, seed=9)
    model = saccade.open(run)
    (answer,) = model.predict([pixels[0]])
    assert answer.text == labels[0]
    assert len(answer.terminal()) == 2
    assert len(answer.figure(dark=False).axes) >= 1
    with pytest.raises(OptionError, match="no attention, so there is nothing to view"):
        _ = answer.view
    with pytest.raises(OptionError, match="A convolutional network has no attention"):
        model.view_input(pixels[0])
