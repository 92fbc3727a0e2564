"""The training part of benchmarks/translation.py: the same batches, with each system's own training step."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from translation_timing import Measured, interleave

from saccade.models import TransformerConfig
from saccade.tasks.translation.task import EncodedPair, Translation
from saccade.text import END, PAD, START, plan_batches
from saccade.training.recipe import Recipe
from saccade.training.trainer import Trainer

__all__ = ["CLOCKS", "JOEYNMT", "MARIAN", "MARIAN_BF16", "MARIAN_FUSED", "OURS", "OURS_BF16", "measure_training"]

OURS, OURS_BF16 = "saccade fp32", "saccade bf16"
MARIAN, MARIAN_BF16, MARIAN_FUSED = "Marian fp32", "Marian bf16", "Marian fp32, torch's loss"
JOEYNMT = "JoeyNMT fp32"
#: JoeyNMT pins older packages than the other systems, and imports one that it does not list. torch has the version
#: installed here, because with another one pip would also download gigabytes for GPUs.
JOEYNMT_PACKAGES = ("joeynmt==2.3.0", "importlib_metadata", f"torch=={torch.__version__.partition('+')[0]}")
#: Number of batches for warming up, before the first round.
WARM_UP = 2

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

Step = Callable[[list[int]], None]


@dataclass(frozen=True)
class Work:
    """What every system trains on: the batches of the recipe's own training, round by round."""

    task: Translation
    recipe: Recipe
    examples: Sequence[EncodedPair]
    batches: list[list[int]]  # as example numbers
    a_round: int  # batches
    threads: int
    clock: str

    def of(self, number: int) -> list[list[int]]:
        """The batches of a round; round -1 is for warming up."""
        if number < 0:
            return self.batches[:WARM_UP]
        first = WARM_UP + number * self.a_round
        return self.batches[first : first + self.a_round]

    def tokens(self, number: int) -> int:
        return sum(len(self.examples[i].target) + 1 for batch in self.of(number) for i in batch)

    @property
    def shape(self) -> TransformerConfig:
        assert isinstance(self.recipe.model, TransformerConfig)
        return self.recipe.model


def measure_training(
    task: Translation,
    recipe: Recipe,
    examples: Sequence[EncodedPair],
    options: Any,
    console: Console,
    progress: Progress,
) -> dict[str, Measured]:
    """The target tokens per second of each system in each round."""
    settings = recipe.training
    epoch = plan_batches(task.lengths(examples), max_tokens=settings.batch_tokens, seed=settings.seed, epoch=0)
    batches = list(islice(cycle(epoch), WARM_UP + options.rounds * options.steps))
    work = Work(task, recipe, examples, batches, options.steps, options.threads, options.clock)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    timed: dict[str, tuple[int, Callable[[int], float]]] = {}
    for name, precision in ((OURS, "fp32"), (OURS_BF16, "bf16")):
        timed[name] = _in_process(work, *_saccade(work, precision))
    try:
        for name, kind in ((MARIAN, "fp32"), (MARIAN_FUSED, "fused"), (MARIAN_BF16, "bf16")):
            timed[name] = _in_process(work, *_marian(work, kind))
    except ImportError:
        console.print("Without transformers: it is not installed (pip install transformers).")
    with _joeynmt(work, options.joeynmt_venv, console) as joeynmt:
        if joeynmt is not None:
            timed[JOEYNMT] = joeynmt
        systems = {name: run for name, (_, run) in timed.items()}
        for run in systems.values():
            run(-1)
        measured = interleave(systems, options.rounds, progress, "training")
    for name, (numbers, _) in timed.items():
        measured[name].about["parameters"] = numbers
    return measured


def _in_process(work: Work, model: nn.Module, step: Step) -> tuple[int, Callable[[int], float]]:
    clock = CLOCKS[work.clock]

    def run(number: int) -> float:
        start = clock()
        for batch in work.of(number):
            step(batch)
        return work.tokens(number) / (clock() - start)

    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad), run


def _saccade(work: Work, precision: str) -> tuple[nn.Module, Step]:
    model = work.task.build(work.recipe.kind, work.recipe.model)
    training = work.recipe.training.model_copy(update={"precision": precision, "accumulate": 1})
    task = Translation(work.task.state, {**work.recipe.settings, "training": training})
    trainer = Trainer(task, model, work.examples, work.examples[:1])

    def step(batch: list[int]) -> None:
        trainer.update([batch])

    return model, step


# --- transformers -----------------------------------------------------------------------------------------


def _marian(work: Work, kind: str) -> tuple[nn.Module, Step]:
    """A training step like that of transformers' Seq2SeqTrainer, reduced to loss, clipping and fused AdamW.

    Its own label smoothing computes the log-probabilities of all positions; "fused" uses torch's cross-entropy instead.
    """
    from transformers.trainer_pt_utils import LabelSmoother

    settings = work.recipe.training
    model = _marian_model(work).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(settings.beta1, settings.beta2), fused=True)
    smoothed = LabelSmoother(epsilon=settings.label_smoothing)

    def loss_of(output: Any, labels: Tensor) -> Tensor:
        if kind != "fused":
            loss: Tensor = smoothed(output, labels)
            return loss
        logits = output.logits.flatten(0, 1)
        return F.cross_entropy(logits, labels.flatten(), label_smoothing=settings.label_smoothing)

    def step(numbers: list[int]) -> None:
        batch = work.task.batch([work.examples[i] for i in numbers])
        real = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
        labels = batch.predicted.masked_fill(~batch.real, -100)
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
            output = model(batch.source, attention_mask=real.long(), decoder_input_ids=batch.read)
            loss = loss_of(output, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return model, step


def _marian_model(work: Work) -> nn.Module:
    from transformers import MarianConfig, MarianMTModel

    shape = work.shape
    model: nn.Module = MarianMTModel(
        MarianConfig(
            vocab_size=work.task.state.source.vocabulary_size,
            d_model=shape.width,
            encoder_layers=shape.encoder_layers,
            decoder_layers=shape.decoder_layers,
            encoder_attention_heads=shape.num_heads,
            decoder_attention_heads=shape.num_heads,
            encoder_ffn_dim=shape.feedforward_width,
            decoder_ffn_dim=shape.feedforward_width,
            max_position_embeddings=512,
            activation_function=shape.activation,
            scale_embedding=shape.scaled_embedding,
            dropout=shape.dropout,
            attention_dropout=shape.attention_dropout,
            activation_dropout=shape.feedforward_dropout,
            pad_token_id=PAD,
            eos_token_id=END,
            forced_eos_token_id=END,
            decoder_start_token_id=START,
            use_cache=False,
            attn_implementation="sdpa",
        )
    )
    return model


# --- JoeyNMT ----------------------------------------------------------------------------------------------


@contextmanager
def _joeynmt(work: Work, folder: Path | None, console: Console) -> Iterator[tuple[int, Callable[[int], float]] | None]:
    """JoeyNMT in a separate process, which waits while other systems are timed."""
    if folder is None:
        console.print("Without JoeyNMT, because of --no-joeynmt.")
        yield None
        return
    python = _environment(folder, console)
    if python is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as temporary:
        job = Path(temporary) / "job.json"
        job.write_text(json.dumps(_joeynmt_job(work)))
        child = subprocess.Popen(
            [str(python), "-W", "ignore", str(Path(__file__).with_name("translation_joeynmt.py")), str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(work.threads)},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        requests, answers = child.stdin, child.stdout

        def run(number: int) -> float:
            first = 0 if number < 0 else WARM_UP + number * work.a_round
            requests.write(f"{first} {len(work.of(number))}\n")
            requests.flush()
            return work.tokens(number) / float(answers.readline())

        try:
            numbers = answers.readline()
            if not numbers:
                console.print("Without JoeyNMT: it did not start (see its message above).")
            yield (int(numbers), run) if numbers else None
        finally:
            requests.close()
            child.wait(timeout=60)


def _environment(folder: Path, console: Console) -> Path | None:
    """The Python of JoeyNMT's environment, which is created if it is missing."""
    python = folder / "bin" / "python"
    if python.exists() and not _failure([str(python), "-c", "import joeynmt.training"]):
        return python
    console.print(f"Installing JoeyNMT in {folder}; this happens once and takes a few minutes.")
    venv.create(folder, with_pip=True)
    failure = _failure([str(python), "-m", "pip", "install", "--quiet", *JOEYNMT_PACKAGES])
    if failure:
        console.print(f"Without JoeyNMT: it cannot be installed ({failure}).")
        return None
    return python


def _failure(command: list[str]) -> str:
    """The last line of a command's error output; empty if it succeeds."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def _joeynmt_job(work: Work) -> dict[str, Any]:
    """JoeyNMT's configuration for the same model and training; it has a single dropout rate."""
    shape = work.shape
    layers = {
        "type": "transformer",
        "num_heads": shape.num_heads,
        "hidden_size": shape.width,
        "ff_size": shape.feedforward_width,
        "dropout": shape.dropout,
        "layer_norm": "pre" if shape.norm_first else "post",
        "activation": shape.activation,
        "embeddings": {"embedding_dim": shape.width, "scale": shape.scaled_embedding, "dropout": shape.dropout},
    }
    config = {
        "name": "benchmark",
        "use_cuda": False,
        "data": {},
        "testing": {},
        "training": _joeynmt_training(work),
        "model": {
            "tied_embeddings": shape.tied_embeddings,
            "tied_softmax": shape.tied_output,
            "encoder": {**layers, "num_layers": shape.encoder_layers},
            "decoder": {**layers, "num_layers": shape.decoder_layers},
        },
    }
    examples = [[work.examples[i] for i in batch] for batch in work.batches]
    return {
        "config": config,
        "vocabulary": work.task.state.source.vocabulary_size,
        "threads": work.threads,
        "clock": work.clock,
        "batches": [[(pair.source, pair.target) for pair in batch] for batch in examples],
    }


def _joeynmt_training(work: Work) -> dict[str, Any]:
    settings = work.recipe.training
    return {
        "optimizer": "adamw",
        "adam_betas": [settings.beta1, settings.beta2],
        "learning_rate": 1e-4,
        "scheduling": "warmupinversesquareroot",
        "normalization": "tokens",
        "label_smoothing": settings.label_smoothing,
        "clip_grad_norm": settings.clip,
        "batch_size": settings.batch_tokens,
        "batch_type": "token",
    }
