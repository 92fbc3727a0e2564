"""Hard look-up, z = Σ_j 1(q = k_j) v_j (lecture 000), beside hard attention, which always takes the best key."""

import pytest
import torch

import saccade
from saccade.attention import Lookup
from saccade.errors import OptionError
from saccade.models import RecurrentConfig, TransformerConfig
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.text import Tokenizer

KEYS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [1.0, 2.0], [3.0, 4.0]])
VALUES = torch.tensor([[1.0, 10.0, 0.0], [2.0, 20.0, 0.0], [4.0, 40.0, 0.0], [8.0, 80.0, 5.0]])


def test_no_key_gives_zero_one_its_value_and_two_their_sum() -> None:
    queries = torch.tensor([[0.5, -1.0], [1.0, 2.0], [1.0, 2.000001], [9.0, 9.0]])
    found = saccade.attend(queries, KEYS, VALUES, weights="lookup")
    assert found.tolist() == [[2, 20, 0], [5, 50, 0], [0, 0, 0], [0, 0, 0]]
    best = saccade.attend(queries, KEYS, VALUES, weights="hard")
    assert best.tolist()[3] == [8, 80, 5]  # the best key, equal or not


def test_a_forbidden_key_is_not_found() -> None:
    queries = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    found = saccade.attend(queries, KEYS, VALUES, weights="lookup", mask=saccade.causal)
    assert found[:, 0].tolist() == [1, 1, 5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_watched_like_any_other(dtype: torch.dtype) -> None:
    owner = torch.nn.Identity()
    with saccade.watch(owner) as seen:
        saccade.attend(KEYS.to(dtype), KEYS.to(dtype), VALUES.to(dtype), weights=Lookup(), owner=owner)
    (trace,) = seen.values()
    expected = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    assert trace.tile(slice(0, 4), slice(0, 4), head=0, batch=0).tolist() == expected


def test_it_compares_by_itself() -> None:
    with pytest.raises(OptionError, match="Lookup weights compare queries and keys for equality"):
        saccade.attend(KEYS, KEYS, VALUES, weights="lookup", score="cosine")
    with pytest.raises(OptionError, match="leave out score and bias"):
        saccade.attend(KEYS, KEYS, VALUES, weights="lookup", bias=torch.zeros(4, 4))
    same = saccade.attend(KEYS, KEYS, VALUES, weights="relu", score="equal")
    torch.testing.assert_close(same, saccade.attend(KEYS, KEYS, VALUES, weights="lookup"), rtol=0, atol=0)


def test_no_network_can_learn_it() -> None:
    task = LanguageModel(LanguageModelState(Tokenizer.train(["some text"], "character"), 8, False))
    for kind, config in (
        ("transformer", TransformerConfig(decoder_layers=1, weights="lookup")),
        ("recurrent", RecurrentConfig(weights="lookup")),
    ):
        with pytest.raises(OptionError, match=r'model\.weights = "lookup" passes no gradient'):
            task.build(kind, config)
