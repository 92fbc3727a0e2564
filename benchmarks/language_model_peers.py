"""The systems that benchmarks/language_model.py compares with: nanoGPT's model and loop in plain torch, and GPT-2.

The reimplementation is GPT-2's block (Radford 2019) with nanoGPT's defaults: one projection for queries, keys and
values, no biases, exact GELU, tied output, N(0, 0.02) weights with the last layer of each branch divided by
√(2·layers), AdamW that decays only matrices, and batches of windows from anywhere in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from saccade.models import DecoderOnly, TransformerConfig


@dataclass(frozen=True)
class Shape:
    """nanoGPT's configuration for a CPU."""

    vocabulary: int
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 64
    batch: int = 12
    steps: int = 2000
    warmup: int = 100
    lr: float = 1e-3
    lr_end: float = 0.1  # share of lr
    beta2: float = 0.99
    weight_decay: float = 0.1
    clip: float = 1.0


class Norm(nn.Module):
    """A layer norm without bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class StandInBlock(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm, self.mlp_norm = Norm(shape.width), Norm(shape.width)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.joined = nn.Linear(shape.width, shape.width, bias=False)
        self.inner = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.outer = nn.Linear(4 * shape.width, shape.width, bias=False)
        self.gelu = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.outer(self.gelu(self.inner(self.mlp_norm(x))))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(x).split(width, dim=2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.joined(found.transpose(1, 2).contiguous().view(batch, length, width))


class StandIn(nn.Module):
    """A reimplementation of nanoGPT's model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(StandInBlock(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.output.weight = self.words.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                last = name.endswith(("joined.weight", "outer.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers) if last else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def hugging_face(shape: Shape, context: int | None = None, activation: str = "gelu") -> GPT2LMHeadModel:
    """transformers' GPT-2 with sdpa; it has biases, which its configuration cannot disable."""
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=context or shape.context,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        activation_function=activation,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


def turned(x: Tensor) -> Tensor:
    """Transpose: their weights are (in, out), ours (out, in)."""
    return x.T if x.ndim == 2 else x


def as_ours(theirs: GPT2LMHeadModel) -> DecoderOnly:
    """Our network with the weights of a GPT-2."""
    config = theirs.config
    ours = DecoderOnly(
        TransformerConfig(
            width=config.n_embd,
            num_heads=config.n_head,
            decoder_layers=config.n_layer,
            feedforward_width=4 * config.n_embd,
            activation="gelu",
            position="learned",
            max_length=config.n_positions,
        ),
        config.vocab_size,
    )
    found = theirs.state_dict()
    weights = {
        "input.words.weight": found["transformer.wte.weight"],
        "input.positions.weight": found["transformer.wpe.weight"],
        "decoder_norm.weight": found["transformer.ln_f.weight"],
        "decoder_norm.bias": found["transformer.ln_f.bias"],
        "output.words.weight": found["transformer.wte.weight"],
    }
    for layer in range(config.n_layer):
        here, there = f"decoder.{layer}", f"transformer.h.{layer}"
        for kind in ("weight", "bias"):
            query, key_value = found[f"{there}.attn.c_attn.{kind}"].split([config.n_embd, 2 * config.n_embd], dim=-1)
            weights[f"{here}.self.query.{kind}"] = turned(query)
            weights[f"{here}.self.key_value.{kind}"] = turned(key_value)
            for own, other in (
                ("self.output", "attn.c_proj"),
                ("feedforward.inner", "mlp.c_fc"),
                ("feedforward.outer", "mlp.c_proj"),
            ):
                weights[f"{here}.{own}.{kind}"] = turned(found[f"{there}.{other}.{kind}"])
            weights[f"{here}.self_norm.{kind}"] = found[f"{there}.ln_1.{kind}"]
            weights[f"{here}.feedforward_norm.{kind}"] = found[f"{there}.ln_2.{kind}"]
    ours.load_state_dict(weights)
    return ours


def rate(shape: Shape, step: int) -> float:
    """The learning rate: linear warm-up, then a cosine down to ``lr_end``; ``step`` counts from 1."""
    if step <= shape.warmup:
        return shape.lr * step / shape.warmup
    share = 0.5 * (1 + math.cos(math.pi * (step - shape.warmup) / (shape.steps - shape.warmup)))
    return shape.lr * (shape.lr_end + (1 - shape.lr_end) * share)


class Loop:
    """nanoGPT's training loop on a CPU, one update per call."""

    def __init__(
        self, model: nn.Module, logits: Callable[[Tensor], Tensor], text: Tensor, shape: Shape, fused: bool
    ) -> None:
        self.model, self.logits, self.text, self.shape = model, logits, text, shape
        self.step = 0
        matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
        others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
        groups = [{"params": matrices, "weight_decay": shape.weight_decay}, {"params": others, "weight_decay": 0.0}]
        # By default torch uses neither the fused nor the foreach form on a CPU, and nanoGPT does not change that.
        self.optimizer = torch.optim.AdamW(groups, lr=shape.lr, betas=(0.9, shape.beta2), fused=fused or None)

    def update(self) -> float:
        shape = self.shape
        self.step += 1
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate(shape, self.step)
        starts = torch.randint(len(self.text) - shape.context, (shape.batch,)).tolist()
        read = torch.stack([self.text[start : start + shape.context] for start in starts])
        wanted = torch.stack([self.text[start + 1 : start + 1 + shape.context] for start in starts])
        logits = self.logits(read)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), wanted.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), shape.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


@torch.inference_mode()
def whole_loss(logits: Callable[[Tensor], Tensor], text: Tensor, context: int) -> float:
    """The mean loss of every token but the first, in consecutive windows."""
    total = 0.0
    for start in range(0, len(text) - 1, context):
        read, wanted = text[start : start + context], text[start + 1 : start + context + 1]
        found = logits(read[: len(wanted)].unsqueeze(0))[0]
        total += float(F.cross_entropy(found, wanted, reduction="sum"))
    return total / (len(text) - 1)
