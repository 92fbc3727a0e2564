"""What was once shown wrong without a word, each on the kind of model that showed it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_models import T5, both, padded
from timm_models import without_torchvision
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.utils import parametrizations, parametrize

import saccade
from saccade.errors import OptionError, StaleTraceError

#: Real weights stand beside the data.
WEIGHTS = Path(os.environ.get("SACCADE_DATA", ".")).parent / "weights" / "rxnmapper-albert"


class Attends(nn.Module):
    """Someone's layer: torch's attention with heads of its own."""

    def __init__(self, width: int = 12, heads: int = 3, **options: Any) -> None:
        super().__init__()
        self.heads, self.options = heads, options
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        for parameter in self.parameters():
            nn.init.normal_(parameter)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        keys = x if memory is None else memory
        query, key, value = self.split(self.query(x)), self.split(self.key(keys)), self.split(keys)
        output = F.scaled_dot_product_attention(query, key, value, **self.options)
        return x + output.transpose(1, 2).flatten(2)

    def weights(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Its weights in float64, with no mask."""
        double = copy.deepcopy(self).double()
        query = double.split(double.query(x.double()))
        key = double.split(double.key((x if memory is None else memory).double()))
        return torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, dim=-1).float()


def assert_weights(trace: saccade.Trace, expected: Tensor) -> None:
    assert trace.shape == tuple(expected.shape)
    torch.testing.assert_close(trace.weights(), expected.float(), atol=1e-5, rtol=0)


# --- 1. masks that are tensors of a class of their own --------------------------------------------------------


@pytest.mark.parametrize("bias", [causal_lower_right, causal_upper_left])
@pytest.mark.parametrize("size", [(6, 6), (4, 7)])
def test_a_causal_bias_is_what_it_stands_for(bias: Callable[..., Tensor], size: tuple[int, int]) -> None:
    class Layer(nn.Module):
        def forward(self, query: Tensor, key: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, key, attn_mask=bias(*size))

    torch.manual_seed(0)
    query, key = torch.randn(2, 3, size[0], 4), torch.randn(2, 3, size[1], 4)
    layer = Layer()
    expected = layer(query, key)
    with saccade.watch(layer) as seen:
        assert torch.equal(layer(query, key), expected)
    torch.testing.assert_close(seen["attention"].weights() @ key, expected, atol=1e-5, rtol=0)


def test_a_mask_of_an_unknown_class_is_refused() -> None:
    class Secret(Tensor):
        pass

    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.zeros(5, 5).as_subclass(Secret))

    layer = Layer()
    with saccade.watch(layer) as seen:
        layer(torch.randn(1, 2, 5, 4))
    with pytest.raises(OptionError, match="its mask is a Secret"):
        seen["attention"]


# --- 2. what is cross-attention follows from where the keys come from ----------------------------------------


def sources(seen: saccade.Watch) -> dict[str, str]:
    return {name: trace.place.source for name, trace in seen.items() if trace.place is not None}


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("is_same", [False, True], ids=["two inputs", "one input twice"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True")
def test_cross_attention_of_equal_lengths_in_torchs_transformer(is_training: bool, is_same: bool) -> None:
    torch.manual_seed(0)
    model = nn.Transformer(12, 2, 2, 2, 20, dropout=0.0, batch_first=True).train(is_training)
    source = torch.randn(2, 5, 12)
    target = source if is_same else torch.randn(2, 5, 12)
    with saccade.watch(model) as seen, torch.set_grad_enabled(is_training):
        model(source, target)
    assert sources(seen) == {name: "cross" if name.endswith("multihead_attn") else "self" for name in seen}
    assert len(seen) == 6
    view = saccade.view(seen, list("abcde"), source_tokens=list("vwxyz"))
    assert view.axes("decoder.layers.1.multihead_attn")[1].tokens == list("vwxyz")
    assert list(view.stacks) == ["encoder.layers.*.self_attn", "decoder.layers.*.self_attn"]
    numbered = saccade.view(seen, list("abcde"))
    assert numbered.axes("decoder.layers.1.multihead_attn")[1].tokens == list("01234")
    assert "source_tokens were not given" in numbered.describe("decoder.layers.1.multihead_attn", 0)


def test_cross_attention_of_equal_lengths_in_x_transformers() -> None:
    from x_transformers import XTransformer

    torch.manual_seed(0)
    options = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in {
        "num_tokens": 31, "depth": 2, "heads": 2, "max_seq_len": 16, "attn_flash": True}.items()}  # fmt: skip
    model = XTransformer(dim=24, **options).eval()
    source, target = torch.randint(0, 31, (2, 7)), torch.randint(0, 31, (2, 7))
    with saccade.watch(model) as seen, torch.no_grad():
        memory = model.encoder(source, return_embeddings=True)
        model.decoder.net(target, context=memory)
    assert sorted(sources(seen).values()) == ["cross", "cross", "self", "self", "self", "self"]
    across = [name for name, source in sources(seen).items() if source == "cross"]
    view = saccade.view(seen, [f"t{i}" for i in range(7)], source_tokens=[f"s{i}" for i in range(7)])
    assert all(view.columns[name].tokens[0] == "s0" for name in across)
    assert not any(name in stack for stack in view.stacks.values() for name in across)
    assert [len(stack) for stack in view.stacks.values()] == [2, 2]


def test_keys_that_lose_their_history_are_unknown() -> None:
    """Computed where torch does not tell of it: neither its own sequence nor another may be claimed."""

    class Layer(Attends):
        def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
            key = torch.from_numpy(self.key(x).detach().numpy())
            heads = [self.split(part) for part in (self.query(x), key, x)]
            return F.scaled_dot_product_attention(*heads)

    layer, x = Layer(), torch.randn(2, 5, 12)
    with saccade.watch(layer) as seen:
        layer(x)
    assert_weights(seen["attention"], layer.weights(x))
    view = saccade.view(seen)
    assert view.kind("attention") == "unknown"
    assert not view.stacks


# --- 3. one outermost forward is one set of traces -------------------------------------------------------------


def test_skipped_layers_leave_nothing_behind() -> None:
    from transformers import BartConfig, BartModel

    config = BartConfig(
        vocab_size=31, d_model=12, encoder_layers=6, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, encoder_layerdrop=0.5, dropout=0.0,
        attention_dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BartModel._from_config(config, attn_implementation="sdpa").train()
    ran: set[str] = set()
    for number, layer in enumerate(model.encoder.layers):
        layer.register_forward_hook(lambda *_, number=number: ran.add(f"encoder.layers.{number}.self_attn"))
    with saccade.watch(model) as seen:
        found = set()
        for seed in range(6):
            torch.manual_seed(seed)
            ran.clear()
            model(torch.randint(3, 31, (2, 7)), decoder_input_ids=torch.randint(3, 31, (2, 5)))
            encoder = [name for name in seen if name.startswith("encoder")]
            assert set(encoder) == ran
            assert encoder == sorted(encoder)
            assert saccade.view(seen).stacks.get("encoder.layers.*.self_attn", []) == encoder
            found.add(len(ran))
        assert len(found) > 1  # so layers were skipped


# --- 4. a rollout leaves nothing out without a word ------------------------------------------------------------


@pytest.mark.skipif(not WEIGHTS.exists(), reason="the weights of ALBERT are not here")
def test_the_rollout_of_shared_layers_is_of_all_of_them() -> None:
    from transformers import AlbertModel

    sdpa, eager = (AlbertModel.from_pretrained(WEIGHTS, attn_implementation=kind).eval() for kind in ("sdpa", "eager"))
    ids = torch.randint(5, 300, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = eager(ids, output_attentions=True).attentions
        with saccade.watch(sdpa) as seen:
            sdpa(ids)
    view = saccade.view(seen)
    assert [len(names) for names in view.stacks.values()] == [len(expected)] == [12]
    flow = torch.eye(9, dtype=torch.float64)
    for weights in expected:
        flow = (weights[0].mean(0).double() + torch.eye(9)) / 2 @ flow
    torch.testing.assert_close(view.rollout(), flow.float(), atol=1e-5, rtol=0)


class Model(nn.Module):
    """Layers one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class WrittenOut(Attends):
    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        query, key = self.split(self.query(x)), self.split(self.key(x))
        weights = F.dropout(torch.softmax(query @ key.transpose(-2, -1), dim=-1), 0.0)
        return x + (weights @ self.split(x)).transpose(1, 2).flatten(2)


class Windows(Attends):
    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        return super().forward(x.reshape(-1, 3, 12)).reshape(x.shape)


class Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll(1, dims=1)


class FiveDimensions(Attends):
    def split(self, x: Tensor) -> Tensor:
        return super().split(x).unsqueeze(1)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        heads = [self.split(part) for part in (self.query(x), self.key(x), x)]
        return x + F.scaled_dot_product_attention(*heads).squeeze(1).transpose(1, 2).flatten(2)


GAPS = {
    "written out": (WrittenOut, "would leave out layers.1.*written out with a softmax"),
    "windows": (Windows, "layers.1 looks at parts of the input|would leave out|not shown"),
    "turned": (Turned, "follows an attention that is not shown here, or its tokens were reordered"),
    "refused": (FiveDimensions, "would leave out layers.1: its queries have 5 dimensions"),
}


@pytest.mark.parametrize(("kind", "reason"), GAPS.values(), ids=GAPS)
@pytest.mark.parametrize("place", [1, 2], ids=["between", "last"])
def test_a_stack_with_a_gap_has_no_rollout(kind: type[nn.Module], reason: str, place: int) -> None:
    layers: list[nn.Module] = [Attends(), Attends()]
    layers.insert(place, kind())
    model = Model(*layers)
    with saccade.watch(model) as seen:
        model(torch.randn(2, 6, 12))
    view = saccade.view(seen)
    if kind is Turned and place == 2:
        assert view.stacks == {"layers.*": ["layers.0", "layers.1"]}  # nothing attends after it
        return
    assert not view.stacks
    with pytest.raises(OptionError, match=reason.replace("layers.1", f"layers.{place}")):
        view.rollout()


def test_a_part_of_the_traces_has_no_rollout_of_the_whole() -> None:
    model = Model(Attends(), Attends(), Attends())
    with saccade.watch(model) as seen:
        model(torch.randn(2, 6, 12))
    assert saccade.view(seen).stacks == {"layers.*": ["layers.0", "layers.1", "layers.2"]}
    with pytest.raises(OptionError, match="follows an attention that is not shown here"):
        saccade.view({name: seen[name] for name in ("layers.0", "layers.2")}).rollout()


def test_a_window_of_keys_has_no_rollout() -> None:
    """Gemma 3 beyond its window: some layers drop old keys."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=31, hidden_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=12,
        intermediate_size=8, max_position_embeddings=64, sliding_window=4, bos_token_id=1, eos_token_id=2,
        pad_token_id=0, layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Gemma3ForCausalLM._from_config(config, attn_implementation="sdpa").eval()
    ids = torch.randint(3, 31, (1, 5))
    with saccade.watch(model) as seen:
        model.generate(ids, min_new_tokens=6, max_new_tokens=6, do_sample=False)
    assert set(seen.refused) == {"model.layers.0.self_attn", "model.layers.2.self_attn"}
    with pytest.raises(OptionError, match="There is no rollout"):
        saccade.view(seen).rollout()


def test_cait_is_named_where_it_is_written_out() -> None:
    with without_torchvision() as timm:
        model = timm.create_model("cait_xxs24_224", depth=3, img_size=64).eval()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.randn(1, 3, 64, 64))
    assert list(seen) == ["blocks_token_only.0.attn", "blocks_token_only.1.attn"]
    assert list(seen.gaps) == [f"blocks.{layer}.attn (written out)" for layer in range(3)]
    with pytest.raises(OptionError, match="rollout"):
        saccade.view(seen).rollout()


# --- 5. changed versions of torch's modules --------------------------------------------------------------------


def doubled(module: nn.MultiheadAttention, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda query, key, value, **options: original(3 * query, key, value, **options)


class OwnBlock(nn.TransformerEncoderLayer):
    def _sa_block(self, x: Tensor, *masks: Any, **options: Any) -> Tensor:
        return super()._sa_block(3 * x, *masks, **options)


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("where", ["instance", "class"])
def test_a_patched_forward_is_what_is_shown(where: str, is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen as it was computed, or refused; never torch's own path instead."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 2, batch_first=True).train(is_training)
    x = torch.randn(2, 5, 12)
    with torch.no_grad():
        expected = module(3 * x, x, x, average_attn_weights=False)[1]
    if where == "instance":
        module.forward = doubled(module, module.forward)  # type: ignore[method-assign]
    else:
        original = nn.MultiheadAttention.forward
        patched = lambda self, query, *rest, **options: original(self, 3 * query, *rest, **options)  # noqa: E731
        monkeypatch.setattr(nn.MultiheadAttention, "forward", patched)
    with torch.set_grad_enabled(is_training):
        unwatched = module(x, x, x)[0]
        with saccade.watch(module) as seen:
            assert torch.equal(module(x, x, x)[0], unwatched)
    if is_training:
        assert_weights(seen["attention"], expected)
    else:
        with pytest.raises(OptionError, match="a changed version of torch's"):
            seen["attention"]


@pytest.mark.parametrize("is_training", [False, True])
def test_an_own_block_of_a_layer_is_what_is_shown(is_training: bool) -> None:
    """In training the layer calls it; in inference torch's fast path passes it by."""
    torch.manual_seed(0)
    layer = OwnBlock(12, 2, 20, dropout=0.0, batch_first=True).train(is_training)
    x = torch.randn(2, 5, 12)
    with torch.set_grad_enabled(is_training):
        unwatched = layer(x)
        with saccade.watch(layer) as seen:
            assert torch.equal(layer(x), unwatched)
    inputs = 3 * x if is_training else x
    with torch.no_grad():
        expected = layer.self_attn(inputs, inputs, inputs, average_attn_weights=False)[1]
    assert_weights(seen["self_attn"], expected)


def test_a_forward_that_calls_the_function_is_watched() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 2, batch_first=True).eval()
    own = Attends()
    module.forward = lambda x: own.forward(x)  # type: ignore[method-assign, assignment]
    x = torch.randn(2, 5, 12)
    with torch.no_grad(), saccade.watch(module) as seen:
        module(x)
    assert_weights(seen["attention"], own.weights(x))


def test_a_subclass_that_changes_nothing_keeps_its_fast_path() -> None:
    class Named(nn.MultiheadAttention):
        pass

    torch.manual_seed(0)
    module, x = Named(12, 2, batch_first=True).eval(), torch.randn(2, 5, 12)
    with torch.no_grad():
        unwatched = module(x, x, x)[0]
        with saccade.watch(module) as seen:
            assert torch.equal(module(x, x, x)[0], unwatched)
        assert_weights(seen["attention"], module(x, x, x, average_attn_weights=False)[1])


# --- 6. queries of five dimensions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hiera_tiny_224", {"embed_dim": 8, "stages": (1, 1, 1, 1), "num_heads": 1, "img_size": (224, 224)}),
        ("nest_tiny", {}),
    ],
)
def test_heads_and_windows_are_not_swapped(name: str, options: dict[str, Any]) -> None:
    with without_torchvision() as timm:
        model = timm.create_model(name, **options).eval()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.randn(1, 3, 224, 224))
    assert seen.refused
    assert all("5 dimensions" in reason for reason in seen.refused.values())
    assert all(trace.shape[0] == 1 for trace in seen.values())  # what is shown has its batch, not windows, in front


# --- 7. only what continues is joined ---------------------------------------------------------------------------


class WithPrefix(Attends):
    """Keys that are parameters before those of the tokens: prefix tuning."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix = nn.Parameter(torch.randn(1, 3, 4, 4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        query, key = self.split(self.query(x)), self.split(self.key(x))
        key = torch.cat([self.prefix.expand(len(x), -1, -1, -1), key], dim=2)
        return F.scaled_dot_product_attention(query, key, key)


class Prototypes(Attends):
    """Keys that are parameters alone."""

    def __init__(self) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(1, 3, 7, 4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(self.split(self.query(x)), self.prototypes, self.prototypes)


class ExtraKey(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(12, 3, batch_first=True, add_bias_kv=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.heads(x, x, x)[0]
        return output


@pytest.mark.parametrize("kind", [WithPrefix, Prototypes, ExtraKey])
def test_forwards_with_parameters_among_their_keys_are_not_joined(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = kind()
    x = torch.randn(2, 6, 12)
    with saccade.watch(model) as seen:
        for length in (5, 3, 1, 2, 2, 4, 1, 1):
            model(x[:, :length])
            (trace,) = seen.values()
            assert trace.shape[2] == length


def test_a_token_that_is_taken_back_is_replaced() -> None:
    model, eager = both("llama")
    ids = padded([7], left=True)["input_ids"]
    with saccade.watch(model) as seen, torch.no_grad():
        cache = model(ids).past_key_values
        for token in (5, 9, 9, 12):
            model(torch.tensor([[token]]), past_key_values=cache)
            cache.crop(-1)
    expected = eager(torch.cat([ids, torch.tensor([[12]])], 1), output_attentions=True).attentions
    for name, weights in zip(seen, expected, strict=True):
        assert_weights(seen[name], weights)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_decoding_that_looks_ahead_shows_the_tokens_that_stayed(name: str) -> None:
    """Prompt lookup and assisted decoding: candidates are tried, and some are taken back."""
    model, eager = both(name)
    ids = torch.tensor([[5, 9, 4, 5, 9, 4, 5, 9]])
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "prompt_lookup_num_tokens": 3}
    unwatched = model.generate(ids, **options)
    with saccade.watch(model) as seen:
        watched = model.generate(ids, **options)
    assert torch.equal(watched, unwatched)
    expected = eager(watched[:, :-1], output_attentions=True).attentions
    assert len(seen) == 2
    for trace, weights in zip(seen.values(), expected, strict=True):
        rows = trace.shape[2]
        assert rows >= watched.shape[1] - 1  # the last candidates may have been tried beyond the end
        tile = trace.tile(slice(0, watched.shape[1] - 1), slice(0, watched.shape[1] - 1))
        torch.testing.assert_close(tile, weights, atol=1e-5, rtol=0)


def test_two_texts_in_turns_are_refused() -> None:
    """Classifier-free guidance: each step is two forwards, with a cache each."""
    model, _ = both("llama")
    ids, negative = torch.randint(3, 31, (1, 7)), torch.randint(3, 31, (1, 4))
    with saccade.watch(model) as seen:
        model.generate(
            ids, min_new_tokens=4, max_new_tokens=4, do_sample=False, guidance_scale=1.5,
            negative_prompt_ids=negative, negative_prompt_attention_mask=torch.ones_like(negative),
        )  # fmt: skip
        assert not seen
        assert all("alternated" in reason for reason in seen.refused.values())
        assert len(seen.refused) == 2
        model(ids)
        assert [trace.shape for trace in seen.values()] == [(1, 6, 7, 7)] * 2


# --- 8. watching changes nothing --------------------------------------------------------------------------------


class DropConnect(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return F.dropout(weight, 0.5)


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("kind", ["spectral", "dropped"])
def test_parametrised_weights_are_computed_once(kind: str, is_training: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 2, batch_first=True)
    if kind == "spectral":
        parametrizations.spectral_norm(module, "in_proj_weight")
    else:
        parametrize.register_parametrization(module, "in_proj_weight", DropConnect())
    module.train(is_training)
    other, x = copy.deepcopy(module), torch.randn(2, 5, 12)
    with torch.set_grad_enabled(is_training):
        torch.manual_seed(1)
        unwatched = [other(x, x, x, average_attn_weights=False) for _ in range(2)]
        state = torch.get_rng_state()
        torch.manual_seed(1)
        with saccade.watch(module) as seen:
            watched = [module(x, x, x, average_attn_weights=False) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)
    for (output, weights), (again, same) in zip(unwatched, watched, strict=True):
        assert torch.equal(output, again)
        assert torch.equal(weights, same)
    assert_weights(seen["attention"], unwatched[1][1].detach())


# --- 9. padding is no token -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "weights"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "marian"])
def test_measures_of_a_padded_sequence_are_those_of_it_alone(name: str, is_watched: bool) -> None:
    model = both(name)[0 if is_watched else 1]
    both_, alone = padded([7, 4], left=name == "gpt2"), {}
    real = both_["attention_mask"][1].bool()
    alone["input_ids"] = both_["input_ids"][1:, real]
    if name == "gpt2":
        both_["position_ids"] = (both_["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    if name == "marian":
        target = padded([5, 3], left=False)
        both_ |= {f"decoder_{field}": value for field, value in target.items()}
        alone["decoder_input_ids"] = target["input_ids"][1:, :3]
    views = []
    for inputs, batch in ((both_, 1), (alone, 0)):
        with saccade.watch(model) as seen, torch.no_grad():
            output = model(**inputs, output_attentions=not is_watched)
        views.append(saccade.view(seen if is_watched else output, batch=batch))
    assert len(views[0].names) == {"marian": 6}.get(name, 2)
    for attention in views[0].names:
        assert len({view.kind(attention) for view in views}) == 1
        torch.testing.assert_close(*(view.entropy(attention) for view in views), atol=1e-4, rtol=0)
        if views[0].is_self(attention):
            torch.testing.assert_close(*(view.distance(attention) for view in views), atol=1e-4, rtol=0)


# --- 10. small print --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [-1e4, -1e5, -1e6, -1e9, -3e9, torch.finfo(torch.float32).min])
def test_rows_masked_by_finite_numbers_are_as_torch_rounds_them(level: float) -> None:
    class Layer(nn.Module):
        def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, torch.eye(5).expand(2, 3, 5, 5), attn_mask=mask)

    torch.manual_seed(0)
    query, key = torch.randint(-3, 4, (2, 3, 4, 5)).float(), torch.randint(-3, 4, (2, 3, 5, 5)).float()
    mask = torch.full((4, 5), level)
    mask[0, 2:] = mask[1, 1] = 0.0
    mask[2, 3:] += mask[2, 3:]  # two masks that were added; of float32's least number, -inf
    layer = Layer()
    with saccade.watch(layer) as seen:
        output = layer(query, key, mask)  # the values are unit vectors: the output is the weights
    torch.testing.assert_close(seen["attention"].weights(), output, atol=1e-5 if level < -1e5 else 1e-3, rtol=0)


def test_a_layer_that_is_called_through_a_method_shows_all_its_calls() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Attends()

        def encode(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = torch.tanh(self.layer(x))
            return x

    torch.manual_seed(0)
    model, x = Encoder(), torch.randn(2, 5, 12)
    with saccade.watch(model) as seen:
        for _ in range(2):
            model.encode(x)
            assert list(seen) == ["layer", "layer#2", "layer#3"]
    assert saccade.view(seen).stacks == {"layer": ["layer", "layer#2", "layer#3"]}
    for trace in seen.values():
        assert_weights(trace, model.layer.weights(x))
        x = torch.tanh(model.layer(x))


def test_writing_through_data_is_noticed() -> None:
    class Layer(nn.Module):
        def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, key, attn_mask=mask)

    layer = Layer()
    for changed in range(3):
        given = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(5, 5)
        with saccade.watch(layer) as seen:
            layer(*given)
        seen["attention"].weights()
        given[changed].data[..., 1, 2] += 1
        with pytest.raises(StaleTraceError, match="changed in place"):
            seen["attention"].row(1, head=2, batch=1)


def test_bytes_count_the_bias_that_is_kept() -> None:
    model, _ = both("t5")
    size = 64
    with saccade.watch(model) as seen, torch.no_grad():
        model(input_ids=torch.randint(3, 31, (1, size)), decoder_input_ids=torch.zeros(1, 2, dtype=torch.long))
    trace = seen["encoder.block.0.layer.0.SelfAttention"]
    assert trace.nbytes >= T5.num_heads * size * size * 4


def test_calls_that_differ_in_their_values_alone_are_one_attention() -> None:
    from transformers import DiffLlamaConfig, DiffLlamaModel

    config = DiffLlamaConfig(
        vocab_size=31, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=8, max_position_embeddings=32, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    sdpa, eager = (
        DiffLlamaModel._from_config(copy.deepcopy(config), attn_implementation=kind).eval()
        for kind in ("sdpa", "eager")
    )
    eager.load_state_dict(sdpa.state_dict())
    ids = torch.randint(3, 31, (2, 7))
    with torch.no_grad(), saccade.watch(sdpa) as seen:
        sdpa(ids)
    assert list(seen) == ["layers.0.self_attn", "layers.1.self_attn"]
    with torch.no_grad():
        expected = eager(ids, output_attentions=True).attentions
    for trace, weights in zip(seen.values(), expected, strict=True):
        assert_weights(trace, weights)
