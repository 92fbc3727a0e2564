"""``examples/ray_predict.py`` on a Ray cluster of two nodes, with a worker that is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def example() -> Any:
    pytest.importorskip("ray", reason="needs the extra saccade[ray]")
    import ray
    from ray.cluster_utils import Cluster

    sys.path.insert(0, str(EXAMPLES))
    import ray_predict

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    path = os.pathsep.join([str(EXAMPLES), *sys.path])
    ray.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}})
    yield ray_predict
    ray.shutdown()
    cluster.shutdown()
    sys.path.remove(str(EXAMPLES))


def workers() -> list[int]:
    """The processes in which Ray keeps an ``Answers``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"MapWorker" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_every_row_is_answered_once_and_in_order(example: Any, tiny_run: Path, tmp_path: Path, suffix: str) -> None:
    import pandas

    import saccade

    texts = [f"the {word} cat sees the {other} dog ." for word in ("black", "old", "small") for other in range(700)]
    table = tmp_path / f"texts{suffix}"
    rows = pandas.DataFrame({"text": texts, "number": range(len(texts))})
    if suffix == ".jsonl":
        rows.to_json(table, orient="records", lines=True)
    else:
        rows.to_parquet(table)
    killed: list[int] = []

    def kill_one() -> None:
        for _ in range(600):
            busy = workers()
            if busy:
                time.sleep(1)
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill_one)
    killer.start()
    output = tmp_path / "answers"
    assert example.answer(str(tiny_run), table, output, "text", 2) == len(texts)
    killer.join()
    assert killed
    if suffix == ".jsonl":
        found = [json.loads(line) for file in sorted(output.iterdir()) for line in file.read_text().splitlines()]
    else:
        found = pandas.concat([pandas.read_parquet(file) for file in sorted(output.iterdir())]).to_dict("records")
    assert [row["text"] for row in found] == texts
    expected = saccade.open(tiny_run).predict(texts)
    assert [row["answer"] for row in found] == [answer.text for answer in expected]
