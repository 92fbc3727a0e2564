"""Choose which connection to close when there are too many."""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["first_to_close", "network_of"]


class Idle(Protocol):
    """A connection without a request in progress, which may be closed if there are too many connections."""

    @property
    def address(self) -> str: ...

    @property
    def idle_since(self) -> float: ...


One = TypeVar("One", bound=Idle)


def first_to_close(idle: Iterable[One]) -> One | None:
    """Return the connection that has been idle longest, of the address with the most; None if ``idle`` is empty."""
    every = list(idle)
    counts = Counter(one.address for one in every)
    most = max(counts, key=counts.__getitem__, default="")
    return min((one for one in every if one.address == most), key=lambda one: one.idle_since, default=None)


@functools.lru_cache(4096)
def network_of(address: str) -> str:
    """Return the address or, for IPv6, its /64 network, because one client can usually use all addresses of one."""
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, 64), strict=False))
