"""Open models whose architecture Saccade's own networks do not support.

``transformers`` runs them, and Saccade records their attention. Each is wrapped in a module of ``foreign_networks.py``.
No code in the model folder is run, and no pickle is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from saccade.errors import FileError, UnsupportedError, counted
from saccade.extras import needs_extra
from saccade.pretrained.family import ForeignConfig, Pretrained, Use, check_problem
from saccade.pretrained.fields import WITHOUT_EFFECT, read_fields
from saccade.pretrained.foreign_networks import (
    Foreign,
    ForeignClassifier,
    ForeignDecoder,
    ForeignEncoder,
    ForeignRewriter,
    ForeignTagger,
)
from saccade.pretrained.generation import read_generation
from saccade.pretrained.tensors import find_tensors

__all__ = ["read_by_transformers"]

#: What classes of transformers are for, by the end of their names; classes with other names cannot be run.
_USES: Mapping[str, Use] = {
    "ForMaskedLM": "fill",
    "ForCausalLM": "continue",
    "LMHeadModel": "continue",
    "ForSequenceClassification": "label texts",
    "ForTokenClassification": "label words",
    "ForConditionalGeneration": "rewrite",
    "MTModel": "rewrite",
}
#: Fields of rotary positions in older files, which the library reads although its configurations no longer list them.
_ROTARY = ("rope_theta", "rope_scaling", "rotary_pct", "rotary_emb_base", "partial_rotary_factor")
#: Logits count as equal if they differ by at most this fraction of the largest logit.
_ROUNDING = 1e-5
#: The maximum length, in tokens, that is assumed for a model whose configuration states none.
_UNLIMITED = 1 << 20


_WRAPPERS: Mapping[Use, type[Foreign]] = {
    "fill": ForeignEncoder,
    "continue": ForeignDecoder,
    "label texts": ForeignClassifier,
    "label words": ForeignTagger,
    "rewrite": ForeignRewriter,
}


def read_by_transformers(path: Path, reason: str) -> Pretrained:
    """Open a model folder with ``transformers``, in float32.

    ``reason`` is a sentence that says why Saccade's own networks cannot run it; error messages begin with it.
    """
    use, name = _use(path, reason)
    try:
        with needs_extra("huggingface", "A model that Saccade's own networks cannot express"):
            import transformers
    except ImportError as error:
        raise UnsupportedError(f"{reason} {error}") from None
    read = read_fields(path / "config.json")
    check_problem(read, use)
    fields, files = read.values, find_tensors(path)
    layers = fields.get("num_hidden_layers")
    if isinstance(layers, int) and layers > len(files):
        raise FileError(
            f"{path / 'config.json'} requires {layers:,} layers, but the weight files have only {len(files):,} tensors."
        )
    kind = getattr(transformers, name, None)
    _check_known(kind, name, fields, reason)
    network, unused = _opened(path, kind, name, reason)
    config = cast(Any, network).config.get_text_config()
    generation = read_generation(path, fields, config.vocab_size) if use in ("rewrite", "continue") else {}
    limit = _longest(network, config)
    known = ForeignConfig(
        model_type=str(fields["model_type"])[:60],
        max_length=limit or _UNLIMITED,
        position="unlimited" if limit is None else "learned",
        token_types=getattr(config, "type_vocab_size", 0) or 0,
    )
    wrapped = _WRAPPERS[use](network, known).eval()
    if isinstance(wrapped, ForeignDecoder | ForeignRewriter):
        _check_order(wrapped, config.vocab_size, reason)
    return Pretrained(known.model_type, use, known, wrapped, fields, config.vocab_size, unused, generation=generation)


def _use(path: Path, reason: str) -> tuple[Use, str]:
    """Return what the model in a folder is for, and the name of its class."""
    classes = read_fields(path / "config.json").values.get("architectures")
    name = classes[0] if isinstance(classes, list) and len(classes) == 1 else classes
    for end, use in _USES.items():
        if isinstance(name, str) and name.endswith(end) and name.isidentifier():
            return use, name
    raise UnsupportedError(
        f"{reason} transformers cannot run it here either: only classes whose names end in {', '.join(_USES)} are "
        f"supported, not {str(name)[:60]!r}."
    )


def _check_known(kind: Any, name: str, fields: Mapping[str, Any], reason: str) -> None:
    """Refuse a class of another architecture, and fields that ``transformers`` does not know and would ignore."""
    if kind is None or getattr(kind, "config_class", None) is None:
        raise UnsupportedError(
            f"{reason} transformers cannot run it here either: this version has no class {name[:60]}."
        )
    if name.endswith(("ForConditionalGeneration", "MTModel")) and (
        kind.main_input_name != "input_ids" or not kind.config_class().is_encoder_decoder
    ):
        raise UnsupportedError(
            f"{reason} transformers cannot run it here either: {name[:60]} does not turn one text into another."
        )
    if kind.config_class.model_type != fields.get("model_type"):
        raise UnsupportedError(
            f"{reason} transformers cannot run it here either: the class {name[:60]} is for another model_type."
        )
    known = {*kind.config_class().to_dict(), *kind.config_class.attribute_map, *WITHOUT_EFFECT, *_ROTARY}
    for field, value in fields.items():
        if field not in known and value is not None and (field, value) != ("position_embedding_type", "absolute"):
            raise UnsupportedError(
                f"{reason} transformers cannot run it here either: this version does not know the field {field[:60]!r}."
            )


def _opened(path: Path, kind: Any, name: str, reason: str) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the network, and the names of the stored tensors that it does not use."""
    error: Exception | None = None
    for attention in ({"attn_implementation": "sdpa"}, {}):  # the lens can watch sdpa; not every architecture has it
        try:
            with _quietly():
                network, about = kind.from_pretrained(
                    path,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                    **attention,
                )
        except Exception as found:  # the library can raise any exception
            error = error or found
            continue
        missing = sorted(about.get("missing_keys", ()))
        if missing:
            said = counted(len(missing), "tensor")
            raise FileError(f"{path} lacks {said} that transformers needs for {name}, such as {missing[0]}.")
        return network.eval(), tuple(sorted(about.get("unexpected_keys", ())))
    raise UnsupportedError(f"{reason} transformers cannot open it either: {_first_line(error)}.")


@torch.inference_mode()
def _check_order(decoder: ForeignDecoder | ForeignRewriter, vocabulary: int, reason: str) -> None:
    """Refuse a network whose tokens attend to later tokens: two texts that differ only in the last token must have the
    same logits before it."""
    count = max(2, min(5, decoder.config.max_length))
    text = torch.arange(vocabulary - count, vocabulary).clamp(min=0)  # the first ids are often special
    other = torch.cat([text[:-1], text[:1]])
    source = () if isinstance(decoder, ForeignDecoder) else (text[None], torch.tensor([count]))
    try:
        first, second = (decoder(*source, one[None])[0, :-1] for one in (text, other))
    except Exception as error:  # the library can raise any exception
        raise UnsupportedError(f"{reason} transformers cannot run it either: {_first_line(error)}.") from None
    if float((first - second).abs().max()) > _ROUNDING * float(first.abs().max()):
        raise UnsupportedError(
            f"{reason} transformers opens it, but its tokens attend to later tokens, so it cannot write a text."
        )


def _first_line(error: Exception | None) -> str:
    """Return the first line of an error message, without its full stop."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first[:300].rstrip(".")


def _longest(network: nn.Module, config: Any) -> int | None:
    """Return how many tokens a text may have, or None if there is no limit. Some networks, such as RoBERTa, do not use
    the first rows of their table of positions."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Embedding) and name.endswith("position_embeddings") and module.padding_idx is not None:
            return module.num_embeddings - module.padding_idx - 1
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide the progress bars and log messages of the library; errors are still raised."""
    from transformers.utils import logging

    before, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if had_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
