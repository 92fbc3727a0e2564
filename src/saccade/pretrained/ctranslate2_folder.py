"""Open translation models in the format of CTranslate2 (Klein 2020): a ``model.bin`` and vocabularies of tokens."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.errors import FileError
from saccade.models import EncoderDecoder, TransformerConfig
from saccade.models.layers import Activation
from saccade.models.weights import assign, unshared
from saccade.pretrained.ctranslate2 import LONGEST
from saccade.pretrained.family import Pretrained
from saccade.pretrained.fields import read_table

__all__ = ["is_ctranslate2", "read_ctranslate2"]

MODEL = "model.bin"
#: The number of heads of the networks that early versions describe only by their name.
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}
#: The codes of data types: float32, int8, int16, int32, float16. Earlier versions store the bytes per number instead.
_TYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_TYPES_BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
_ACTIVATIONS: Mapping[int, Activation] = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
#: Settings that Saccade cannot express, so they must be off, and settings that do not change any answer.
_OFF = ("alibi", "embeddings_merge", "multi_query_attention", "start_from_zero_embedding")
_WITHOUT_EFFECT = ("alibi_use_positive_positions", "alignment_heads", "alignment_layer", "scale_alibi")
#: The fields that a config.json may leave out; earlier versions have no such file.
_DEFAULTS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "layer_norm_epsilon": 1e-5}
#: The layers of a block, by our name and by theirs; the blocks of an encoder have no cross-attention.
_LAYERS = {
    "self_norm": "self_attention/layer_norm",
    ("self.query", "self.key_value"): "self_attention/linear_0",
    "self.output": "self_attention/linear_1",
    "cross_norm": "attention/layer_norm",
    "cross.query": "attention/linear_0",
    "cross.key_value": "attention/linear_1",
    "cross.output": "attention/linear_2",
    "feedforward_norm": "ffn/layer_norm",
    "feedforward.inner": "ffn/linear_0",
    "feedforward.outer": "ffn/linear_1",
}


class _Model(NamedTuple):
    """The content of a model.bin: the name of the specification, and the variables."""

    specification: str
    variables: dict[str, np.ndarray[Any, Any]]


def is_ctranslate2(path: Path) -> bool:
    """Return whether a folder has a CTranslate2 model with a source vocabulary, or one shared by both languages."""
    return (path / MODEL).is_file() and any(_vocabulary(path, side) is not None for side in ("source", "shared"))


def _vocabulary(folder: Path, side: str) -> Path | None:
    found = (folder / f"{side}_vocabulary{end}" for end in (".json", ".txt"))
    return next((path for path in found if path.is_file()), None)


def read_ctranslate2(folder: Path) -> Pretrained:
    """Open a model folder of CTranslate2. If it has no position vectors, the sinusoidal ones that CTranslate2 would
    compute become a table of learned positions."""
    model = _read(folder / MODEL)
    about = read_table(folder / "config.json", dict) if (folder / "config.json").exists() else {}
    fields = _DEFAULTS | {name: value for name, value in about.items() if value is not None}
    entries = _entries(folder, "source", fields["unk_token"]), _entries(folder, "target", fields["unk_token"])
    settings = _Settings(folder / MODEL, model)
    config = settings.config(fields["layer_norm_epsilon"])
    with torch.device("meta"):
        network = EncoderDecoder(config, len(entries[0]), len(entries[1]))
    tensors = settings.tensors(config)
    for name, expected in unshared(network).items():
        if name not in tensors:
            raise FileError(f"{folder / MODEL} does not have the weights of {name}.")
        if tensors[name].shape != expected.shape:
            found, needed = tuple(tensors[name].shape), tuple(expected.shape)
            raise FileError(
                f"{folder / MODEL}: {name} has shape {found}; the model's vocabularies and sizes require {needed}."
            )
        if not bool(torch.isfinite(tensors[name]).all()):
            raise FileError(f"{folder / MODEL}: {name} contains NaN or infinity; weights must be finite.")
    settings.refuse_unread()
    assign(network, tensors)
    return Pretrained("CTranslate2", "rewrite", config, network.eval(), fields, len(entries[1]), entries=entries)


def _entries(folder: Path, side: str, unknown: str) -> list[str]:
    """Return the source or target tokens by id. Like CTranslate2, add a token for unknown words if there is none."""
    path = _vocabulary(folder, side) or _vocabulary(folder, "shared")
    if path is None:
        raise FileError(f"{folder} has no {side}_vocabulary.txt or .json.")
    if path.suffix == ".json":
        found = read_table(path, list)
    else:
        try:
            found = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{path} cannot be read: {error}.") from None
    if not all(isinstance(one, str) for one in found) or len(set(found)) != len(found):
        raise FileError(f"{path} is not a list of distinct tokens.")
    return [*found, *([] if unknown in found else [unknown])]


def _read(path: Path) -> _Model:
    """Read the variables of a model.bin of versions 2 to 6, and check that each lies within the file."""
    data, place = memoryview(np.memmap(path, dtype=np.uint8, mode="r")), 0  # type: ignore[arg-type]

    def take(form: str) -> Any:
        nonlocal place
        (value,) = struct.unpack_from(f"<{form}", data, place)
        place += struct.calcsize(f"<{form}")
        return value

    def text() -> str:
        nonlocal place
        size = take("H")
        found = bytes(data[place : place + size]).rstrip(b"\0").decode()
        place += size
        return found

    variables: dict[str, np.ndarray[Any, Any]] = {}
    try:
        version = take("I")
        if not 2 <= version <= 6:
            raise FileError(f"{path} has format {version}; Saccade reads formats 2 to 6 of CTranslate2.")
        specification, _, count = text(), take("I"), take("I")
        for _ in range(count):
            name, shape = text(), tuple(take("I") for _ in range(take("B")))
            kind, size = take("B"), take("I")
            form = np.dtype(_TYPES[kind] if version >= 4 else _TYPES_BY_SIZE[kind])
            size = size if version >= 4 else size * kind
            if size != math.prod(shape) * form.itemsize or place + size > len(data):
                raise FileError(
                    f"{path}: {name} is stated to have {size:,} bytes, which does not fit its shape or the file."
                )
            variables[name] = np.frombuffer(data, form, math.prod(shape), place).reshape(shape)
            place += size
        for _ in range(take("I") if version >= 3 and place < len(data) else 0):
            alias, name = text(), text()
            variables[alias] = variables[name]
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise FileError(f"{path} is not a model of CTranslate2 ({error}).") from None
    return _Model(specification, variables)


class _Settings:
    """The variables of a model: the settings of its network, and its weights. `refuse_unread` raises an error if there
    is a variable that was never read."""

    def __init__(self, path: Path, model: _Model) -> None:
        if model.specification not in (*_HEADS, "TransformerSpec"):
            raise FileError(
                f"{path} has type {model.specification}; Saccade only opens CTranslate2's translation models."
            )
        self.path, self.model = path, model
        self.read: set[str] = set()

    def number(self, name: str, default: float) -> float:
        """Return a setting, which must be the same in the encoder and the decoder."""
        found = {self._one(f"{stack}/{name}", default) for stack in ("encoder", "decoder")}
        if len(found) > 1:
            raise FileError(f"{self.path}: encoder and decoder differ in {name}, which Saccade does not support.")
        return found.pop()

    def _one(self, name: str, default: float) -> float:
        self.read.add(name)
        found = self.model.variables.get(name)
        return default if found is None else float(found.reshape(-1)[0])

    def config(self, epsilon: float) -> TransformerConfig:
        layers = {stack: self._layers(stack) for stack in ("encoder", "decoder")}
        words, inner = self.weights("decoder/embeddings"), self.weights("decoder/layer_0/ffn/linear_0")
        activation = int(self.number("activation", 0))
        if activation not in _ACTIVATIONS:
            known = ", ".join(f"{number} ({name})" for number, name in _ACTIVATIONS.items())
            raise FileError(
                f"{self.path}: activation {str(activation)[:60]} is not supported; Saccade supports {known}."
            )
        for name in (f"{stack}/{name}" for name in _OFF for stack in ("encoder", "decoder")):
            if self._one(name, 0):
                raise FileError(f"{self.path}: {name} is switched on, which Saccade does not support.")
        scale = self.number("scale_embeddings", 1)
        if scale not in (0, 1) and not math.isclose(scale, math.sqrt(words.shape[1]), rel_tol=1e-5):
            raise FileError(f"{self.path}: scale_embeddings is {scale}; Saccade supports only a scale of √width.")
        variables, pre_norm = self.model.variables, self.number("pre_norm", 1) == 1
        return TransformerConfig(
            width=words.shape[1],
            num_heads=int(self.number("num_heads", _HEADS.get(self.model.specification, 8))),
            encoder_layers=layers["encoder"],
            decoder_layers=layers["decoder"],
            feedforward_width=inner.shape[0],
            activation=_ACTIVATIONS[activation],
            norm_first=pre_norm,
            norm_epsilon=epsilon,
            final_norm="encoder/layer_norm/gamma" in variables,
            embedding_norm="encoder/layernorm_embedding/gamma" in variables,
            position="learned",
            max_length=len(self.positions("encoder", words.shape[1])),
            scaled_embedding=scale != 0,
            tied_output=False,
            output_bias="decoder/projection/bias" in variables,
        )

    def _layers(self, stack: str) -> int:
        found = {name.split("/")[1] for name in self.model.variables if name.startswith(f"{stack}/layer_")}
        return len({name for name in found if name.removeprefix("layer_").isdigit()})

    def weights(self, name: str, end: str = "weight") -> Tensor:
        """Return a tensor as float32; whole numbers are divided by the scale that is stored with them."""
        variables = self.model.variables
        names = (name, name.replace("embeddings", "embeddings_0"))
        given = next((one for one in names if f"{one}/{end}" in variables), None)
        if given is None:
            raise FileError(f"{self.path} does not have the weights {name}/{end}.")
        found, scale = variables[f"{given}/{end}"], variables.get(f"{given}/{end}_scale")
        self.read |= {f"{given}/{end}", f"{given}/{end}_scale"}
        if found.dtype.kind == "i" and scale is None:
            raise FileError(f"{self.path}: {name}/{end} is stored as integers without a scale to divide them by.")
        numbers = torch.from_numpy(found.astype(np.float32))
        return numbers if scale is None else numbers / torch.from_numpy(scale.astype(np.float32).reshape(-1, 1))

    def positions(self, stack: str, width: int) -> Tensor:
        """Return the position vectors in the file, or else sines, then cosines, counting from 1 as in OpenNMT-tf."""
        name = f"{stack}/position_encodings/encodings"
        self.read.add(name)
        if name in self.model.variables:
            return torch.from_numpy(self.model.variables[name].astype(np.float32))
        rate = torch.exp(torch.arange(width // 2) * -(math.log(10000.0) / (width // 2 - 1)))
        angle = torch.outer(torch.arange(1, LONGEST + 1), rate)
        return torch.cat([angle.sin(), angle.cos()], dim=1)

    def tensors(self, config: TransformerConfig) -> dict[str, Tensor]:
        """Return Saccade's weights by name."""
        found: dict[str, Tensor] = {}
        for side, stack in (("source", "encoder"), ("target", "decoder")):
            found[f"{side}.words.weight"] = self.weights(f"{stack}/embeddings")
            found[f"{side}.positions.weight"] = self.positions(stack, config.width)
            if config.embedding_norm:
                self._norm(found, f"{side}.norm", f"{stack}/layernorm_embedding")
            if config.final_norm:
                self._norm(found, f"{stack}_norm", f"{stack}/layer_norm")
            for number in range(self._layers(stack)):
                self._block(found, f"{stack}.{number}", f"{stack}/layer_{number}")
        self._linear(found, ("output.words",), "decoder/projection")
        return found

    def _block(self, found: dict[str, Tensor], ours: str, theirs: str) -> None:
        for names, other in _LAYERS.items():
            every = tuple(f"{ours}.{name}" for name in ([names] if isinstance(names, str) else names))
            if "decoder" not in theirs and other.startswith("attention/"):
                continue
            if other.endswith("layer_norm"):
                self._norm(found, every[0], f"{theirs}/{other}")
            else:
                self._linear(found, every, f"{theirs}/{other}")

    def _norm(self, found: dict[str, Tensor], ours: str, theirs: str) -> None:
        for end, other in (("weight", "gamma"), ("bias", "beta")):
            found[f"{ours}.{end}"] = self.weights(theirs, other)

    def _linear(self, found: dict[str, Tensor], ours: tuple[str, ...], theirs: str) -> None:
        """Add a layer of CTranslate2 to ``found``, as one layer of Saccade or split into query and key_value layers."""
        for end in ("weight", "bias"):
            if f"{theirs}/{end}" in self.model.variables:
                joined = self.weights(theirs, end)
                rows = [len(joined)] if len(ours) == 1 else [len(joined) // 3, 2 * len(joined) // 3]
                for name, part in zip(ours, torch.split(joined, rows), strict=True):
                    found[f"{name}.{end}"] = part.contiguous()

    def refuse_unread(self) -> None:
        ignored = {f"{stack}/{name}" for stack in ("encoder", "decoder") for name in _WITHOUT_EFFECT}
        for name in self.model.variables:
            if name not in self.read | ignored:
                raise FileError(f"{self.path} has the variable {name}, which Saccade does not know.")
