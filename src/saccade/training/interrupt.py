"""Stopping on request: Ctrl-C and SIGTERM become a question that the work asks at places where it can stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["Interrupt", "Stopped"]


class Stopped(Exception):
    """The user asked to stop; raised only by ``Interrupt.check``."""


class Interrupt:
    """While it is entered, a first signal is remembered; a second one acts as it always would."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # only there can handlers be set
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Stop here if that was asked for."""
        if self.requested:
            raise Stopped

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
