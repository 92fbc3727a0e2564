"""Export to Hugging Face: write a folder of a model family that ``transformers`` has, open it with ``transformers``,
and compare the outputs with Saccade's."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import torch

from saccade.errors import OptionError
from saccade.extras import needs_extra
from saccade.models import DecoderOnly, EncoderDecoder, VisionTransformer
from saccade.models.classifier import Classifier
from saccade.models.sentence_encoder import SentenceEncoder
from saccade.models.tagger import Tagger
from saccade.pretrained.describing import as_pretrained
from saccade.pretrained.folder import pretrained_files
from saccade.pretrained.pixels import Preparation
from saccade.tasks.base.exporting.files import Export, tokenizer_files, write_all
from saccade.tasks.base.exporting.inputs import (
    compare,
    counted_inputs,
    image_batch,
    said_same,
    target_of,
    text_batch,
)
from saccade.tasks.base.task import Bundle

__all__ = ["to_huggingface"]


def to_huggingface(bundle: Bundle, inputs: Sequence[str]) -> Export:
    with needs_extra("huggingface", "Export to Hugging Face"):
        import transformers
    is_image = isinstance(bundle.model, VisionTransformer)
    more = _labels(bundle) if isinstance(bundle.model, Classifier | Tagger | VisionTransformer) else {}
    if is_image:
        model = as_pretrained(bundle.model, 0, more, _preparation(bundle))
        files = dict(pretrained_files(model))
    else:
        tokenizer = target_of(bundle)
        model = as_pretrained(bundle.model, tokenizer.vocabulary_size, more | _ids(bundle))
        files = {**pretrained_files(model), **tokenizer_files(tokenizer)}
    name = model.fields["architectures"][0]
    with TemporaryDirectory() as folder:
        write_all(folder, files)
        theirs = getattr(transformers, name).from_pretrained(folder).eval()
        difference = _difference(bundle, theirs, inputs)
    checked = said_same("transformers", counted_inputs(bundle, inputs), difference)
    return Export(files, checked, f"transformers.{name}.from_pretrained(FOLDER)")


def _labels(bundle: Bundle) -> dict[str, Any]:
    labels = list(bundle.task.labels)
    several = {"problem_type": "multi_label_classification"} if getattr(bundle.task.state, "several", False) else {}
    return several | {
        "id2label": {str(id): label for id, label in enumerate(labels)},
        "label2id": {label: id for id, label in enumerate(labels)},
    }


def _ids(bundle: Bundle) -> dict[str, Any]:
    """The special ids of the vocabulary."""
    special = target_of(bundle).special
    found: dict[str, Any] = {
        "pad_token_id": special.pad,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
    }
    if isinstance(bundle.model, EncoderDecoder):
        found["decoder_start_token_id"] = special.start
        if bundle.task.state.source is not bundle.task.state.target:
            raise OptionError("Hugging Face models have one vocabulary for source and target; this model has two.")
    return found


def _preparation(bundle: Bundle) -> Preparation:
    """How pictures are turned into numbers: in the same way as in training."""
    channels = bundle.task.state.shape[2]
    mean, deviation = (one if isinstance(one, tuple) else (one,) * channels for one in bundle.task.state.pixels)
    cut = bundle.data.get("cut_from")
    resized = tuple(cut) if isinstance(cut, list) else cut
    return Preparation(mean, deviation, bundle.data.get("filter", "box"), resized)


def _difference(bundle: Bundle, theirs: Any, inputs: Sequence[str]) -> float:
    """Return how much the logits of the other library differ from Saccade's."""
    model = bundle.model
    if isinstance(model, VisionTransformer):
        images = image_batch(bundle, inputs)
        return compare(model(images), theirs(images).logits)
    batch = text_batch(bundle, inputs)
    mask = (torch.arange(batch[0].shape[1]) < batch[1][:, None]).long()
    further = "decoder_input_ids" if isinstance(model, EncoderDecoder) else "token_type_ids"
    named = {further: batch[2]} if len(batch) > 2 else {}
    found = theirs(batch[0], attention_mask=mask, **named)
    if isinstance(model, SentenceEncoder):
        return compare(model.features(*batch), found.last_hidden_state, batch[1])
    ours = model(batch[0]) if isinstance(model, DecoderOnly) else model(*batch)
    by_token = len(batch) == 2 and not isinstance(model, Classifier)
    return compare(ours, found.logits, batch[1] if by_token else None)
