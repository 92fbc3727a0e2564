"""Export to CTranslate2, after checking that it writes the same tokens (or, for a language model, gives the same
logits)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from saccade.errors import ExportError
from saccade.extras import needs_extra
from saccade.models import DecoderOnly
from saccade.tasks.base.engines import TranslationEngine, specified
from saccade.tasks.base.exporting.files import Export, vocabulary_files
from saccade.tasks.base.exporting.inputs import compare, counted_inputs, said_same, sources_of, target_of, text_batch
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle

__all__ = ["to_ctranslate2"]


def to_ctranslate2(bundle: Bundle, inputs: Sequence[str]) -> Export:
    with needs_extra("engines", "Export to CTranslate2"):
        import ctranslate2
    network, tokenizer = bundle.model, target_of(bundle)
    with TemporaryDirectory() as folder:
        specified(bundle.task, network).save(folder)
        files = {one.name: one.read_bytes() for one in Path(folder).iterdir()}
        if isinstance(network, DecoderOnly):
            tokens, lengths = text_batch(bundle, inputs)
            entries = tokenizer.entries()
            rows = [[entries[id] for id in row[:size]] for row, size in zip(tokens.tolist(), lengths, strict=True)]
            generator = ctranslate2.Generator(folder, compute_type="float32")
            found = torch.from_numpy(np.array(generator.forward_batch(rows)))
            difference = compare(network(tokens), found, lengths)
            checked = said_same("CTranslate2", counted_inputs(bundle, inputs), difference)
    if not isinstance(network, DecoderOnly):
        checked = _same_tokens(bundle, inputs)
    kind = "Generator" if isinstance(network, DecoderOnly) else "Translator"
    return Export({**files, **vocabulary_files(bundle)}, checked, f"ctranslate2.{kind}(FOLDER)")


def _same_tokens(bundle: Bundle, texts: Sequence[str]) -> str:
    """Compare the greedy outputs of CTranslate2 with Saccade's."""
    sources = sources_of(bundle, texts)
    options, target = SearchOptions(beam=1), target_of(bundle)
    theirs = TranslationEngine(bundle.task, bundle.model, "cpu", "fp32").search(sources, options)
    ours = search(bundle.model, sources, options, 4096, lambda: None, target)
    for text, one, other in zip(texts, ours, theirs, strict=True):
        if one[0].tokens != other[0].tokens:
            raise ExportError(
                f"CTranslate2 writes {target.decode(other[0].tokens)!r} for {text[:60]!r}, but Saccade writes "
                f"{target.decode(one[0].tokens)!r}; the model was not exported."
            )
    count = sum(len(one[0].tokens) for one in ours)
    said = counted_inputs(bundle, texts)
    return f"CTranslate2 writes the same {count:,} tokens as Saccade for {said}, by greedy search."
