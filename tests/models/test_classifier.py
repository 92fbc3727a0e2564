"""Classifiers: what surrounds a text changes nothing, poolings are what they say, and all of them learn."""

import pytest
import torch
import torch.nn.functional as F
from toy_tasks import fit

import saccade
from saccade.errors import OptionError
from saccade.models import EncoderOnly, TransformerConfig
from saccade.models.classifier import CLASSIFIERS, Classifier, last_read

VOCABULARY, LABELS = 23, 5
LENGTHS = torch.tensor([7, 3, 1])
SMALL = {
    "recurrent": {"width": 11, "embedding_width": 7},
    "convolutional": {"width": 13, "encoder_layers": 2, "embedding_width": 7},
    "window": {"width": 13, "embedding_width": 13},
    "rwkv": {"width": 13, "encoder_layers": 2, "embedding_width": 7, "feedforward_width": 11},
    "transformer": {"width": 12, "num_heads": 3, "feedforward_width": 19},
}
each_kind = pytest.mark.parametrize("kind", SMALL)
each_pooling = pytest.mark.parametrize("pooling", ["mean", "last", "attention"])


def classifier(kind, **changes):
    torch.manual_seed(0)
    config = CLASSIFIERS[kind](**{**SMALL[kind], **changes})
    model = Classifier(config, VOCABULARY, LABELS).eval()
    if model.pooling is not None:
        torch.nn.init.normal_(model.pooling.query)
    return model


def texts():
    torch.manual_seed(1)
    return torch.randint(1, VOCABULARY, (3, 7)) * (torch.arange(7) < LENGTHS[:, None])


@each_kind
@each_pooling
@torch.no_grad()
def test_padding_changes_nothing(kind, pooling):
    model, tokens = classifier(kind, pooling=pooling), texts()
    together = model(tokens, LENGTHS)
    assert together.shape == (3, LABELS)
    torch.testing.assert_close(model(F.pad(tokens, (0, 4), value=9), LENGTHS), together, rtol=1e-4, atol=1e-5)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(tokens[row : row + 1, :length], LENGTHS[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-5)


@each_kind
@torch.no_grad()
def test_a_watch_sees_what_the_pooling_took(kind):
    model = classifier(kind)
    with saccade.watch(model) as seen:
        model(texts(), LENGTHS)
    weights = seen["pooling"].tile(slice(None), slice(None), head=0, batch=1)
    assert weights.shape == (1, 7)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0))
    assert (weights[0, 3:] == 0).all()
    assert (weights[0, :3] > 0).all()


@torch.no_grad()
def test_an_untrained_query_takes_the_mean():
    model = classifier("window")
    torch.nn.init.zeros_(model.pooling.query)
    mean = classifier("window", pooling="mean")
    torch.testing.assert_close(model.features(texts(), LENGTHS), mean.features(texts(), LENGTHS))


def test_last_is_where_each_direction_ended():
    x = torch.arange(24.0).view(2, 3, 4)  # row 0: (0..3), (4..7), (8..11); row 1: (12..15), ...
    lengths = torch.tensor([3, 2])
    assert last_read(x, lengths, 1).tolist() == [[8, 9, 10, 11], [16, 17, 18, 19]]
    assert last_read(x, lengths, 2).tolist() == [[8, 9, 2, 3], [16, 17, 14, 15]]


@torch.no_grad()
def test_a_masked_language_model_fits_by_name():
    model = classifier("transformer", encoder_layers=2)
    masked = EncoderOnly(TransformerConfig(**SMALL["transformer"], encoder_layers=2), VOCABULARY)
    shared = {name: value for name, value in masked.state_dict().items() if not name.startswith("output")}
    rest = model.load_state_dict(shared, strict=False)
    assert not rest.unexpected_keys
    assert {name.split(".")[0] for name in rest.missing_keys} == {"pooling", "output"}


def test_one_hot_words_need_room():
    assert not [name for name, _ in classifier("window", one_hot=True, embedding_width=23).input.named_parameters()]
    with pytest.raises(OptionError, match="at least 23, the size of the vocabulary; got 13"):
        classifier("window", one_hot=True)


@each_kind
@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_one_word_that_decides_is_found(kind, pooling):
    """The class is the one of four special words, somewhere among others."""
    wide = {"num_heads": 4, "feedforward_width": 64} if kind == "transformer" else {"embedding_width": 32}
    torch.manual_seed(0)
    model = Classifier(CLASSIFIERS[kind](width=32, encoder_layers=1, pooling=pooling, **wide), 20, 4)

    def batch(count=32, length=9):
        tokens = torch.randint(5, 20, (count, length))
        labels = torch.randint(4, (count,))
        tokens[torch.arange(count), torch.randint(length, (count,))] = labels + 1
        return tokens, torch.full((count,), length), labels

    def batch_loss():
        tokens, lengths, labels = batch()
        return F.cross_entropy(model(tokens, lengths), labels)

    fit(model, batch_loss, 150, 1e-2)
    tokens, lengths, labels = batch(200)
    with torch.no_grad():
        assert (model(tokens, lengths).argmax(-1) == labels).float().mean() >= 0.95
