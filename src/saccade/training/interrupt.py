"""Stop a run when the user asks: Ctrl-C and SIGTERM set a flag, which training checks wherever it can stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

__all__ = ["STOPPED_CODE", "Interrupt", "Stopped"]

#: The exit code of a process that the user stopped: the one that shells use for Ctrl-C.
STOPPED_CODE = 130
#: Seconds to wait until the work reaches a place where it can stop. After that the process ends anyway, so stopping
#: takes at most 10 seconds. Files are written completely or not at all, so nothing that was saved is lost.
GRACE = 7.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """Raised by ``Interrupt.check`` if the user asked to stop."""


class Interrupt:
    """A context in which the first signal only sets a flag, and a second signal acts as usual.

    A signal handler in Python cannot run during one long library call, such as training a tokenizer. So a thread also
    receives the signal. If ``check`` is not called within ``grace`` seconds, the thread calls ``last_words`` and ends
    the process.
    """

    def __init__(self, last_words: Callable[[], None], grace: float = GRACE) -> None:
        self.requested = False
        self._last_words = last_words
        self._grace = grace
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._heard = threading.Event()
        self._watcher: threading.Thread | None = None
        self._pipe = self._pipe_before = -1

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # handlers can only be set there
            reader, self._pipe = os.pipe()
            os.set_blocking(self._pipe, False)
            self._watcher = threading.Thread(target=self._watch, args=(reader,), daemon=True)
            self._watcher.start()
            self._pipe_before = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()
        self._heard.set()
        if self._watcher is not None:
            signal.set_wakeup_fd(self._pipe_before)
            os.close(self._pipe)
            self._watcher.join()

    def heard(self) -> bool:
        """Return whether the user asked to stop. If so, the thread no longer ends the process after ``grace`` seconds,
        so that saving can take as long as it needs."""
        if self.requested:
            self._heard.set()
        return self.requested

    def check(self) -> None:
        """Raise ``Stopped`` if the user asked to stop."""
        if self.heard():
            raise Stopped

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _watch(self, reader: int) -> None:
        """Read signal numbers, which the C-level handler writes immediately, until the pipe is closed."""
        with open(reader, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                if number[0] in SIGNALS and not self._heard.wait(self._grace):
                    self._last_words()
                    os._exit(STOPPED_CODE)
