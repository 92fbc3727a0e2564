"""``generate()`` of Hugging Face, step by step with a cache: one trace, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_models import NAMES, both, padded
from torch import Tensor, nn

import saccade
from saccade.attention.watching.foreign import steps
from saccade.errors import OptionError

GREEDY = {"min_new_tokens": 5, "max_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True}
LENGTHS = {"one": [7], "padded": [7, 4, 5]}


def inputs_of(name: str, lengths: list[int]) -> dict[str, Tensor]:
    return padded(lengths, left=name not in ("marian", "t5"))


def compare_steps(trace: saccade.Trace, steps: list[Tensor], real: Tensor) -> None:
    """All rows of all steps; ``real`` says which rows of the first step are no padding."""
    row = 0
    for number, expected in enumerate(steps):
        _, _, queries, keys = expected.shape
        found = trace.tile(slice(row, row + queries), slice(None))
        keep = real[:, None, :, None] if number == 0 else torch.ones(1)
        torch.testing.assert_close(found[..., :keys] * keep, expected * keep, atol=1e-5, rtol=0)
        assert not found[..., keys:].any()
        row += queries
    assert trace.shape[2] == row


@pytest.mark.parametrize("batch", LENGTHS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
def test_greedy_steps_are_rows_of_one_trace(name: str, batch: str) -> None:
    model, eager = both(name)
    inputs = inputs_of(name, LENGTHS[batch])
    unwatched = model.generate(**inputs, **GREEDY, output_logits=True)
    with saccade.watch(model) as seen:
        for _ in range(2):  # the second starts anew, though it asks the same
            watched = model.generate(**inputs, **GREEDY, output_logits=True)
    assert torch.equal(unwatched.sequences, watched.sequences)
    assert all(torch.equal(a, b) for a, b in zip(unwatched.logits, watched.logits, strict=True))
    expected = eager.generate(**inputs, **GREEDY, output_attentions=True)
    assert torch.equal(expected.sequences, watched.sequences)
    for kind, pattern in NAMES[name].items():
        for layer in range(2):
            trace = seen[pattern.format(layer)]
            if kind == "encoder_attentions":
                compare_steps(trace, [expected[kind][layer]], inputs["attention_mask"])
            else:
                steps = [step[layer] for step in expected[kind]]
                real = inputs["attention_mask"] if kind == "attentions" else torch.ones(1, 1)
                compare_steps(trace, steps, real)
                check_labels(saccade.view(seen, [f"t{row}" for row in range(trace.shape[2])]), trace.name, kind)


def check_labels(view: saccade.View, name: str, kind: str) -> None:
    """All tokens that were generated have their labels, and self-attentions a rollout."""
    rows, columns = view.axes(name)
    assert rows.tokens[-1] == f"t{len(rows) - 1}"
    if kind != "cross_attentions":
        assert columns == rows
        assert any(name in names for names in view.stacks.values())


@pytest.mark.parametrize("batch", LENGTHS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
def test_a_static_cache_is_copied(name: str, batch: str) -> None:
    """Its keys are a buffer that each step writes into."""
    model, eager = both(name)
    inputs = inputs_of(name, LENGTHS[batch])
    options: dict[str, Any] = {**GREEDY, "cache_implementation": "static", "disable_compile": True}
    unwatched = model.generate(**inputs, **options).sequences
    with saccade.watch(model) as seen:
        assert torch.equal(model.generate(**inputs, **options).sequences, unwatched)
    expected = eager.generate(**inputs, **GREEDY, output_attentions=True)
    kind = "decoder_attentions" if name in ("marian", "t5") else "attentions"
    steps = [step[1] for step in expected[kind]]
    real = inputs["attention_mask"] if kind == "attentions" else torch.ones(1, 1)
    compare_steps(seen[NAMES[name][kind].format(1)], steps, real)


@pytest.mark.parametrize("length", [2, 8])
@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static", "disable_compile": True}])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
def test_beam_search_is_refused(name: str, cache: dict[str, Any], length: int) -> None:
    model, _ = both(name)
    inputs = inputs_of(name, [7, 4])
    # Short outputs too, in which the beams need not change places: each is still one of several candidates for a text.
    options = {**GREEDY, "min_new_tokens": length, "max_new_tokens": length, "num_beams": 3, **cache}
    unwatched = model.generate(**inputs, **options).sequences
    with saccade.watch(model) as seen:
        assert torch.equal(model.generate(**inputs, **options).sequences, unwatched)
        for kind, pattern in NAMES[name].items():
            if kind == "encoder_attentions":
                assert seen[pattern.format(1)].shape == (2, 3, 7, 7)
                continue
            with pytest.raises(OptionError, match=r"replaced between the steps, as in beam search"):
                seen[pattern.format(1)]
            assert pattern.format(1) not in seen
            assert f"{pattern.format(1)}: refused" in repr(seen)
        model.generate(**inputs, **GREEDY)  # what comes after is shown again
        assert all(seen[pattern.format(1)].shape[0] == 2 for pattern in NAMES[name].values())


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_sampled_sequences_keep_their_places(name: str) -> None:
    model, _ = both(name)
    inputs = inputs_of(name, [7, 4])
    torch.manual_seed(3)
    options = {"min_new_tokens": 4, "max_new_tokens": 4, "do_sample": True, "num_return_sequences": 2, "top_k": 0}
    with saccade.watch(model) as seen:
        sequences = model.generate(**inputs, **options)
        trace = seen[NAMES[name]["attentions"].format(1)]
        assert trace.shape[0] == 4
        stepped = trace.weights()
        mask = torch.cat([inputs["attention_mask"].repeat_interleave(2, 0), torch.ones(4, 3, dtype=torch.long)], 1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        model(sequences[:, :-1], attention_mask=mask, position_ids=positions)
        forced = seen[trace.name].weights()
    rows = mask[:, None, :, None]
    torch.testing.assert_close(stepped * rows, forced * rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
def test_many_steps_are_joined_into_few_calls(name: str, values: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SHARE_EVERY", 3)
    model, eager = both(name)
    inputs = inputs_of(name, [7])
    options = {**GREEDY, "min_new_tokens": 9, "max_new_tokens": 9}
    with saccade.watch(model, values=values) as seen:
        model.generate(**inputs, **options)
    expected = eager.generate(**inputs, **options, output_attentions=True)
    for kind in NAMES[name].keys() - {"encoder_attentions"}:
        trace = seen[NAMES[name][kind].format(1)]
        compare_steps(trace, [step[1] for step in expected[kind]], torch.ones(1, 1))
        assert len(trace._segments) <= 5  # the prompt, a first step, and 3 + 3 + 1 steps
        if values:
            found = trace.weights() @ trace.values()
            torch.testing.assert_close(trace.outputs(), found, atol=1e-5, rtol=1e-5)


class Recurrent(nn.Module):
    """Attention with a cache, after a layer that adds up all tokens so far."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.embedding, self.mixes = nn.Embedding(9, 4), mixes

    def forward(self, ids: Tensor, cache: dict[str, Tensor]) -> Tensor:
        x = self.embedding(ids)
        if self.mixes:
            x = x.cumsum(1) + cache.get("sum", torch.zeros(1))
            cache["sum"] = x[:, -1:]
        cache["keys"] = keys = torch.cat([cache["keys"], x], 1) if "keys" in cache else x
        return F.scaled_dot_product_attention(x[:, None], keys[:, None], keys[:, None])


@pytest.mark.parametrize("mixes", [False, True])
def test_what_a_cache_keeps_besides_keys_mixes_tokens(mixes: bool) -> None:
    """A first text of one token does not show that the model mixes tokens; the next step does."""
    model, cache = Recurrent(mixes), dict[str, Tensor]()
    with torch.no_grad(), saccade.watch(model) as seen:
        for word in (3, 5, 2, 7):
            model(torch.tensor([[word]]), cache)
    view = saccade.view(seen, list("abcd"))
    assert view.axes("attention")[0].tokens == list("0123" if mixes else "abcd")
    assert bool(view.stacks) is not mixes


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_sequences_of_several_texts_are_not_mixed(name: str) -> None:
    """The encoder reads two texts, and the decoder writes two sequences for each: sequence 1 is not text 1."""
    model, _ = both(name)
    inputs = inputs_of(name, [7, 4])
    torch.manual_seed(3)
    options = {"min_new_tokens": 4, "max_new_tokens": 4, "do_sample": True, "num_return_sequences": 2, "top_k": 0}
    with saccade.watch(model) as seen:
        model.generate(**inputs, **options)
    assert {trace.shape[0] for trace in seen.values()} == {2, 4}
    with pytest.raises(
        OptionError, match=r"holds 2 sequences but .* holds 4, so an index does not say which of them belong"
    ):
        saccade.view(seen, list("abcd"), source_tokens=list("stuvwxy"), batch=1)
    decoder = {label: trace for label, trace in seen.items() if trace.shape[0] == 4}
    view = saccade.view(decoder, list("abcd"), batch=3)
    across = NAMES[name]["cross_attentions"].format(1)
    assert view.axes(across)[0].tokens == list("abcd")
    assert view.axes(across)[1].tokens == list("0123456")
    torch.testing.assert_close(view.matrix(across, 0), seen[across].weights(head=0, batch=3))
