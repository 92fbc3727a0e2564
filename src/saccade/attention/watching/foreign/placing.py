"""Works out the place of an attention call in the forward pass, from the origin of its queries, keys and values.

The place includes which attention calls come before it, and whether its keys come from the same tokens as its queries.
What the tensors do not prove is left unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.folding import Fold
from saccade.attention.watching.foreign.lineage import CONSTANT, KeySource, Lineage, source_of
from saccade.attention.watching.foreign.positions import agree, are_distinct, is_text, order_of
from saccade.attention.watching.foreign.running import RunningModule, Way
from saccade.attention.watching.trace import Place

__all__ = ["Given", "find_place"]

OTHER_VALUES = "an attention whose values come from other tokens than its keys"


class Given(NamedTuple):
    """The query, key and value tensors of one attention call, and the layout of their dimensions."""

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    fold: Fold | None = None
    is_turned: bool = False  # True if the tensors are (positions, batch, width)


def find_place(lineage: Lineage, run: RunningModule, call: Call | str, given: Given, output: Tensor | None) -> Place:
    """Return the place of an attention call in the forward pass (``Place``).

    Also give its output the marks and origin ids of its queries (``lineage``, ``identity``). For one of torch's own
    modules that is seen as a whole (``Way.MODULE``), the input of the module stands in for the queries.
    """
    query, key, value, fold, is_turned = given
    marks = None if query is None else lineage.marks(query)
    marks = run.marks if marks is None else marks
    is_lost = query is not None and marks is None
    keys = marks if key is query else None if key is None else lineage.marks(key)
    values = keys if value is key else None if value is None else lineage.marks(value)
    source: KeySource = "self" if key is query and query is not None else source_of(marks, keys)
    number = lineage.attended(marks, output)
    if query is None or (fold is not None and not fold.fits(query)):
        fold = None
    unfold = None if fold is None else fold.unfold
    rows = run.rows if run.way is Way.MODULE else lineage.rows.positions(query, number, is_turned, unfold)
    named = number if rows is None else rows.number
    of_keys = rows if key is query else lineage.rows.positions(key, named, is_turned, unfold)
    of_values = of_keys if value is key else lineage.rows.positions(value, named, is_turned, unfold)
    if source == "self" and not (agree(rows, of_keys) and are_distinct(rows)):
        source = "unknown"  # not the same tokens in the same order
    # Compare only the marks of attentions: keys may come from one more input than values do, namely the positions.
    is_same_state = (keys is None) == (values is None) and lineage.before(keys) == lineage.before(values)
    of_inputs = lineage.inputs(keys), lineage.inputs(values)
    is_other_input = any(of_inputs) and of_inputs[0].isdisjoint(of_inputs[1])
    has_own_values = is_same_state and agree(of_keys, of_values) and not is_other_input
    if output is not None and not has_own_values:
        lineage.rows.replace(output, OTHER_VALUES)
    else:
        texts = None if fold is None or query is None else fold.texts(query)
        lineage.rows.attended(query, output, named, is_turned, texts)
    before, beside = lineage.placed(number, None if is_lost else marks or CONSTANT, rows)
    has_batch = isinstance(call, str) or lineage.has_batch(call.shape[0], call.shape[2])
    order = order_of(rows, of_keys, lineage.rows.lengths, has_batch)
    if isinstance(call, Call) and of_keys is not None and call.shape[3] > of_keys.ids.shape[1]:
        # nn.MultiheadAttention adds a learned key and a key of zeros (if it has them) after the keys that it is given.
        order = order._replace(extra=tuple(range(of_keys.ids.shape[1], call.shape[3])))
    has_keys_in_order = order_of(of_keys, None, lineage.rows.lengths).is_in_order
    inputs = lineage.inputs(marks)
    texts_of = is_text(rows), is_text(of_keys)
    return Place(source, number, before, *order, has_keys_in_order, has_own_values, beside, inputs, *texts_of)
