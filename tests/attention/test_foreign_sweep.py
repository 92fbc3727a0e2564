"""Every architecture that can be built small: exact, refused, or named as unseen. There is no fourth outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_families import PICTURES, build, inputs_of
from timm_models import without_torchvision
from torch import Tensor, nn

import saccade

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FAMILIES = (
    "afmoe", "albert", "arcee", "bart", "bert", "bert-generation", "big_bird", "bigbird_pegasus", "biogpt",
    "blenderbot", "blenderbot-small", "bloom", "camembert", "codegen", "cohere", "convbert", "cpmant", "ctrl",
    "data2vec-text", "deberta", "deberta-v2", "diffllama", "distilbert", "electra", "ernie", "ernie4_5", "esm",
    "exaone4", "falcon", "flaubert", "fnet", "funnel", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt2",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "gptj", "granite", "helium", "ibert", "led", "llama",
    "longformer", "longt5", "m2m_100", "marian", "mbart", "megatron-bert", "mistral", "mixtral", "mobilebert",
    "modernbert", "mpnet", "mpt", "mt5", "mvp", "nemotron", "nystromformer", "olmo", "olmo2", "opt", "pegasus",
    "persimmon", "phi", "phi3", "plbart", "prophetnet", "qwen2", "qwen2_moe", "qwen3", "rembert", "roberta",
    "roberta-prelayernorm", "roc_bert", "roformer", "smollm3", "splinter", "squeezebert", "stablelm", "starcoder2",
    "switch_transformers", "t5", "umt5", "xglm", "xlm", "xlm-roberta", "xlnet", "xmod", "yoso", "beit",
    "data2vec-vision", "deit", "dinov2", "dinov2_with_registers", "ijepa", "vit", "vit_mae", "vit_msn", "yolos",
    "swin", "swinv2", "segformer", "pvt", "apertus", "aria_text", "beam", "bitnet", "canine", "clip_text_model",
    "clip_vision_model", "cohere2", "cohere2_moe", "cwm", "doge", "dpr", "dpt", "embedding_gemma2_text",
    "ernie4_5_moe", "eurobert", "exaone_moe", "falcon_mamba", "flex_olmo", "flint", "fsmt", "gemma4_unified_text",
    "glm4_moe", "gpt-sw3", "gpt_neox_japanese", "granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared",
    "gte", "higgs_audio_v2", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hyperclovax", "imagegpt", "inkling_text",
    "jais2", "jetmoe", "jina_embeddings_v3", "kolibri1", "laguna", "layoutlm", "lfm2", "llama4_text", "mamba",
    "markuplm", "mellum", "mimo_v2_flash", "minimax", "minimax_m2", "minimax_m3_vl_text", "ministral", "ministral3",
    "modernbert-decoder", "molmo2_text", "moshi", "mra", "muse_glimmer_text", "muse_spark_text", "nanochat",
    "nemotron_h", "nllb-moe", "nomic_bert", "olmo3", "olmo_hybrid",
)  # fmt: skip
TIMM = {
    "beit_base_patch16_224": {"depth": 2, "embed_dim": 24, "num_heads": 3},
    "cait_xxs24_224": {"depth": 2},
    "coat_tiny": {},
    "convit_tiny": {"depth": 2},
    "crossvit_9_240": {},
    "deit3_small_patch16_224": {"depth": 2},
    "deit_tiny_patch16_224": {"depth": 2},
    "edgenext_xx_small": {},
    "eva02_tiny_patch14_224": {"depth": 2},
    "hiera_tiny_224": {},
    "levit_128s": {},
    "maxvit_tiny_rw_224": {},
    "mobilevit_xxs": {},
    "mvitv2_tiny": {},
    "nest_tiny": {},
    "pit_ti_224": {},
    "pvt_v2_b0": {},
    "swin_tiny_patch4_window7_224": {"depths": (2, 2, 2, 2)},
    "swinv2_tiny_window8_256": {},
    "tnt_s_patch16_224": {"depth": 2},
    "twins_pcpvt_small": {},
    "visformer_tiny": {},
    "vit_tiny_patch16_224": {"depth": 2},
    "volo_d1_224": {},
    "xcit_nano_12_p16_224": {},
}


@contextmanager
def recording(calls: list[tuple[Tensor, ...]]) -> Iterator[None]:
    """Take down what torch's attention is given, in a run that nobody watches."""
    original = F.scaled_dot_product_attention

    def recorded(query: Tensor, key: Tensor, value: Tensor, *arguments: Any, **options: Any) -> Tensor:
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        options = {**dict(zip(names, arguments, strict=False)), **options}
        output = original(query, key, value, **options)
        calls.append((query.clone(), key.clone(), options, output.clone()))  # type: ignore[arg-type]
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", recorded)
        yield


def exact(query: Tensor, key: Tensor, options: dict[str, Any]) -> Tensor:
    """The weights of a call in float64, from its arguments: (batch, heads, queries, keys)."""
    if key.ndim == 4 and query.shape[1] != key.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scale = options.get("scale") or query.shape[-1] ** -0.5
    scores = query.double() @ key.double().transpose(-2, -1) * scale
    mask = options.get("attn_mask")
    if options.get("is_causal"):
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.double()
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights if weights.ndim == 4 else weights.unsqueeze(1)


def is_real(query: Tensor, key: Tensor, options: dict[str, Any]) -> Tensor:
    """The rows that may attend to anything: others are made of rounding."""
    mask = options.get("attn_mask")
    if mask is None:
        return torch.ones(1, 1, 1, 1)
    allowed = mask if mask.dtype == torch.bool else mask > -1e3
    return allowed.any(-1, keepdim=True).double().view((1,) * (4 - allowed.ndim) + (*allowed.shape[:-1], 1))


def check_calls(model: nn.Module, seen: saccade.Watch, calls: list[Any]) -> None:
    """Each call is a trace with its weights, axes and name, in the order of the calls, or refused."""
    labels = [*seen, *seen.refused]
    distinct = []
    for call in calls:  # calls that differ in their values alone are one attention
        if not distinct or not (torch.equal(call[0], distinct[-1][0]) and torch.equal(call[1], distinct[-1][1])):
            distinct.append(call)
    torchs = [name for name in seen if isinstance(model.get_submodule(name.split("#")[0]), nn.MultiheadAttention)]
    assert len(labels) == len(distinct) + len(torchs)
    refused = iter(seen.refused)
    traces = (name for name in seen if name not in torchs)
    for query, key, options, _ in distinct:
        if query.ndim > 4:
            assert "dimensions" in seen.refused[next(refused)]
            continue
        name = next(traces)
        expected, rows = exact(query, key, options), is_real(query, key, options)
        assert seen[name].shape == tuple(expected.shape), name
        torch.testing.assert_close(seen[name].weights() * rows, expected * rows, atol=1e-5, rtol=0, check_dtype=False)
    for name in labels:
        assert dict(model.named_modules())[name.split("#")[0]] is not model


def attentions_of(output: Any) -> list[Tensor]:
    """All weights that a model of Hugging Face tells."""
    fields = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [weights for field in fields for weights in (getattr(output, field, None) or ()) if weights is not None]


def in_float64(eager: nn.Module, model: nn.Module, inputs: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The weights that the eager model tells and those of the traces, where rounding does not tell them apart.

    In float32, MT5's two forms differ by 1.01e-5 after two layers. Some models cannot compute in float64.
    """
    for dtype in (torch.float64, torch.float32):
        given = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
        try:
            with torch.no_grad():
                torch.manual_seed(2)
                told = [one.to(dtype) for one in attentions_of(eager.to(dtype)(**given, output_attentions=True))]
                torch.manual_seed(2)
                with saccade.watch(model.to(dtype)) as seen:
                    model(**given)
            return told, [trace.weights().to(dtype) for trace in seen.values()]
        except RuntimeError:
            if dtype == torch.float32:
                raise
    raise AssertionError


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers(family: str) -> None:
    try:
        model = build(family, "sdpa")
    except ValueError:  # this family has no sdpa
        model = build(family, "eager")
    inputs = inputs_of(family, model)
    calls: list[Any] = []
    with torch.no_grad():
        torch.manual_seed(2)  # one of them chooses patches at random
        with recording(calls):
            unwatched = model(**inputs)
        torch.manual_seed(2)
        with saccade.watch(model) as seen:
            watched = model(**inputs)
    assert torch.equal(unwatched[0], watched[0])
    check_calls(model, seen, calls)
    coverage = seen.coverage
    try:
        eager = build(family, "eager")
        eager.load_state_dict(model.state_dict())
        told, found = in_float64(eager, model, inputs)
    except (ValueError, TypeError):  # it tells no weights
        told, found = [], []
    if not told:
        return
    assert len(coverage.seen) + len(coverage.refused) + len(coverage.unseen) > 0
    if not coverage.unseen and not coverage.refused:
        rows = inputs.get("attention_mask", torch.ones(2, 1))
        for weights in told:
            real = rows[:, None, :, None] if rows.shape[1] == weights.shape[2] else torch.ones(1)
            assert any(
                one.shape == weights.shape and torch.allclose(one * real, weights * real, atol=1e-5, rtol=0)
                for one in found
            )
        assert len(told) <= len(found)  # Swin tells the last of each stage only


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    with without_torchvision() as timm:
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False, **TIMM[name]).eval()
    size = model.default_cfg["input_size"][-1]
    picture = torch.randn(2, 3, size, size)
    calls: list[Any] = []
    with torch.no_grad():
        with recording(calls):
            unwatched = model(picture)
        with saccade.watch(model) as seen:
            assert torch.equal(model(picture), unwatched)
    check_calls(model, seen, calls)
    coverage = seen.coverage
    assert coverage.seen or coverage.refused or coverage.unseen


def test_there_are_enough() -> None:
    assert len(FAMILIES) + len(TIMM) >= 60
    assert set(PICTURES) >= {"vit", "beit"}
