"""Open a model folder of another library as a Saccade network with the same weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import save
from torch import Tensor, nn

from saccade.errors import FileError, SaccadeError, UnsupportedError, describe_invalid
from saccade.models import (
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    TransformerConfig,
    VisionConfig,
    VisionTransformer,
)
from saccade.models.classifier import Classifier, TransformerClassifierConfig
from saccade.models.encoders import TransformerEncoderConfig
from saccade.models.sentence_encoder import SentenceConfig, SentenceEncoder
from saccade.models.tagger import Tagger, TransformerTaggerConfig
from saccade.models.weights import assign, unshared
from saccade.pretrained.bart import BART, MARIAN
from saccade.pretrained.bert import ALBERT, BERT, DISTILBERT, ROBERTA
from saccade.pretrained.ctranslate2_folder import MODEL as CTRANSLATE2
from saccade.pretrained.ctranslate2_folder import is_ctranslate2, read_ctranslate2
from saccade.pretrained.family import Family, Pretrained, Use, check_problem, read_labels
from saccade.pretrained.fields import Fields, read_fields
from saccade.pretrained.generation import read_generation
from saccade.pretrained.gpt2 import GPT2
from saccade.pretrained.gpt_neox import GPT_NEOX
from saccade.pretrained.llama import LLAMA, MISTRAL, QWEN2
from saccade.pretrained.llama2c import find_llama2c, read_llama2c
from saccade.pretrained.pixels import NAME as PREPARATION
from saccade.pretrained.pixels import preparation_fields, read_preparation
from saccade.pretrained.sentences import sentence_fields
from saccade.pretrained.t5 import T5
from saccade.pretrained.tensors import WHOLE, TensorFiles, find_tensors
from saccade.pretrained.vit import DEIT, VIT

__all__ = [
    "FAMILIES",
    "Pretrained",
    "is_pretrained",
    "pretrained_files",
    "read_pretrained",
    "weights_checksum",
    "with_head",
]

_EVERY = (BERT, DISTILBERT, ROBERTA, ALBERT, GPT2, LLAMA, MISTRAL, QWEN2, GPT_NEOX, MARIAN, BART, T5, VIT, DEIT)
FAMILIES: Mapping[str, Family] = {family.model_type: family for family in _EVERY}


def is_pretrained(path: Path) -> bool:
    """Return whether ``path`` is a model folder of Hugging Face or CTranslate2, or a checkpoint of llama2.c."""
    if is_ctranslate2(path) or find_llama2c(path) is not None:
        return True
    try:
        found = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "model_type" in found


def read_pretrained(path: Path) -> Pretrained:
    """Open a model of another library as a Saccade network.

    The names and shapes of all tensors of a Hugging Face model are checked before any weights are loaded.
    """
    if is_ctranslate2(path):
        return read_ctranslate2(path)
    checkpoint = find_llama2c(path)
    if checkpoint is not None:
        return read_llama2c(checkpoint)
    fields = read_fields(path / "config.json")
    family, use = _family(fields)
    files = find_tensors(path)
    is_bare = bool(family.prefix) and not any(name.startswith(family.prefix) for name in files)
    names = {f"{family.prefix}{name}" if is_bare else name: name for name in files}
    try:
        config = family.configure(fields, use, names)
    except ValidationError as error:
        first = error.errors()[0]
        said = describe_invalid(first, ".".join(map(str, first["loc"])))
        raise FileError(f"{fields.where} describes a network that cannot be built ({said}).") from None
    config = with_head(config, family, use, sentence_fields(path) if use == "encode" else {})
    check_problem(fields, use)
    vocabulary = 0 if use == "label images" else fields.whole("vocab_size")
    fields.expect("pruned_heads", {}, [])
    fields.refuse_unknown(family.name)
    if (
        family.tied is not None
        and family.tied in names
        and config.tied_output
        and not _same(files, names, family.embedding, family.tied)
    ):
        config = config.model_copy(update={"tied_output": False})  # as transformers does
    try:
        with torch.device("meta"):  # shapes only: no memory is used until the files are found to match config.json
            network = _build(config, use, vocabulary, fields.values)
    except SaccadeError as error:
        raise FileError(f"{fields.where} describes a network that cannot be built: {error}") from None
    defaults = read_generation(path, fields.values, vocabulary) if use in ("rewrite", "continue") else {}
    unused = _check(network, family, files, names, path)
    ours = unshared(network)
    tensors: dict[str, Tensor] = {}
    for pair in family.pairs(network):
        theirs = [files.read(names[name]) for name in pair.theirs]
        tensors |= dict(zip(pair.ours, pair.to_ours(theirs, [ours[name].shape for name in pair.ours]), strict=True))
    assign(network, tensors)
    prepared = None
    if isinstance(config, VisionConfig):
        prepared = read_preparation(path, config.image_size, config.channels, family.name)
    return Pretrained(
        family.name, use, config, network.eval(), fields.values, vocabulary, unused, family, is_bare, prepared, defaults
    )


def pretrained_files(model: Pretrained) -> dict[str, bytes]:
    """Return the content of the files of a model in the format of transformers: ``config.json``, ``model.safetensors``
    and, if the model takes images, ``preprocessor_config.json``."""
    tables = {"config.json": dict(model.fields)}
    if model.preparation is not None:
        assert isinstance(model.config, VisionConfig)
        tables[PREPARATION] = preparation_fields(model.preparation, model.config.image_size)
    texts = {name: (json.dumps(table, indent=2) + "\n").encode() for name, table in tables.items()}
    return {**texts, WHOLE: save(model.tensors(), metadata={"format": "pt"})}


def weights_checksum(path: Path) -> str:
    """Return a checksum of all files with weights in a model folder: one SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    checkpoint = path / CTRANSLATE2 if is_ctranslate2(path) else find_llama2c(path)
    for file in find_tensors(path).files if checkpoint is None else [checkpoint]:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _family(fields: Fields) -> tuple[Family, Use]:
    kind, classes = fields.values.get("model_type"), fields.values.get("architectures")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnsupportedError(
            f"{fields.where}: model_type is {str(kind)[:60]!r}; Saccade opens {', '.join(FAMILIES)}."
        )
    family = FAMILIES[kind]
    name = classes[0] if isinstance(classes, list) and len(classes) == 1 else classes
    if not isinstance(name, str) or name not in family.architectures:
        known = ", ".join(family.architectures)
        raise UnsupportedError(
            f"{fields.where}: architectures is {str(name)[:60]!r}; for {family.name} Saccade opens {known}."
        )
    return family, family.architectures[name]


def with_head(
    config: TransformerConfig, family: Family, use: Use, sentence: Mapping[str, Any] | None = None
) -> TransformerConfig:
    """Return the configuration with the output layer that a ``use`` needs: encoding texts, or labelling texts or words.

    Other uses need no other configuration, so ``config`` itself is returned. ``sentence`` has the fields that only a
    sentence encoder has, such as how it pools the vectors of tokens.
    """
    if use == "encode":
        return SentenceConfig(**config.model_dump(exclude=set(SentenceConfig.unused)), **(sentence or {}))
    given = config.model_dump(exclude=set(TransformerEncoderConfig.unused))
    if use == "label texts":
        return TransformerClassifierConfig(**given, pooling="first", pooled_layer=family.pooled_layer)
    return TransformerTaggerConfig(**given, unit="pieces") if use == "label words" else config


def _build(config: TransformerConfig, use: Use, vocabulary: int, fields: Mapping[str, Any]) -> nn.Module:
    if isinstance(config, SentenceConfig):
        return SentenceEncoder(config, vocabulary)
    if use == "label texts":
        return Classifier(config, vocabulary, len(read_labels(fields)))
    if use == "label words":
        return Tagger(config, words=0, pieces=vocabulary, characters=0, labels=len(read_labels(fields)))
    if isinstance(config, VisionConfig):
        return VisionTransformer(config, len(read_labels(fields)))
    if use == "fill":
        return EncoderOnly(config, vocabulary)
    if use == "continue":
        return DecoderOnly(config, vocabulary)
    return EncoderDecoder(config, vocabulary, vocabulary)


def _same(files: TensorFiles, names: Mapping[str, str], one: str, other: str) -> bool:
    """Return whether two tensors are stored with the same values."""
    return one in names and other in names and torch.equal(files.read(names[one]), files.read(names[other]))


def _check(
    network: nn.Module,
    family: Family,
    files: TensorFiles,
    names: Mapping[str, str],
    path: Path,
) -> tuple[str, ...]:
    """Refuse files that lack a tensor or have an unknown one, and return the tensors that the network does not need."""
    ours, needed = unshared(network), set()
    for pair in family.pairs(network):
        for name, shape in zip(pair.theirs, pair.their_shapes([ours[own].shape for own in pair.ours]), strict=True):
            if name not in names:
                raise FileError(f"{path} does not have the tensor {name}, which config.json requires.")
            if files[names[name]].shape != shape:
                raise FileError(
                    f"{path}: the tensor {name} has shape {files[names[name]].shape}; config.json requires {shape}."
                )
            needed.add(name)
    unused = sorted(set(names) - needed)
    for name in unused:
        if name in family.copies and not _same(files, names, name, family.copies[name]):
            raise FileError(f"{path}: the tensor {name} must be a copy of {family.copies[name]}, but it differs.")
        if name not in family.copies and not family.is_unused(name) and name != family.tied:
            raise FileError(f"{path} has the tensor {names[name]}, which Saccade does not know for {family.name}.")
    return tuple(unused)
