"""Find a Hugging Face architecture that is equivalent to a Saccade network, so that other libraries can open it.

An architecture such as BERT or Llama is called a family here.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from saccade.errors import FileError, OptionError
from saccade.models import DecoderOnly, EncoderDecoder, EncoderOnly, TransformerConfig, VisionTransformer
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceConfig, SentenceEncoder
from saccade.pretrained.family import Family, Pretrained, Use
from saccade.pretrained.fields import Fields
from saccade.pretrained.folder import FAMILIES, with_head
from saccade.pretrained.pixels import Preparation

__all__ = ["as_pretrained"]

#: What each class of networks is for.
_USES: dict[type[nn.Module], Use] = {
    EncoderOnly: "fill",
    SentenceEncoder: "encode",
    Classifier: "label texts",
    DecoderOnly: "continue",
    EncoderDecoder: "rewrite",
    VisionTransformer: "label images",
}
#: Fields that do not change the answers of a trained network.
_WITHOUT_EFFECT = {"dropout", "attention_dropout", "feedforward_dropout"}
#: Fields of sentence encoders, which sentence-transformers stores in another file.
_OF_SENTENCES = set(SentenceConfig.model_fields) - set(TransformerConfig.model_fields)


def as_pretrained(
    network: nn.Module, vocabulary: int, more: dict[str, Any], preparation: Preparation | None = None
) -> Pretrained:
    """Return a network as a model of the first family that supports all its settings, or raise an error if none does.

    ``vocabulary`` is the number of its tokens, 0 if it takes images. ``more`` are further fields of its config.json,
    such as eos_token_id. ``preparation`` says how pictures are turned into numbers for a network that takes images.
    """
    use = _USES.get(type(network))
    if use is None or not isinstance(network.config, TransformerConfig):
        raise OptionError(
            f"Hugging Face has no architecture that is equivalent to the network {type(network).__name__}."
        )
    config = network.config
    nearest: tuple[list[str], str] | None = None
    for family in FAMILIES.values():
        name = _architecture(family, use, config)
        if name is None:
            continue
        given = {key: value for key, value in more.items() if value is not None}
        fields = {
            "model_type": family.model_type,
            "architectures": [name],
            **({"vocab_size": vocabulary} if vocabulary else {}),
            **given,
            **family.describe(config),
        }
        differing = _differing(family, fields, use, network)
        if not differing:
            is_bare = use == "encode"
            return Pretrained(family.name, use, config, network, fields, vocabulary, (), family, is_bare, preparation)
        if nearest is None or len(differing) < len(nearest[0]):
            nearest = differing, family.name
    assert nearest is not None
    said = ", ".join(f"{name} = {getattr(config, name)}" for name in nearest[0] if hasattr(config, name))
    raise OptionError(
        f"Hugging Face has no architecture that is equivalent to this network; the closest one, {nearest[1]}, does not "
        f"support {said or nearest[0][0]}."
    )


def _architecture(family: Family, use: Use, config: TransformerConfig) -> str | None:
    """Return the class of a family for this use. If there are two, one averages the outputs of two tokens; return
    that one only if the network does the same."""
    names = [name for name, of in family.architectures.items() if of == use]
    is_averaged = getattr(config, "distillation", "none") == "output"
    return next((name for name in names if name.endswith("WithTeacher") == is_averaged), names[0] if names else None)


def _differing(family: Family, fields: dict[str, Any], use: Use, network: nn.Module) -> list[str]:
    """Return the fields of a network's configuration that a family cannot express, or the error that it raises."""
    ours: TransformerConfig = network.config  # type: ignore[assignment]
    names = {theirs for pair in family.pairs(network) for theirs in pair.theirs}
    try:
        theirs = with_head(family.configure(Fields(fields, "config.json"), use, names), family, use)
    except (FileError, ValueError) as error:
        return [str(error)]
    left, right = _resolved(ours), _resolved(theirs)
    return [key for key in right if key not in ours.unused and left[key] != right[key]]


def _resolved(config: TransformerConfig) -> dict[str, Any]:
    """Return the fields that have an effect, with the value that other fields imply for each that is not set."""
    chosen = _WITHOUT_EFFECT | (_OF_SENTENCES if isinstance(config, SentenceConfig) else set())
    found = config.model_dump(exclude=chosen)
    found["num_key_heads"] = config.num_key_heads or config.num_heads
    found["head_width"] = config.head_width or config.width // config.num_heads
    found["projection_bias"] = config.bias if config.projection_bias is None else config.projection_bias
    found["final_norm"] = config.norm_first if config.final_norm is None else config.final_norm
    found["rotary_width"] = config.rotary_width or found["head_width"]
    unused = {
        "learned": ("max_length", "skipped_positions"),
        "rotary": ("rotary_base", "rotary_width", "rotary_interleaved", "rotary_factor"),
        "relative": ("relative_buckets", "relative_distance"),
        "sinusoidal": ("sines_first",),
        "linear": ("position_slope", "position_offset"),
    }
    for kind, names in unused.items():
        if config.position != kind:
            found |= dict.fromkeys(names)
    if config.position != "rotary" or config.rotary_factor == 1.0:
        found |= dict.fromkeys(("rotary_bands", "rotary_trained_length"))
    elif config.rotary_bands is None:
        found["rotary_trained_length"] = None
    if not (config.encoder_layers and config.decoder_layers):
        found["tied_embeddings"] = None
    return found
