"""Compares a training step of the encoder-decoder Transformer with the same model in torch.nn and transformers.

    python benchmarks/transformer.py
    python benchmarks/transformer.py --width 512 --heads 8 --layers 6 --feedforward 2048 --rounds 7

A step is forward, loss, backward and AdamW on a padded batch. The three models have the same shape (post-norm, ReLU,
sinusoidal positions, one embedding for source, target and output) and the same number of parameters. Ours is timed
twice: once with the logits of all positions, like the others, and once with the logits of real words only, as in our
training. Every round times each model once, in random order, and divides by the other model's time in the same round,
so that a slow moment of the machine affects all alike. The table shows the medians. `--clock cpu` measures processor
time, which is fairer on a busy machine with one thread.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from saccade.attention import Sinusoidal
from saccade.models import EncoderDecoder, TransformerConfig

OURS, TORCH, HUGGING_FACE = "saccade", "torch.nn", "transformers (Marian)"
OURS_REAL = "saccade, logits of words only"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Batch:
    """A batch of B sentences, padded at the end."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T)
    wanted: Tensor  # (B, T), -100 where there is nothing to predict

    @classmethod
    def random(cls, size: int, length: int, vocabulary: int) -> Batch:
        lengths = torch.randint(length // 2, length + 1, (2, size))
        lengths[:, 0] = length
        source, target, wanted = torch.randint(vocabulary, (3, size, length))
        is_padding = torch.arange(length) >= lengths[1][:, None]
        return cls(source, lengths[0], target, wanted.masked_fill(is_padding, -100))

    @property
    def source_is_real(self) -> Tensor:
        return torch.arange(self.source.shape[1]) < self.source_lengths[:, None]


class TorchTransformer(nn.Module):
    """The same model built from torch.nn's layers, as users usually write it."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        sizes = (options.width, options.heads, options.feedforward, options.dropout)
        self.embedding = nn.Embedding(options.vocabulary, options.width)
        self.register_buffer("positions", Sinusoidal(options.width).table(0, options.length), persistent=False)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(*sizes, batch_first=True), options.layers)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, batch_first=True), options.layers)

    def forward(self, batch: Batch) -> Tensor:
        is_padding = ~batch.source_is_real
        memory = self.encoder(self.embed(batch.source), src_key_padding_mask=is_padding)
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target.shape[1])
        features = self.decoder(
            self.embed(batch.target),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,
            memory_key_padding_mask=is_padding,
        )
        return F.linear(features, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        width = self.embedding.embedding_dim
        return self.embedding(tokens) * math.sqrt(width) + self.positions[: tokens.shape[1]]


def saccade_transformer(options: argparse.Namespace) -> EncoderDecoder:
    config = TransformerConfig(
        width=options.width,
        num_heads=options.heads,
        encoder_layers=options.layers,
        decoder_layers=options.layers,
        feedforward_width=options.feedforward,
        norm_first=False,
        scaled_embedding=True,
        tied_embeddings=True,
        dropout=options.dropout,
        attention_dropout=options.dropout,
        feedforward_dropout=options.dropout,
    )
    return EncoderDecoder(config, options.vocabulary, options.vocabulary)


def marian(options: argparse.Namespace) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=options.vocabulary,
        d_model=options.width,
        encoder_layers=options.layers,
        decoder_layers=options.layers,
        encoder_attention_heads=options.heads,
        decoder_attention_heads=options.heads,
        encoder_ffn_dim=options.feedforward,
        decoder_ffn_dim=options.feedforward,
        max_position_embeddings=options.length,
        activation_function="relu",
        scale_embedding=True,
        dropout=options.dropout,
        attention_dropout=options.dropout,
        activation_dropout=options.dropout,
        eos_token_id=0,
        pad_token_id=0,
        decoder_start_token_id=0,
        forced_eos_token_id=0,
        use_cache=False,
    )
    return MarianMTModel(config)


Loss = Callable[[Batch], Tensor]


def candidates(options: argparse.Namespace) -> dict[str, tuple[nn.Module, Loss]]:
    """Each model with its loss function."""
    ours, theirs, hugging_face = saccade_transformer(options), TorchTransformer(options), marian(options)

    def our_loss(batch: Batch) -> Tensor:
        return loss_of(ours(batch.source, batch.source_lengths, batch.target), batch.wanted)

    def our_loss_of_words(batch: Batch) -> Tensor:
        is_word = batch.wanted >= 0
        logits = ours(batch.source, batch.source_lengths, batch.target, at=is_word)
        return loss_of(logits, batch.wanted[is_word])

    def torch_loss(batch: Batch) -> Tensor:
        return loss_of(theirs(batch), batch.wanted)

    def hugging_face_loss(batch: Batch) -> Tensor:
        attention_mask = batch.source_is_real.long()
        output = hugging_face(batch.source, attention_mask=attention_mask, decoder_input_ids=batch.target)
        return loss_of(output.logits, batch.wanted)

    return {
        OURS: (ours, our_loss),
        OURS_REAL: (ours, our_loss_of_words),
        TORCH: (theirs, torch_loss),
        HUGGING_FACE: (hugging_face, hugging_face_loss),
    }


def loss_of(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten())


def learned_numbers(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def training_step(model: nn.Module, loss: Loss, batch: Batch) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(batch).backward()
        optimizer.step()

    return run


def seconds(run: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def measure(options: argparse.Namespace) -> dict[str, tuple[int, list[float]]]:
    """For each model, its number of parameters and the seconds of a step in each round."""
    batch = Batch.random(options.batch, options.length, options.vocabulary)
    models = candidates(options)
    counts = {name: learned_numbers(model) for name, (model, _) in models.items()}
    assert len(set(counts.values())) == 1, counts
    runs = {name: training_step(model, loss, batch) for name, (model, loss) in models.items()}
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name in random.sample(list(runs), len(runs)):
            times[name].append(seconds(runs[name], CLOCKS[options.clock]))
    return {name: (counts[name], taken) for name, taken in times.items()}


def median_ratio(own: list[float], peer: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, peer, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare the speed of a training step with torch.nn and transformers.",
        epilog="example: python benchmarks/transformer.py --width 512 --heads 8 --layers 6 --feedforward 2048",
    )
    parser.add_argument("--batch", type=int, default=32, help="sentences")
    parser.add_argument("--length", type=int, default=32, help="number of words in the longest sentence")
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3, help="layers of the encoder, and of the decoder")
    parser.add_argument("--feedforward", type=int, default=1024)
    parser.add_argument("--dropout", type=float, default=0.0, help="dropout everywhere, including attention weights")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    measured = measure(options)
    numbers = measured[OURS][0]
    table = Table(
        "model",
        title=f"{numbers / 1e6:.1f} M parameters, batch {options.batch} × {options.length}, "
        f"{torch.get_num_threads()} threads, {options.rounds} rounds",
    )
    for column in ("ms per step", f"/ {TORCH}", f"/ {HUGGING_FACE}"):
        table.add_column(column, justify="right")
    for name, (_, taken) in measured.items():
        ratios = [median_ratio(taken, measured[peer][1]) for peer in (TORCH, HUGGING_FACE)]
        table.add_row(name, f"{1e3 * statistics.median(taken):.1f}", *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)


if __name__ == "__main__":
    main()
