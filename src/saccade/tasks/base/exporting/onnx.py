"""Export to ONNX: write graphs that take inputs of any length, run them with ONNX Runtime on real inputs, and compare
the outputs with Saccade's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor

from saccade.decoding import beam_search
from saccade.errors import OptionError
from saccade.models import DecoderOnly, EncoderDecoder
from saccade.models.captioner import Captioner
from saccade.models.classifier import Classifier
from saccade.models.tagger import Tagger, without_frame
from saccade.models.vit import VisionEncoder
from saccade.pretrained.onnx import Graph, graphs, kept_names, run_graph, runtime, write_graph
from saccade.tasks.base.exporting.files import Export, vocabulary_files
from saccade.tasks.base.exporting.inputs import (
    after_start,
    compare,
    counted_inputs,
    image_batch,
    said_same,
    target_of,
    text_batch,
)
from saccade.tasks.base.task import Bundle
from saccade.tasks.registry import task_of_model

__all__ = ["to_onnx"]

#: The longest caption that answers are compared on, in tokens.
LONGEST_CAPTION = 20


def to_onnx(bundle: Bundle, inputs: Sequence[str]) -> Export:
    onnxruntime = runtime("Export to ONNX")
    parts = graphs(bundle.model, has_types=_has_types(bundle, inputs))
    if isinstance(bundle.model, Tagger) and bundle.model.feature_sizes:  # the texts that graphs are tried on have none
        raise OptionError("A tagger with feature_columns cannot be exported to ONNX.")
    files: dict[str, bytes] = {}
    with TemporaryDirectory() as folder:
        sessions = {}
        for name, graph in parts.items():
            path = Path(folder) / f"{name}.onnx"
            write_graph(graph, path)
            files |= {one.name: one.read_bytes() for one in Path(folder).glob(f"{name}.onnx*")}
            sessions[name] = partial(run_graph, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]))
        difference = _difference(bundle, sessions, inputs)
    what = parts["decoder" if "decoder" in parts else "model"].outputs[0]
    checked = said_same("ONNX Runtime", counted_inputs(bundle, inputs), difference, what)
    opened = next(iter(parts))
    use = f'onnxruntime.InferenceSession("{opened}.onnx")'
    return Export({**files, **vocabulary_files(bundle)}, checked, use, tuple(_notes(bundle, parts)))


# --- comparing ---


def _difference(bundle: Bundle, run: Mapping[str, Any], inputs: Sequence[str]) -> float:
    """Return how much the answers of ONNX Runtime differ from Saccade's."""
    model = bundle.model
    if isinstance(model, DecoderOnly):
        tokens, lengths = text_batch(bundle, inputs)
        return compare(model(tokens), _in_steps(model, run["decoder"], tokens, {}), lengths)
    if isinstance(model, Captioner):
        images = image_batch(bundle, inputs)
        target = _captions(bundle, images)
        found = _in_steps(model, run["decoder"], target, run["encoder"]({"images": images}))
        return compare(model(images, target), found)
    if isinstance(model, EncoderDecoder):
        source, lengths, target = text_batch(bundle, inputs)
        read = run["encoder"]({"source": source, "lengths": lengths})
        ours = model(source, lengths, target)
        return compare(ours, _in_steps(model, run["decoder"], target, {**read, "lengths": lengths}))
    if isinstance(model, VisionEncoder):
        images = image_batch(bundle, inputs)
        (found,) = run["model"]({"images": images}).values()
        return compare(model(images), found)
    if isinstance(model, Tagger):
        return _tagged(bundle, run["model"], inputs)
    batch = text_batch(bundle, inputs)
    ours = model(*batch)
    (found,) = run["model"](dict(zip(("tokens", "lengths", "types"), batch, strict=False))).values()
    return compare(ours, found, batch[1] if ours.ndim == 3 else None)


def _has_types(bundle: Bundle, inputs: Sequence[str]) -> bool:
    """Return whether the network reads two texts and tells their tokens apart by types."""
    return isinstance(bundle.model, Classifier) and bundle.model.has_types and len(text_batch(bundle, inputs)) == 3


def _captions(bundle: Bundle, images: Tensor) -> Tensor:
    """What the model writes about some images."""
    tokenizer, model = target_of(bundle), cast(Any, bundle.model)
    found = beam_search(
        model,
        model.start(images),
        batch_size=len(images),
        start_token=cast(int, tokenizer.special.start),
        end_token=cast(int, tokenizer.special.end),
        beam=1,
        max_length=min(LONGEST_CAPTION, model.config.max_length - 1),
    )
    return after_start(tokenizer, found)


def _in_steps(model: Any, run: Any, tokens: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """Return the logits of a decoder that reads the first tokens at once and the others one by one."""
    config, layers = model.config, len(model.decoder)
    width = config.head_width or config.width // config.num_heads
    empty = torch.zeros(len(tokens), config.num_key_heads or config.num_heads, 0, width)
    past = dict.fromkeys(kept_names(layers, "past"), empty)
    first = max(1, tokens.shape[1] // 2)
    found = []
    for part in (tokens[:, :first], *torch.split(tokens[:, first:], 1, dim=1)):
        answer = run({"tokens": part.contiguous(), **past, **given})
        found.append(answer["logits"])
        kept = (answer[name] for name in kept_names(layers, "present"))
        past = dict(zip(kept_names(layers, "past"), kept, strict=True))
    return torch.cat(found, dim=1)


def _tagged(bundle: Bundle, run: Any, texts: Sequence[str]) -> float:
    """Compare the logits of words; if the tagger reads pieces, a word has the mean of the logits of its pieces."""
    predictor, model = task_of_model(bundle.task.name).predictor(bundle), bundle.model
    batch = bundle.task.plain_batch([predictor.prepare(text.split()) for text in texts])
    ours = model(batch.words, batch.pieces, batch.characters, batch.lengths)
    if not model.by_pieces:
        names = ("words", "pieces", "characters", "lengths")
        inner = batch.pieces[:, without_frame(batch.words, batch.pieces)].contiguous()
        given = dict(zip(names, (batch.words, inner, batch.characters, batch.lengths), strict=True))
        return compare(ours, run(given)["logits"], batch.lengths)

    def run_pieces(tokens: Tensor, lengths: Tensor) -> Tensor:
        found: Tensor = run({"tokens": tokens, "lengths": lengths})["logits"]
        return found

    return compare(ours, cast(Tagger, model).logits_of_words(run_pieces, batch.words, batch.pieces), batch.lengths)


def _notes(bundle: Bundle, parts: Mapping[str, Graph]) -> Iterator[str]:
    """What the graphs read and write, for the model card."""
    yield from ("| file | reads | writes |", "|---|---|---|")
    for name, graph in parts.items():
        yield f"| {name}.onnx | {', '.join(graph.inputs)} | {', '.join(graph.outputs)} |"
    yield ""
    if "decoder" in parts:
        yield "In the first step, give the decoder keys and values (`past_*`) of length 0."
        yield "In each further step, give it the outputs `present_*` of the last step as `past_*`, and one more token."
    if isinstance(bundle.model, Tagger) and bundle.model.by_pieces:
        yield "The outputs are logits of pieces; the logits of a word are the mean of the logits of its pieces."
