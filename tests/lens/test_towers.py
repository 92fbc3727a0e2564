"""A model of several towers (CLIP): each reads a sequence of its own and has its own tokens."""

from __future__ import annotations

import pytest
import torch
from transformers import CLIPConfig, CLIPModel

import saccade
from saccade.attention import Watch
from saccade.errors import OptionError, ShapeError, UnknownNameError

TEXT = ["<start>", "a", "cat", "##s", "<end>"]
PATCHES = ["[CLS]", *(f"patch {number}" for number in range(9))]


@pytest.fixture(scope="module")
def seen() -> Watch:
    small = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 8}
    text = {**small, "vocab_size": 31, "max_position_embeddings": 9, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    config = CLIPConfig(text_config=text, vision_config={**small, "image_size": 6, "patch_size": 2}, projection_dim=7)
    model = CLIPModel._from_config(config, attn_implementation="sdpa").eval()
    with saccade.watch(model) as seen, torch.no_grad():
        model(input_ids=torch.tensor([[1, 5, 6, 7, 2]]), pixel_values=torch.randn(1, 3, 6, 6))
    return seen


def test_each_tower_has_its_tokens(seen: Watch) -> None:
    assert len(seen) == 4
    words = {"text_model": [None, 0, 1, 1, None]}
    view = saccade.view(seen, {"text_model": TEXT, "vision_model": PATCHES}, words=words)
    for name in view.names:
        rows, columns = view.axes(name)
        expected = TEXT if name.startswith("text_model") else PATCHES
        assert rows.tokens == columns.tokens == expected
        assert view.is_self(name)
    assert view.axes(next(iter(seen)))[0].joined[2] in ("cats", "patch 1")
    assert len(view.stacks) == 2
    assert "text_model" in view.html()


def test_a_tower_without_tokens_is_numbered(seen: Watch) -> None:
    view = saccade.view(seen, {"text_model": TEXT})
    vision = next(name for name in view.names if name.startswith("vision_model"))
    assert view.axes(vision)[0].tokens == [str(position) for position in range(10)]


def test_what_does_not_fit_is_refused(seen: Watch) -> None:
    with pytest.raises(ShapeError, match=r"text_model.* has 5 rows and 5 columns, but 10 tokens were given"):
        saccade.view(seen, {"text_model": PATCHES})
    with pytest.raises(UnknownNameError, match="no part of the model with attention 'txt_model'"):
        saccade.view(seen, {"txt_model": TEXT})
    with pytest.raises(OptionError, match="words must be a mapping too, and have no names"):
        saccade.view(seen, {"text_model": TEXT}, words=[0, 1, 2, 3, 4])
    with pytest.raises(OptionError, match="words can be a mapping only if tokens is one"):
        saccade.view(seen, TEXT, words={"text_model": [0, 1, 2, 3, 4]})
    with pytest.raises(OptionError, match="If tokens is a mapping, leave out source_tokens"):
        saccade.view(seen, {"text_model": TEXT}, source_tokens=PATCHES)
