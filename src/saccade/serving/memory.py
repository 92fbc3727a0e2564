"""Give memory that is no longer used back to the operating system."""

from __future__ import annotations

import ctypes
import threading
import time

__all__ = ["give_back", "keep_giving_back"]

#: Seconds between two times that freed memory is given back.
SECONDS = 5.0


def give_back() -> bool:
    """Give freed memory back to the system; return False if the C library cannot do that.

    The C library of Linux keeps freed memory for later, separately for each thread. After a few long texts, a process
    would otherwise hold hundreds of megabytes that nothing in it uses.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, TypeError, AttributeError):
        return False
    return True


def keep_giving_back() -> None:
    """Start a thread that gives freed memory back every few seconds."""

    def work() -> None:
        while give_back():
            time.sleep(SECONDS)

    threading.Thread(target=work, name="memory", daemon=True).start()
