"""Every task with every kind of network, tiny, on files made here: what a test of all of them runs over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from saccade.tasks.base.task import Batch, Task
from saccade.training.recipe import read_tables

TRANSFORMER = {"width": 12, "num_heads": 3, "feedforward_width": 10}
TRANSLATION = {**TRANSFORMER, "encoder_layers": 1, "decoder_layers": 2}
RECURRENT = {"cell": "lstm", "width": 7, "embedding_width": 6}
SEQ2SEQ = {**RECURRENT, "attention_width": 5}
CONVOLUTIONAL = {"width": 9, "encoder_layers": 1, "decoder_layers": 2}
READER = {"word_width": 5, "word_dropout": 0.0, "piece_width": 4, "spelling_width": 6, "character_width": 3}
VISION = {**TRANSFORMER, "patch": 2, "image_size": [4, 6], "encoder_layers": 1}
PATHS = {"width": 12, "latent": 0}
PAIRS = {"width": 12, "pair_width": 6, "num_heads": 3, "layers": 1, "dropout": 0.0}
TURNED = {"training.rotate": "false"}
LANGUAGE = {"text.context": 7, "text.kind": "character"}

#: Name -> task, kind of network, fields of its configuration, other keys. The first of a kind is the plain one.
NETWORKS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "translation transformer": ("translation", "transformer", TRANSLATION, {}),
    "translation guided": ("translation", "transformer", TRANSLATION, {"training.guided_alignment": 0.5}),
    "translation recurrent": ("translation", "recurrent", SEQ2SEQ, {}),
    "translation recurrent guided": (
        "translation",
        "recurrent",
        {**SEQ2SEQ, "attention": "state"},
        {"training.guided_alignment": 0.5},
    ),
    "translation bottleneck": ("translation", "recurrent", {**SEQ2SEQ, "attention": "none"}, {}),
    "translation convolutional": ("translation", "convolutional", CONVOLUTIONAL, {}),
    "translation resized": (
        "translation",
        "resized",
        {
            "width": 12,
            "num_heads": 3,
            "encoder_layers": 1,
            "feedforward_width": 10,
            "source_length": 48,
            "max_length": 48,
        },
        {},
    ),
    "tagging recurrent": ("tagging", "recurrent", {"width": 7, **READER}, {}),
    "tagging convolutional": (
        "tagging",
        "convolutional",
        {"width": 9, "encoder_layers": 1, **READER, "spelling": "convolution"},
        {},
    ),
    "tagging transformer": ("tagging", "transformer", {**TRANSFORMER, "encoder_layers": 1, **READER}, {}),
    "tagging pieces": ("tagging", "transformer", {**TRANSFORMER, "unit": "pieces", **READER}, {}),
    "tagging window": ("tagging", "window", {"width": 9, "radius": 1, **READER}, {}),
    "classification recurrent": ("classification", "recurrent", RECURRENT, {}),
    "classification last": ("classification", "recurrent", {**RECURRENT, "pooling": "last"}, {}),
    "classification convolutional": ("classification", "convolutional", {"width": 9, "encoder_layers": 1}, {}),
    "classification transformer": ("classification", "transformer", {**TRANSFORMER, "pooling": "mean"}, {}),
    "classification rwkv": (
        "classification",
        "rwkv",
        {"width": 8, "embedding_width": 6, "encoder_layers": 1, "feedforward_width": 10, "pooling": "last"},
        {},
    ),
    "classification window": ("classification", "window", {"width": 9, "radius": 1}, {}),
    "language-model transformer": ("language-model", "transformer", {**TRANSFORMER, "decoder_layers": 2}, LANGUAGE),
    "language-model recurrent": ("language-model", "recurrent", RECURRENT, LANGUAGE),
    "language-model convolutional": ("language-model", "convolutional", {"width": 9, "decoder_layers": 2}, LANGUAGE),
    "language-model rwkv": ("language-model", "rwkv", {"width": 8, "decoder_layers": 2}, LANGUAGE),
    "masked-language-model transformer": (
        "masked-language-model",
        "transformer",
        {**TRANSFORMER, "encoder_layers": 1},
        {"text.context": 8, "text.kind": "character", "text.share": 0.5},
    ),
    "images transformer": ("images", "transformer", VISION, {"images.shift": 0}),
    "images mean": ("images", "transformer", {**VISION, "pooling": "mean", "stem": "convolution"}, {"images.shift": 0}),
    "images convolutional": (
        "images",
        "convolutional",
        {"image_size": [4, 6], "width": 3, "stages": 2},
        {"images.shift": 0},
    ),
    "captions recurrent": (
        "captions",
        "recurrent",
        {"image_size": [4, 6], "width": 7, "cell": "lstm"},
        {"images.shift": 0},
    ),
    "captions transformer": ("captions", "transformer", {**VISION, "decoder_layers": 1}, {"images.shift": 0}),
    "text-autoencoder transformer": ("text-autoencoder", "transformer", {**TRANSLATION, "code_width": 3}, {}),
    "text-autoencoder recurrent": ("text-autoencoder", "recurrent", {**RECURRENT, "code_width": 3}, {}),
    "image-autoencoder dense": ("image-autoencoder", "dense", {"image_size": [4, 6], "width": 9, "code_width": 3}, {}),
    "image-autoencoder patches": (
        "image-autoencoder",
        "patches",
        {**VISION, "decoder_layers": 1, "code_width": 3},
        {},
    ),
    "trajectories agents": (
        "trajectories",
        "agents",
        {**PATHS, "num_heads": 3, "feedforward_width": 10, "dropout": 0.0},
        TURNED,
    ),
    "trajectories mlp": ("trajectories", "mlp", {**PATHS, "hidden_width": 10}, TURNED),
    "base-pairs pairs": ("base-pairs", "pairs", PAIRS, {}),
}


class Case(NamedTuple):
    """A task, a network for it, and examples to train on."""

    task: Task
    model: nn.Module
    examples: list[Any]


def write_files(folder: Path) -> None:
    """Texts of 3 and of 5 words in turn; images of 4 by 6 pixels."""
    draw = np.random.default_rng(0)
    words = ["ba", "do", "fida", "ku", "mesa", "no", "riku", "sado"]
    texts = [" ".join(draw.choice(words, size=3 + 2 * (number % 2))) for number in range(60)]
    texts = list(dict.fromkeys(texts))
    labels = ["up" if text[0] in "bdf" else "down" for text in texts]
    turned = [" ".join(word.upper() for word in reversed(text.split())) for text in texts]
    links = [" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in (len(text.split()) for text in texts)]
    tagged = ["".join(f"{word}\t{word[0]}\n" for word in text.split()) for text in texts]
    images = draw.integers(0, 255, (len(texts), 4, 6), dtype=np.uint8)
    write = {
        "turned.txt": turned,
        "links.txt": links,
        "tagged.tsv": tagged,
        "labelled.tsv": ["text\tlabel", *(f"{text}\t{label}" for text, label in zip(texts, labels, strict=True))],
        "lines.txt": texts,
        "tracks.txt": [
            f"{frame} {agent} {agent + np.sin(frame + agent):.4f} {np.cos(frame * agent):.4f}"
            for frame in range(60)
            for agent in range(1, 4)
        ],
        "rna.csv": ["sequence,structure", *(_hairpin(draw, number % 2) for number in range(40))],
    }
    for name, lines in write.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    np.savez(folder / "images.npz", images=images, labels=np.array(labels))
    np.savez(folder / "captions.npz", images=images, texts=np.array(texts))


def _data(folder: Path, task: str, guided: bool) -> dict[str, Any]:
    file = {
        "translation": {
            "source": "lines.txt",
            "target": "turned.txt",
            **({"alignments": "links.txt"} if guided else {}),
        },
        "tagging": {"file": "tagged.tsv"},
        "classification": {"file": "labelled.tsv"},
        "language-model": {"text": "lines.txt"},
        "masked-language-model": {"text": "lines.txt"},
        "images": {"images": "images.npz"},
        "captions": {"table": "captions.npz"},
        "text-autoencoder": {"texts": "lines.txt"},
        "image-autoencoder": {"images": "images.npz"},
        "base-pairs": {"file": "rna.csv"},
        "trajectories": {},
    }[task]
    lists = {"files": [str(folder / "tracks.txt")]} if task == "trajectories" else {}
    return {**{key: str(folder / name) for key, name in file.items()}, **lists}


def _hairpin(draw: np.random.Generator, more: int) -> str:
    stem = "".join(draw.choice(list("ACGU"), size=4))
    return f"{stem}{'A' * (4 + more)}{stem[::-1]},(((({'.' * (4 + more)}))))"


def make(folder: Path, name: str, **fields: Any) -> Case:
    """This network with weights that depend on its name alone; ``fields`` change its configuration."""
    task_name, kind, model, keys = NETWORKS[name]
    tables: dict[str, Any] = {
        "task": task_name,
        "data": _data(folder, task_name, "training.guided_alignment" in keys),
        "model": {"kind": kind, **model, **fields},
    }
    if task_name in ("translation", "captions", "text-autoencoder"):
        tables["text"] = {"kind": "word"}
    recipe = read_tables(tables, name, [f"{key}={value}" for key, value in keys.items()])
    splits = recipe.entry.data.read(recipe.settings["data"], 1)
    task = recipe.build_task(recipe.task.prepare(recipe.settings, splits.train))
    torch.manual_seed(5)
    network = task.build(recipe.kind, recipe.model).train()
    with torch.no_grad():
        for parameter in network.parameters():  # what begins with zeros shall matter too
            parameter.add_(0.1 * torch.randn_like(parameter))
    return Case(task, network, list(task.encode(splits.train)))


def drawn(case: Case, examples: list[Any]) -> Batch:
    """A batch whose draws depend on nothing before."""
    torch.manual_seed(7)
    return case.task.batch(examples)
