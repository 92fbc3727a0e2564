"""Weights that a model wrote out itself: every view from them alone, on families that cannot be watched."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertModel,
    BloomConfig,
    BloomModel,
    ConvBertConfig,
    ConvBertModel,
    FunnelConfig,
    FunnelModel,
    GPTJConfig,
    GPTJModel,
    GptOssConfig,
    GptOssModel,
    LongformerConfig,
    LongformerModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    SwinConfig,
    SwinModel,
    T5Config,
    T5ForConditionalGeneration,
)

import saccade
from saccade.errors import OptionError, ShapeError, StaleTraceError
from saccade.lens.figures import FIGURES
from saccade.lens.given import is_banded
from saccade.lens.terminal.views import TERMINAL
from saccade.lens.view import View

with warnings.catch_warnings():  # its file still uses torch.jit.script
    warnings.simplefilter("ignore", DeprecationWarning)
    from transformers import DebertaV2Config, DebertaV2Model

TOKENS = ["[CLS]", "the", "black", "##bird", "sang", "."]
WORDS = [None, 0, 1, 1, 2, 3]
IDS = torch.tensor([[3, 5, 8, 13, 21, 4], [3, 6, 9, 12, 15, 4]])
BERT: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 8,
}
GPT: dict[str, Any] = {"vocab_size": 31, "n_layer": 2, "n_head": 3, "bos_token_id": 1, "eos_token_id": 2}
WRITTEN_OUT: dict[str, tuple[type[PreTrainedModel], Any]] = {
    "deberta": (DebertaV2Model, DebertaV2Config(**BERT)),
    "mpnet": (MPNetModel, MPNetConfig(**BERT)),
    "gptj": (GPTJModel, GPTJConfig(n_embd=12, n_positions=20, rotary_dim=2, **GPT)),
    "bloom": (BloomModel, BloomConfig(hidden_size=12, **GPT)),
}


def run(family: type[PreTrainedModel], config: Any, *, training: bool = False, **inputs: Tensor) -> Any:
    torch.manual_seed(11)
    model = family._from_config(config, attn_implementation="eager").train(training)
    with torch.no_grad():
        return model(**(inputs or {"input_ids": IDS}), output_attentions=True)


def written(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


@pytest.mark.parametrize("family", WRITTEN_OUT)
def test_every_view_works_from_the_weights_alone(family: str, tmp_path: Path) -> None:
    outputs = run(*WRITTEN_OUT[family])
    found = saccade.view(outputs.attentions, TOKENS, words=WORDS, batch=1)
    assert found.names == ["layer.0", "layer.1"]
    assert not found.notes
    for layer, weights in enumerate(outputs.attentions):
        name = f"layer.{layer}"
        assert found.heads(name) == 3
        for head in range(3):
            assert torch.equal(found.matrix(name, head), weights[1, head])
            assert torch.equal(found.tile(name, head, slice(1, 4), slice(2, 5)), weights[1, head, 1:4, 2:5])
        bits = torch.special.entr(weights[1].double()).sum(-1).mean(-1) / np.log(2)
        torch.testing.assert_close(found.entropy(name), bits, rtol=1e-6, atol=1e-6)
        places = torch.arange(6.0, dtype=torch.float64)
        away = (weights[1].double() * (places[:, None] - places).abs()).sum(-1).mean(-1)
        torch.testing.assert_close(found.distance(name), away, rtol=1e-6, atol=1e-6)
    flow = torch.eye(6, dtype=torch.float64)
    for weights in outputs.attentions:
        flow = (weights[1].double().mean(0) + torch.eye(6)) / 2 @ flow
    torch.testing.assert_close(found.rollout(assume_only_attention=True).double(), flow, rtol=0, atol=1e-6)
    with pytest.raises(OptionError, match="do not show whether anything else mixes tokens"):
        found.rollout()  # a tensor cannot say what it assumes
    assert found.kind("layer.0") == ("causal" if family in ("gptj", "bloom") else "self")
    show_everything(found, tmp_path)


def show_everything(found: View, folder: Path) -> None:
    """Each figure, each view of the terminal, the page and the file of numbers."""
    options: dict[str, dict[str, Any]] = {
        "patches": {"image": np.zeros((4, 4)), "grid": (1, 5)},
        "difference": {"other": found},
    }
    for kind in set(FIGURES) - {"alignment"}:
        assert found.save(folder / f"{kind}.png", kind, **options.get(kind, {})).stat().st_size > 1000
    for kind in TERMINAL:
        screen = io.StringIO()
        Console(file=screen, width=100).print(found.terminal(kind))
        assert "layer.1" in screen.getvalue()
    assert '"rollouts":[{' in found.html()
    exact = np.load(found.save_numbers(folder / "weights.npy", "layer.1", 2))
    np.testing.assert_array_equal(exact, found.matrix("layer.1", 2).numpy())
    assert found.overview("layer.1", 2, size=3).cell == (2, 2)


def test_given_weights_are_those_that_watching_the_same_model_finds() -> None:
    torch.manual_seed(11)
    model = BertModel._from_config(BertConfig(**BERT), attn_implementation="sdpa").eval()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(input_ids=IDS)
    watched, given = saccade.view(seen, TOKENS), saccade.view(run(BertModel, BertConfig(**BERT)), TOKENS)
    for layer, name in enumerate(watched.names):
        torch.testing.assert_close(watched.matrix(name, 1), given.matrix(f"layer.{layer}", 1), rtol=0, atol=1e-6)


def test_a_model_that_reads_and_writes_has_three_kinds_of_layers() -> None:
    config = T5Config(vocab_size=31, d_model=12, d_kv=4, d_ff=8, num_layers=2, num_heads=3, decoder_start_token_id=0)
    outputs = run(T5ForConditionalGeneration, config, input_ids=IDS, decoder_input_ids=IDS[:, :5])
    written, read = ["<s>", "der", "Amsel", "sang", "."], TOKENS
    whole = saccade.view(outputs, written, source_tokens=read)
    assert whole.names == [
        *("encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.1.self"),
        *("decoder.0.cross", "decoder.1.cross"),
    ]
    assert torch.equal(whole.matrix("decoder.1.cross", 2), outputs.cross_attentions[1][0, 2])
    assert list(whole.stacks) == ["encoder.*.self", "decoder.*.self"]
    named = saccade.view(
        {"encoder": outputs.encoder_attentions, "cross": list(outputs.cross_attentions)},
        written,
        source_tokens=read,
        batch=0,
    )
    assert named.names == ["encoder.0", "encoder.1", "cross.0", "cross.1"]
    assert named.axes("cross.0") == whole.axes("decoder.0.cross")
    assert named.kind("cross.0") == "cross"
    assert named.figure("alignment").axes
    # Equally many tokens on both sides: the name tells that the keys are another sequence.
    same = run(T5ForConditionalGeneration, config, input_ids=IDS, decoder_input_ids=IDS)
    equal = saccade.view({"cross": same.cross_attentions}, read, source_tokens=["a", *read[1:]], batch=0)
    assert not equal.is_self("cross.0")


def test_one_layer_may_stand_under_its_own_name() -> None:
    weights = written((1, 2, 3, 3))
    found = saccade.view({"block.7": weights, "block.8": weights.double()}, ["a", "b", "c"])
    assert found.names == ["block.7", "block.8"]
    assert found.matrix("block.8", 0).dtype == torch.float64
    assert list(found.stacks) == ["block.*"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_shown_as_it_is_and_its_rounding_is_not_named(dtype: torch.dtype) -> None:
    weights = written((1, 2, 64, 64)).to(dtype)
    found = saccade.view([weights])
    assert torch.equal(found.matrix("layer.0", 1), weights[0, 1].float())
    assert not found.notes


def test_rows_that_do_not_sum_to_one_are_named_wherever_they_are_shown() -> None:
    dropped = run(BertModel, BertConfig(attention_probs_dropout_prob=0.5, **BERT), training=True)
    sinks = run(
        GptOssModel,
        GptOssConfig(
            head_dim=4,
            num_key_value_heads=3,
            num_local_experts=2,
            num_experts_per_tok=1,
            layer_types=["full_attention"] * 2,
            **BERT,
        ),
    )
    for outputs in (dropped, sinks):
        found = saccade.view(outputs.attentions, TOKENS, batch=0)
        sums = outputs.attentions[0].double().sum(-1)
        sums = sums[sums > 0]
        note = f"rows sum to {sums.min():.3g} to {sums.max():.3g}, not to 1"
        assert found.notes["layer.0"] == note
        title = found.figure("heatmap", name="layer.0", head=1).findobj(lambda artist: hasattr(artist, "whole"))
        assert any(f"layer.0, head 1 ({note})" == text.whole for text in title)  # type: ignore[attr-defined]
        screen = io.StringIO()
        Console(file=screen, width=200).print(found.terminal("heatmap", name="layer.0"))
        assert note in screen.getvalue()
        assert note in found.html()


def test_windows_are_not_labelled_as_the_text() -> None:
    config = SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4)
    outputs = run(SwinModel, config, pixel_values=torch.randn(1, 3, 16, 16))
    assert [len(weights) for weights in outputs.attentions] == [4, 1]  # of the last layer of each stage
    tokens = [f"t{place}" for place in range(16)]
    for given in (outputs, outputs.attentions):
        found = saccade.view(given, tokens)
        assert found.rows["layer.0"].tokens == found.columns["layer.0"].tokens == [str(place) for place in range(16)]
        assert found.rows["layer.1"].tokens == tokens
        assert "one of 4 windows" in found.describe("layer.0", 0)
        assert not found.stacks
        with pytest.raises(OptionError, match="no rollout"):
            found.rollout()
    with pytest.raises(OptionError, match="hold 4 sequences; choose one with batch, from 0 to 3"):
        saccade.view(outputs.attentions[:1], tokens)


def test_a_batch_of_texts_is_no_window() -> None:
    outputs = run(BertModel, BertConfig(**BERT))
    assert saccade.view(outputs, TOKENS).rollout(assume_only_attention=True).shape == (6, 6)
    choices = run(BertForMultipleChoice, BertConfig(**BERT), input_ids=IDS[None])
    assert saccade.view(choices, TOKENS, batch=1).rows["layer.0"].tokens == TOKENS


def test_rows_of_zeros_and_other_keys() -> None:
    weights = written((1, 1, 4, 4))
    weights[0, 0, 2] = 0
    assert not saccade.view([weights]).notes
    assert saccade.view([written((1, 1, 2, 5))]).notes == {"layer.0": "2 queries attend to 5 keys"}
    assert not saccade.view({"cross": [written((1, 1, 2, 5))]}).notes


def test_layers_without_weights_are_left_out() -> None:
    weights = written((1, 2, 3, 3))
    assert saccade.view([None, weights]).names == ["layer.1"]  # type: ignore[list-item]


NOTHING = r"returned no weights; load it with attn_implementation=\"eager\" and call it with output_attentions=True"
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (None, OptionError, NOTHING),
    "layers of none": ((None, None), OptionError, NOTHING),
    "no layers": ([], OptionError, NOTHING),
    "an output without them": ({"logits": torch.zeros(1, 2, 3)}, OptionError, NOTHING),
    "a tensor": (written((1, 2, 3, 3)), OptionError, r"not Tensor of shape \(1, 2, 3, 3\)"),
    "a number": (7, OptionError, "not int"),
    "steps of generate": ([[written((1, 2, 3, 3))]], OptionError, r"layer.0 is itself a list: generate\(\)"),
    "no batch": ([written((2, 3, 3))], ShapeError, r"layer.0 .*\(batch, heads, queries, keys\), not .*\(2, 3, 3\)"),
    "whole numbers": ([torch.ones(1, 2, 3, 3).int()], ShapeError, "int32"),
    "an array": ([np.ones((1, 2, 3, 3))], OptionError, "layer.0 must be a tensor, not ndarray"),
    "below 0": ({"a": -written((1, 1, 1, 1))}, OptionError, "a must be finite and at least 0, not -1"),
    "not numbers": ([written((1, 1, 2, 2)) / 0 * 0], OptionError, "not nan"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_weights_is_refused_in_one_sentence(case: str) -> None:
    given, kind, said = REFUSED[case]
    with pytest.raises(kind, match=said):
        saccade.view(given)


def test_weights_that_change_later_are_refused() -> None:
    weights = written((1, 1, 3, 3))
    found = saccade.view([weights])
    weights.zero_()
    with pytest.raises(StaleTraceError, match=r"layer.0 changed in place"):
        found.matrix("layer.0", 0)


def test_layers_without_names_are_refused_where_two_texts_would_fit() -> None:
    weights = tuple(torch.rand(1, 2, 4, 4).softmax(-1) for _ in range(2))
    with pytest.raises(OptionError, match="does not say whether they attend to tokens or to source_tokens"):
        saccade.view(weights, list("abcd"), source_tokens=list("wxyz"))
    named = saccade.view({"cross": weights}, list("abcd"), source_tokens=list("wxyz"))
    assert named.axes("cross.0")[1].tokens == list("wxyz")
    assert saccade.view(weights, list("abcd")).axes("layer.0")[1].tokens == list("abcd")


def test_numbered_layers_are_rolled_out_in_the_order_of_their_numbers() -> None:
    weights = [torch.rand(1, 2, 4, 4).softmax(-1) for _ in range(12)]
    names = [f"layer.{number}" for number in range(12)]
    forwards = dict(zip(names, weights, strict=True))
    backwards = dict(reversed(forwards.items()))
    one, other = (
        saccade.view(given, list("abcd")).rollout(assume_only_attention=True) for given in (forwards, backwards)
    )
    assert torch.equal(one, other)


# --- what weights alone do not tell ----------------------------------------------------------------------------


def test_pictures_of_a_rollout_say_what_weights_alone_do_not_show() -> None:
    convolutions = ConvBertConfig(embedding_size=12, **BERT | {"num_attention_heads": 4, "hidden_size": 16})
    found = saccade.view(run(ConvBertModel, convolutions), TOKENS)
    said = "assuming that these layers follow each other and that nothing but them mixes tokens"
    titles = found.figure("rollout").findobj(lambda artist: said in getattr(artist, "whole", ""))
    assert titles
    own = found.figure("rollout", title="Mine").findobj(lambda artist: said in getattr(artist, "whole", ""))
    assert own
    assert f'"note":"{said}"' in found.html()


def test_weights_after_dropout_have_no_rollout() -> None:
    dropped = run(BertModel, BertConfig(attention_probs_dropout_prob=0.5, **BERT), training=True)
    found = saccade.view(dropped, TOKENS)
    with pytest.raises(OptionError, match="sum to more than 1, as after dropout"):
        found.rollout(assume_only_attention=True)
    assert not found.stacks


@pytest.mark.parametrize(("window", "leading"), [(4, 0), (4, 1), (4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize("padding", [0, 2])
def test_neighbours_are_not_taken_for_tokens(window: int, leading: int, padding: int) -> None:
    size = window + 1 + leading  # as many columns as tokens
    torch.manual_seed(size)
    model = LongformerModel(LongformerConfig(attention_window=window, max_position_embeddings=64, **BERT)).eval()
    everywhere, mask = torch.zeros(1, size, dtype=torch.int64), torch.ones(1, size, dtype=torch.int64)
    everywhere[:, :leading] = 1
    mask[:, size - min(padding, size - leading - 2) :] = 0
    with torch.no_grad():
        outputs = model(torch.arange(3, 3 + size)[None], mask, everywhere, output_attentions=True)
    assert outputs.attentions[0].shape[-2:] == (size, size)
    tokens = [f"t{place}" for place in range(size)]
    for given in (outputs, outputs.attentions):
        found = saccade.view(given, tokens)
        assert found.axes("layer.0")[0].tokens == tokens
        assert found.axes("layer.0")[1].tokens == [str(place) for place in range(size)]
        assert found.kind("layer.0") == "unknown"
        assert "as in Longformer" in found.describe("layer.0", 0)
        assert not found.stacks


@pytest.mark.parametrize("mask", ["none", "causal", "window", "padding", "left padding", "causal padding"])
def test_tokens_are_not_taken_for_neighbours(mask: str) -> None:
    places = torch.arange(7)
    allowed = {
        "none": torch.ones(7, 7),
        "causal": torch.ones(7, 7).tril(),
        "window": ((places[:, None] - places).abs() < 2).float(),
        "padding": (places < 4).float().expand(7, 7),
        "left padding": (places > 2).float().expand(7, 7),
        "causal padding": torch.ones(7, 7).tril() * (places < 5),
    }[mask]
    weights = written((1, 2, 7, 7)) * allowed
    assert not is_banded(weights / weights.sum(-1, keepdim=True))


def test_a_layer_of_another_length_does_not_spoil_the_view() -> None:
    config = FunnelConfig(
        vocab_size=31, d_model=12, n_head=3, d_head=4, d_inner=8, block_sizes=[1, 1], num_decoder_layers=1
    )
    found = saccade.view(run(FunnelModel, config), TOKENS)
    assert found.axes("layer.0")[0].tokens == found.axes("layer.2")[1].tokens == TOKENS
    assert found.axes("layer.1")[0].tokens == ["0", "1", "2"]
    assert "6 tokens were given, but it has 3 rows" in found.describe("layer.1", 0)
    assert found.kind("layer.1") == "unknown"
    with pytest.raises(ShapeError, match="has 6 rows and 6 columns, but 5 tokens were given"):
        saccade.view(run(FunnelModel, config), TOKENS[1:])
