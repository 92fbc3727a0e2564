"""A captioner is stepped like any other decoder, and looks at all patches for each word."""

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from toy_tasks import END, START, fit

import saccade
from saccade.decoding import beam_search
from saccade.models.captioner import Captioner, CaptionerConfig

VOCABULARY, BATCH, TARGET = 11, 3, 5
SMALL = {"image_size": (4, 6), "patch": 2, "width": 12, "num_heads": 3, "feedforward_width": 19, "max_length": 9}


def captioner(**changes):
    torch.manual_seed(0)
    return Captioner(CaptionerConfig(**{**SMALL, **changes}), VOCABULARY).eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(BATCH, 1, 4, 6), torch.randint(VOCABULARY, (BATCH, TARGET))


@pytest.mark.parametrize("changes", [{}, {"pooling": "class"}, {"position": "sinusoidal", "norm_first": False}])
@torch.no_grad()
def test_steps_are_the_whole(changes):
    model, (images, target) = captioner(**changes), inputs()
    state, logits = model.start(images, TARGET), []
    for tokens in target.unbind(1):
        step, state = model.step(tokens, state)
        logits.append(step)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(images, target), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_reordered_rows_go_on_from_their_own_image():
    model, (images, target) = captioner(), inputs()
    state = model.start(images, TARGET)
    _, state = model.step(target[:, 0], state)
    index = torch.tensor([2, 0])
    logits, _ = model.step(target[index, 1], model.reorder(state, index))
    torch.testing.assert_close(logits, model(images, target)[index, 1], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_watch_sees_which_patches_each_word_looks_at():
    model, (images, target) = captioner(), inputs()
    with saccade.watch(model) as seen:
        model(images, target)
    assert list(seen) == [
        *("encoder.0.self", "encoder.1.self"),
        *("decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"),
    ]
    assert seen["decoder.1.cross"].shape == (BATCH, 3, TARGET, 6)


def test_positions_are_not_concatenated():
    with pytest.raises(ValidationError, match="position_width does not apply to this network"):
        captioner(position_width=4, tied_output=False)


def test_where_an_image_is_bright_is_told_in_words():
    """Two patches are bright; the text is their numbers in order, so that each word has a place to look at."""
    torch.manual_seed(0)
    config = CaptionerConfig(
        **{**SMALL, "width": 32, "num_heads": 4, "feedforward_width": 64, "position": "sinusoidal"}
    )
    model = Captioner(config, 2 + 6)

    def batch(count=32):
        chosen = torch.rand(count, 6).topk(2).indices.sort(dim=1).values
        bright = torch.zeros(count, 6).scatter(1, chosen, 1.0).view(count, 1, 2, 3)
        images = bright.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3) + 0.1 * torch.randn(count, 1, 4, 6)
        return images, F.pad(chosen + 2, (0, 1), value=END)

    def batch_loss():
        images, text = batch()
        return F.cross_entropy(model(images, F.pad(text, (1, 0), value=START)[:, :-1]).transpose(1, 2), text)

    fit(model, batch_loss, 250, 1e-2)
    images, text = batch(100)
    found = beam_search(
        model, model.start(images, 4), batch_size=100, start_token=START, end_token=END, max_length=4, beam=2
    )
    right = [best[0].tokens == row[:2].tolist() for best, row in zip(found, text, strict=True)]
    assert sum(right) >= 95
