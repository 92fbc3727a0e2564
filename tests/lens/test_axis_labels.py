"""Tokens label only what they are known to be the tokens of; everything else is numbered, and says why."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel

import saccade
from saccade.errors import OptionError, ShapeError

TOKENS = ["a", "b", "c", "d", "e"]
NUMBERS = ["0", "1", "2", "3", "4"]
SMALL = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 8}


class Tower(nn.Module):
    """A text, read by one attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return x + self.attention(x, x, x)[0]


class Pair(nn.Module):
    """Two towers, as of a question and an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.question, self.answer = Tower(), Tower()

    def forward(self, question: Tensor, answer: Tensor) -> Tensor:
        return self.question(question).sum() * self.answer(answer).sum()


@torch.no_grad()
def test_one_list_of_tokens_does_not_label_two_texts() -> None:
    model, ids = Pair().eval(), torch.arange(5)[None]
    with saccade.watch(model) as seen:
        model(ids, ids.flip(1))
    with pytest.raises(OptionError, match=r"question.attention and answer.attention read different inputs"):
        saccade.view(seen, TOKENS)
    found = saccade.view(seen, {"question": TOKENS, "answer": list("vwxyz")})
    assert [found.rows[name].tokens for name in found.names] == [TOKENS, list("vwxyz")]
    with saccade.watch(model) as seen:  # of other lengths, the fitting one is labelled
        model(ids, ids[:, :4])
    found = saccade.view(seen, TOKENS)
    assert [found.rows[name].tokens for name in found.names] == [TOKENS, NUMBERS[:4]]


@torch.no_grad()
def test_patches_are_not_labelled_with_the_words_beside_them() -> None:
    text = SMALL | {"vocab_size": 31, "max_position_embeddings": 9, "bos_token_id": 1, "eos_token_id": 2}
    config = CLIPConfig(text_config=text, vision_config=SMALL | {"image_size": 4, "patch_size": 2}, projection_dim=7)
    model = CLIPModel._from_config(config, attn_implementation="sdpa").eval()
    with saccade.watch(model) as seen:
        model(input_ids=torch.tensor([[1, 5, 6, 7, 2]]), pixel_values=torch.randn(1, 3, 4, 4))
    found = saccade.view(seen, TOKENS)
    assert {name.split(".")[0]: axis.tokens for name, axis in found.rows.items()} == {
        "text_model": TOKENS,
        "vision_model": NUMBERS,
    }
    with saccade.watch(model) as seen:
        model(input_ids=torch.tensor([[1, 5, 6, 2]]), pixel_values=torch.randn(1, 3, 4, 4))
    with pytest.raises(ShapeError, match="has 4 rows and 4 columns, but 5 tokens were given"):
        saccade.view(seen, TOKENS)


@torch.no_grad()
@pytest.mark.parametrize("source", [4, 5])
def test_torchs_transformer_is_labelled_on_the_side_that_it_writes(source: int) -> None:
    model = nn.Transformer(8, 2, 1, 1, 8, batch_first=True).eval()
    with saccade.watch(model) as seen:
        model(torch.randn(1, source, 8), torch.randn(1, 5, 8))
    found = saccade.view(seen, TOKENS)
    axes = {name.split(".")[-1] if "decoder" in name else "encoder": found.axes(name) for name in found.names}
    assert [axis.tokens for axis in axes["self_attn"]] == [TOKENS, TOKENS]
    assert [axis.tokens for axis in axes["multihead_attn"]] == [TOKENS, NUMBERS[:source]]
    assert [axis.tokens for axis in axes["encoder"]] == [NUMBERS[:source]] * 2
    both = saccade.view(seen, TOKENS, source_tokens=list("vwxyz")[:source])
    assert both.columns[found.names[-1]].tokens == list("vwxyz")[:source]


class Renamed(nn.Module):
    """An encoder and a decoder whose names do not say which is which."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Tower(), Tower()
        self.between = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        source, target = self.left(source), self.right(target)
        return self.between(target, source, source)[0]


@torch.no_grad()
def test_sides_follow_from_the_keys_of_the_cross_attention() -> None:
    model, ids = Renamed().eval(), torch.arange(5)[None]
    with saccade.watch(model) as seen:
        model(ids, ids.flip(1))
    found = saccade.view(seen, TOKENS, source_tokens=list("vwxyz"))
    assert found.rows["left.attention"].tokens == found.columns["between"].tokens == list("vwxyz")
    assert found.rows["right.attention"].tokens == found.rows["between"].tokens == TOKENS
