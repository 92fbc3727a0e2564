"""``metrics.jsonl`` over a stop: every line once."""

from __future__ import annotations

from pathlib import Path

from saccade.storage import seal
from saccade.storage.run_log import read_metrics
from saccade.training.metrics import MetricsLog


def test_a_continued_log_drops_what_will_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, 0, 0)
    for step in (1, 2, 3):
        log.write(step, loss=step / 4)
    log.close()
    log = MetricsLog(path, 2, 0)
    log.write(3, loss=0.5)
    log.sync()
    assert read_metrics(path)[0] == [{"step": 1, "loss": 0.25}, {"step": 2, "loss": 0.5}, {"step": 3, "loss": 0.5}]
    log.close()


def test_a_validation_that_will_be_made_again_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, 0, 0)
    log.write(10, loss=0.5)
    log.write(10, validation={"bleu": 25.0})
    log.close()
    MetricsLog(path, 10, validated=10).close()
    assert [sorted(line) for line in read_metrics(path)[0]] == [["loss", "step"], ["step", "validation"]]
    MetricsLog(path, 10, validated=0).close()  # stopped at step 10, before its validation was saved
    assert read_metrics(path)[0] == [{"step": 10, "loss": 0.5}]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 0.5}\n{"step": 2, "lo\xc3')
    assert read_metrics(path)[0] == [{"step": 1, "loss": 0.5}]
    MetricsLog(path, 5, 0).close()
    assert path.read_text() == seal({"step": 1, "loss": 0.5}) + "\n"
    assert read_metrics(tmp_path / "none.jsonl")[0] == []
