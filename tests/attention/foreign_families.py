"""Architectures of transformers, small and with random weights, from their configurations."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedModel

#: What is small under the names that configurations use; those that a family does not have are left out.
SMALL: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 24, "d_model": 24, "n_embd": 24, "dim": 24, "emb_dim": 24, "embedding_size": 24,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "head_dim": 6,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32,
    "ffn_dim": 32, "d_ff": 32, "d_kv": 6, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "n_inner": 32, "hidden_dim": 32,
    "max_position_embeddings": 64, "n_positions": 64, "image_size": 32, "patch_size": 16, "num_channels": 3,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "num_experts": 4,
    "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "layerdrop": 0.0, "rotary_dim": 4, "attention_dropout": 0.0, "dropout": 0.0,
}  # fmt: skip
#: What these families need besides.
NEEDED: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "persimmon": {"hidden_size": 32},
    "phi": {"hidden_size": 32},
    "prophetnet": {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4},
    "swin": {"depths": [2, 1], "num_heads": [2, 4], "embed_dim": 8, "patch_size": 4, "window_size": 4},
    "swinv2": {"depths": [2, 1], "num_heads": [2, 4], "embed_dim": 8, "patch_size": 4, "window_size": 4},
    "yolos": {"image_size": [32, 32]},
    "xmod": {"languages": ["en"], "default_language": "en"},
}
#: Families that look at pictures.
PICTURES = (
    "beit", "data2vec-vision", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "ijepa", "vit", "vit_mae",
    "vit_msn", "yolos", "pvt", "pvt_v2", "swin", "swinv2", "segformer", "glpn", "cvt", "levit", "poolformer", "vitdet",
    "hiera", "dpt", "siglip_vision_model", "clip_vision_model",
)  # fmt: skip


def config_of(family: str) -> Any:
    kind = CONFIG_MAPPING[family]
    fields, aliases = kind().to_dict(), getattr(kind, "attribute_map", {})
    chosen = {}
    for name, value in SMALL.items():
        if (name in fields or name in aliases) and not isinstance(fields.get(aliases.get(name, name)), list):
            chosen[name] = value
    return kind(**{**chosen, **NEEDED.get(family, {})})


def build(family: str, implementation: str) -> PreTrainedModel:
    torch.manual_seed(0)
    config = copy.deepcopy(config_of(family))
    kind = MODEL_MAPPING[type(config)]
    kind = kind[0] if isinstance(kind, tuple) else kind
    model: PreTrainedModel = kind._from_config(config, attn_implementation=implementation).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # the weights of the start are so small that all attention is uniform
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return model


def inputs_of(family: str, model: PreTrainedModel) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    if family in PICTURES:
        size = getattr(model.config, "image_size", 32)  # SegFormer takes any size
        size = size[0] if isinstance(size, (list, tuple)) else size
        return {"pixel_values": torch.randn(2, 3, size, size, generator=generator)}
    ids = torch.randint(3, 61, (2, 9), generator=generator)
    mask = (torch.arange(9) < torch.tensor([[9], [6]])).long()
    if family == "xlnet":
        mask = torch.ones_like(mask)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 61, (2, 9), generator=generator)
    return inputs
