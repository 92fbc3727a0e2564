from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def in_one_thread(one_thread: None) -> None:
    """Tiny models all."""
