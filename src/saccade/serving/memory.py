"""Give memory that is no longer used back to the operating system."""

from __future__ import annotations

import ctypes
import threading
import time

__all__ = ["give_back_freed_memory"]

#: Seconds between two times that freed memory is given back.
SECONDS = 5.0


def give_back_freed_memory() -> None:
    """Start a thread that gives freed memory back to the system every few seconds.

    The C library of Linux keeps freed memory for later, separately for each thread. After a few long texts, a process
    would otherwise hold hundreds of megabytes that nothing in it uses.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # other C libraries do not have this function
        return

    def give_back() -> None:
        while True:
            time.sleep(SECONDS)
            trim(0)

    threading.Thread(target=give_back, name="memory", daemon=True).start()
