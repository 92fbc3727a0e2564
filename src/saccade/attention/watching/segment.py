"""The rows that one call of an attention layer adds to its trace (the record of a watched layer), and their weights.

A segment keeps the projected queries and keys, the mask and the bias, which takes O(N·D) memory. The statistic of a
row, such as its log-sum-exp (see ``weights``), is computed when it is first needed and then kept. Scores are computed
in float64, because a float32 score of size 20 is only accurate to 1e-6, and a weight is the exponential of a score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from saccade.attention.equation import Call
from saccade.errors import StaleTraceError

__all__ = ["STATISTIC_LIMIT", "Fingerprint", "Segment", "exact_weights", "keep"]

#: Maximum number of scores held at once while statistics are computed (4 MB in float64).
STATISTIC_LIMIT = 1 << 19
#: Columns per block, if the statistic of a row can be merged from parts.
STATISTIC_COLUMNS = 2048


class Fingerprint:
    """Checksums of a call's tensors at the time of the call, to notice later changes."""

    def __init__(self, call: Call) -> None:
        self._versions: dict[str, int] = {}
        self._digests: dict[str, Tensor] = {}
        for what, tensor in _tensors_of(call).items():
            self._versions[what], self._digests[what] = tensor._version, _digest(tensor)

    def move(self, call: Call) -> None:
        """From now on, look for changes in the keys and values of this call, which equal those checked so far."""
        tensors = _tensors_of(call)
        self._versions |= {what: tensors[what]._version for what in ("keys", "values") if what in tensors}

    def is_same(self, other: Fingerprint) -> bool:
        """Return whether the two calls had the same queries, keys, mask and bias; values may differ."""
        ours, theirs = (
            {what: digest for what, digest in one._digests.items() if what != "values"} for one in (self, other)
        )
        return ours.keys() == theirs.keys() and all(torch.equal(ours[what], theirs[what]) for what in ours)

    def changed(self, call: Call, batch: range, heads: range) -> list[str]:
        """Return which tensors ("queries", "keys", ...) have changed; only these sequences and heads are compared."""
        changed = []
        for what, tensor in _tensors_of(call).items():
            group = max(1, call.shape[1] // max(1, tensor.shape[1]))
            cut = (
                slice(batch.start, batch.stop) if tensor.shape[0] > 1 else slice(None),
                slice(heads.start // group, (heads.stop - 1) // group + 1) if tensor.shape[1] > 1 else slice(None),
            )
            # Writing through ``.data`` leaves the version unchanged.
            if tensor._version != self._versions[what] or not torch.equal(
                _digest(tensor[cut]), self._digests[what][cut]
            ):
                changed.append(what)
        return changed


class Segment:
    """The rows that one call adds to a trace, with the statistics computed so far."""

    def __init__(self, call: Call, start: int, fingerprint: Fingerprint | None = None) -> None:
        self.call = call
        self.start = start
        self._fingerprint = Fingerprint(call) if fingerprint is None else fingerprint
        self._statistic: Tensor | None = call.statistic
        self._known: Tensor | None = None  # (B, H, Q), True where the statistic has been computed

    @property
    def stop(self) -> int:
        return self.start + self.call.shape[2]

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor that the segment keeps in memory."""
        kept = (self.call.query, self.call.key, self.call.value, self.call.bias, self._statistic)
        yield from (tensor for tensor in kept if isinstance(tensor, Tensor))
        if self.call.mask is not None:
            yield from self.call.mask.tensors()

    def use_keys_of(self, other: Call) -> None:
        """Share the keys of a longer call that begins with the same keys, and its values if they are the same too."""
        count = self.call.shape[3]
        shared = {"keys": other.key[:, :, :count]}
        if self.call.value is not None and other.value is not None:
            value = other.value[:, :, :count]
            shared |= {"values": value} if torch.equal(value, self.call.value) else {}
        self.call = replace(self.call, key=shared["keys"], value=shared.get("values", self.call.value))
        self._fingerprint.move(self.call)  # equal numbers have equal digests

    def stale_fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint if a tensor has changed since it was made; otherwise None.

        A segment that is cut out of this one gets this fingerprint, so that it counts as stale too.
        """
        batch, heads, _, _ = self.call.shape
        return self._fingerprint if self._fingerprint.changed(self.call, range(batch), range(heads)) else None

    def part(self, name: str, batch: range, heads: range) -> Call:
        """Return the call for these sequences and heads; raise an error if a tensor has changed since the call."""
        changed = self._fingerprint.changed(self.call, batch, heads)
        if changed:
            raise StaleTraceError(
                f"The {' and '.join(changed)} of {name} changed in place after it was watched, so its weights can "
                "no longer be computed; read the trace before that, or watch again."
            )
        return self.call.part(batch, heads)

    def statistics(self, rows: range, batch: range, heads: range) -> Shaped[Tensor, "B H Q 1"]:
        """Return the statistics of these rows, computing those that are not known yet."""
        if self.call.statistic is None:
            self._compute(rows, batch, heads)
        assert self._statistic is not None
        return self._statistic[batch.start : batch.stop, heads.start : heads.stop, rows.start : rows.stop]

    def _compute(self, rows: range, batch: range, heads: range) -> None:
        call = self.call
        num_batch, num_heads, num_rows, num_columns = call.shape
        if self._statistic is None or self._known is None:
            device = call.query.device
            self._statistic = torch.zeros(num_batch, num_heads, num_rows, 1, dtype=_exact(call), device=device)
            self._known = torch.zeros(num_batch, num_heads, num_rows, dtype=torch.bool, device=device)
        width = call.score.pair_width(call.key.shape[-1])
        if num_batch * num_heads * num_rows * num_columns * width <= STATISTIC_LIMIT:
            rows, groups = range(num_rows), [(range(num_batch), range(num_heads))]
        else:
            groups = [(range(b, b + 1), range(h, h + 1)) for b in batch for h in heads]
        for one_batch, one_head in groups:
            cut = (slice(one_batch.start, one_batch.stop), slice(one_head.start, one_head.stop))
            missing = (~self._known[cut][..., rows.start : rows.stop]).flatten(0, 1).any(0).nonzero()
            if len(missing):
                todo = range(rows.start + int(missing[0]), rows.start + int(missing[-1]) + 1)
                part = call.part(one_batch, one_head)
                self._statistic[cut][:, :, todo.start : todo.stop] = _row_statistics(part, todo)
                self._known[cut][..., todo.start : todo.stop] = True


def exact_weights(call: Call, statistic: Tensor, rows: range, columns: range) -> Float[Tensor, "B H Q K"]:
    """Compute the weights of a tile in float64 from its scores and the statistics of its rows."""
    scores = call.scores(rows, columns, _exact(call))
    weights = call.weights.apply(scores, statistic, columns.start)
    return weights.masked_fill(scores == float("-inf"), 0.0) if call.has_rules_in(rows, columns) else weights


def keep(call: Call) -> Call:
    """Return a copy of a call that a trace can keep: without gradients, views of buffers, or parameters in training."""
    bias = call.bias
    if isinstance(bias, Tensor):
        bias = _kept(bias) if bias.is_inference() else bias.detach()
    elif bias is not None:
        bias = bias.frozen()
    return replace(
        call,
        query=_kept(call.query),
        key=_kept(call.key),
        value=None if call.value is None else _kept(call.value),
        score=call.score.frozen(_exact(call)),
        bias=bias,
    )


def _row_statistics(call: Call, rows: range) -> Shaped[Tensor, "B H Q 1"]:
    """Compute the statistics of whole rows in float64, holding at most ``STATISTIC_LIMIT`` scores at a time."""
    batch, heads, _, num_columns = call.shape
    cost = batch * heads * call.score.pair_width(call.key.shape[-1])
    wide = max(1, min(num_columns, STATISTIC_COLUMNS // cost) if call.weights.merges else num_columns)
    tall = max(1, STATISTIC_LIMIT // max(1, cost * wide))
    parts = []
    for start in range(rows.start, rows.stop, tall):
        block = range(start, min(start + tall, rows.stop))
        span = call.span(block)
        total: Tensor | None = None
        for first in range(span.start, max(span.stop, span.start + 1), wide):
            columns = range(first, min(first + wide, span.stop))
            if len(columns):
                found = call.weights.statistic(call.scores(block, columns, _exact(call)))
            else:  # rows that may attend to nothing
                found = torch.zeros(batch, heads, len(block), 1, dtype=_exact(call), device=call.query.device)
            total = found if total is None else call.weights.merge(total, found)
        assert total is not None
        parts.append(total)
    return torch.cat(parts, dim=2)


def _kept(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    owns_its_memory = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    if owns_its_memory and not tensor.is_inference():  # an inference tensor does not record changes
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()


def _tensors_of(call: Call) -> dict[str, Tensor]:
    """Return the tensors of a call whose content is checked for changes; all have four dimensions."""
    tensors = {"queries": call.query, "keys": call.key}
    if isinstance(call.bias, Tensor):
        tensors["bias"] = call.bias
    if call.value is not None:
        tensors["values"] = call.value
    if call.mask is not None:
        tensors |= {f"mask{number or ''}": tensor for number, tensor in enumerate(call.mask.tensors())}
    return tensors


def _digest(tensor: Shaped[Tensor, "B H N D"]) -> Shaped[Tensor, "B H N+D"]:
    """Sum the bits of each row and of each column; equal numbers give equal sums."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    with torch.inference_mode(False), torch.no_grad():
        bits = tensor.detach().view(whole)
        if whole is torch.uint8:  # the sums of a mask need not change when its entries change places
            places = torch.arange(1, bits.shape[-1] + 1, device=bits.device)
            bits = bits * (places * 2654435761 % (1 << 31))
        return torch.cat([bits.sum(dimension, dtype=torch.int64) for dimension in (-1, -2)], dim=-1)


def _exact(call: Call) -> torch.dtype:
    return torch.float32 if call.query.device.type == "mps" else torch.float64  # mps has no float64
