"""Turn one head of a real model into an input document for ``saccade explain``, and a document into a walkthrough,
which shows how attention is computed from these numbers step by step.

A trace keeps queries, keys and masks, which are enough to compute the weights. To get the values, the same forward pass
is run and recorded again. If the head's queries, keys and values are products of X, the input of the layer, the
walkthrough starts from X; the bias of a projection is the last row of its matrix, and X has a column of ones for it.
W_O consists of the head's rows of the output matrix; its bias and the other heads are not part of the walkthrough.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention import SCORES, MultiHead, edit, editable, watch
from saccade.attention.equation import Call
from saccade.attention.weights import WEIGHTS
from saccade.errors import OptionError, TooLargeError
from saccade.lens.walk.document import MAX_OUTPUT, MAX_POSITIONS, MAX_WIDTH, WalkDocument
from saccade.serving.http.strict import parse_json
from saccade.serving.looks import Look
from saccade.tasks.base.predictor import Predictor

__all__ = ["head_document", "numbers_of", "walk_through", "written"]

#: The most weights that a walkthrough can have, in all heads together.
MOST_WEIGHTS = 1 << 16


def walk_through(body: bytes) -> bytes:
    """Return the walkthrough, as JSON, of a document that is given as JSON."""
    return written(WalkDocument.model_validate(parse_json(body)))


def numbers_of(document: WalkDocument) -> int:
    """Return about how many numbers the walkthrough of a document shows: its weights, and the values times weights."""
    queries = document.queries or document.inputs or ()
    keys = document.keys or document.source or document.inputs or queries
    values = document.values or document.W_value or keys
    return len(queries) * len(keys) * (document.heads + max(map(len, values), default=0))


def written(document: WalkDocument) -> bytes:
    """Return the walkthrough of a document as JSON."""
    queries = document.queries or document.inputs or ()
    weights = document.heads * len(queries) * len(document.keys or document.source or queries)
    if weights > MOST_WEIGHTS:
        raise TooLargeError(
            f"This walkthrough has {weights:,} weights; the limit is {MOST_WEIGHTS:,}. Choose fewer heads or positions."
        )
    return json.dumps(document.walkthrough().to_dict(), ensure_ascii=False, allow_nan=False).encode()


def head_document(look: Look, name: str, head: int, rows: range | None) -> WalkDocument:
    """Return the numbers of one head of a look, for all rows or some; call this in the model's thread."""
    row_axis, column_axis = look.view.axes(name)
    rows = range(len(row_axis)) if rows is None else rows
    if max(len(rows), len(column_axis)) > MAX_POSITIONS:
        raise TooLargeError(
            f"{name} has {len(rows)} rows and {len(column_axis)} columns here; a walkthrough can have at most "
            f"{MAX_POSITIONS} of each. "
            "Choose fewer rows or a shorter text."
        )
    layer = editable(look.served.predictor.model).get(name)
    entering = _Entering(layer if isinstance(layer, MultiHead) else None)
    with entering:
        call = _call(look, name, head)
    assert call.value is not None
    width = max(call.key.shape[-1], call.value.shape[-1])
    if width > MAX_WIDTH:
        raise TooLargeError(f"The heads of {name} have width {width}; a walkthrough can show at most {MAX_WIDTH}.")
    start = entering.start(call, head, rows, look.view.batch, look.view.is_self(name))
    return WalkDocument(
        **(start or _direct(call, rows)),
        W_output=_output(look, name, head),
        tokens=tuple(token[:32] or "∅" for token in row_axis.tokens[rows.start : rows.stop]),
        source_tokens=None
        if start is not None and "source" not in start
        else tuple(token[:32] or "∅" for token in column_axis.tokens),
        mask=_mask(call, rows),
        bias=_bias(call, rows),
        score=_name(call.score, SCORES, name),
        weights=_name(call.weights, {key: kind() for key, kind in WEIGHTS.items()}, name),
    )


def _direct(call: Call, rows: range) -> dict[str, Any]:
    """Return the head's queries, keys and values as attention used them, after rotation by positions."""
    assert call.value is not None
    return {
        "queries": _rows(call.query[0, 0][rows.start : rows.stop]),
        "keys": _rows(call.key[0, 0]),
        "values": _rows(call.value[0, 0]),
    }


class _Entering:
    """Records the inputs of the projections of a layer while the layer runs."""

    def __init__(self, layer: MultiHead | None) -> None:
        self.layer = layer
        self.seen: dict[str, list[Tensor]] = {"query": [], "key_value": []}

    def __enter__(self) -> None:
        self._hooks = [
            getattr(self.layer, part).register_forward_pre_hook(lambda _, given, kept=kept: kept.append(given[0]))
            for part, kept in self.seen.items()
            if self.layer is not None
        ]

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def start(self, call: Call, head: int, rows: range, batch: int, is_self: bool) -> dict[str, Any] | None:
        """Return the inputs and the head's projections, or None if their products are not its queries, keys and
        values."""
        layer = self.layer
        if layer is None or any(len(kept) != 1 for kept in self.seen.values()):
            return None
        x, source = (kept[0][batch].double().cpu() for kept in self.seen.values())
        if max(x.shape[1], source.shape[1]) > MAX_OUTPUT:
            return None
        has_source = not is_self or len(rows) != len(x)  # a few rows still attend to all positions
        width, group = layer.head_width, head * layer.num_key_heads // layer.num_heads
        own = slice(head * width, (head + 1) * width)
        key, value = (
            slice(first + group * width, first + (group + 1) * width) for first in (0, layer.num_key_heads * width)
        )
        x, W_query = _with_bias(x[rows.start : rows.stop], layer.query, own)
        source, W_key = _with_bias(source, layer.key_value, key)
        W_value = _with_bias(source, layer.key_value, value)[1]
        found = (x @ W_query, source @ W_key, source @ W_value)
        wanted = (call.query[0, 0][rows.start : rows.stop], call.key[0, 0], call.value[0, 0])  # type: ignore[index]
        if not all(
            torch.allclose(one, other.double().cpu(), atol=1e-4) for one, other in zip(found, wanted, strict=True)
        ):
            return None  # rotated by their positions, or otherwise not products
        matrices = {"inputs": x, "W_query": W_query, "W_key": W_key, "W_value": W_value}
        return {name: _rows(one) for name, one in (matrices | {"source": source} if has_source else matrices).items()}


def _with_bias(x: Tensor, layer: torch.nn.Linear, columns: slice) -> tuple[Tensor, Tensor]:
    """Return the inputs and some columns of a projection. A bias becomes one more row, and x gets a column of ones."""
    weight = layer.weight.detach().double().cpu()[columns].T
    if layer.bias is None:
        return x, weight
    if x.shape[1] == len(weight):
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    return x, torch.cat([weight, layer.bias.detach().double().cpu()[None, columns]])


def _call(look: Look, name: str, head: int) -> Call:
    """Repeat the forward pass of the look, with the same edits; return the call of this attention with its values."""
    predictor, edits = look.served.predictor, look.edits
    with ExitStack() as entered:
        entered.enter_context(
            edit(predictor.model, without_heads=edits.without_heads, without_links=edits.without_links)
        )
        seen = entered.enter_context(watch(predictor.model, values=True))
        if look.answer is None:
            predictor.view_input(look.given)
        elif type(predictor).view_of is Predictor.view_of:  # it cannot view a given answer
            predictor.predict([look.given])[0].view  # noqa: B018 - computing the view is what we watch
        else:
            predictor.view_of(look.given, look.answer)
    if name not in seen:
        raise OptionError(
            f"When the model was run again, it did not compute the attention {name}, so its values are not known."
        )
    call = seen[name].only_call(head=head, batch=look.view.batch)
    if call is None or call.value is None:
        raise OptionError(
            f"{name} runs once for each output token, so it has no single walkthrough; choose another attention."
        )
    return call


def _output(look: Look, name: str, head: int) -> tuple[tuple[float, ...], ...] | None:
    """The head's rows of W_O; None if the layer has none or is too wide to show."""
    layer = editable(look.served.predictor.model).get(name)
    if not isinstance(layer, MultiHead) or layer.output.out_features > MAX_OUTPUT:
        return None
    columns = slice(head * layer.head_width, (head + 1) * layer.head_width)
    return _rows(layer.output.weight[:, columns].T)


def _mask(call: Call, rows: range) -> Any:
    """The mask as rows of booleans; "none" if it allows every link here."""
    if call.mask is None:
        return "none"
    allowed: Bool[Tensor, "Q K"] = call.mask(*call.indices(rows, range(call.shape[3])))
    allowed = allowed.expand(1, 1, len(rows), call.shape[3])[0, 0]
    return "none" if bool(allowed.all()) else tuple(tuple(row) for row in allowed.tolist())


def _bias(call: Call, rows: range) -> tuple[tuple[float, ...], ...] | None:
    if call.bias is None:
        return None
    added = replace(call, mask=None).added(rows, range(call.shape[3]), torch.float64)
    assert added is not None
    return _rows(added.expand(1, 1, len(rows), call.shape[3])[0, 0])


def _name(choice: Any, known: dict[str, Any], name: str) -> str:
    """The name of a score or weights function in a walkthrough document."""
    for key, one in known.items():
        if type(one) is type(choice) and vars(one) == vars(choice):
            return key
    raise OptionError(
        f"{name} uses {type(choice).__name__} with its own parameters; a walkthrough supports {', '.join(known)}."
    )


def _rows(numbers: Float[Tensor, "R C"]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in numbers.double().cpu().tolist())
