import math

import pytest
import torch

from saccade.decoding import sequence_log_probabilities, token_log_probabilities
from saccade.errors import OptionError, ShapeError


def test_hand_numbers():
    """Logits (x, 0) give the sigmoid of x and the rest."""
    features = torch.tensor([[[0.0], [math.log(3)]]])
    found = token_log_probabilities(lambda x: torch.cat((x, 0 * x), 1), features, torch.tensor([[1, 0]]))
    assert found.exp().tolist() == [pytest.approx([0.5, 0.75])]


@pytest.mark.parametrize("chunk_size", [1, 4, 15, 99])
def test_chunks_change_nothing_and_bound_the_logits(chunk_size):
    torch.manual_seed(0)
    layer = torch.nn.Linear(7, 11)
    features, targets = torch.randn(3, 5, 7), torch.randint(11, (3, 5))
    sizes = []

    def project(vectors):
        sizes.append(len(vectors))
        return layer(vectors)

    found = token_log_probabilities(project, features, targets, chunk_size=chunk_size)
    expected = layer(features).log_softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(found, expected.detach())
    assert max(sizes) <= chunk_size
    assert sum(sizes) == 15
    assert not found.requires_grad


def test_a_sentence_is_the_sum_of_its_tokens_without_padding():
    torch.manual_seed(1)
    layer = torch.nn.Linear(7, 11)
    features, targets = torch.randn(3, 5, 7), torch.randint(11, (3, 5))
    lengths = torch.tensor([5, 0, 2])
    present = torch.arange(5) < lengths.unsqueeze(1)
    features[~present] = torch.nan  # padding is not looked at
    found = sequence_log_probabilities(layer, features, targets, present, chunk_size=2)
    tokens = token_log_probabilities(layer, features, targets)
    expected = torch.stack([tokens[0].sum(), torch.tensor(0.0), tokens[2, :2].sum()])
    torch.testing.assert_close(found, expected)


def test_wrong_options_are_named():
    layer, features, targets = torch.nn.Identity(), torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(OptionError, match="chunk_size must be 1 or more, not 0"):
        token_log_probabilities(layer, features, targets, chunk_size=0)
    with pytest.raises(ShapeError, match=r"\(2, 3, 5\) with \(3, 2\)"):
        token_log_probabilities(layer, features, targets.T)
    with pytest.raises(ShapeError, match=r"present must be of shape \(2, 3\), not \(2, 1\)"):
        sequence_log_probabilities(layer, features, targets, torch.ones(2, 1, dtype=torch.bool))
