"""Editing anyone's model: a head that is off is W_O with zeros in its columns; what cannot be edited is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
import torch
import torch.nn.functional as F
from foreign_models import both, padded
from timm_models import without_torchvision
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import saccade
from saccade.errors import OptionError, ShapeError, UnknownNameError


class NanoAttention(nn.Module):
    """Causal self-attention as nanoGPT writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, 3, 4).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        output: Tensor = self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))
        return output


class Nano(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([NanoAttention(), NanoAttention()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class TorchAttention(nn.Module):
    """nn.MultiheadAttention with the options that take it along its different paths."""

    def __init__(self, needs_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 4, batch_first=True)
        self.needs_weights = needs_weights

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.attention(x, x, x, need_weights=self.needs_weights)[0]
        return output


class Case(NamedTuple):
    model: nn.Module
    run: Callable[[nn.Module], Tensor]
    attention: str
    projection: str  # the module that holds W_O
    num_heads: int
    is_transposed: bool = False  # GPT-2's Conv1D keeps its weight the other way round


def of_hugging_face(name: str, attention: str, projection: str, num_heads: int = 3, **inputs: Tensor) -> Case:
    model, _ = both(name)
    inputs = inputs or padded([7, 4], left=False)
    if name in ("marian", "t5"):
        inputs["decoder_input_ids"] = torch.tensor([[0, 5, 9, 4, 8], [0, 3, 7, 6, 2]])
    return Case(model, lambda one: one(**inputs)[0], attention, projection, num_heads, name == "gpt2")


def of_module(model: nn.Module, attention: str, projection: str, num_heads: int = 3) -> Case:
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    return Case(model, lambda one: cast(Tensor, one(x)), attention, projection, num_heads)


def of_x_transformers() -> Case:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=12, depth=2, heads=3, attn_dim_head=4, attn_flash=True)
    model = TransformerWrapper(num_tokens=31, max_seq_len=16, attn_layers=layers)
    ids = torch.arange(12).view(2, 6)
    run = lambda one: cast(Tensor, one(ids))  # noqa: E731
    return Case(model, run, "attn_layers.layers.0.1.attend", "attn_layers.layers.0.1.to_out", 3)


def of_timm() -> Case:
    with without_torchvision() as timm:
        model = timm.create_model("vit_tiny_patch16_224", depth=2, img_size=32, embed_dim=12, num_heads=3)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return Case(model, lambda one: cast(Tensor, one(images)), "blocks.0.attn", "blocks.0.attn.proj", 3)


def encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 4, 17, batch_first=True, **options)  # an odd number has no fast path
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not options)


CASES: dict[str, Callable[[], Case]] = {
    "BERT": lambda: of_hugging_face("bert", "encoder.layer.0.attention.self", "encoder.layer.0.attention.output.dense"),
    "GPT-2": lambda: of_hugging_face("gpt2", "transformer.h.0.attn", "transformer.h.0.attn.c_proj"),
    "Llama": lambda: of_hugging_face("llama", "model.layers.0.self_attn", "model.layers.0.self_attn.o_proj", 6),
    "T5 across": lambda: of_hugging_face(
        "t5", "decoder.block.1.layer.1.EncDecAttention", "decoder.block.1.layer.1.EncDecAttention.o"
    ),
    "T5": lambda: of_hugging_face(
        "t5", "encoder.block.0.layer.0.SelfAttention", "encoder.block.0.layer.0.SelfAttention.o"
    ),
    "Marian": lambda: of_hugging_face(
        "marian", "model.decoder.layers.0.encoder_attn", "model.decoder.layers.0.encoder_attn.out_proj", 2
    ),
    "ViT": lambda: of_hugging_face(
        "vit", "layers.1.attention", "layers.1.attention.o_proj", pixel_values=torch.randn(2, 3, 6, 6)
    ),
    "nanoGPT": lambda: of_module(Nano(), "blocks.0", "blocks.0.c_proj"),
    "x-transformers": of_x_transformers,
    "timm": of_timm,
    "MultiheadAttention": lambda: of_module(TorchAttention(False), "attention", "attention.out_proj", 4),
    "MultiheadAttention with weights": lambda: of_module(TorchAttention(True), "attention", "attention.out_proj", 4),
    "TransformerEncoder": lambda: of_module(encoder(), "layers.0.self_attn", "layers.0.self_attn.out_proj", 4),
    "TransformerEncoder, norm first": lambda: of_module(
        encoder(norm_first=True), "layers.1.self_attn", "layers.1.self_attn.out_proj", 4
    ),
}


def case_of(name: str) -> Case:
    torch.manual_seed(0)
    case = CASES[name]()
    with torch.no_grad():
        for parameter in case.model.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    case.model.eval()
    return case


def zeroed_by_hand(case: Case, head: int) -> nn.Module:
    """A copy in which W_O takes nothing from a head."""
    made = copy.deepcopy(case.model)
    weight = cast(Tensor, made.get_submodule(case.projection).weight)
    weight = weight.mT if case.is_transposed else weight
    width = weight.shape[1] // case.num_heads
    with torch.no_grad():
        weight[:, head * width : (head + 1) * width] = 0.0
    return made


@pytest.mark.parametrize("context", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", CASES)
def test_a_head_that_is_off_is_a_head_zeroed_by_hand(name: str, context: Any) -> None:
    case = case_of(name)
    with context():
        whole = case.run(case.model)
        for head in (0, case.num_heads - 1):
            with saccade.edit(case.model, without_heads=[f"{case.attention}:{head}"]) as made:
                off = case.run(case.model)
            assert made.unmet == []
            torch.testing.assert_close(off, case.run(zeroed_by_hand(case, head)), atol=1e-6, rtol=1e-6)
            assert (off - whole).abs().max() > 1e-3
        assert torch.equal(case.run(case.model), whole)  # an edit ends with its block
        with saccade.edit(case.model):
            assert torch.equal(case.run(case.model), whole)


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_what_is_watched_under_an_edit_is_the_edited_attention(name: str) -> None:
    case = case_of(name)
    with saccade.watch(case.model) as before:
        case.run(case.model)
    with saccade.edit(case.model, without_links=[(case.attention, 3, 1), (f"{case.attention}:1", 2, 0)]) as made:
        unwatched = case.run(case.model)
        with saccade.watch(case.model) as seen:
            assert torch.equal(case.run(case.model), unwatched)
    assert made.unmet == []
    expected = before[case.attention].weights().double()
    expected[:, :, 3, 1] = 0
    expected[:, 1, 2, 0] = 0
    expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(seen[case.attention].weights().double(), expected, atol=1e-6, rtol=0)
    assert list(seen) == list(before)


@pytest.mark.parametrize("name", ["BERT", "Llama", "nanoGPT", "MultiheadAttention with weights", "x-transformers"])
@torch.no_grad()
def test_the_output_of_another_input_makes_the_same_difference(name: str) -> None:
    """With its own output, nothing changes; with zeros, the head is off."""
    case = case_of(name)
    with saccade.watch(case.model, values=True) as seen:
        whole = case.run(case.model)
    own = seen[case.attention].outputs(head=1)
    with saccade.edit(case.model, set_heads={f"{case.attention}:1": own}):
        torch.testing.assert_close(case.run(case.model), whole, atol=1e-5, rtol=1e-5)
    with saccade.edit(case.model, set_heads={f"{case.attention}:1": torch.zeros(1)}):
        none = case.run(case.model)
    with saccade.edit(case.model, without_heads=[f"{case.attention}:1"]):
        assert torch.equal(case.run(case.model), none)
    mean = own.mean((0, 1))
    with saccade.edit(case.model, set_heads={f"{case.attention}:1": mean}), saccade.watch(case.model) as seen:
        assert not torch.equal(case.run(case.model), whole)
    with (
        pytest.raises(ShapeError, match=r"has shape \(11, .*; expected \(batch, positions, width\) = \(2, "),
        saccade.edit(case.model, set_heads={f"{case.attention}:1": own.new_zeros(11, own.shape[-1])}),
    ):
        case.run(case.model)


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
def test_generated_steps_are_at_their_own_position(name: str) -> None:
    """The logits of each step are those of one forward over the finished text, with the same links forbidden."""
    model, _ = both(name)
    attention = {"gpt2": "transformer.h.1.attn", "llama": "model.layers.0.self_attn"}.get(name)
    inputs = padded([7], left=False)
    if name == "marian":
        links = [("model.decoder.layers.1.self_attn", 3, 1)]
        links += [("model.decoder.layers.1.encoder_attn", 10, column) for column in range(6)]
    elif name == "t5":
        links = [("decoder.block.0.layer.0.SelfAttention", 3, 1), ("decoder.block.1.layer.1.EncDecAttention", 10, 5)]
    else:
        links = [(f"{attention}:2", 9, 3), (str(attention), 10, 8), (str(attention), 4, 2)]
    options = {"min_new_tokens": 12, "max_new_tokens": 12, "do_sample": False, "return_dict_in_generate": True}
    with saccade.edit(model, without_links=links) as made:
        found = model.generate(**inputs, **options, output_logits=True)
        assert made.unmet == []
        if name in ("marian", "t5"):
            forced = model(**inputs, decoder_input_ids=found.sequences).logits[:, :-1]
        else:
            forced = model(found.sequences).logits[:, 6:-1]
    torch.testing.assert_close(torch.stack(found.logits, 1), forced, atol=1e-4, rtol=1e-4)
    plain = model.generate(**inputs, **options, output_logits=True)
    assert not torch.allclose(torch.stack(plain.logits, 1), torch.stack(found.logits, 1), atol=1e-3)


class Shared(nn.Module):
    """One layer used three times, as ALBERT does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = NanoAttention()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.layer(x)
        return x


def test_a_shared_layer_is_edited_in_every_use_or_in_one() -> None:
    torch.manual_seed(0)
    model, x = Shared(), torch.randn(2, 5, 12)
    off = zeroed_by_hand(Case(model, lambda one: cast(Tensor, one(x)), "layer", "layer.c_proj", 3), 2)
    with saccade.edit(model, without_heads=["layer:2"]):
        torch.testing.assert_close(model(x), off(x), atol=1e-6, rtol=0)
    once = x + model.layer(x)
    once = once + cast(Shared, off).layer(once)
    once = once + model.layer(once)
    with saccade.edit(model, without_heads=["layer#2:2"]):
        for _ in range(2):
            torch.testing.assert_close(model(x), once, atol=1e-6, rtol=0)


@torch.no_grad()
def test_a_query_that_loses_its_last_link_takes_nothing() -> None:
    model, x = NanoAttention(), torch.randn(2, 5, 12)
    with saccade.edit(model, without_links=[("attention", 0, 0)]), saccade.watch(model) as seen:
        output = model(x)
    torch.testing.assert_close(output[:, 0], model.c_proj.bias.expand(2, 12))
    assert not seen["attention"].row(0).any()
    case = case_of("MultiheadAttention")
    every = [("attention", 1, column) for column in range(5)]
    with pytest.raises(OptionError, match="attention returns NaN"), saccade.edit(case.model, without_links=every):
        case.run(case.model)


class WrittenOut(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x @ x.mT, -1) @ x


def refusal(model: nn.Module, x: Any, **edits: Any) -> str:
    with pytest.raises((OptionError, UnknownNameError)) as caught, saccade.edit(model, **edits):
        model(**x) if isinstance(x, dict) else model(x)
    model(**x) if isinstance(x, dict) else model(x)  # nothing is left of the edit
    assert torch.overrides._len_torch_function_stack() == 0
    return str(caught.value)


def test_what_cannot_be_edited_is_refused() -> None:
    x = torch.randn(2, 5, 12)
    nano = nn.Sequential(Nano(), WrittenOut())
    assert refusal(nano, x, without_heads=["1:0"]) == (
        "The attention 1 cannot be edited: it ran, but did not call any of torch's attention functions, and an edit "
        "can change only those."
    )
    assert "it does not call attention itself, but 0.blocks.0, which runs inside" in refusal(
        nano, x, without_heads=["0:0"]
    )
    assert refusal(nano, x, without_heads=["0.blocks.1:3"]) == (
        "There is no head '3' in 0.blocks.1; it has heads 0 to 2."
    )
    assert "There is no head '7' in 0.blocks.1" in refusal(nano, x, without_links=[("0.blocks.1:7", 0, 0)])
    assert "There is no attention '0.blocks.2'; allowed: 0.blocks.0, 0.blocks.1." in refusal(
        nano, x, without_heads=["0.blocks.2:0"]
    )
    assert "such as 0.blocks.1:0" in refusal(nano, x, without_heads=["0.blocks.1"])
    assert "not the name of an attention" in refusal(nano, x, without_heads=["0.blocks.1#a:0"])
    assert "must be a tensor, not float" in refusal(nano, x, set_heads={"0.blocks.1:0": 0.0})
    _, eager = both("bert")
    said = refusal(eager, padded([7], left=False), without_heads=["encoder.layer.0.attention.self:0"])
    assert "did not call any of torch's attention functions" in said


class Skips(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([NanoAttention(), NanoAttention()])

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.parts[0](x)
        return output


def test_a_layer_that_never_ran_is_refused_at_the_end() -> None:
    said = refusal(Skips(), torch.randn(2, 5, 12), without_heads=["parts.1:0"])
    assert said == "The model ran, but its attention 'parts.1' did not, so the edit changed nothing in it."
    with saccade.edit(Skips(), without_heads=["parts.1:0"]):
        pass  # nothing ran, so nothing is wrong


class Cached(nn.Module):
    """Steps with a cache of one's own, which does not say how much it holds."""

    def forward(self, x: Tensor, cache: object) -> Tensor:
        return F.scaled_dot_product_attention(x[:, :, -1:], x, x)


def test_positions_that_are_not_known_are_refused() -> None:
    model, x = Cached(), torch.randn(2, 3, 5, 4)
    with (
        pytest.raises(OptionError, match="was given a object object that does not tell how many positions it holds"),
        saccade.edit(model, without_links=[("attention", 4, 2)]),
    ):
        model(x, object())
    with saccade.edit(model, without_heads=["attention:1"]):
        assert not model(x, object())[:, 1].any()


@torch.no_grad()
def test_unedited_parts_keep_their_fast_path() -> None:
    """Only the layer that is edited leaves it; the others compute what they always do, bit for bit."""
    case = case_of("TransformerEncoder")
    layers = cast(Any, case.model).layers
    x = torch.randn(2, 5, 12)
    with saccade.edit(case.model, without_heads=["layers.0.self_attn:1"]):
        first = layers[0](x)
        assert torch.equal(layers[1](first), case.model(x))
    assert torch.equal(layers[1](first), layers[1](first.clone()))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_an_edit_is_refused_where_the_backward_pass_would_compute_the_attention_again(
    use_reentrant: bool, is_ours: bool
) -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.edited = saccade.MultiHead(width=12, num_heads=3) if is_ours else NanoAttention()

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.edited, x, use_reentrant=use_reentrant)

    torch.manual_seed(0)
    model, x = Again(), torch.randn(2, 5, 12, requires_grad=True)
    edit = partial(saccade.edit, model, without_heads=["edited:1"])
    unedited = model(x)
    with (
        pytest.raises(OptionError, match="computes it a second time"),
        edit(),
    ):
        model(x)
    with pytest.raises(OptionError, match="computes it a second time"), edit():
        unedited.sum().backward()  # here it is computed again
    with torch.no_grad():  # and here never
        expected = model(x.detach())
        with edit():
            assert not torch.equal(model(x.detach()), expected)
    unedited = model(x)
    unedited.sum().backward()
    assert x.grad is not None
