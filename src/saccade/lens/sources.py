"""Read the input of a view: watched traces, or attention weights that a model returned itself.

    saccade.view(seen, tokens)
    saccade.view(outputs.attentions, tokens)

Models whose attention does not call ``scaled_dot_product_attention`` (DeBERTa, MPNet, GPT-J, BLOOM, ...) cannot be
watched, but return their weights on request. Each layer of such weights becomes a trace, as if it had been watched, so
every view, measure and picture works for these models too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from saccade.attention import Trace, Watch
from saccade.attention.watching.coverage import Coverage
from saccade.attention.watching.foreign.lineage import KeySource
from saccade.attention.watching.foreign.steps import Gap
from saccade.attention.watching.trace import Place
from saccade.errors import OptionError
from saccade.lens.axis import is_cross_by_name
from saccade.lens.given import GivenTrace

__all__ = ["Source", "read_source"]

#: The fields of a Hugging Face output that hold weights, and the names given to their layers.
_FIELDS = {
    "attentions": "layer.{}",
    "encoder_attentions": "encoder.{}.self",
    "decoder_attentions": "decoder.{}.self",
    "cross_attentions": "decoder.{}.cross",
}
#: The fields by which an output of Hugging Face is recognised if it has no weights.
_OTHER_FIELDS = ("logits", "last_hidden_state")
#: The fields whose first dimension is the number of sequences, for layers whose names begin with each of these words.
_STATES = {
    "layer": ("last_hidden_state", "logits"),
    "encoder": ("encoder_last_hidden_state",),
    "decoder": ("last_hidden_state", "logits"),
}
_NO_WEIGHTS = "the model returned no weights for it"


@dataclass(frozen=True)
class Source:
    """The traces of a view: the attention of each layer, with notes about some of them."""

    traces: dict[str, Trace]
    notes: dict[str, str] = field(default_factory=dict)  # remarks on some attentions, by name
    gaps: Mapping[str, Gap] = field(default_factory=dict)  # attentions that cannot be shown, by name
    coverage: Coverage | None = None  # None if it is unknown which other attentions the model has
    is_list: bool = False  # whether the traces are weights that were given without names
    has_states: bool = True  # whether it is known, for each trace, if its batch holds whole sequences or windows

    def choose_batch(self, batch: int | None) -> int:
        """Return the index of the sequence to show: ``batch``, or 0 if ``batch`` is None.

        Raise an error if ``batch`` is None and there are several sequences that may be windows of one input. Also raise
        an error if two attentions hold different numbers of sequences, such as two texts and the four sequences
        generated from them: an index then does not say which sequences belong together.
        """
        whole = {name: trace.shape[0] for name, trace in self.traces.items() if not trace.place or trace.place.is_whole}
        several = {count: name for name, count in whole.items() if count > 1}
        if len(several) > 1:
            (one, name), (other, of_other) = sorted(several.items())[:2]
            raise OptionError(
                f"{name} holds {one} sequences but {of_other} holds {other}, so an index does not say which of them "
                "belong together. Give view() only attentions with the same number of sequences, as a mapping such as "
                "{name: seen[name]}, or watch one forward pass over one text."
            )
        name, size = max(((name, trace.shape[0]) for name, trace in self.traces.items()), key=lambda part: part[1])
        if batch is None and size > 1 and not self.has_states:
            raise OptionError(
                f"The weights of {name} hold {size} sequences; choose one with batch, from 0 to {size - 1}. If these "
                "are windows of one input, as in Swin, give view() the whole output of the model instead."
            )
        return batch or 0

    def check_named(self) -> None:
        """Raise an error if the layers were given as a list without names.

        This is called if tokens and source_tokens have the same length, so that only a name could tell which of them
        a layer attends to.
        """
        if self.is_list:
            raise OptionError(
                "A list of layers does not say whether they attend to tokens or to source_tokens, and both have the "
                'same length; give a mapping with names, such as {"cross": weights}, or the whole output of the model.'
            )


def read_source(seen: object) -> Source:
    """Return the traces that ``watch`` recorded, or make traces of weights (batch, heads, queries, keys).

    Weights come as a list or tuple, whose layers are named ``layer.0``, ``layer.1``, ...; as a mapping from names to
    one layer or to several (``{"encoder": ..., "cross": ...}`` gives ``encoder.0``, ``cross.0``, ...); or as a Hugging
    Face output.
    """
    if isinstance(seen, Mapping) and not seen:
        raise OptionError(_why_empty(seen))
    if isinstance(seen, Mapping) and any(isinstance(trace, Trace) for trace in seen.values()):
        seen_traces = {name: trace for name, trace in seen.items() if isinstance(trace, Trace)}
        return Source(seen_traces, {}, seen.gaps, seen.coverage) if isinstance(seen, Watch) else Source(seen_traces)
    traces: dict[str, Trace] = {}
    notes, gaps = {}, {}
    for name, weights in _layers(seen):
        if weights is None:
            gaps[name] = Gap(name, _NO_WEIGHTS, None)
            continue
        given = traces[name] = GivenTrace(name, weights, is_band=_has_bands(seen, name))
        if given.note:
            notes[name] = given.note
    if not traces:
        raise OptionError(
            'The model returned no weights; load it with attn_implementation="eager" and call it with '
            "output_attentions=True."
        )
    coverage = Coverage(tuple(traces), {}, dict.fromkeys(gaps, _NO_WEIGHTS))
    has_states = _mark_windows(seen, traces, notes)
    return Source(traces, notes, gaps, coverage, not isinstance(seen, Mapping), has_states)


def _mark_windows(seen: object, traces: dict[str, Trace], notes: dict[str, str]) -> bool:
    """Record, in the places and notes of layers, which of them attend within windows, as in Swin.

    Return whether the number of sequences is known for every layer, so that all windows were found.
    """
    sizes = {name: _num_sequences(seen, name) for name in traces}
    if not isinstance(seen, Mapping) and len({trace.shape[0] for trace in traces.values()}) > 1:
        sizes = {name: {1} for name in traces}  # a batch of sequences would have the same size in all layers
    windows = [name for name, size in sizes.items() if size and traces[name].shape[0] not in size]
    for name in windows:
        count = traces[name].shape[0]
        note = f"one of {count} windows or other parts of the input, so rows and columns are numbered"
        notes[name] = f"{notes[name]}; {note}" if name in notes else note
    if windows:
        for number, (name, trace) in enumerate(traces.items(), 1):
            is_whole, before = name not in windows, frozenset(range(1, number))
            source: KeySource = "cross" if is_cross_by_name(name) else "self"
            trace.place = Place(source, number, before, is_whole, is_in_order=is_whole)
    return all(sizes.values())


def _has_bands(seen: object, name: str) -> bool:
    """Return whether each row of these weights covers only the neighbours of its token, as in Longformer and LED.

    The outputs of such models are recognised by their field for the tokens that attend to everything.
    """
    fields = getattr(type(seen), "__dataclass_fields__", {})
    return "global_attentions" in fields or ("encoder_global_attentions" in fields and name.startswith("encoder."))


def _num_sequences(seen: object, name: str) -> set[int]:
    """Return the possible numbers of sequences in the batch of this layer; the empty set if they are unknown."""
    states = [seen.get(state) for state in _STATES.get(name.split(".")[0], ())] if isinstance(seen, Mapping) else []
    state = next((state for state in states if isinstance(state, Tensor) and state.ndim > 1), None)
    if state is None:
        return set()
    # A model that chooses between several texts returns a logit for each of them.
    return {len(state), state.shape[0] * state.shape[1]} if state.ndim == 2 else {len(state)}


def _why_empty(seen: object) -> str:
    if isinstance(seen, Watch) and seen.refused:
        name, reason = next(iter(seen.refused.items()))
        return f"There is nothing to view: the attention {name!r} cannot be shown: {reason}."
    if isinstance(seen, Watch) and not seen.coverage.is_complete:
        return f"There is nothing to view: {seen.coverage}"
    return "No attention was seen, so there is nothing to view; run a model that has attention inside watch()."


def _layers(given: object) -> Iterator[tuple[str, Any]]:
    if isinstance(given, Mapping):
        if not set(given).isdisjoint([*_FIELDS, *_OTHER_FIELDS]):
            parts = [(name, given[field]) for field, name in _FIELDS.items() if given.get(field) is not None]
        else:
            parts = _in_order([(str(name), weights) for name, weights in given.items()])
    elif isinstance(given, Sequence) and not isinstance(given, str):
        parts = [(_FIELDS["attentions"], given)]
    elif given is None:
        parts = []
    else:
        shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor) else ""
        raise OptionError(
            "view() takes what watch() has seen, or weights as a list of layers or a mapping from names to layers, "
            f"not {type(given).__name__}{shape}."
        )
    for name, weights in parts:
        if isinstance(weights, Sequence):
            pattern = name if "{}" in name else f"{name}.{{}}"
            yield from ((pattern.replace("{}", str(number)), layer) for number, layer in enumerate(weights))
        else:
            yield name.replace("{}", "0"), weights


def _in_order(parts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Sort the layers whose names differ only in their numbers by these numbers: a rollout multiplies them in order."""
    kinds = [re.sub(r"\d+", "#", name) for name, _ in parts]
    return sorted(parts, key=lambda part: (kinds.index(re.sub(r"\d+", "#", part[0])), _numbers(part[0])))


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
