"""A signal becomes a question; work that never asks it is left where it is."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from tiny_runs import CONTEXT, PATIENCE

from saccade.text import Tokenizer
from saccade.training.interrupt import GRACE, Interrupt, Stopped


def nothing() -> None:
    pytest.fail("The work had its check in time.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_remembered_until_the_work_asks(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupt(nothing) as interrupt:
        interrupt.check()
        os.kill(os.getpid(), number)
        assert interrupt.requested
        with pytest.raises(Stopped):
            interrupt.check()
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_second_ctrl_c_acts_at_once() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    try:
        with Interrupt(nothing) as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            assert interrupt.requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_no_signals() -> None:
    seen: list[bool] = []

    def work() -> None:
        with Interrupt(nothing) as interrupt:
            interrupt.check()
            seen.append(interrupt.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def train_a_tokenizer(said: Path) -> None:
    """One long call of a library: while it runs, no handler in Python can."""
    chance = random.Random(4)
    texts = [" ".join(chance.randbytes(6).hex() for _ in range(20)) for _ in range(20000)]
    with Interrupt(lambda: said.touch(), grace=0.01):
        os.kill(os.getpid(), signal.SIGTERM)
        Tokenizer.train(texts, "bpe", vocabulary_size=8000)


def test_one_long_call_is_left(tmp_path: Path) -> None:
    process = CONTEXT.Process(target=train_a_tokenizer, args=(tmp_path / "said",))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 130
    assert (tmp_path / "said").exists()
    assert GRACE < 10  # a run must end within 10 seconds
