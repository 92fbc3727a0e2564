"""Random tiny models of every family, as their home library writes them; sizes are coprime where they may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

VOCABULARY, LENGTH, HIDDEN = 31, 23, 29
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
    return random_weights(hf.BertForMaskedLM(hf.BertConfig(**_encoder(type_vocab_size=2, **changed))))


#: Models that fill in hidden words.
FILLING: dict[str, Callable[..., Any]] = {"bert": bert}
MODELS: dict[str, Callable[..., Any]] = {**FILLING}


def save(model: Any, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    return folder
