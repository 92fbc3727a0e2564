"""Random tiny models of every family, as their home library writes them; sizes are coprime where they may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

VOCABULARY, LENGTH, HIDDEN = 31, 23, 29
IMAGE_LABELS = ("cat", "crane", "dog", "crane")
#: Each channel has its own mean, and pictures are resized and then cut, so that nothing can be left out unnoticed.
PREPARATION = {
    "image_processor_type": "DeiTImageProcessor",
    "do_resize": True,
    "size": {"height": 17, "width": 16},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 12, "width": 12},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.25],
}
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def random_weights(model: Any, strength: float = 0.4) -> Any:
    """No parameter is 0 or 1, so that none can be left out unnoticed; large enough to spread the attention."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # sinusoidal positions are computed, not learned
                # Norms about 1, all else about 0; strong matrices and weak biases, so that inputs matter.
                about = parameter.round()
                parameter.copy_(about + torch.randn_like(parameter) * (strength if parameter.ndim > 1 else 0.1))
    return model.eval()


def _encoder(**changed: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 15,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": LENGTH,
        "attn_implementation": "eager",
    }
    return sizes | changed


def bert(**changed: Any) -> Any:
    model = random_weights(hf.BertForMaskedLM(hf.BertConfig(**_encoder(**{"type_vocab_size": 2} | changed))))
    model.cls.predictions.decoder.bias.data.copy_(model.cls.predictions.bias.data)  # stored twice where nothing is tied
    return model


def distilbert(**changed: Any) -> Any:
    sizes = {"dim": 15, "n_layers": 2, "n_heads": 3, "hidden_dim": HIDDEN, "attn_implementation": "eager"}
    config = hf.DistilBertConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **sizes | changed)
    return random_weights(hf.DistilBertForMaskedLM(config))


def roberta(**changed: Any) -> Any:
    return random_weights(hf.RobertaForMaskedLM(hf.RobertaConfig(**_encoder(type_vocab_size=1, **changed))))


def albert(**changed: Any) -> Any:
    return random_weights(hf.AlbertForMaskedLM(hf.AlbertConfig(**_encoder(embedding_size=7, **changed))))


def gpt2(**changed: Any) -> Any:
    sizes = {"n_positions": LENGTH, "n_embd": 15, "n_layer": 2, "n_head": 3, "n_inner": HIDDEN}
    ids = {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0, "attn_implementation": "eager"}
    return random_weights(hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=VOCABULARY, **sizes | ids | changed)))


def _rotary(**changed: Any) -> dict[str, Any]:
    """Grouped heads wider than width / heads."""
    sizes = {"hidden_size": 30, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4, "rms_norm_eps": 1e-6}
    rope = {"rope_type": "default", "rope_theta": 500.0}
    return _encoder(**sizes | {"rope_parameters": rope, "bos_token_id": 1, "eos_token_id": 0} | changed)


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 0.5,
    "high_freq_factor": 2.0,
    "original_max_position_embeddings": 20,
}


# Their angles are float32, so with larger weights rounding alone exceeds 1e-5.
ROTARY_STRENGTH = 0.2


def llama(**changed: Any) -> Any:
    return random_weights(hf.LlamaForCausalLM(hf.LlamaConfig(**_rotary(**changed))), ROTARY_STRENGTH)


def mistral(**changed: Any) -> Any:
    config = hf.MistralConfig(**_rotary(sliding_window=5, **changed))
    return random_weights(hf.MistralForCausalLM(config), ROTARY_STRENGTH)


def qwen2(**changed: Any) -> Any:
    config = hf.Qwen2Config(**_rotary(tie_word_embeddings=True, hidden_size=24, **changed))
    return random_weights(hf.Qwen2ForCausalLM(config), ROTARY_STRENGTH)


def gpt_neox(**changed: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}
    config = hf.GPTNeoXConfig(**_encoder(hidden_size=24, rope_parameters=rope, **changed))
    return random_weights(hf.GPTNeoXForCausalLM(config), ROTARY_STRENGTH)


def _stacks(**changed: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "d_model": 14, "max_position_embeddings": LENGTH}
    for stack, layers in (("encoder", 2), ("decoder", 3)):
        sizes |= {f"{stack}_layers": layers, f"{stack}_attention_heads": 7, f"{stack}_ffn_dim": HIDDEN}
    ids = {"pad_token_id": 30, "decoder_start_token_id": 30, "eos_token_id": 0, "forced_eos_token_id": None}
    return sizes | ids | {"attn_implementation": "eager"} | changed


def _with_bias(model: Any) -> Any:
    model.final_logits_bias.normal_()
    return model


def marian(**changed: Any) -> Any:
    config = hf.MarianConfig(**_stacks(activation_function="swish", scale_embedding=True, **changed))
    return _with_bias(random_weights(hf.MarianMTModel(config)))


def bart(**changed: Any) -> Any:
    return _with_bias(random_weights(hf.BartForConditionalGeneration(hf.BartConfig(**_stacks(**changed)))))


def t5(**changed: Any) -> Any:
    sizes = {"d_model": 14, "d_kv": 3, "d_ff": HIDDEN, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 7}
    ranges = {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 9}
    ids = {"pad_token_id": 30, "decoder_start_token_id": 30, "eos_token_id": 0, "attn_implementation": "eager"}
    config = hf.T5Config(**{"vocab_size": VOCABULARY} | sizes | ranges | ids | changed)
    model = hf.T5ForConditionalGeneration(config)
    if not config.scale_decoder_outputs:  # version 1.1, whose output layer is not the embedding
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(VOCABULARY, 14))
    return random_weights(model)


def _image_config(kind: Any, **changed: Any) -> Any:
    sizes = {"hidden_size": 15, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": HIDDEN}
    pixels = {"image_size": 12, "patch_size": 4, "num_channels": 3, "attn_implementation": "eager"}
    names = {"id2label": dict(enumerate(IMAGE_LABELS)), "label2id": {name: id for id, name in enumerate(IMAGE_LABELS)}}
    return kind(**sizes | pixels | names | changed)


def vit(**changed: Any) -> Any:
    return random_weights(hf.ViTForImageClassification(_image_config(hf.ViTConfig, **changed)))


def deit(teacher: bool = False) -> Any:
    kind = hf.DeiTForImageClassificationWithTeacher if teacher else hf.DeiTForImageClassification
    return random_weights(kind(_image_config(hf.DeiTConfig)))


def bare(model: Any) -> Any:
    """The same without its output layer."""
    return model.base_model


#: Models that fill in hidden words, that continue a text, and that write one text from another.
FILLING: dict[str, Callable[..., Any]] = {
    "bert": bert,
    "bert untied": lambda: bert(tie_word_embeddings=False),
    "distilbert": distilbert,
    "roberta": roberta,
    "albert": albert,
}
CONTINUING: dict[str, Callable[..., Any]] = {
    "gpt2": gpt2,
    "gpt2 untied": lambda: gpt2(tie_word_embeddings=False),
    "llama": llama,
    "llama stretched": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}),
    "llama 3": lambda: llama(rope_parameters=LLAMA3),
    "llama tied": lambda: llama(tie_word_embeddings=True),
    "mistral": mistral,
    "qwen2": qwen2,
    "gpt_neox": gpt_neox,
    "gpt_neox in series": lambda: gpt_neox(use_parallel_residual=False),
}
REWRITING: dict[str, Callable[..., Any]] = {
    "marian": marian,
    "bart": bart,
    "t5": t5,
    "t5 gated, untied": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}
#: Models that label images.
IMAGES: dict[str, Callable[..., Any]] = {
    "vit": vit,
    "vit without bias": lambda: vit(qkv_bias=False),
    "deit": deit,
    "deit with teacher": lambda: deit(teacher=True),
}
ENCODING: dict[str, Callable[..., Any]] = {
    "bert bare": lambda: bare(bert()),
    "roberta bare": lambda: bare(roberta()),
    "distilbert bare": lambda: bare(distilbert()),
    "albert bare": lambda: bare(albert()),
}
MODELS = {**ENCODING, **FILLING, **CONTINUING, **REWRITING, **IMAGES}


def save(model: Any, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    if hasattr(model.config, "image_size"):
        (folder / "preprocessor_config.json").write_text(json.dumps(PREPARATION))
    return folder


#: A vocabulary with which BERT can read a little English.
WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "cat", "sleep", "##s", "here", ".", "was", "good"),
    *("bad", "very", "film"),
]


def save_bert(folder: Path, **changed: Any) -> Path:
    """A BERT with its vocabulary."""
    save(bert(vocab_size=len(WORDS), **changed), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def labelling(kind: str, model: Callable[..., Any], **changed: Any) -> Any:
    """A model with the sizes of another, and labels; ``kind`` is the end of its class."""
    config = model(**changed).config
    config.id2label, config.label2id = {0: "bad", 1: "good", 2: "mixed"}, {"bad": 0, "good": 1, "mixed": 2}
    start = type(config).__name__.removesuffix("Config")
    return random_weights(getattr(hf, f"{start}For{kind}Classification")(config))


LABELLING_TEXTS: dict[str, Callable[..., Any]] = {
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "albert": albert,
}
