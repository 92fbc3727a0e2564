"""The command line. Each command only reads its options, calls the library and prints the result."""

import signal
import threading

#: Ctrl-C during the import of the commands ends the process without a traceback; after that ``main`` handles it.
_in_main_thread = threading.current_thread() is threading.main_thread()
_before = signal.signal(signal.SIGINT, signal.SIG_DFL) if _in_main_thread else None
try:
    from saccade.cli.main import app, main
finally:
    if _in_main_thread:
        signal.signal(signal.SIGINT, _before)

__all__ = ["app", "main"]
