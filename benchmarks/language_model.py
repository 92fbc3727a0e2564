"""Compares language models on tiny_shakespeare with nanoGPT's model and loop and with transformers' GPT-2.

    SACCADE_DATA=... python benchmarks/language_model.py
    SACCADE_DATA=... python benchmarks/language_model.py --only speed --rounds 15 --clock cpu
    SACCADE_DATA=... python benchmarks/language_model.py --only quality --seeds 1 2 3

nanoGPT's configuration for a CPU: 4 layers, 4 heads, width 128, context 64, batch 12, 2000 updates, no dropout,
learning rate 1e-3 to 1e-4 after 100 updates of warm-up, β 0.9 and 0.99, weight decay 0.1, no biases. nanoGPT is
reimplemented in plain torch for this benchmark (language_model_peers.py).

Quality: both are trained in this run, on the same characters. The loss is the mean over the last tenth of the text, in
consecutive windows of 64. Speed: training tokens per second. Ours is the whole of `Trainer.update` (choosing the
windows, clipping, AdamW, checking that loss and gradient are finite); the others are `Loop.update`. Ours is also timed
with products in bf16 and at a larger batch size, and the nanoGPT reimplementation also with fused AdamW, which nanoGPT
does not use on a CPU. Generation: one prompt, cached, greedy, with the same weights and the same tokens.

Every round times each system once, in random order, and divides by the other system's speed in the same round. The
tables show the median, smallest and largest ratio. `--clock cpu` measures processor time, which is fairer on a busy
machine with one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from language_model_peers import Loop, Shape, StandIn, as_ours, hugging_face, whole_loss
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn
from translation_timing import interleave, median_and_range

from saccade.decoding import Sliding, draws
from saccade.models import DecoderOnly, TransformerConfig
from saccade.tasks.language_model.data import LanguageModelFiles, TextData
from saccade.tasks.language_model.task import (
    LanguageModel,
    LanguageModelState,
    LanguageModelText,
    LanguageModelTraining,
)
from saccade.training.trainer import Trainer

OURS, STAND_IN, FUSED, HUGGING_FACE = (
    "saccade",
    "nanoGPT stand-in",
    "nanoGPT stand-in, fused AdamW",
    "transformers GPT-2",
)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WRITTEN, PROMPT = 400, 16
TEXT = "$SACCADE_DATA/tiny_shakespeare/input.txt"


class Data:
    """The text as our task encodes it; the other systems get the same ids."""

    def __init__(self, context: int) -> None:
        data = TextData(text=TEXT)
        splits = LanguageModelFiles.read(data, seed=1)
        settings = {"data": data, "text": LanguageModelText(context=context)}
        self.task = LanguageModel(LanguageModelState.prepare(settings, splits.train), settings)
        self.train, self.validation = self.task.encode(splits.train), self.task.encode(splits.validation)
        self.train_text, self.validation_text = self.train[0].stream.tokens, self.validation[0].stream.tokens
        self.vocabulary = self.task.state.tokenizer.vocabulary_size


def our_trainer(data: Data, shape: Shape, seed: int, **settings: Any) -> Trainer:
    torch.manual_seed(seed)
    config = TransformerConfig(
        width=shape.width,
        num_heads=shape.heads,
        decoder_layers=shape.layers,
        feedforward_width=4 * shape.width,
        activation="gelu",
        position="learned",
        max_length=shape.context,
        bias=False,
    )
    training = {
        "steps": shape.steps,
        "batch_tokens": shape.batch * shape.context,
        "lr": shape.lr,
        "lr_end": shape.lr_end,
        "warmup": shape.warmup,
        "weight_decay": shape.weight_decay,
        "beta2": shape.beta2,
        "clip": shape.clip,
        "seed": seed,
    }
    model = data.task.build("transformer", config)
    chosen = {**data.task.settings, "training": LanguageModelTraining(**(training | settings))}
    return Trainer(LanguageModel(data.task.state, chosen), model, data.train, data.validation)


def stand_in(data: Data, shape: Shape, seed: int, fused: bool = False) -> Loop:
    torch.manual_seed(seed)
    model = StandIn(shape)
    return Loop(model, model, data.train_text, shape, fused)


# --- quality ----------------------------------------------------------------------------------------------


def quality(data: Data, shape: Shape, seeds: list[int], progress: Progress) -> dict[str, list[float]]:
    """The loss on the whole validation text for each seed: ours with products in fp32 and bf16, and nanoGPT's."""
    losses: dict[str, list[float]] = {OURS: [], f"{OURS}, bf16": [], STAND_IN: []}
    for seed in seeds:
        bar = progress.add_task(f"training, seed {seed}", total=3 * shape.steps)
        for name, precision in ((OURS, "fp32"), (f"{OURS}, bf16", "bf16")):
            trainer = our_trainer(data, shape, seed, precision=precision)
            groups = trainer.groups()
            torch.manual_seed(seed)
            for _ in range(shape.steps):
                trainer.update(next(groups))
                progress.advance(bar)
            losses[name].append(whole_loss(trainer.model.eval(), data.validation_text, shape.context))
        loop = stand_in(data, shape, seed)
        for _ in range(shape.steps):
            loop.update()
            progress.advance(bar)
        losses[STAND_IN].append(whole_loss(loop.model.eval(), data.validation_text, shape.context))
    return losses


# --- speed ------------------------------------------------------------------------------------------------


def speed(data: Data, shape: Shape, options: argparse.Namespace, progress: Progress) -> dict[str, list[float]]:
    """Training tokens per second in each round."""
    clock = CLOCKS[options.clock]

    def timed(update: Callable[[], Any], batch: int) -> Callable[[int], float]:
        for _ in range(5):
            update()

        def run(_: int) -> float:
            count = max(1, options.updates * shape.batch // batch)
            began = clock()
            for _ in range(count):
                update()
            return count * batch * shape.context / (clock() - began)

        return run

    def ours(batch: int, **settings: Any) -> Callable[[int], float]:
        trainer = our_trainer(data, replace(shape, batch=batch), 1, **settings)
        groups = trainer.groups()
        return timed(lambda: trainer.update(next(groups)), batch)

    theirs = hugging_face(shape)
    free = options.free_batch
    systems = {
        OURS: ours(shape.batch),
        STAND_IN: timed(stand_in(data, shape, 1).update, shape.batch),
        FUSED: timed(stand_in(data, shape, 1, fused=True).update, shape.batch),
        HUGGING_FACE: timed(
            Loop(theirs, lambda tokens: theirs(tokens).logits, data.train_text, shape, fused=False).update, shape.batch
        ),
        f"{OURS}, bf16": ours(shape.batch, precision="bf16"),
        f"{OURS}, batch {free}": ours(free),
        f"{OURS}, bf16, batch {free}": ours(free, precision="bf16"),
    }
    return {name: one.speeds for name, one in interleave(systems, options.rounds, progress, "speed").items()}


# --- generation -------------------------------------------------------------------------------------------


@torch.inference_mode()
def generation(data: Data, shape: Shape, options: argparse.Namespace, progress: Progress) -> dict[str, list[float]]:
    """Generated tokens per second in each round; both systems must generate the same tokens."""
    clock = CLOCKS[options.clock]
    torch.manual_seed(0)
    theirs = hugging_face(shape, PROMPT + WRITTEN).eval()
    for parameter in theirs.parameters():  # untrained models repeat one token, on which any two would agree
        parameter.mul_(5)
    ours = as_ours(theirs).eval()
    prompt = data.validation_text[:PROMPT].unsqueeze(0)
    torch.testing.assert_close(ours(prompt), theirs(prompt).logits, atol=1e-3, rtol=1e-3)
    wanted = write_theirs(theirs, prompt)
    assert write_ours(ours, prompt) == wanted, "our tokens differ from theirs"
    assert len(set(wanted)) > 10, "the text only repeats one token"

    def timed(write: Callable[[nn.Module, Tensor], list[int]], model: nn.Module) -> Callable[[int], float]:
        def run(_: int) -> float:
            began = clock()
            write(model, prompt)
            return WRITTEN / (clock() - began)

        return run

    systems = {OURS: timed(write_ours, ours), HUGGING_FACE: timed(write_theirs, theirs)}
    return {name: one.speeds for name, one in interleave(systems, options.rounds, progress, "generation").items()}


def write_ours(model: DecoderOnly, prompt: Tensor) -> list[int]:
    """Generate as `saccade predict` does, with temperature 0."""
    stepper = Sliding(model, model.config.max_length)
    state = stepper.start(prompt[:, :-1], prompt.shape[1] + WRITTEN)
    drawn = draws(
        stepper, state, batch_size=1, start_token=prompt[:, -1], end_token=None, max_length=WRITTEN, temperature=0.0
    )
    return [int(one.tokens) for one in drawn]


def write_theirs(model: nn.Module, prompt: Tensor) -> list[int]:
    found = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        use_cache=True,
        min_new_tokens=WRITTEN,
        max_new_tokens=WRITTEN,
        eos_token_id=None,
    )
    return found[0, prompt.shape[1] :].tolist()


# --- tables -----------------------------------------------------------------------------------------------


def show(console: Console, title: str, found: dict[str, list[float]], peers: list[str]) -> None:
    table = Table("system", title=title)
    for column in ("tokens/s", *(f"× {peer}" for peer in peers)):
        table.add_column(column, justify="right")
    for name, speeds in found.items():
        ratios = [
            median_and_range([own / other for own, other in zip(speeds, found[peer], strict=True)]) for peer in peers
        ]
        table.add_row(name, f"{statistics.median(speeds):,.0f}", *ratios)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare language models with nanoGPT's model and with transformers' GPT-2.",
        epilog="example: SACCADE_DATA=... python benchmarks/language_model.py --only speed --clock cpu",
    )
    parser.add_argument("--only", choices=("quality", "speed", "generation"), help="run only this part")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=20, help="number of updates per system and round")
    parser.add_argument("--free-batch", type=int, default=64, help="larger batch size, in windows, for our training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the compared training runs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--json", type=Path, help="also write all numbers to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    random.seed(0)
    console = Console()
    data = Data(Shape(0).context)
    shape = Shape(data.vocabulary)
    numbers: dict[str, Any] = {"shape": asdict(shape), "threads": options.threads, "clock": options.clock}
    about = f"{options.threads} thread{'s' * (options.threads > 1)}, {options.rounds} rounds, {options.clock} clock"
    with Progress(console=Console(stderr=True), transient=True) as progress:
        if options.only in (None, "speed"):
            numbers["speed"] = speed(data, shape, options, progress)
            show(
                console,
                f"training, batch {shape.batch} × {shape.context}; {about}",
                numbers["speed"],
                [STAND_IN, HUGGING_FACE],
            )
        if options.only in (None, "generation"):
            numbers["generation"] = generation(data, shape, options, progress)
            show(
                console,
                f"greedy generation of {WRITTEN} tokens, cached; {about}",
                numbers["generation"],
                [HUGGING_FACE],
            )
        if options.only in (None, "quality"):
            numbers["quality"] = quality(data, shape, options.seeds, progress)
            for name, losses in numbers["quality"].items():
                console.print(
                    f"{name}: loss of the whole validation text {', '.join(f'{loss:.4f}' for loss in losses)}"
                )
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
