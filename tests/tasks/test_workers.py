"""Several processes give the answers that one gives, in the same order."""

import os
import signal
from pathlib import Path

import pytest

import saccade
from saccade.errors import OptionError, WorkerError
from saccade.tasks.base.predictor import Predictor

TEXTS = ["a b c", "", "c a", "b b a c", "a"] * 3


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Predictor, "at_once", 4)  # so that both workers have some


def test_workers_answer_as_one_process_does_and_the_death_of_one_is_one_sentence(tiny_run: Path) -> None:
    alone = [answer.text for answer in saccade.open(tiny_run).predict(TEXTS)]
    done: list[int] = []
    with saccade.open(tiny_run, workers=2) as shared:
        assert [answer.text for answer in shared.predict(TEXTS, progress=done.append)] == alone
        assert shared.predict([]) == []
        drawn = [shared.predict(TEXTS, sample=True, seed=seed) for seed in (5, 5, 6)]
        first, second = shared._workers._processes.values()
        os.kill(first.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="A worker process ended"):
            shared.predict(TEXTS)
        assert not first.is_alive()
        assert not second.is_alive()
        assert not shared._workers._processes  # the next search starts others
    assert done == [4, 8, 12, 15]
    texts = [[answer.text for answer in answers] for answers in drawn]
    assert texts[0] == texts[1] != texts[2]


def test_edits_hold_though_other_processes_do_not_know_of_them(tiny_run: Path) -> None:
    alone = saccade.open(tiny_run)
    off = {"without_heads": [f"{name}:{head}" for name in ("encoder.0.self", "decoder.0.cross") for head in (0, 1)]}
    with saccade.edit(alone.model, **off):
        expected = [answer.text for answer in alone.predict(TEXTS)]
    with saccade.open(tiny_run, workers=2) as shared, saccade.edit(shared.model, **off):
        assert [answer.text for answer in shared.predict(TEXTS)] == expected
    assert expected != [answer.text for answer in alone.predict(TEXTS)]


def test_a_number_of_workers_is_checked(tiny_run: Path) -> None:
    with pytest.raises(OptionError, match="from 1 to 256, not 0"):
        saccade.open(tiny_run, workers=0)
