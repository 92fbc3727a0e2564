"""Answer a large table with Ray Data, on all machines of a Ray cluster.

    pip install 'saccade[ray]'
    python examples/ray_predict.py runs/demo texts.jsonl answers --column text
    python examples/ray_predict.py runs/demo texts.parquet answers --column text --workers 8

The table is a JSONL or Parquet file, or a folder of them, and so are the answers: each row gets a column "answer", and
the rows keep their order. All machines must reach the model and the files under the same names. If a worker is killed,
Ray starts another, which does its block of rows again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ray

import saccade

#: The rows that a worker answers together.
ROWS = 250


class Answers:
    """Adds answers to rows. Ray makes one in each worker process, which opens the model once."""

    def __init__(self, model: str, column: str) -> None:
        self.opened = saccade.open(model)
        self.column = column

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        found = self.opened.predict([str(text) for text in rows[self.column]])
        return {**rows, "answer": [answer.text for answer in found]}


def answer(model: str, table: Path, output: Path, column: str, workers: int) -> int:
    """Answer the rows of a table with so many workers, and return their number."""
    is_parquet = table.suffix == ".parquet" or (table.is_dir() and any(table.glob("*.parquet")))
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    rows = ray.data.read_parquet(str(table)) if is_parquet else ray.data.read_json(str(table), lines=True)
    answered = rows.repartition(target_num_rows_per_block=ROWS).map_batches(
        Answers,
        fn_constructor_args=(model, column),
        batch_size=ROWS,
        concurrency=workers,
        num_cpus=1,
        max_restarts=-1,
        max_task_retries=-1,
    )
    written = answered.materialize()
    if is_parquet:
        written.write_parquet(str(output))
    else:
        written.write_json(str(output))
    return int(written.count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder or a run folder")
    parser.add_argument("table", type=Path, help="a JSONL or Parquet file, or a folder of them")
    parser.add_argument("output", type=Path, help="folder for the answers")
    parser.add_argument("--column", default="text", help="the column with the inputs")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes in the whole cluster")
    options = parser.parse_args()
    ray.init()
    count = answer(options.model, options.table, options.output, options.column, options.workers)
    print(f"{count:,} rows answered; the answers are in {options.output}.")


if __name__ == "__main__":
    main()
