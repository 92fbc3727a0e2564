"""Autoencoders: everything passes through the code and nothing around it, and what went in comes out."""

import pytest
import torch
import torch.nn.functional as F
from toy_tasks import END, START, VOCABULARY, examples, fit, learn, shifted, token_accuracy

import saccade
from saccade.models.autoencoder import (
    DenseAutoencoder,
    DenseAutoencoderConfig,
    PatchAutoencoder,
    PatchAutoencoderConfig,
    RecurrentAutoencoder,
    RecurrentAutoencoderConfig,
    TransformerAutoencoder,
    TransformerAutoencoderConfig,
)

LENGTHS = torch.tensor([7, 3, 5])


def text_model(kind, **changes):
    torch.manual_seed(0)
    if kind == "recurrent":
        shape = {"width": 13, "embedding_width": 7, "code_width": 5, **changes}
        return RecurrentAutoencoder(RecurrentAutoencoderConfig(**shape), VOCABULARY).eval()
    shape = {"width": 12, "num_heads": 3, "feedforward_width": 19, "code_width": 5, **changes}
    return TransformerAutoencoder(TransformerAutoencoderConfig(**shape), VOCABULARY).eval()


def image_model(kind, size=(4, 6), **changes):
    torch.manual_seed(0)
    if kind == "dense":
        return DenseAutoencoder(
            DenseAutoencoderConfig(image_size=size, **{"width": 17, "code_width": 5, **changes})
        ).eval()
    shape = {"patch": 2, "width": 12, "num_heads": 3, "feedforward_width": 19, "code_width": 5, **changes}
    return PatchAutoencoder(PatchAutoencoderConfig(image_size=size, **shape)).eval()


def texts():
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (3, 7)), torch.randint(2, VOCABULARY, (3, 4))


each_text = pytest.mark.parametrize("kind", ["recurrent", "transformer"])


@each_text
@torch.no_grad()
def test_the_code_of_a_text_is_small_and_its_own(kind):
    model, (source, _) = text_model(kind), texts()
    codes = model.code(source, LENGTHS)
    assert codes.shape == (3, 5)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model.code(source[row : row + 1, :length], LENGTHS[row : row + 1])
        torch.testing.assert_close(alone[0], codes[row], rtol=1e-4, atol=1e-5)


@each_text
@torch.no_grad()
def test_texts_of_one_code_are_rebuilt_alike(kind):
    """Nothing passes around the code: with a code of zeros for all, what is read makes no difference."""
    model, (source, target) = text_model(kind), texts()
    assert not torch.allclose(model(source, LENGTHS, target)[0], model(source.flip(1), LENGTHS, target)[0])
    torch.nn.init.zeros_(model.squeeze.weight)
    torch.testing.assert_close(model(source, LENGTHS, target), model(source.flip(1), LENGTHS, target))


@each_text
@torch.no_grad()
def test_steps_are_the_whole(kind):
    model, (source, target) = text_model(kind), texts()
    state, logits = model.start(source, LENGTHS, 4), []
    for tokens in target.unbind(1):
        step, state = model.step(tokens, state)
        logits.append(step)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(source, LENGTHS, target), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_watch_sees_what_the_code_took():
    model, (source, target) = text_model("transformer"), texts()
    with saccade.watch(model) as seen:
        model(source, LENGTHS, target)
    assert seen["pooling"].shape == (3, 1, 1, 7)
    assert seen["decoder.1.cross"].shape == (3, 3, 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "steps"), [("recurrent", 300), ("transformer", 400)])
def test_short_texts_come_back(kind, steps):
    shape = {"recurrent": {"cell": "gru_torch", "width": 64, "embedding_width": 32, "code_width": 24}}
    wide = {"width": 32, "num_heads": 4, "feedforward_width": 64, "scaled_embedding": True, "code_width": 24}
    model = text_model(kind, **shape.get(kind, wide))
    learn(model, "copy", steps, 1e-2, shortest=2, longest=3, batch=64)
    assert token_accuracy(model, "copy", shortest=2, longest=3) >= 0.9


each_image = pytest.mark.parametrize(
    ("kind", "changes"), [("dense", {}), ("dense", {"layers": 2}), ("patches", {"pooling": "mean"}), ("patches", {})]
)


@each_image
@torch.no_grad()
def test_images_come_back_in_their_shape_from_their_code_alone(kind, changes):
    model, images = image_model(kind, **changes), torch.randn(3, 1, 4, 6)
    assert model.code(images).shape == (3, 5)
    assert model(images).shape == images.shape
    torch.testing.assert_close(model(images[1:2])[0], model(images)[1], rtol=1e-4, atol=1e-5)
    last = model.down[-1] if kind == "dense" else model.squeeze
    torch.nn.init.zeros_(last.weight)
    torch.testing.assert_close(model(images)[0], model(images)[1])


@pytest.mark.parametrize("kind", ["dense", "patches"])
def test_images_of_few_causes_come_back(kind):
    """Images that are sums of 3 patterns fit in a code of 5; pixel by pixel they would not."""
    wide = {"width": 64} if kind == "dense" else {"width": 32, "num_heads": 4, "feedforward_width": 64}
    model = image_model(kind, **wide)
    patterns = torch.randn(3, 1, 4, 6)

    def batch(count):
        return (torch.randn(count, 3, 1, 1, 1) * patterns).sum(dim=1)

    fit(model, lambda: F.mse_loss(model(images := batch(64)), images), 300, 5e-3)
    images = batch(200)
    with torch.no_grad():
        assert float(F.mse_loss(model(images), images) / images.var()) <= 0.1


def test_the_toy_tasks_are_what_they_were():
    """The helpers above read START and END as autoencoders do."""
    source, lengths, answer = examples("copy", 4, 2, 3)
    assert (shifted(answer)[:, 0] == START).all()
    assert (answer.gather(1, lengths[:, None]) == END).all()
    assert (answer[:, :2] == source[:, :2]).all()
