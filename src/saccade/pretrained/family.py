"""Describe a family of models of another library, such as BERT: how its config.json and tensors map to Saccade's."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from saccade.errors import FileError
from saccade.models import Config, TransformerConfig
from saccade.models.weights import unshared
from saccade.pretrained.fields import Fields
from saccade.pretrained.pixels import Preparation

__all__ = ["Family", "ForeignConfig", "NamedRow", "Pretrained", "Row", "Use", "check_problem", "read_labels"]

#: What a model is for: filling in hidden words, continuing a text, rewriting a text as another, computing a vector of
#: a text, or labelling texts, words or images.
Use = Literal["fill", "continue", "rewrite", "encode", "label texts", "label words", "label images"]
#: The largest number of labels for which names are made up.
_MOST_LABELS = 1_000_000


class Row(NamedTuple):
    """A row of the table that maps tensors: ``ours`` of Saccade hold the same numbers as ``theirs`` of another library.

    If one side has several tensors, they are joined along the first axis. A name without ``.weight`` or ``.bias``
    stands for both; ``{n}`` is the number of a layer.
    """

    ours: str | tuple[str, ...]
    theirs: str | tuple[str, ...]
    transposed: bool = False  # their matrices have shape (inputs, outputs), ours (outputs, inputs)
    leading: int = 0  # the number of extra axes of size 1 at the front of their tensor
    by_head: bool = False  # their rows are in the order of the heads: query, key and value of head 0, then head 1
    when: tuple[str, Any] | None = None  # only for networks whose configuration has this value in this field


class NamedRow(NamedTuple):
    """A `Row` with the full names of the tensors of one layer."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    row: Row
    heads: int  # the number of heads of the layer

    def to_ours(self, theirs: Sequence[Tensor], shapes: Sequence[torch.Size]) -> list[Tensor]:
        """Convert tensors of the other library to Saccade's tensors, which have these shapes."""
        plain = [one.reshape(one.shape[self.row.leading :]) for one in theirs]
        turned = [one.T if self.row.transposed and one.ndim > 1 else one for one in plain]
        if len(turned) == len(shapes) == 1 and not self.row.by_head:  # without a copy
            return [turned[0].contiguous()]
        joined = torch.cat(turned)
        if self.row.by_head:
            joined = joined.view(self.heads, 3, -1, *joined.shape[1:]).transpose(0, 1).flatten(0, 2)
        return [part.contiguous() for part in torch.split(joined, [shape[0] for shape in shapes])]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Convert Saccade's tensors to tensors of the other library; if there are several, they have equal sizes."""
        joined = ours[0] if len(ours) == 1 else torch.cat(list(ours))
        if self.row.by_head:
            joined = joined.view(3, self.heads, -1, *joined.shape[1:]).transpose(0, 1).flatten(0, 2)
        parts = joined.chunk(len(self.theirs))
        turned = [part.T if self.row.transposed and part.ndim > 1 else part for part in parts]
        return [part.reshape((1,) * self.row.leading + part.shape).contiguous() for part in turned]

    def their_shapes(self, ours: Sequence[torch.Size]) -> list[tuple[int, ...]]:
        """Return the shapes that the other library's tensors must have if Saccade's have the shapes ``ours``."""
        meta = [torch.empty(shape, device="meta") for shape in ours]
        return [tuple(one.shape) for one in self.to_theirs(meta)]


@dataclass(frozen=True)
class Family:
    """Models of another library that share a config.json format and names of tensors, such as BERT."""

    name: str
    model_type: str  # in config.json
    architectures: Mapping[str, Use]  # the classes that Saccade can open, and what each is for
    configure: Callable[[Fields, Use, Collection[str]], TransformerConfig]  # given the names of the tensors
    rows: tuple[Row, ...]
    describe: Callable[[TransformerConfig], dict[str, Any]]  # the inverse of configure
    prefix: str = ""  # of tensor names; left out in folders of the model without an output layer
    unused: tuple[str, ...] = ()  # patterns of the names of tensors that Saccade does not need
    pooled_layer: Literal["tanh", "relu"] = "tanh"  # the activation of a classifier's first output layer
    tied: str | None = None  # the output layer's tensor, which may be missing if it equals the embedding
    copies: Mapping[str, str] = field(default_factory=dict)  # names of copies, and of their originals

    def pairs(self, network: nn.Module) -> Iterator[NamedRow]:
        """Yield the names of a Saccade network's tensors with those of the matching tensors of the other library."""
        ours = unshared(network)
        for row in self.rows:
            own, other = (names if isinstance(names, tuple) else (names,) for names in (row.ours, row.theirs))
            if row.when is not None and getattr(network.config, row.when[0]) != row.when[1]:
                continue
            stack = own[0].split(".")[0]
            for number in range(len(getattr(network, stack))) if "{n}" in own[0] else (0,):
                is_full = own[0].format(n=number) in ours or own[0].rpartition(".")[2] in ("weight", "bias")
                for end in ("",) if is_full else (".weight", ".bias"):
                    names = tuple(name.format(n=number) + end for name in own)
                    if names[0] in ours:
                        theirs = tuple(name.format(n=number) + end for name in other)
                        yield NamedRow(names, theirs, row, network.config.num_heads)  # type: ignore[union-attr, arg-type]

    def is_unused(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.unused)

    @property
    def embedding(self) -> str:
        """The other library's name for the tensor of the word embedding."""
        name = next(row.theirs for row in self.rows if row.ours in ("input.words.weight", "source.words.weight"))
        assert isinstance(name, str)
        return name


def check_problem(fields: Fields, use: Use) -> None:
    """Raise an error if the outputs of a model are not logits of labels, but for example those of a regression."""
    allowed = ["single_label_classification", *(["multi_label_classification"] if use == "label texts" else [])]
    given = fields.values.get("problem_type")
    if given is not None and given not in allowed:
        raise FileError(
            f"{fields.where}: problem_type is {json.dumps(given)[:60]}; Saccade supports only {' and '.join(allowed)}."
        )
    if use.startswith("label") and given != "multi_label_classification" and len(read_labels(fields.values)) == 1:
        said = "there is nothing to choose between"  # transformers applies softmax to a single logit
        if given is None and use != "label words":
            said = "the model computes a number for each input, such as a score of relevance, and chooses no label"
        raise FileError(f"{fields.where}: id2label has only one label, so {said}; Saccade supports two labels or more.")


def read_labels(fields: Mapping[str, Any]) -> list[str]:
    """Return the labels that a config.json names, or numbered labels if it names none: num_labels of them, or else two.

    If several have the same name, as the bird and the machine "crane" of ImageNet do, the id in brackets follows it.
    """
    stated = fields.get("num_labels")
    count = stated if type(stated) is int and 0 < stated <= _MOST_LABELS else 2
    named = fields.get("id2label") or {str(id): f"LABEL_{id}" for id in range(count)}
    if not isinstance(named, Mapping):
        raise FileError(f"config.json: id2label must be a table from ids to labels, not {type(named).__name__}.")
    if stated is not None and stated != len(named):
        raise FileError(
            f"config.json: id2label has {len(named):,} labels, but num_labels is {json.dumps(stated)[:60]}."
        )
    found = [named.get(str(id), named.get(id)) for id in range(len(named))]
    if not all(isinstance(label, str) for label in found):
        raise FileError(f"config.json: id2label does not give each id from 0 to {len(found) - 1} a label.")
    counts = Counter(found)
    return [f"{label} ({id})" if counts[label] > 1 else str(label) for id, label in enumerate(found)]


class ForeignConfig(Config):
    """What Saccade needs to know about a network that ``transformers`` runs, in place of a network's configuration."""

    model_type: str
    max_length: int
    position: str  # "learned" if there is a limit to the length of a text
    token_types: int = 0


@dataclass(frozen=True)
class Pretrained:
    """A model of another library, converted to a network that Saccade's tasks can use."""

    family: str  # the name of its family
    use: Use
    config: TransformerConfig | ForeignConfig
    network: nn.Module
    fields: Mapping[str, Any]  # its config.json
    vocabulary: int
    unused: tuple[str, ...] = ()  # the names of stored tensors that our network does not have
    layout: Family | None = None  # how its original library names its tensors, if Saccade can write them
    is_bare: bool = False  # whether its tensors lack the prefix of the family
    preparation: Preparation | None = None  # how pictures become its inputs
    generation: Mapping[str, Any] = field(default_factory=dict)  # how its library generates text by default
    entries: tuple[list[str], list[str]] | None = None  # the source and target tokens, if a file lists them

    @property
    def labels(self) -> list[str]:
        """The labels of a classifier or tagger, by id."""
        return read_labels(self.fields)

    @property
    def has_several_labels(self) -> bool:
        """Whether a text can have any number of labels, each with a separate probability."""
        return self.fields.get("problem_type") == "multi_label_classification"

    @property
    def trained_length(self) -> int | None:
        """The maximum length that config.json states (max_position_embeddings), or None if it does not state one."""
        length = self.fields.get("max_position_embeddings")
        return length if type(length) is int and length > 0 else None

    def id(self, *names: str) -> int | None:
        """Return the token id in the first of these fields that has one (eos_token_id, ...), or None. If the model
        generates text, ``generation`` counts before config.json."""
        given = [self.generation.get(name, self.fields.get(name)) for name in names]
        found = [value[0] if isinstance(value, list) and value else value for value in given]  # the first end token
        return next((id for id in found if type(id) is int and 0 <= id < self.vocabulary), None)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights with the names and shapes that the original library uses."""
        assert self.layout is not None
        ours = unshared(self.network)
        found: dict[str, Tensor] = {}
        for pair in self.layout.pairs(self.network):
            found |= dict(zip(pair.theirs, pair.to_theirs([ours[name] for name in pair.ours]), strict=True))
        for name in self.unused:  # a tensor that was stored twice is stored twice again
            original = self.layout.embedding if name == self.layout.tied else self.layout.copies.get(name)
            if original is not None:
                found[name] = found[original].clone()
        prefix = self.layout.prefix if self.is_bare else ""
        return {name.removeprefix(prefix): tensor for name, tensor in found.items()}
