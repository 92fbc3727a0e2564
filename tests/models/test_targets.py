"""What a network is asked for: logits of some positions, or the loss of known words, summed or one by one."""

import math

import pytest
import torch
from torch import nn

from saccade.models import LAST, DecoderOnly, Targets, TransformerConfig
from saccade.models import targets as module
from saccade.models.layers import TiedLinear


@pytest.fixture
def layer() -> TiedLinear:
    torch.manual_seed(0)
    return TiedLinear(7, 11, bias=True)


def test_hand_numbers():
    """Logits (x, 0) give the sigmoid of x and the rest."""
    features = torch.tensor([[[0.0], [math.log(3)]]])
    output = TiedLinear(1, 2, bias=False, tied=nn.Parameter(torch.tensor([[1.0], [0.0]])))
    words = torch.tensor([1, 0])
    with torch.no_grad():
        each = Targets(words, summed=False).loss(output, features)
        total = Targets(words).loss(output, features)
    assert (-each).exp().tolist() == pytest.approx([0.5, 0.75])
    assert float(total) == pytest.approx(math.log(2) + math.log(4 / 3))


@pytest.mark.parametrize("size", [1, 4, 15, 99])
def test_without_a_gradient_only_some_logits_are_in_memory(monkeypatch, layer, size):
    monkeypatch.setattr(module, "CHUNK_POSITIONS", size)
    features, words = torch.randn(3, 5, 7), torch.randint(11, (3, 5))
    sizes = []
    layer.register_forward_pre_hook(lambda _, arguments: sizes.append(len(arguments[0])))
    asked = Targets(words.flatten(), summed=False)
    with torch.inference_mode():
        found = asked.loss(layer, features)
    assert max(sizes) <= size
    assert sum(sizes) == 15
    expected = layer(features).log_softmax(-1).gather(2, words.unsqueeze(2)).flatten()
    torch.testing.assert_close(found.clone(), -expected.detach())
    torch.testing.assert_close(asked.loss(layer, features).detach(), -expected.detach())


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_sum_is_that_of_each_word_and_padding_is_not_looked_at(layer, smoothing):
    features, words = torch.randn(3, 5, 7), torch.randint(11, (3, 5))
    real = torch.arange(5) < torch.tensor([5, 0, 2])[:, None]
    features[~real] = torch.nan
    each = Targets(words[real], real, smoothing, summed=False).loss(layer, features)
    assert each.shape == (7,)
    torch.testing.assert_close(Targets(words[real], real, smoothing).loss(layer, features), each.sum())


def test_a_network_answers_through_its_forward():
    """Hooks see every form of the question, and all forms agree."""
    torch.manual_seed(1)
    config = TransformerConfig(width=12, num_heads=3, decoder_layers=1, feedforward_width=10)
    network = DecoderOnly(config, 13)
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    tokens, at = torch.randint(13, (2, 5)), torch.rand(2, 5) < 0.5
    logits = network(tokens)
    torch.testing.assert_close(network(tokens, at=LAST), logits[:, -1])
    torch.testing.assert_close(network(tokens, at=at), logits[at])
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")
    torch.testing.assert_close(network(tokens, targets=Targets(tokens.flatten())), expected)
    assert len(calls) == 4
