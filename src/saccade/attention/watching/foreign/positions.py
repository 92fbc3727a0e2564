"""What the origin ids of queries, keys and values prove about an attention call.

They are the ids of the tokens that the tensors were computed from (``identity``). Saccade labels a row with a token,
calls attention "self" or computes an attention rollout only if these ids prove that this is correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention.watching.foreign.identity import (
    HASHED,
    LEARNED,
    LIMIT,
    NOBODY,
    ROWS,
    TEXT,
    is_of_text,
    kind_of,
    place_of,
    sequence_of,
    text_of,
    token,
    unseen,
)

__all__ = [
    "Order",
    "RowTokens",
    "agree",
    "are_distinct",
    "are_parts",
    "extra_columns",
    "is_text",
    "learned",
    "named",
    "order_of",
    "upright",
]


class RowTokens(NamedTuple):
    """The ids of the tokens that the rows of queries, keys or values were computed from, as (batch, positions)."""

    ids: Int[Tensor, "B P"]
    by: str | None  # the function that last mixed the tokens, or moved them
    number: int  # of the attention; learned rows, which belong to no token yet, get their ids from it


class Order(NamedTuple):
    """What is known about how the tokens in an attention call correspond to the tokens of the input."""

    is_whole: bool  # whether its batch is that of the input, and its rows are not known to be only part of a text
    is_in_order: bool  # whether its rows are known to be the tokens of the input, in the same order
    change: str | None  # the function that last mixed or moved the tokens of the queries or keys
    is_mixed: bool  # whether a query was computed from several tokens of a text
    extra: tuple[int, ...]  # the places of keys that belong to no token


def named(rows: RowTokens) -> Int[Tensor, "B P"]:
    """Return the id of the token that each row was computed from. A row that was computed from parameters alone gets an
    id that depends on its place and on the number of the attention call."""
    ids = rows.ids
    texts, places = (torch.arange(size, device=ids.device) for size in ids.shape)
    return torch.where(ids == NOBODY, learned(rows.number, texts[:, None], places), ids)


def learned(number: int, text: Tensor, place: Tensor) -> Tensor:
    """Return the ids that rows computed from parameters alone get in the attention call with this number."""
    return token(4 * (number % (1 << 18)) + LEARNED, text, place)


def upright(ids: Int[Tensor, "B P"], is_turned: bool) -> Int[Tensor, "B P"]:
    """Return the ids, with texts and places swapped if an input (positions, batch) was taken for (batch, positions).

    They are swapped only if this is certain: because the input went to one of torch's own modules that take it this way
    (``is_turned``), or because the ids can be read in no other way. If the batch has one entry, its rows may also be
    the same position of several texts that attend to each other, so nothing is swapped.
    """
    if not is_turned and ids.shape[0] in (1, ids.shape[1]):
        return ids
    is_row = (ids != NOBODY) & (ids < HASHED) & (kind_of(ids) <= ROWS)
    texts, places = (torch.arange(size, device=ids.device) for size in ids.shape)
    is_other_way = (text_of(ids) == places) & (place_of(ids) == texts[:, None])
    if not bool((is_row & is_other_way).all()):
        return ids
    return token(sequence_of(ids), place_of(ids), text_of(ids))


@unseen()
def agree(one: RowTokens | None, other: RowTokens | None) -> bool:
    """Return whether two tensors (queries and keys, or keys and values) have the same tokens in the same order.

    ``other`` may have additional rows that belong to no token: learned keys, or the empty part of a cache.
    """
    if one is None or other is None:
        return False
    if one.ids.shape == other.ids.shape:
        return torch.equal(named(one), named(other))
    return extra_columns(one, other) is not None


@unseen()
def are_distinct(rows: RowTokens | None) -> bool:
    """Return whether the rows of each text are all different tokens. They are not if the dimension of the rows really
    holds channels or heads."""
    if rows is None:
        return False
    ordered = named(rows).sort(1).values
    return not bool((ordered[:, 1:] == ordered[:, :-1]).any())


@unseen()
def are_parts(one: RowTokens | None, other: RowTokens | None) -> bool:
    """Return whether two tensors have tokens of the same sequence but none in common, like two windows of a text."""
    if one is None or other is None:
        return False
    first, second = ({*rows.ids[(rows.ids != NOBODY) & (rows.ids < HASHED)].tolist()} for rows in (one, other))
    sequences = ({(number - 1) // LIMIT for number in numbers} for numbers in (first, second))
    return first.isdisjoint(second) and not set.isdisjoint(*sequences)


def extra_columns(query: RowTokens, key: RowTokens) -> tuple[int, ...] | None:
    """Return the places of the keys that belong to no token, if all other keys are the tokens of the queries in the
    same order; otherwise return None."""
    is_token = key.ids != NOBODY
    first = is_token[:1]
    if len(key.ids) != len(query.ids) or not len(key.ids) or not torch.equal(is_token, first.expand_as(is_token)):
        return None
    if int(first.sum()) != query.ids.shape[1] or not torch.equal(key.ids[:, first[0]], query.ids):
        return None
    extra: list[int] = (~first[0]).nonzero().flatten().tolist()
    return tuple(extra)


@unseen()
def is_text(rows: RowTokens | None) -> bool:
    """Return whether any row is known to be a token of a text, or to be computed from one."""
    return rows is not None and rows.ids.numel() > 0 and bool(is_of_text(rows.ids).any())


@unseen()
def order_of(
    rows: RowTokens | None, keys: RowTokens | None, lengths: Mapping[int, int], has_batch: bool = True
) -> Order:
    """Return how the tokens of an attention call's queries and keys correspond to the tokens of the input.

    ``lengths`` gives the length of each sequence, by its number. ``has_batch`` says whether the call has as many texts
    in its batch as the input.
    """
    if rows is None:
        return Order(has_batch, False, None, False, ())
    ids = rows.ids
    is_token = (ids != NOBODY) & (ids < HASHED) & (kind_of(ids) != LEARNED)
    extra = None if keys is None or keys.ids.shape == ids.shape else extra_columns(rows, keys)
    return Order(
        has_batch and _is_whole(ids, is_token),
        _is_in_order(ids, is_token, lengths),
        rows.by or (None if keys is None else keys.by),
        bool((is_of_text(ids) & (ids >= HASHED)).any()),
        extra or (),
    )


def _is_whole(ids: Int[Tensor, "B P"], is_token: Bool[Tensor, "B P"]) -> bool:
    """Return whether each token is in the text of the batch that it comes from and, if all rows are tokens, whether
    each text has its first token."""
    is_home = text_of(ids) == torch.arange(len(ids), device=ids.device)[:, None]
    if bool((is_token & ~is_home).any()):
        return False
    return not bool(is_token.all()) or bool((place_of(ids) == 0).any(1).all())


def _is_in_order(ids: Int[Tensor, "B P"], is_token: Bool[Tensor, "B P"], lengths: Mapping[int, int]) -> bool:
    """Return whether the rows are the tokens of the input in order: each row is the token at its place, or all tokens
    are present, with learned rows between them.

    If a text has placeholders for a picture, parts of the picture may stand in place of these.
    """
    if not bool(is_token.any()) or bool((ids >= HASHED).any()):
        return False
    texts, places = (torch.arange(size, device=ids.device) for size in ids.shape)
    place, sequences = place_of(ids), sequence_of(ids)
    if bool((is_token & (text_of(ids) != texts[:, None])).any()):
        return False
    found = set(sequences[is_token].tolist())
    if len(found) == 1 and bool(is_token.all()):
        return bool((place == places).all())
    if all(_is_complete(is_token & (sequences == one), place, lengths.get(one, -1)) for one in found):
        return True
    is_text = is_token & (kind_of(ids) == TEXT)
    texts_found = set(sequences[is_text].tolist())
    keeps = len(texts_found) == 1 and lengths.get(min(texts_found)) == ids.shape[1] and bool(is_token.all())
    return keeps and bool((place == places)[is_text].all())


def _is_complete(is_one: Bool[Tensor, "B P"], place: Int[Tensor, "B P"], length: int) -> bool:
    """Return whether all tokens of one sequence (where ``is_one``) are present, in order."""
    expected = is_one.cumsum(1) - 1
    return bool((is_one.sum(1) == length).all()) and bool((place == expected)[is_one].all())
