"""Compares RWKV with a Transformer of equal size by the length of the text (lecture 002: "Transformer-level
performance but with RNN"): training tokens per second, memory, and what generation has to keep.

python benchmarks/rwkv.py
python benchmarks/rwkv.py --lengths 64 256 1024 4096 --tokens 4096

Both have 4 blocks of width 128. A training step reads the same number of tokens at every length: the longer the texts,
the fewer of them. Memory is what the largest step adds to the process, which is a new one for each row. Times are of
the processor, with one thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from typing import Any

import torch
from torch import Tensor

from saccade.models import DecoderOnly, RWKVConfig, RWKVLanguageModel, TransformerConfig
from saccade.models.state import TransformerState
from saccade.models.targets import Targets

VOCABULARY, WIDTH, LAYERS, ROUNDS = 65, 128, 4, 5
SHORTEST = 16


def build(name: str) -> DecoderOnly | RWKVLanguageModel:
    torch.manual_seed(1)
    if name == "RWKV":
        return RWKVLanguageModel(RWKVConfig(width=WIDTH, decoder_layers=LAYERS, feedforward_width=448), VOCABULARY)
    config = TransformerConfig(
        width=WIDTH, decoder_layers=LAYERS, feedforward_width=512, activation="gelu", position="rotary", bias=False
    )
    return DecoderOnly(config, VOCABULARY)


def kept(state: Any) -> int:
    """Bytes that one text keeps between two steps: keys and values of all tokens so far, or a state of fixed size."""
    if isinstance(state, TransformerState):
        return 2 * LAYERS * state.length * WIDTH * 4
    return sum(part.numel() * part.element_size() for layer in state for part in layer)


def measure(name: str, length: int, tokens: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    model = build(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    texts = torch.randint(VOCABULARY, (max(1, tokens // length), length + 1))

    def update(read: Tensor) -> float:
        started = time.process_time()
        optimizer.zero_grad()
        model(read[:, :-1], targets=Targets(read[:, 1:].flatten())).backward()
        optimizer.step()
        return read[:, 1:].numel() / (time.process_time() - started)

    update(texts[:1, :SHORTEST])  # the optimizer's state and the kernels' own memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    speeds = [update(texts) for _ in range(ROUNDS)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    with torch.inference_mode():
        state: Any = model.eval().start(texts[:1, :-1], length + SHORTEST)
        started = time.process_time()
        for token in texts[0, :SHORTEST]:
            _, state = model.step(token[None], state)  # type: ignore[operator]
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training": statistics.median(speeds),
        "memory": memory / 1024,
        "generation": SHORTEST / (time.process_time() - started),
        "state": kept(state) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--tokens", type=int, default=4096, help="tokens in a training step")
    options = parser.parse_args()
    print("| network | parameters | length | training tokens/s | step, MB | generated tokens/s | kept, kB |")
    print("|---|---|---|---|---|---|---|")
    for length in options.lengths:
        for name in ("Transformer", "RWKV"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                row = pool.apply(measure, (name, length, options.tokens))
            print(
                f"| {name} | {row['parameters']:,} | {length:,} | {row['training']:,.0f} | {row['memory']:,.0f} "
                f"| {row['generation']:,.0f} | {row['state']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
