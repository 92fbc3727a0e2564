"""The command line. Each command is thin: it reads its options, calls the library and prints."""

import signal
import threading

#: Ctrl-C while the commands are loaded ends the process at once, without a traceback; then ``main`` takes care of it.
_waits = threading.current_thread() is threading.main_thread()
_before = signal.signal(signal.SIGINT, signal.SIG_DFL) if _waits else None
try:
    from saccade.cli.main import app, main
finally:
    if _waits:
        signal.signal(signal.SIGINT, _before)

__all__ = ["app", "main"]
