"""Converts a trained Transformer of ours to transformers and CTranslate2, and verifies the result.

transformers' Marian normalises after each layer, ours before. Pegasus is the same code with the norms before each layer
and one after the last, so with our weights and our position table it computes what our model computes. CTranslate2 has
an option for this.

Shapes: B sentences, S source tokens, T target tokens, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from saccade.attention import MultiHead, Sinusoidal
from saccade.models import EncoderDecoder, TransformerConfig
from saccade.models.layers import WordEmbedding
from saccade.tasks.translation.task import EncodedPair, Translation
from saccade.text import END, PAD, START, UNKNOWN

__all__ = ["MAX_POSITIONS", "ctranslate2_folder", "largest_difference", "obstacle", "pegasus", "score_difference"]

#: Number of positions in the other systems' tables; no source or output is longer here.
MAX_POSITIONS = 512
#: The settings of ours that the other systems assume.
EXPECTED: dict[str, Any] = {
    "norm_first": True,
    "norm": "layer",
    "norm_epsilon": 1e-5,
    "activation": "relu",
    "gated": False,
    "bias": True,
    "position": "sinusoidal",
    "position_width": 0,
    "scaled_embedding": True,
    "tied_embeddings": True,
    "output_bias": False,
    "score": "scaled_dot",
    "weights": "softmax",
}


def obstacle(config: object) -> str | None:
    """Why the other systems cannot express a model; None if they can."""
    if not isinstance(config, TransformerConfig):
        return "it is not a Transformer"
    found = [
        f"{name} = {getattr(config, name)!r}" for name, value in EXPECTED.items() if getattr(config, name) != value
    ]
    return ", ".join(found) or None


def _words(model: EncoderDecoder) -> Tensor:
    """The embedding (V, D) that the source, the target and the output share."""
    assert isinstance(model.source.words, WordEmbedding)
    return model.source.words.weight


def positions(model: EncoderDecoder) -> Tensor:
    """The position vectors (N, D), the same on both sides."""
    table = model.source.positions
    assert isinstance(table, Sinusoidal)
    return table.table(0, MAX_POSITIONS)


# --- transformers -----------------------------------------------------------------------------------------


def pegasus(model: EncoderDecoder, vocabulary: int) -> Any:
    """Our model as a PegasusForConditionalGeneration."""
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    config = model.config
    theirs = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=vocabulary,
            d_model=config.width,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.feedforward_width,
            decoder_ffn_dim=config.feedforward_width,
            max_position_embeddings=MAX_POSITIONS,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
            attn_implementation="sdpa",
        )
    )
    missing, unknown = theirs.load_state_dict(_pegasus_weights(model), strict=False)
    assert not unknown, unknown
    assert all(name.endswith(("lm_head.weight", "final_logits_bias", "embed_tokens.weight")) for name in missing), (
        missing
    )
    theirs.tie_weights()
    return theirs.eval()


def _pegasus_weights(model: EncoderDecoder) -> dict[str, Tensor]:
    weights = {"model.shared.weight": _words(model)}
    for part, blocks, norm in (
        ("model.encoder", model.encoder, model.encoder_norm),
        ("model.decoder", model.decoder, model.decoder_norm),
    ):
        weights[f"{part}.embed_positions.weight"] = positions(model)
        layers: dict[str, Any] = {f"{part}.layer_norm": norm}
        for number, block in enumerate(blocks):
            prefix = f"{part}.layers.{number}"
            layers |= {
                f"{prefix}.self_attn_layer_norm": block.self_norm,
                f"{prefix}.fc1": block.feedforward.inner,
                f"{prefix}.fc2": block.feedforward.outer,
                f"{prefix}.final_layer_norm": block.feedforward_norm,
            }
            weights |= _projections(f"{prefix}.self_attn", block.self)
            if block.cross is not None:
                layers[f"{prefix}.encoder_attn_layer_norm"] = block.cross_norm
                weights |= _projections(f"{prefix}.encoder_attn", block.cross)
        for name, layer in layers.items():
            weights |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    return {name: weight.detach() for name, weight in weights.items()}


def _projections(prefix: str, attention: MultiHead) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        key, value = getattr(attention.key_value, kind).chunk(2)
        found |= {
            f"{prefix}.q_proj.{kind}": getattr(attention.query, kind),
            f"{prefix}.k_proj.{kind}": key,
            f"{prefix}.v_proj.{kind}": value,
            f"{prefix}.out_proj.{kind}": getattr(attention.output, kind),
        }
    return found


@torch.inference_mode()
def largest_difference(model: EncoderDecoder, theirs: Any, task: Translation, pairs: Sequence[EncodedPair]) -> float:
    """The largest difference between the logits of both models on a padded batch of real pairs."""
    batch = task.plain_batch(pairs)
    real = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
    ours = model(batch.source, batch.source_lengths, batch.read)
    others = theirs(batch.source, attention_mask=real.long(), decoder_input_ids=batch.read).logits
    return float((ours - others)[batch.real].abs().max())


# --- CTranslate2 ------------------------------------------------------------------------------------------


def ctranslate2_folder(model: EncoderDecoder, vocabulary: int, folder: Path, quantization: str | None) -> Path:
    """Our model in CTranslate2's format. Its tokens are our ids, written as digits."""
    from ctranslate2.specs import TransformerSpec

    config = model.config
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers), config.num_heads, pre_norm=True, no_final_norm=False
    )
    sides: tuple[tuple[Any, Any, Any], ...] = (
        (spec.encoder, model.encoder, model.encoder_norm),
        (spec.decoder, model.decoder, model.decoder_norm),
    )
    for side, blocks, norm in sides:
        side.scale_embeddings = True
        side.position_encodings.encodings = positions(model).numpy()
        _copy_norm(side.layer_norm, norm)
        for layer, block in zip(side.layer, blocks, strict=True):
            _copy_block(layer, block)
    for place in (spec.encoder.embeddings[0], spec.decoder.embeddings, spec.decoder.projection):
        place.weight = _copied(_words(model))
    tokens = [str(number) for number in range(vocabulary)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token = str(UNKNOWN)
    spec.config.eos_token = str(END)
    spec.config.bos_token = spec.config.decoder_start_token = str(START)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder


def _copy_block(layer: Any, block: Any) -> None:
    _copy_norm(layer.self_attention.layer_norm, block.self_norm)
    _copy_linear(layer.self_attention.linear[0], block.self.query, block.self.key_value)
    _copy_linear(layer.self_attention.linear[1], block.self.output)
    if block.cross is not None:
        _copy_norm(layer.attention.layer_norm, block.cross_norm)
        for place, source in zip(
            layer.attention.linear, (block.cross.query, block.cross.key_value, block.cross.output), strict=True
        ):
            _copy_linear(place, source)
    _copy_norm(layer.ffn.layer_norm, block.feedforward_norm)
    _copy_linear(layer.ffn.linear_0, block.feedforward.inner)
    _copy_linear(layer.ffn.linear_1, block.feedforward.outer)


def _copy_norm(place: Any, norm: Any) -> None:
    place.gamma, place.beta = _copied(norm.weight), _copied(norm.bias)


def _copy_linear(place: Any, *layers: Any) -> None:
    place.weight = _copied(torch.cat([layer.weight for layer in layers]))
    place.bias = _copied(torch.cat([layer.bias for layer in layers]))


def _copied(tensor: Tensor) -> Any:
    """A copy, because int8 conversion overwrites its input."""
    return tensor.detach().clone().numpy()


@torch.inference_mode()
def score_difference(model: EncoderDecoder, translator: Any, task: Translation, pairs: Sequence[EncodedPair]) -> float:
    """The largest difference between the log-probabilities that both models give to the tokens of real pairs."""
    batch = task.plain_batch(pairs)
    ours = model(batch.source, batch.source_lengths, batch.read).log_softmax(dim=-1)
    ours = ours.gather(-1, batch.predicted.unsqueeze(-1)).squeeze(-1)
    found = translator.score_batch(
        [[str(token) for token in pair.source] for pair in pairs],
        [[str(token) for token in pair.target] for pair in pairs],
    )
    differences = [
        (row[: len(scores.log_probs)] - torch.tensor(scores.log_probs)).abs().max()
        for row, scores in zip(ours, found, strict=True)
    ]
    return float(cast(Tensor, max(differences)))
