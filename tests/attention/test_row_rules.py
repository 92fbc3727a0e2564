"""What is said about tokens after any function of torch holds: checked by changing one token at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import get_overridable_functions

from saccade.attention.watching.foreign.identity import HASHED
from saccade.attention.watching.foreign.row_moves import elementwise, same
from saccade.attention.watching.foreign.row_rules import rule_of
from saccade.attention.watching.foreign.rows import Rows

BATCH, LENGTH = 2, 4
WIDTH = LENGTH  # so that functions of dimensions that are exchanged fit too
INDEX = torch.tensor([2, 0, 3, 1])
Make = Callable[[Tensor, Tensor], tuple[tuple[Any, ...], dict[str, Any]]]


def tokens() -> Tensor:
    """The tokens of an input (batch, length, width), as (batch, length)."""
    rows, x = Rows(), torch.zeros(BATCH, LENGTH, WIDTH)
    rows.begin([x])
    ids = rows.of(x)
    assert ids is not None
    return ids[..., 0]


TOKENS = tokens()


def arguments() -> Iterator[Make]:
    """Yield ways to call a function with tokens ``x`` and a constant matrix ``w``."""
    for rest in ((), (1,), (2,), (-1,), ((1,),), ((1, 2),), ([2],), (2.0,), (1, 2), (2, 1), (0, 1), (-1, 1), (1, 1, 1)):
        yield lambda x, w, rest=rest: ((x, *rest), {})  # type: ignore[misc]
    for rest in ([0, 0, 1, -1], [4, 4, 2], [4], [WIDTH], (0, 2, 1)):
        yield lambda x, w, rest=rest: ((x, rest), {})  # type: ignore[misc]
    yield from (
        lambda x, w: ((x, w), {}),
        lambda x, w: ((w, x), {}),
        lambda x, w: ((x, x), {}),
        lambda x, w: ((x, w, w), {}),
        lambda x, w: ((w, x[0], x[1]), {}),
        lambda x, w: ((x, w.expand(BATCH, -1, -1), x), {}),
        lambda x, w: ((x, 1, INDEX), {}),
        lambda x, w: ((x, INDEX), {}),
        lambda x, w: ((x, (slice(None), INDEX)), {}),
        lambda x, w: ((x, 1, INDEX, x.clone()), {}),
        lambda x, w: ((x, 1, INDEX[None, :, None].expand(x.shape)), {}),
        lambda x, w: ((x, 1, INDEX[None, :, None].expand(x.shape), x.clone()), {}),
        lambda x, w: ((INDEX, x[0]), {}),
        lambda x, w: ((x, x.flip(1)), {}),
        lambda x, w: (([x, x.flip(1)],), {}),
        lambda x, w: (([x, w.expand(BATCH, -1, -1)], 1), {}),
        lambda x, w: ((x, w[None].expand(LENGTH, -1, -1)), {}),
        lambda x, w: ((x, w[:, :, None]), {}),
        lambda x, w: ((x.mT, w[:, :, None]), {}),
        lambda x, w: ((x > 0, x, x.flip(1)), {}),
        lambda x, w: ((x,), {"dim": 1}),
        lambda x, w: ((x,), {"dim": 2}),
        lambda x, w: ((w, x), {"dims": ([1], [1])}),
        lambda x, w: ((x.mT, 2), {}),
        lambda x, w: ((x, 3, 1, 1), {}),
        lambda x, w: (("nm,bmc->bnc", w, x), {}),
        lambda x, w: (("...c,cd->...d", x, w), {}),
    )


def call(function: Callable[..., Any], make: Make, x: Tensor) -> list[Tensor]:
    """Call a function, and return the tensors that it returned or wrote into."""
    torch.manual_seed(0)
    given, named = make(*prepared(x))
    return results(function(*given, **named), given)


def results(result: Any, given: tuple[Any, ...]) -> list[Tensor]:
    parts = given[:1] if result is None else result if isinstance(result, (tuple, list)) else [result]
    return [part for part in parts if isinstance(part, Tensor)]


class Following(torch.overrides.TorchFunctionMode):
    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self._rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._rows.follow(func, args, kwargs or {}, [result] if isinstance(result, Tensor) else [])
        return result


def prepared(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.clone(), torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1))


def claims(function: Callable[..., Any], make: Make, x: Tensor) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return the results, and the tokens that their numbers are said to belong to."""
    rows = Rows()
    torch.manual_seed(0)
    x, w = prepared(x)
    rows.begin([x])
    with Following(rows):
        given, named = make(x, w)
    found = results(function(*given, **named), given)
    rows.follow(function, given, named, found)
    return found, [rows.of(part) for part in found]


def check(function: Callable[..., Any], make: Make) -> bool:
    """Check what is said about one call; return whether anything could be checked."""
    x = torch.rand(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0)) + 0.5
    try:
        found, said = claims(function, make, x)
        again = call(function, make, x)
    except Exception:
        return False
    checked = False
    for place, (result, ids) in enumerate(zip(found, said, strict=True)):
        is_plain = result.layout is torch.strided and not result.is_nested
        if not is_plain or not torch.equal(result, again[place]):
            continue
        if ids is not None and bool((ids >= HASHED).all()):
            checked = True
            continue  # nothing is said
        for token in TOKENS.flatten().tolist():
            changed = torch.where((token == TOKENS)[..., None], x * 1.25 + 0.1, x)
            try:
                other = call(function, make, changed)[place]
            except Exception:
                return checked
            if other.shape != result.shape:
                return checked
            differs = other != result
            if result.is_floating_point():
                differs = ~torch.isclose(other, result, equal_nan=True, rtol=1e-6, atol=1e-7)
            is_other = torch.ones_like(differs) if ids is None else (ids != token) & (ids < HASHED)
            assert not bool((differs & is_other).any()), "a number changed with a token that it does not belong to"
        checked = True
    return checked


def functions() -> list[tuple[str, Callable[..., Any]]]:
    found = {}
    for namespace, every in get_overridable_functions().items():
        for function in every:
            name = getattr(function, "__name__", "")
            # Without a rule nothing is said, and of the operators that torch calls pointwise, some are enough.
            rule = rule_of(function)
            is_simple = rule is elementwise and name not in (
                "add",
                "__mul__",
                "where",
                "lerp",
                "addcmul",
                "masked_fill",
            )
            if name and rule not in (None, same) and not is_simple and name not in ("__get__", "__set__"):
                found[f"{getattr(namespace, '__name__', namespace)}.{name}"] = function
    for name in ("flip", "bmm", "roll", "transpose_", "index_select", "cumsum", "add", "constant_pad_nd"):
        found[f"aten.{name}"] = getattr(torch.ops.aten, name)
    return sorted(found.items())


def wrong_claims(chosen: list[tuple[str, Callable[..., Any]]], ways: list[Make]) -> tuple[list[str], set[str]]:
    """Return the calls about which something wrong is said, and the names of the functions that were checked."""
    wrong, checked = [], set()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in chosen:
            for number, make in enumerate(ways):
                try:
                    if check(function, make):
                        checked.add(name)
                except AssertionError:
                    wrong.append(f"{name}, call {number}")
    return wrong, checked


QUICK = (
    "torch.flip", "torch.roll", "torch.cumsum", "torch.softmax", "torch.sort", "torch.matmul", "torch.bmm",
    "torch.mean", "torch.baddbmm", "torch.cat", "torch.take", "torch.index_add", "torch.scatter_add", "torch.einsum",
    "Tensor.transpose_", "Tensor.copy_", "Tensor.index_copy_", "Tensor.__getitem__", "aten.flip", "aten.bmm",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_what_is_said_about_functions_of_torch_holds() -> None:
    chosen = [(name, function) for name, function in functions() if name.endswith(QUICK)]
    wrong, checked = wrong_claims(chosen, list(arguments()))
    assert wrong == []
    assert len(checked) > 15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_said_about_every_function_of_torch_holds() -> None:
    wrong, checked = wrong_claims(functions(), list(arguments()))
    assert wrong == []
    assert len(checked) > 100
