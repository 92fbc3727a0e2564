"""Every network that writes, small and with random weights, by a name that says what is special about it."""

from functools import cache

import torch

from saccade.models import (
    ConvolutionalConfig,
    ConvolutionalLanguageConfig,
    ConvolutionalLanguageModel,
    ConvolutionalSeq2Seq,
    DecoderOnly,
    EncoderDecoder,
    RecurrentConfig,
    RecurrentLanguageModel,
    RecurrentSeq2Seq,
    RWKVConfig,
    RWKVLanguageModel,
    TransformerConfig,
)
from saccade.recurrent import CELLS

SOURCE_VOCABULARY, VOCABULARY, MAX_LENGTH = 13, 11, 17

TRANSFORMER = {"width": 12, "num_heads": 3, "feedforward_width": 19, "max_length": MAX_LENGTH}
#: What a Transformer may differ in: every kind of position, and the fields that change how a step is computed.
VARIANTS = {
    "none": {"position": "none"},
    "linear": {"position": "linear"},
    "sinusoidal": {"position": "sinusoidal"},
    "learned": {"position": "learned"},
    "rotary": {"position": "rotary"},
    "rotary_interleaved": {"position": "rotary", "rotary_interleaved": True},
    "rotary_scaled": {"position": "rotary", "rotary_factor": 2.0, "rotary_bands": (0.5, 2.0)},
    "alibi": {"position": "alibi"},
    "relative": {"position": "relative", "relative_buckets": 6, "relative_distance": 5, "scaled_output": True},
    "concatenated": {"position": "sinusoidal", "position_width": 5, "tied_output": False},
    "one_hot": {"one_hot": True, "width": 15, "tied_output": False},
    "post_norm": {"norm_first": False, "embedding_norm": True, "scaled_embedding": True, "token_types": 2},
    "grouped_heads": {"num_heads": 6, "num_key_heads": 2, "norm": "rms", "bias": False, "gated": True},
    "wide_heads": {"head_width": 7, "activation": "gelu", "output_transform": True, "output_bias": True},
    "cosine": {"score": "cosine"},
    "bilinear": {"score": "bilinear"},
    "additive": {"score": "additive"},
    "mlp": {"score": "mlp", "num_key_heads": 1},
    "local": {"encoder_window": 2, "attention_window": 3},
    "local_by_layer": {"encoder_layers": 2, "encoder_window": (0, 2), "attention_window": (3, 1)},
    "relu": {"weights": "relu"},
    "sparsemax": {"weights": "sparsemax"},
    "hard": {"weights": "hard"},
}
RECURRENT = {"width": 10, "embedding_width": 9, "attention_width": 7}
LOOKS = {
    **{f"{cell}_{how}": {"cell": cell, "attention": how} for cell in CELLS for how in ("none", "state", "output")},
    **{
        f"{score}_{how}": {"score": score, "attention": how, "cell": "gru"}
        for score in ("dot", "scaled_dot", "cosine", "bilinear", "mlp")
        for how in ("state", "output")
    },
    **{
        f"{weights}_{how}": {"weights": weights, "attention": how, "cell": "gru"}
        for weights in ("relu", "sparsemax", "hard")
        for how in ("state", "output")
    },
    **{
        f"words_{how}": {"attention_values": "words", "first_state": "zeros", "attention": how, "cell": "gru"}
        for how in ("state", "output")
    },
    "deep_one_way": {"encoder_layers": 2, "decoder_layers": 3, "bidirectional": False, "tied_output": True},
}
CONVOLUTIONAL_LANGUAGE = {
    "kernel_1": {"kernel": 1},
    "kernel_2": {"kernel": 2, "tied_output": True},
    "kernel_5": {"kernel": 5},
}
RWKV = {"tied": {}, "untied": {"tied_output": False}}
CONVOLUTIONAL = {
    "kernel_1": {"kernel": 1},
    "kernel_3": {"kernel": 3},
    "kernel_5_additive_tied": {"kernel": 5, "score": "additive", "tied_output": True},
}


@cache
def seq2seq(kind, variant):
    torch.manual_seed(0)
    if kind == "transformer":
        layers = {"encoder_layers": 2, "decoder_layers": 2}
        model = EncoderDecoder(
            TransformerConfig(**TRANSFORMER | layers | VARIANTS[variant]), SOURCE_VOCABULARY, VOCABULARY
        )
    elif kind == "recurrent":
        model = RecurrentSeq2Seq(RecurrentConfig(**RECURRENT | LOOKS[variant]), SOURCE_VOCABULARY, VOCABULARY)
    else:
        sizes = {"width": 8, "encoder_layers": 2, "decoder_layers": 3, "max_length": MAX_LENGTH}
        model = ConvolutionalSeq2Seq(
            ConvolutionalConfig(**sizes | CONVOLUTIONAL[variant]), SOURCE_VOCABULARY, VOCABULARY
        )
    return _spread(model)


@cache
def language_model(kind, variant):
    torch.manual_seed(0)
    if kind == "transformer":
        return _spread(
            DecoderOnly(TransformerConfig(**TRANSFORMER | {"decoder_layers": 2} | VARIANTS[variant]), VOCABULARY)
        )
    if kind == "convolutional":
        sizes = {"width": 8, "decoder_layers": 3}
        config = ConvolutionalLanguageConfig(**sizes | CONVOLUTIONAL_LANGUAGE[variant])
        return _spread(ConvolutionalLanguageModel(config, VOCABULARY))
    if kind == "rwkv":
        sizes = {"width": 12, "feedforward_width": 19, "decoder_layers": 2}
        return _spread(RWKVLanguageModel(RWKVConfig(**sizes | RWKV[variant]), VOCABULARY))
    return _spread(RecurrentLanguageModel(RecurrentConfig(**RECURRENT | {"cell": variant}), VOCABULARY))


SEQ2SEQ = [
    *(("transformer", variant) for variant in VARIANTS),
    *(("recurrent", variant) for variant in LOOKS),
    *(("convolutional", variant) for variant in CONVOLUTIONAL),
]
LANGUAGE_MODELS = [
    *(("transformer", variant) for variant in VARIANTS),
    *(("recurrent", cell) for cell in CELLS),
    *(("rwkv", variant) for variant in RWKV),
    *(("convolutional", variant) for variant in CONVOLUTIONAL_LANGUAGE),
]


def _spread(model):
    """Weights large enough that attention is far from uniform and every token matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()
