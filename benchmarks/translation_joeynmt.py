"""JoeyNMT's part of benchmarks/translation.py; it runs in a separate Python environment that has JoeyNMT.

    python translation_joeynmt.py JOB.json

JOB.json contains JoeyNMT's configuration, the size of the vocabulary and the batches, as lists of [source, target]
token ids. For each line "FIRST COUNT" on standard input, it trains on that many batches and prints the seconds. The
model, the loss, the normalisation, the clipping and the optimizer are JoeyNMT's own, from `build_model` and
`TrainManager`. A step is the body of the loop in `TrainManager.train_and_validate`, without its logging.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_global_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

#: JoeyNMT's special tokens always have this order; ours begin with padding, then the unknown word.
UNKNOWN, PAD, START, END = range(4)
NEW_NUMBERS = {0: PAD, 1: UNKNOWN}


def manager(job: dict[str, Any], folder: Path) -> TrainManager:
    """JoeyNMT's own trainer with its own model."""
    arguments = parse_global_args({**job["config"], "model_dir": str(folder)}, mode="train")
    words = [f"word{number}" for number in range(4, job["vocabulary"])]
    vocabulary = Vocabulary(words, arguments.data["special_symbols"])
    assert len(vocabulary) == job["vocabulary"]
    model = build_model(arguments.model, vocabulary, vocabulary)
    model.loss_function = (arguments.train.loss, arguments.train.label_smoothing)
    return TrainManager(
        rank=0,
        model=model,
        model_dir=folder,
        device=arguments.device,
        autocast=arguments.autocast,
        train_args=arguments.train,
        dev_args=arguments.test,
    )


def batch_of(pairs: list[tuple[list[int], list[int]]], device: torch.device) -> Batch:
    """A padded batch as JoeyNMT's collate function returns it: sources with END, targets between START and END."""
    sources = [[NEW_NUMBERS.get(token, token) for token in source] for source, _ in pairs]
    targets = [[START, *(NEW_NUMBERS.get(token, token) for token in target), END] for _, target in pairs]
    return Batch(
        src=padded(sources),
        src_length=torch.tensor([len(source) for source in sources]),
        src_prompt_mask=None,
        trg=padded(targets),
        trg_prompt_mask=None,
        indices=torch.arange(len(pairs)),
        device=device,
        pad_index=PAD,
        eos_index=END,
    )


def padded(rows: list[list[int]]) -> torch.Tensor:
    """(B, T)"""
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def train(trainer: TrainManager, batches: list[list[tuple[list[int], list[int]]]]) -> None:
    for pairs in batches:
        trainer._train_step(batch_of(pairs, trainer.device))
        trainer.clip_grad_fun(parameters=trainer.model.parameters())
        trainer.optimizer.step()
        trainer.scheduler.step(trainer.stats.steps)
        trainer.model.zero_grad()
        trainer.stats.steps += 1


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    logging.disable(logging.INFO)
    torch.set_num_threads(job["threads"])
    clock = time.process_time if job["clock"] == "cpu" else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        trainer = manager(job, Path(folder))
        numbers = sum(parameter.numel() for parameter in trainer.model.parameters() if parameter.requires_grad)
        print(numbers, flush=True)
        for line in sys.stdin:
            first, count = map(int, line.split())
            start = clock()
            train(trainer, job["batches"][first : first + count])
            print(clock() - start, flush=True)
        trainer.tb_writer.close()


if __name__ == "__main__":
    main()
