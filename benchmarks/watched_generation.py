"""Measures how much longer `generate` of a Hugging Face model takes while it is watched, in CPU time.

python benchmarks/watched_generation.py [--tokens 400] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import saccade

#: (layers, width, heads) of GPT-2 models with random weights: the smallest that was published, and a quarter of it.
SIZES = {"GPT-2 small, 12 x 768": (12, 768, 12), "6 x 256": (6, 256, 8)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=400, help="number of tokens to generate")
    parser.add_argument("--rounds", type=int, default=3, help="number of unwatched and watched generations, in turns")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for size, (layers, width, heads) in SIZES.items():
        torch.manual_seed(0)
        config = GPT2Config(n_layer=layers, n_embd=width, n_head=heads, bos_token_id=0, eos_token_id=0)
        model = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
        prompt = torch.randint(1, config.vocab_size, (1, 16))

        def generate(model: GPT2LMHeadModel = model, prompt: torch.Tensor = prompt) -> tuple[torch.Tensor, float]:
            start = time.process_time()
            count = {"min_new_tokens": options.tokens, "max_new_tokens": options.tokens}
            found = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, **count)
            return found, time.process_time() - start

        generate()
        ratios, plain = [], []
        for _ in range(options.rounds):
            unwatched, seconds = generate()
            with saccade.watch(model) as seen:
                watched, more = generate()
            assert torch.equal(unwatched, watched)
            assert {trace.shape[2] for trace in seen.values()} == {prompt.shape[1] + options.tokens - 1}
            plain.append(seconds)
            ratios.append(more / seconds)
        times = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{size}: unwatched {statistics.median(plain):.1f} s, watched {times}")


if __name__ == "__main__":
    main()
