"""Real inputs for comparing another library with Saccade, in the form that the networks read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from saccade.data.grammar import showcase
from saccade.decoding import Hypothesis
from saccade.errors import ExportError, OptionError, SaccadeError, counted
from saccade.models import EncoderDecoder
from saccade.tasks.base.image_input import ImageInputPredictor
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle
from saccade.tasks.registry import task_of_model
from saccade.text import Tokenizer, pad

__all__ = [
    "after_start",
    "compare",
    "counted_inputs",
    "given_inputs",
    "image_batch",
    "said_same",
    "sources_of",
    "target_of",
    "text_batch",
]

#: The largest difference between logits that is still only rounding.
TOLERANCE = 1e-4
#: The number of images that are compared.
IMAGES = 8


def given_inputs(bundle: Bundle, inputs: Sequence[str]) -> list[str]:
    """Return the inputs that a user gave or, if there are none, built-in sentences or images."""
    if inputs:
        return list(inputs)
    predictor = task_of_model(bundle.task.name).predictor(bundle)
    if not isinstance(predictor, ImageInputPredictor):
        return predictor.from_sentences([sentence.source_text for sentence in showcase()])
    try:
        return [f"digits:{number}" for number in range(1, min(IMAGES, len(predictor.builtin_images())) + 1)]
    except SaccadeError:  # the package with the images is not installed
        raise OptionError(
            "The built-in images are not installed; give --inputs, a file with the name of a picture on each line."
        ) from None


def target_of(bundle: Bundle) -> Tokenizer:
    """Return the tokenizer of the model's output, or its only tokenizer."""
    words = bundle.task.state.vocabularies()
    found = words.get("target") or words.get("tokenizer") or words.get("pieces")
    if not isinstance(found, Tokenizer):
        raise OptionError(f"{bundle.task.name} models have no tokenizer, so they cannot be exported to this format.")
    return found


def sources_of(bundle: Bundle, texts: Sequence[str]) -> list[list[int]]:
    words = bundle.task.state.vocabularies()
    source = words.get("source") or words["tokenizer"]
    assert isinstance(source, Tokenizer)
    return [source.ended(ids) for ids in source.encode_ids(texts)]


def text_batch(bundle: Bundle, texts: Sequence[str]) -> tuple[Tensor, ...]:
    """Return the texts as the network reads them: token ids and lengths; for a translator also its translations, and
    for a classifier of two texts also the type of each token: whether it is in the first or the second text."""
    tokenizer = target_of(bundle)
    found = task_of_model(bundle.task.name).predictor(bundle).network_inputs(texts)
    if found is not None:
        return found
    if not isinstance(bundle.model, EncoderDecoder):
        return pad([tokenizer.framed(ids) for ids in tokenizer.encode_ids(texts)], tokenizer.special.pad)
    sources = sources_of(bundle, texts)
    written = search(bundle.model, sources, SearchOptions(beam=1), 4096, lambda: None, tokenizer)
    return (*pad(sources, tokenizer.special.pad), after_start(tokenizer, written))


def after_start(tokenizer: Tokenizer, found: Sequence[Sequence[Hypothesis]]) -> Tensor:
    """Return the best outputs of a network as its decoder reads them: with a start token before each."""
    start = cast(int, tokenizer.special.start)
    targets, _ = pad([[start, *one[0].tokens] for one in found], tokenizer.special.pad)
    return targets


def image_batch(bundle: Bundle, names: Sequence[str]) -> Tensor:
    """Return images as the network reads them, fitted to its size."""
    from PIL import Image

    from saccade.data.pictures import fit_picture

    predictor = task_of_model(bundle.task.name).predictor(bundle)
    assert isinstance(predictor, ImageInputPredictor)
    if all(name.startswith("digits:") for name in names):
        found = [predictor.builtin_images()[int(name.partition(":")[2]) - 1] for name in names]
        pictures = [Image.fromarray(one[..., 0] if one.shape[2] == 1 else one) for one in found]
        pixels = [fit_picture(one, predictor.shape, predictor.fitting) for one in pictures]
    else:
        pixels = [predictor.prepare(name).pixels for name in names]
    batch: Tensor = bundle.task.state.normalise(pixels)
    return batch


def compare(ours: Tensor, theirs: Tensor, lengths: Tensor | None = None) -> float:
    """Return the largest difference between ``ours`` and ``theirs`` at positions that are not padding.

    If the largest absolute value in ``ours`` is above 1, the difference is divided by it.
    """
    if lengths is not None:
        real = torch.arange(ours.shape[1]) < lengths[:, None]
        ours, theirs = ours[real], theirs[real]
    return float((ours - theirs).abs().max() / ours.abs().max().clamp(min=1.0))


def counted_inputs(bundle: Bundle, inputs: Sequence[str]) -> str:
    """Return the number of inputs as a phrase, such as "6 texts"."""
    is_image = issubclass(task_of_model(bundle.task.name).predictor, ImageInputPredictor)
    return counted(len(inputs), "image" if is_image else "text")


def said_same(library: str, inputs: str, difference: float, what: str = "logits") -> str:
    """Return a sentence that says that the outputs for ``inputs`` are the same; raise an error if ``difference`` is
    more than rounding."""
    if not difference <= TOLERANCE:  # also if it is NaN
        raise ExportError(
            f"{library} gives different {what} from Saccade (up to {difference:.2g} apart); the model was not exported."
        )
    return f"{library} gives the same {what} as Saccade for {inputs} (largest difference {difference:.1e})."
