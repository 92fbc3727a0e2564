"""Export Transformers that generate text to the format of CTranslate2 (Klein 2020), a fast inference engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from saccade.attention import Learned
from saccade.errors import OptionError
from saccade.extras import needs_extra
from saccade.models import DecoderOnly, EncoderDecoder, TransformerConfig
from saccade.models.transformer_layers import Block, InputLayer

__all__ = ["LONGEST", "SpecialEntries", "specification"]

#: The number of position vectors to store if the network computes them, and so has no limit itself.
LONGEST = 4096
#: Fields of our configuration for which CTranslate2 can only express these values.
_EXPRESSED: Mapping[str, tuple[Any, ...]] = {
    "score": ("scaled_dot",),
    "weights": ("softmax",),
    "position": ("none", "linear", "sinusoidal", "learned", "rotary"),
    "position_width": (0,),
    "rotary_factor": (1.0,),
    "scaled_output": (False,),
    "one_hot": (False,),
    "token_types": (0,),
    "embedding_width": (None,),
    "encoder_window": (None,),
    "attention_window": (None,),
    "output_transform": (False,),
}
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


class SpecialEntries(NamedTuple):
    """The vocabulary entries for unknown tokens, for the start of a text and for its end."""

    unknown: str
    start: str
    end: str


def specification(network: nn.Module, source: Sequence[str], target: Sequence[str], marks: SpecialEntries) -> Any:
    """Return a network and its weights as a model specification of CTranslate2, which its library can save.

    ``source`` and ``target`` are the tokens of the two vocabularies, by id. A language model has only the second.
    """
    with needs_extra("engines", "The format of CTranslate2"):
        from ctranslate2.specs import transformer_spec
    if not isinstance(network, EncoderDecoder | DecoderOnly):
        raise OptionError(
            "CTranslate2 only supports Transformers that translate or continue a text, not the network "
            f"{type(network).__name__}."
        )
    config = network.config
    for name, allowed in _EXPRESSED.items():
        if getattr(config, name) not in allowed:
            raise OptionError(f"CTranslate2 does not support networks with {name} = {getattr(config, name)}.")
    if config.final_norm not in (None, config.norm_first):
        raise OptionError(f"CTranslate2 does not support networks with final_norm = {config.final_norm}.")
    shared = _shared(config)
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers,
        with_encoder_attention=isinstance(network, EncoderDecoder),
        parallel_residual=config.parallel,
        **shared,
    )
    inputs = network.target if isinstance(network, EncoderDecoder) else network.input
    _set_input(decoder, decoder.embeddings, inputs)
    _set_stack(decoder, network.decoder, network.decoder_norm, config)
    _set_output(decoder, network.output)
    if isinstance(network, DecoderOnly):
        specified: Any = transformer_spec.TransformerDecoderModelSpec(decoder)
        specified.register_vocabulary(list(target))
    else:
        encoder = transformer_spec.TransformerEncoderSpec(config.encoder_layers, **shared)
        _set_input(encoder, encoder.embeddings[0], network.source)
        _set_stack(encoder, network.encoder, network.encoder_norm, config)
        specified = transformer_spec.TransformerSpec(encoder, decoder)
        specified.register_source_vocabulary(list(source))
        specified.register_target_vocabulary(list(target))
        specified.config.decoder_start_token = marks.start
    specified.config.layer_norm_epsilon = config.norm_epsilon
    specified.config.unk_token, specified.config.bos_token, specified.config.eos_token = marks
    specified.validate()
    specified.optimize(quantization="float32")
    return specified


def _shared(config: TransformerConfig) -> dict[str, Any]:
    """Return the settings that the encoder and the decoder have in common."""
    from ctranslate2.specs import common_spec

    heads = config.num_key_heads or config.num_heads
    width = config.head_width or config.width // config.num_heads
    rotary = {
        "rotary_dim": config.rotary_width or width,
        "rotary_interleave": config.rotary_interleaved,
        "rotary_base": config.rotary_base,
    }
    return {
        "num_heads": config.num_heads,
        "num_heads_kv": None if heads == config.num_heads else heads,
        "head_dim": None if width * config.num_heads == config.width else width,
        "pre_norm": config.norm_first,
        "activation": common_spec.Activation[_ACTIVATIONS[config.activation]],
        "layernorm_embedding": config.embedding_norm,
        "ffn_glu": config.gated,
        "rms_norm": config.norm == "rms",
        **(rotary if config.position == "rotary" else {}),
    }


def _numbers(tensor: Tensor) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = tensor.detach().float().cpu().contiguous().numpy()
    return found


def _set_linear(spec: Any, *layers: Any) -> None:
    """Join several layers of Saccade into one layer of CTranslate2."""
    spec.weight = np.concatenate([_numbers(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        spec.bias = np.concatenate([_numbers(layer.bias) for layer in layers])


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _numbers(norm.weight)
    if hasattr(spec, "beta"):
        spec.beta = np.zeros_like(spec.gamma) if norm.bias is None else _numbers(norm.bias)


def _set_input(spec: Any, embeddings: Any, inputs: InputLayer) -> None:
    embeddings.weight = _numbers(inputs.words.weight)  # type: ignore[arg-type]
    spec.scale_embeddings = inputs.words.scale != 1.0
    if inputs.norm is not None:
        _set_norm(spec.layernorm_embedding, inputs.norm)
    if hasattr(spec, "position_encodings"):
        width = embeddings.weight.shape[1]
        if inputs.positions is None:
            spec.position_encodings.encodings = np.zeros((LONGEST, width), np.float32)
        else:
            table = inputs.positions
            length = len(table.weight) - table.skipped if isinstance(table, Learned) else LONGEST
            spec.position_encodings.encodings = _numbers(table.table(0, length))


def _set_stack(spec: Any, blocks: nn.ModuleList, norm: Any, config: TransformerConfig) -> None:
    if norm is not None:
        _set_norm(spec.layer_norm, norm)
    for one, block in zip(spec.layer, blocks, strict=True):
        assert isinstance(block, Block)
        norms = (
            (one.input_layer_norm, one.post_attention_layer_norm)
            if config.parallel
            else (one.self_attention.layer_norm, one.ffn.layer_norm)
        )
        _set_norm(norms[0], block.self_norm)
        _set_norm(norms[1], block.feedforward_norm)
        _set_linear(one.self_attention.linear[0], block.self.query, block.self.key_value)
        _set_linear(one.self_attention.linear[1], block.self.output)
        if block.cross is not None:
            _set_norm(one.attention.layer_norm, block.cross_norm)
            for linear, layer in zip(
                one.attention.linear, (block.cross.query, block.cross.key_value, block.cross.output), strict=True
            ):
                _set_linear(linear, layer)
        _set_feedforward(one.ffn, block)


def _set_feedforward(spec: Any, block: Block) -> None:
    inner = block.feedforward.inner
    parts = (spec.linear_0, spec.linear_0_noact) if block.feedforward.gated else (spec.linear_0,)
    biases = [None] * len(parts) if inner.bias is None else inner.bias.chunk(len(parts))
    for part, weight, bias in zip(parts, inner.weight.chunk(len(parts)), biases, strict=True):
        part.weight = _numbers(weight)
        if bias is not None:
            part.bias = _numbers(bias)
    _set_linear(spec.linear_1, block.feedforward.outer)


def _set_output(spec: Any, output: Any) -> None:
    spec.projection.weight = _numbers(output.words.weight)
    if output.words.bias is not None:
        spec.projection.bias = _numbers(output.words.bias)
