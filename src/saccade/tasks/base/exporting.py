"""Write a model for another library, after that library has given the same answers as ours to real inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from saccade.data.grammar import showcase
from saccade.errors import ExportError, OptionError, UnknownNameError
from saccade.extras import needs_extra
from saccade.models import DecoderOnly, EncoderDecoder
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.pretrained.describing import as_pretrained
from saccade.pretrained.folder import pretrained_files
from saccade.storage import write_folder
from saccade.tasks.base.engines import TranslationEngine, specified
from saccade.tasks.base.model_folder import read_bundle
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle
from saccade.text import Tokenizer, pad

__all__ = ["FORMATS", "export"]

#: The largest difference between logits that is still only rounding.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Export:
    """The files of a model in another format, and what was checked."""

    files: Mapping[str, bytes]
    checked: str  # a sentence
    use: str  # how the model is opened there, in Python


def export(path: Path, to: str, output: Path, texts: Sequence[str] = ()) -> str:
    """Write a model as a folder for another library; returns a sentence that says what was compared.

    ``texts`` are the inputs to compare answers on; if there are none, sentences of the built-in corpus.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    bundle = read_bundle(path)
    given = list(texts) or [sentence.source_text for sentence in showcase()]
    with torch.inference_mode():
        exported = FORMATS[to](bundle, given)
    card = _card(bundle, path, to, exported)
    write_folder(output, {**exported.files, "README.md": card.encode()})
    return exported.checked


def _to_huggingface(bundle: Bundle, texts: Sequence[str]) -> Export:
    with needs_extra("huggingface", "Export to Hugging Face"):
        import transformers
    tokenizer = _target(bundle)
    special = tokenizer.special
    more: dict[str, Any] = {
        "pad_token_id": special.pad,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
    }
    if isinstance(bundle.model, Classifier):
        more["id2label"] = {str(id): label for id, label in enumerate(bundle.task.labels)}
        more["label2id"] = {label: id for id, label in enumerate(bundle.task.labels)}
    if isinstance(bundle.model, EncoderDecoder):
        more["decoder_start_token_id"] = special.start
        if bundle.task.state.source is not bundle.task.state.target:
            raise OptionError("Hugging Face models have one vocabulary for both sides; this model has two.")
    model = as_pretrained(bundle.model, tokenizer.vocabulary_size, more)
    files = {**pretrained_files(model), **_tokenizer_files(tokenizer)}
    name = model.fields["architectures"][0]
    batch = _batch(bundle, texts)
    with TemporaryDirectory() as folder:
        _write(folder, files)
        theirs = getattr(transformers, name).from_pretrained(folder).eval()
        mask = (torch.arange(batch[0].shape[1]) < batch[1][:, None]).long()
        named = {"decoder_input_ids": batch[2]} if isinstance(bundle.model, EncoderDecoder) else {}
        found = theirs(batch[0], attention_mask=mask, **named)
    if isinstance(bundle.model, SentenceEncoder):
        difference = _compare(bundle.model.features(*batch), found.last_hidden_state, batch[1])
    else:
        ours = bundle.model(batch[0]) if isinstance(bundle.model, DecoderOnly) else bundle.model(*batch)
        by_token = len(batch) == 2 and not isinstance(bundle.model, Classifier)
        difference = _compare(ours, found.logits, batch[1] if by_token else None)
    return Export(files, _same("transformers", texts, difference), f"transformers.{name}.from_pretrained(FOLDER)")


def _to_ctranslate2(bundle: Bundle, texts: Sequence[str]) -> Export:
    with needs_extra("engines", "Export to CTranslate2"):
        import ctranslate2
    network, tokenizer = bundle.model, _target(bundle)
    with TemporaryDirectory() as folder:
        specified(bundle.task, network).save(folder)
        files = {one.name: one.read_bytes() for one in Path(folder).iterdir()}
        if isinstance(network, DecoderOnly):
            tokens, lengths = _batch(bundle, texts)
            entries = tokenizer.entries()
            rows = [[entries[id] for id in row[:size]] for row, size in zip(tokens.tolist(), lengths, strict=True)]
            generator = ctranslate2.Generator(folder, compute_type="float32")
            found = torch.from_numpy(np.array(generator.forward_batch(rows)))
            checked = _same("CTranslate2", texts, _compare(network(tokens), found, lengths))
    if not isinstance(network, DecoderOnly):
        checked = _same_tokens(bundle, texts)
    names = {"source.tokenizer.json": bundle.task.state.vocabularies().get("source"), "tokenizer.json": tokenizer}
    for name, one in names.items():
        if isinstance(one, Tokenizer) and (name == "tokenizer.json" or one is not tokenizer):
            files[name] = one.to_bytes()
    kind = "Generator" if isinstance(network, DecoderOnly) else "Translator"
    return Export(files, checked, f"ctranslate2.{kind}(FOLDER)")


def _same_tokens(bundle: Bundle, texts: Sequence[str]) -> str:
    """Compare the greedy outputs of CTranslate2 with ours."""
    sources = _sources(bundle, texts)
    options, target = SearchOptions(beam=1), _target(bundle)
    theirs = TranslationEngine(bundle.task, bundle.model, "cpu", "fp32").search(sources, options)
    ours = search(bundle.model, sources, options, 4096, lambda: None, target)
    for text, one, other in zip(texts, ours, theirs, strict=True):
        if one[0].tokens != other[0].tokens:
            raise ExportError(
                f"CTranslate2 writes {target.decode(other[0].tokens)!r} for {text[:60]!r}, and Saccade "
                f"{target.decode(one[0].tokens)!r}; nothing was written."
            )
    count = sum(len(one[0].tokens) for one in ours)
    return f"CTranslate2 writes the same {count:,} tokens as Saccade for {len(texts):,} texts, by greedy search."


#: How a model is written in each format.
FORMATS: Mapping[str, Callable[[Bundle, Sequence[str]], Export]] = {
    "huggingface": _to_huggingface,
    "ctranslate2": _to_ctranslate2,
}


# --- inputs and comparisons ---


def _target(bundle: Bundle) -> Tokenizer:
    """Return the tokenizer of what the model writes, or its only one."""
    words = bundle.task.state.vocabularies()
    found = words.get("target") or words.get("tokenizer")
    if not isinstance(found, Tokenizer):
        raise OptionError(f"{bundle.task.name} models have no tokenizer, so they cannot be exported to this format.")
    return found


def _sources(bundle: Bundle, texts: Sequence[str]) -> list[list[int]]:
    source = bundle.task.state.vocabularies()["source"]
    return [source.ended(ids) for ids in source.encode_ids(texts)]


def _batch(bundle: Bundle, texts: Sequence[str]) -> tuple[Tensor, ...]:
    """The texts as the network reads them: ids and lengths and, for a translator, what it writes."""
    tokenizer, network = _target(bundle), bundle.model
    if not isinstance(network, EncoderDecoder):
        return pad([tokenizer.framed(ids) for ids in tokenizer.encode_ids(texts)], tokenizer.special.pad)
    sources = _sources(bundle, texts)
    written = search(network, sources, SearchOptions(beam=1), 4096, lambda: None, tokenizer)
    start = cast(int, tokenizer.special.start)
    targets, _ = pad([[start, *one[0].tokens] for one in written], tokenizer.special.pad)
    return (*pad(sources, tokenizer.special.pad), targets)


def _compare(ours: Tensor, theirs: Tensor, lengths: Tensor | None) -> float:
    """The largest difference at positions that are not padding, as a share of the largest number if that is above 1."""
    if lengths is not None:
        real = torch.arange(ours.shape[1]) < lengths[:, None]
        ours, theirs = ours[real], theirs[real]
    return float((ours - theirs).abs().max() / ours.abs().max().clamp(min=1.0))


def _same(library: str, texts: Sequence[str], difference: float) -> str:
    if not difference <= TOLERANCE:  # also if it is NaN
        raise ExportError(
            f"{library} gives different logits from Saccade (up to {difference:.2g} apart); nothing was written."
        )
    return f"{library} gives the same logits as Saccade for {len(texts):,} texts (largest difference {difference:.1e})."


# --- files ---


def _tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The tokenizer as Hugging Face reads it."""
    special, entries = tokenizer.special, tokenizer.entries()
    roles = ("pad", "unk", "bos", "eos", "mask")
    tokens = {f"{role}_token": entries[id] for role, id in zip(roles, special, strict=True) if id is not None}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    return {
        "tokenizer.json": tokenizer.to_bytes(),
        "tokenizer_config.json": (json.dumps(about, indent=2) + "\n").encode(),
    }


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (Path(folder) / name).write_bytes(content)


def _card(bundle: Bundle, path: Path, to: str, exported: Export) -> str:
    """The README of the folder."""
    network: nn.Module = bundle.model
    count = sum(parameter.numel() for parameter in network.parameters())
    lines: Iterable[str] = [
        f"# {bundle.task.name}: {bundle.task.about}",
        "",
        f"A {bundle.family or bundle.kind} network with {count:,} parameters, exported by Saccade from `{path.name}` "
        f"for {to}.",
        "",
        *(f"- {fact}" for fact in bundle.task.facts()),
        f"- check: {exported.checked}",
        "",
        "## Use",
        "",
        "```python",
        exported.use,
        "```",
        "",
    ]
    return "\n".join(lines)
