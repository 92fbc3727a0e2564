"""Each family as its home library writes it: the same logits and attention, read and written back bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny import FILLING, MODELS, TOLERANCE, VOCABULARY, save

import saccade
from saccade.pretrained import Pretrained, read_pretrained, write_pretrained


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of a family, its folder, and what we make of it; each once."""
    made: dict[str, tuple[Any, Path, Pretrained]] = {}

    def get(name: str) -> tuple[Any, Path, Pretrained]:
        if name not in made:
            theirs = MODELS[name]()
            folder = save(theirs, tmp_path_factory.mktemp(name))
            made[name] = theirs, folder, read_pretrained(folder)
        return made[name]

    return get


def compare_attention(seen: saccade.Watch, part: str, expected: Any) -> None:
    for number, weights in enumerate(expected):
        torch.testing.assert_close(seen[f"{part.format(number)}"].weights().to(weights.dtype), weights, **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("name", FILLING)
def test_a_padded_batch_gives_the_same_logits_and_attention(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    tokens, lengths = torch.randint(2, VOCABULARY, (3, 13)), torch.tensor([13, 5, 8])
    real = torch.arange(13) < lengths[:, None]
    tokens = tokens.masked_fill(~real, theirs.config.pad_token_id)
    with saccade.watch(ours.network) as seen:
        logits = ours.network(tokens, lengths)
    expected = theirs(tokens, attention_mask=real.long(), output_attentions=True)
    torch.testing.assert_close(logits[real], expected.logits[real], **TOLERANCE)
    compare_attention(seen, "encoder.{}.self", expected.attentions)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_what_we_write_is_bit_for_bit_what_we_read(opened: Any, name: str, tmp_path: Path) -> None:
    theirs, folder, ours = opened(name)
    write_pretrained(ours, tmp_path)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert set(after) == set(before) - set(ours.unused)
    for key in after:
        assert after[key].dtype == before[key].dtype
        assert torch.equal(after[key], before[key]), key
    again = type(theirs).from_pretrained(tmp_path, attn_implementation="eager")
    for key, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key


@pytest.mark.parametrize("name", MODELS)
def test_several_files_with_an_index_are_read_like_one(opened: Any, name: str, tmp_path: Path) -> None:
    theirs, _, ours = opened(name)
    save(theirs, tmp_path, max_shard_size="3KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    again = read_pretrained(tmp_path).network.state_dict()
    assert all(torch.equal(tensor, again[key]) for key, tensor in ours.network.state_dict().items())
