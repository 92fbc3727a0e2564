"""Open a folder that another library wrote: its family, our network with its weights, and what was left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor, nn

from saccade.errors import FileError, SaccadeError, describe_invalid
from saccade.models import DecoderOnly, EncoderDecoder, EncoderOnly, TransformerConfig
from saccade.models.sentence_encoder import SentenceConfig, SentenceEncoder
from saccade.models.weights import assign, unshared
from saccade.pretrained.bart import BART, MARIAN
from saccade.pretrained.bert import ALBERT, BERT, DISTILBERT, ROBERTA
from saccade.pretrained.family import Family, Pretrained, Use
from saccade.pretrained.fields import Fields, read_fields
from saccade.pretrained.gpt2 import GPT2
from saccade.pretrained.gpt_neox import GPT_NEOX
from saccade.pretrained.llama import LLAMA, MISTRAL, QWEN2
from saccade.pretrained.llama2c import find_llama2c, read_llama2c
from saccade.pretrained.sentences import sentence_fields
from saccade.pretrained.tensors import WHOLE, TensorFiles, find_tensors

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "read_pretrained", "weights_checksum", "write_pretrained"]

_EVERY = (BERT, DISTILBERT, ROBERTA, ALBERT, GPT2, LLAMA, MISTRAL, QWEN2, GPT_NEOX, MARIAN, BART)
FAMILIES: Mapping[str, Family] = {family.model_type: family for family in _EVERY}


def is_pretrained(path: Path) -> bool:
    """Whether this is a model in the layout of Hugging Face, or a checkpoint of llama2.c."""
    if find_llama2c(path) is not None:
        return True
    try:
        found = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "model_type" in found


def read_pretrained(path: Path) -> Pretrained:
    """Open such a folder. Everything is checked by names and shapes before any weight is read."""
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
    if use == "encode":
        config = SentenceConfig(**config.model_dump(), **sentence_fields(path))
    vocabulary = fields.whole("vocab_size")
    fields.expect("pruned_heads", {}, [])
    fields.refuse_unknown(family.name)
    if (
        family.tied is not None
        and family.tied in names
        and config.tied_output
        and not _same(files, names, family.embedding, family.tied)
    ):
        config = config.model_copy(update={"tied_output": False})  # as the home library does
    try:
        with torch.device("meta"):  # shapes alone: whatever config.json says, no memory is taken before the files agree
            network = _build(config, use, vocabulary)
    except SaccadeError as error:
        raise FileError(f"{fields.where} describes a network that cannot be built: {error}") from None
    unused = _check(network, family, files, names, path)
    ours = unshared(network)
    tensors: dict[str, Tensor] = {}
    for pair in family.pairs(network):
        theirs = [files.read(names[name]) for name in pair.theirs]
        tensors |= dict(zip(pair.ours, pair.to_ours(theirs, [ours[name].shape for name in pair.ours]), strict=True))
    assign(network, tensors)
    return Pretrained(family, use, config, network.eval(), fields.values, vocabulary, unused, is_bare)


def write_pretrained(model: Pretrained, folder: Path) -> None:
    """Write a model as its home library reads it: ``config.json`` and ``model.safetensors``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(model.fields), indent=2) + "\n", encoding="utf-8")
    save_file(model.tensors(), folder / WHOLE, metadata={"format": "pt"})


def weights_checksum(path: Path) -> str:
    """A SHA-256 of all files with weights."""
    digest = hashlib.sha256()
    checkpoint = find_llama2c(path)
    for file in find_tensors(path).files if checkpoint is None else [checkpoint]:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _family(fields: Fields) -> tuple[Family, Use]:
    kind, classes = fields.values.get("model_type"), fields.values.get("architectures")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise FileError(f"{fields.where}: model_type is {str(kind)[:60]!r}; Saccade opens {', '.join(FAMILIES)}.")
    family = FAMILIES[kind]
    name = classes[0] if isinstance(classes, list) and len(classes) == 1 else classes
    if name not in family.architectures:
        known = ", ".join(family.architectures)
        raise FileError(
            f"{fields.where}: architectures is {str(name)[:60]!r}; for {family.name} Saccade opens {known}."
        )
    return family, family.architectures[str(name)]


def _build(config: TransformerConfig, use: Use, vocabulary: int) -> nn.Module:
    if isinstance(config, SentenceConfig):
        return SentenceEncoder(config, vocabulary)
    if use == "fill":
        return EncoderOnly(config, vocabulary)
    if use == "continue":
        return DecoderOnly(config, vocabulary)
    return EncoderDecoder(config, vocabulary, vocabulary)


def _same(files: TensorFiles, names: Mapping[str, str], one: str, other: str) -> bool:
    """Whether two tensors are stored with the same values."""
    return one in names and other in names and torch.equal(files.read(names[one]), files.read(names[other]))


def _check(
    network: nn.Module,
    family: Family,
    files: TensorFiles,
    names: Mapping[str, str],
    path: Path,
) -> tuple[str, ...]:
    """Refuse files that do not have exactly what the network needs; the tensors that it does not need."""
    ours, needed = unshared(network), set()
    for pair in family.pairs(network):
        for name, shape in zip(pair.theirs, pair.their_shapes([ours[own].shape for own in pair.ours]), strict=True):
            if name not in names:
                raise FileError(f"{path} does not have the tensor {name}, which config.json asks for.")
            if files[names[name]].shape != shape:
                raise FileError(
                    f"{path}: the tensor {name} has shape {files[names[name]].shape}; config.json asks for {shape}."
                )
            needed.add(name)
    unused = sorted(set(names) - needed)
    for name in unused:
        if name in family.copies and not _same(files, names, name, family.copies[name]):
            raise FileError(f"{path}: the tensor {name} is not the same as {family.copies[name]}, as it should be.")
        if name not in family.copies and not family.is_unused(name) and name != family.tied:
            raise FileError(f"{path} has the tensor {names[name]}, which Saccade does not know for {family.name}.")
    return tuple(unused)
