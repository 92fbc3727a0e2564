"""Tiny models of other people, each twice: with torch's attention, and with the eager one that tells its weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
)

BERT = BertConfig(
    vocab_size=31,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=8,
    max_position_embeddings=20,
)
GPT2 = GPT2Config(vocab_size=31, n_embd=12, n_layer=2, n_head=3, n_positions=32, bos_token_id=1, eos_token_id=2)
LLAMA = LlamaConfig(
    vocab_size=31,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    intermediate_size=8,
    max_position_embeddings=32,
    bos_token_id=1,
    eos_token_id=2,
)
MARIAN = MarianConfig(
    vocab_size=31,
    d_model=12,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=3,
    decoder_attention_heads=2,
    encoder_ffn_dim=8,
    decoder_ffn_dim=8,
    max_position_embeddings=32,
    pad_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=0,
    forced_eos_token_id=None,
)
T5 = T5Config(  # its positions are numbers that are added to the scores, and so is its mask
    vocab_size=31,
    d_model=12,
    d_kv=4,
    d_ff=8,
    num_layers=2,
    num_heads=3,
    pad_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=0,
)
VIT = ViTConfig(
    image_size=6,
    patch_size=2,
    num_channels=3,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=8,
)

MODELS: dict[str, tuple[type[PreTrainedModel], Any]] = {
    "bert": (BertModel, BERT),
    "gpt2": (GPT2LMHeadModel, GPT2),
    "llama": (LlamaForCausalLM, LLAMA),
    "marian": (MarianMTModel, MARIAN),
    "t5": (T5ForConditionalGeneration, T5),
    "vit": (ViTModel, VIT),
}

#: The names that the traces of each should have: of the encoder or only stack, the decoder, and across.
NAMES: dict[str, dict[str, str]] = {
    "bert": {"attentions": "encoder.layer.{}.attention.self"},
    "gpt2": {"attentions": "transformer.h.{}.attn"},
    "llama": {"attentions": "model.layers.{}.self_attn"},
    "marian": {
        "encoder_attentions": "model.encoder.layers.{}.self_attn",
        "decoder_attentions": "model.decoder.layers.{}.self_attn",
        "cross_attentions": "model.decoder.layers.{}.encoder_attn",
    },
    "t5": {
        "encoder_attentions": "encoder.block.{}.layer.0.SelfAttention",
        "decoder_attentions": "decoder.block.{}.layer.0.SelfAttention",
        "cross_attentions": "decoder.block.{}.layer.1.EncDecAttention",
    },
    "vit": {"attentions": "layers.{}.attention"},
}


def both(name: str) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The model with torch's attention and, with the same weights, the eager one."""
    kind, config = MODELS[name]
    torch.manual_seed(0)
    fused = kind._from_config(copy.deepcopy(config), attn_implementation="sdpa").eval()
    eager = kind._from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in fused.parameters():  # the weights of the start are so small that all attention is uniform
            parameter.copy_(0.8 * torch.randn_like(parameter))
    eager.load_state_dict(fused.state_dict())
    return fused, eager


def padded(lengths: list[int], left: bool) -> dict[str, Tensor]:
    """Random tokens of a batch of these lengths, and the mask of the real ones."""
    generator = torch.Generator().manual_seed(1)
    longest = max(lengths)
    ids = torch.randint(3, 31, (len(lengths), longest), generator=generator)
    places = torch.arange(longest)
    ends = torch.tensor(lengths)[:, None]
    real = places >= longest - ends if left else places < ends
    return {"input_ids": ids.where(real, 0), "attention_mask": real.long()}
