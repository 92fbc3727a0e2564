"""One to many by a recurrent network: what it sees, its steps, and a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import saccade
from saccade.errors import OptionError, ShapeError
from saccade.models.recurrent_captioner import RecurrentCaptioner, RecurrentCaptionerConfig


def network(cell: str) -> RecurrentCaptioner:
    torch.manual_seed(0)
    config = RecurrentCaptionerConfig(image_size=(3, 5), width=7, decoder_layers=2, cell=cell)
    return RecurrentCaptioner(config, 11).double().eval()


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru_torch"])
def test_steps_are_the_whole_and_rows_can_be_reordered(cell: str) -> None:
    model, images = network(cell), torch.randn(2, 1, 3, 5, dtype=torch.float64)
    words = torch.randint(11, (2, 4))
    whole, state = model(images, words), model.start(images)
    for number in range(4):
        logits, state = model.step(words[:, number], state)
        torch.testing.assert_close(logits, whole[:, number])
    swapped = model.reorder(model.start(images), torch.tensor([1, 0]))
    torch.testing.assert_close(model.step(words[[1, 0], 0], swapped)[0], whole[[1, 0], 0])


def test_every_word_depends_on_the_image_through_the_first_state_alone() -> None:
    model, words = network("gru_torch"), torch.randint(11, (1, 3))
    images = torch.randn(1, 1, 3, 5, dtype=torch.float64)
    assert not torch.allclose(model(images, words), model(images + 1, words))
    with torch.no_grad():
        for part in model.see.parameters():
            part.zero_()
    torch.testing.assert_close(model(images, words), model(images + 1, words))
    with pytest.raises(ShapeError, match=r"\(B, 1, 3, 5\); got \(1, 3, 5\)"):
        model.start(images[0])


def test_it_learns_from_a_recipe(tmp_path: Path, one_thread: None) -> None:
    """Two bright halves in either order: the words must come in the order of the image."""
    draw = np.random.default_rng(1)
    shown = draw.integers(2, size=(160, 2))
    pixels = draw.integers(0, 60, (160, 4, 8), dtype=np.uint8)
    pixels[:, :, :4] += (160 * shown[:, 0]).astype(np.uint8)[:, None, None]
    pixels[:, :, 4:] += (160 * shown[:, 1]).astype(np.uint8)[:, None, None]
    names = np.array(["dark", "light"])
    texts = [f"a {names[left]} and a {names[right]}" for left, right in shown]
    np.savez(tmp_path / "train.npz", images=pixels, texts=np.array(texts))
    tables = {
        "task": "captions",
        "data": {"table": str(tmp_path / "train.npz"), "validation": 0.2},
        "text": {"kind": "word", "vocabulary": 50},
        "images": {"shift": 0},
        "model": {"kind": "recurrent", "image_size": [4, 8], "width": 24},
        "training": {"steps": 300, "warmup": 20, "lr": 1e-2, "batch_tokens": 200, "validate_every": 300},
    }
    run = saccade.train(tables, output=tmp_path / "run", quiet=True)
    assert run.scores["exact"] >= 85  # by chance 25
    model = run.open()
    (answer,) = model.predict([pixels[0]])
    assert answer.text in texts
    assert len(answer.terminal()) == 2
    with pytest.raises(OptionError, match="no attention, so there is nothing to view"):
        _ = answer.view
    with pytest.raises(OptionError, match="sees the image once, without attention"):
        model.view_of(pixels[0], answer)
