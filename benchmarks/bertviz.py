"""Compares our page of all heads with BertViz's, and measures what Saccade can show of an input that is too long for
both.

    python benchmarks/bertviz.py --bertviz /tmp/bertviz [--lengths 64 256 512] [--long 4096] [--json bertviz.json]

Both show the same model in transformers: BERT's base size (12 layers of 12 heads, width 768) with random weights,
reading random tokens. BertViz uses eager attention, which it needs; ours uses the fused kernel. Every figure comes
from a separate process with one thread: the processor time of the forward pass and of the work after it, and the peak
memory minus that of a process that has the same imports and only runs the fused forward pass. The forward pass is the
first in its process, so it is slower than later ones would be.

BertViz is installed into the folder ``--bertviz`` if it is missing, without its dependencies, because torch and
transformers are already installed. It also imports IPython, which is installed into the same folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# A process inherits the peak memory of the one that starts it, so torch and other large packages are imported only in
# the measured processes.

EXAMPLE = "example: python benchmarks/bertviz.py --bertviz /tmp/bertviz --lengths 64 256 --json bertviz.json"
LAYERS, HEADS = 12, 12
#: A factor for the query and key weights of every layer. Without it, the attention weights of a head would be
#: nearly equal and compress too well; with it, scores have a standard deviation of about 2.
SHARPER = 2.5
#: The attention to show where one is enough.
NAME, HEAD = "encoder.layer.5.attention.self", 3
TILE = slice(3000, 3256), slice(1000, 1256)


@dataclass
class Measured:
    """What one process reports."""

    forward: float = 0.0  # seconds
    seconds: dict[str, float] = field(default_factory=dict)  # of each step after it
    peak: int = 0  # bytes
    size: int = 0  # bytes of the file
    about: str = ""

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        start = time.process_time()  # processor time of the one thread, whatever else the machine does
        yield
        self.seconds[what] = time.process_time() - start


# --- in the measured process ------------------------------------------------------------------------------------


def prepared(length: int, attention: str) -> tuple[Any, dict[str, Any], list[str]]:
    """The model, its inputs, and their tokens."""
    import torch
    from transformers import BertConfig, BertModel

    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = BertConfig(
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=max(512, length),
        attn_implementation=attention,
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.self.query.weight.mul_(SHARPER)
            layer.attention.self.key.weight.mul_(SHARPER)
    ids = torch.randint(config.vocab_size, (1, length))
    return model, {"input_ids": ids}, [f"t{number}" for number in ids[0].tolist()]


def bare(length: int, file: Path, measured: Measured) -> None:
    """Run the fused forward pass and keep nothing."""
    import torch

    model, inputs, _ = prepared(length, "sdpa")
    with torch.no_grad(), measured.timed("forward"):
        model(**inputs)


def bare_beside_ours(length: int, file: Path, measured: Measured) -> None:
    import saccade  # noqa: F401

    bare(length, file, measured)


def bare_beside_theirs(length: int, file: Path, measured: Measured) -> None:
    import bertviz  # noqa: F401

    bare(length, file, measured)


def their_view(kind: str) -> Callable[[int, Path, Measured], None]:
    def run(length: int, file: Path, measured: Measured) -> None:
        import bertviz
        import torch

        model, inputs, tokens = prepared(length, "eager")
        with torch.no_grad(), measured.timed("forward"):
            outputs = model(**inputs, output_attentions=True)
        with measured.timed("page"):
            page = getattr(bertviz, kind)(outputs.attentions, tokens, html_action="return")
            file.write_text(page.data, encoding="utf-8")
        measured.about = "every digit"

    return run


def watched(length: int, measured: Measured) -> Any:
    """Our view of the same model."""
    import torch

    import saccade

    model, inputs, tokens = prepared(length, "sdpa")
    with torch.no_grad(), measured.timed("forward"), saccade.watch(model) as seen:
        model(**inputs)
    return saccade.view(seen, tokens)


def precision(page: str) -> str:
    """The precision with which our page stores weights, as the page itself states."""
    found = re.search(r'"step":(null|[\d.e-]+)', page)
    assert found, "a page of ours tells its step"
    return "float32" if found[1] == "null" else f"within {float(found[1]) / 2:.6f}".rstrip("0")


def our_page(length: int, file: Path, measured: Measured) -> None:
    view = watched(length, measured)
    with measured.timed("page"):
        view.save(file)
    measured.about = precision(file.read_text(encoding="utf-8"))


def our_page_of_one_head(length: int, file: Path, measured: Measured) -> None:
    view = watched(length, measured)
    with measured.timed("page"):
        view.save(file, names=[NAME], heads=[HEAD])
    measured.about = precision(file.read_text(encoding="utf-8"))


def our_look(length: int, file: Path, measured: Measured) -> None:
    """What a user would want of a long input: some numbers, then a picture."""
    view = watched(length, measured)
    with measured.timed("tile"):
        tile = view.tile(NAME, HEAD, *TILE)
    with measured.timed("top"):
        best = view.top(NAME, length - 1, k=5, head=HEAD)
    with measured.timed("overview"):
        view.save(file.with_suffix(".png"), "heatmap", name=NAME, head=HEAD)
    file.with_suffix(".png").rename(file)
    measured.about = f"largest of the tile {float(tile.max()):.4f}, strongest link {best[0].weight:.4f}"


def opened(length: int, file: Path, measured: Measured) -> None:
    """Elapsed seconds until Chromium, already started and offline, shows the map and the grid of our page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True).new_page()
        start = time.perf_counter()
        page.goto(file.as_uri(), timeout=600_000)
        page.wait_for_selector("html[data-ready]", timeout=600_000)
        measured.seconds["map"] = time.perf_counter() - start
        page.wait_for_selector("#grid[data-ready]", timeout=600_000)
        measured.seconds["grid"] = time.perf_counter() - start
        browser.close()


JOBS: dict[str, Callable[[int, Path, Measured], None]] = {
    "bare beside ours": bare_beside_ours,
    "bare beside theirs": bare_beside_theirs,
    "head_view": their_view("head_view"),
    "model_view": their_view("model_view"),
    "saccade": our_page,
    "one head": our_page_of_one_head,
    "look": our_look,
    "open": opened,
}


def be_measured(job: str, length: int, file: Path, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    measured = Measured()
    try:
        JOBS[job](length, file, measured)
    except MemoryError:
        measured.about = f"needs more than {limit / 1e9:.0f} GB"
    measured.forward = measured.seconds.pop("forward", 0.0)
    measured.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    measured.size = file.stat().st_size if file.exists() else 0
    print(json.dumps(asdict(measured)))


# --- in the main process ----------------------------------------------------------------------------------------


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def install(folder: Path) -> None:
    """Install BertViz and IPython, but never torch, which is already installed."""
    if (folder / "bertviz").is_dir() and (folder / "IPython").is_dir():
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*pip, "--no-deps", "bertviz"], check=True)
    subprocess.run([*pip, "ipython"], check=True)
    assert not (folder / "torch").exists(), "torch was installed again"


@dataclass(frozen=True)
class Measurer:
    """Run a job in a separate process."""

    packages: Path
    limit: int
    console: Console

    def __call__(self, job: str, length: int, file: Path) -> Measured:
        # -P keeps this file's folder off the module path; otherwise ``import bertviz`` would find this file.
        command = [sys.executable, "-P", __file__, "--bertviz", str(self.packages), "--memory", str(self.limit)]
        with self.console.status(f"{job}, {length:,} tokens"):
            done = subprocess.run(
                [*command, "--job", job, str(length), str(file)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                check=False,
            )
        if done.returncode:
            return Measured(about=f"ended with {done.returncode}")
        return Measured(**json.loads(done.stdout.splitlines()[-1]))


def pages(lengths: Sequence[int], measure: Measurer, folder: Path) -> list[dict[str, Any]]:
    """Measure one page with all heads, by both."""
    rows = []
    for length in lengths:
        peaks = {whose: measure(f"bare beside {whose}", length, folder / "none") for whose in ("ours", "theirs")}
        for job, whose in (("head_view", "theirs"), ("model_view", "theirs"), ("saccade", "ours")):
            file = folder / f"{job}-{length}.html"
            rows.append(_row(job, length, measure(job, length, file), peaks[whose]))
            if job != "saccade":
                file.unlink(missing_ok=True)
    return rows


def long_input(length: int, measure: Measurer, folder: Path) -> list[dict[str, Any]]:
    """Measure what we can show if a page of all heads is impossible."""
    without = measure("bare beside ours", length, folder / "none")
    files = {"look": folder / "look.png", "one head": folder / f"one-head-{length}.html"}
    return [_row(job, length, measure(job, length, file), without) for job, file in files.items()]


def _row(job: str, length: int, measured: Measured, without: Measured) -> dict[str, Any]:
    return {
        "what": job,
        "tokens": length,
        "bare_forward_seconds": without.forward,
        "forward_seconds": measured.forward,
        "seconds": measured.seconds,
        "bytes_beyond_forward": max(0, measured.peak - without.peak),
        "file_bytes": measured.size,
        "about": measured.about,
    }


def pages_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"One page of all {LAYERS * HEADS} heads; memory in addition to that of the fused forward pass")
    for heading in ("tokens", "page", "fused forward, s", "forward, s", "page, s", "memory, MB", "file, MB", "weights"):
        table.add_column(heading, justify="left" if heading in ("page", "weights") else "right")
    for row in rows:
        table.add_row(
            f"{row['tokens']:,}",
            row["what"],
            f"{row['bare_forward_seconds']:.2f}",
            f"{row['forward_seconds']:.2f}",
            *(f"{row['seconds']['page']:.1f}" if "page" in row["seconds"] else "-",),
            *(f"{row[key] / 1e6:,.1f}" for key in ("bytes_beyond_forward", "file_bytes")),
            row["about"],
        )
    return table


def long_table(rows: Sequence[dict[str, Any]]) -> Table:
    length = rows[0]["tokens"]
    weights = LAYERS * HEADS * length**2 * 4
    table = Table(
        "what is shown",
        "seconds",
        "memory, MB",
        "file, MB",
        title=f"{length:,} tokens; the weights of all heads would be {weights / 1e9:.1f} GB (computed, not measured)",
    )
    table.add_row("fused forward, not watched", f"{rows[0]['bare_forward_seconds']:.2f}", "0", "")
    for row in rows:
        for what, seconds in {f"{row['what']}: watched forward": row["forward_seconds"], **row["seconds"]}.items():
            table.add_row(what, f"{seconds:.3f}", "", "")
        numbers = (f"{row[key] / 1e6:,.1f}" for key in ("bytes_beyond_forward", "file_bytes"))
        table.add_row(f"  together ({row['about']})", "", *numbers)
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare our page of all heads with BertViz's, and measure one long input.", epilog=EXAMPLE
    )
    parser.add_argument(
        "--bertviz", type=Path, required=True, help="folder of BertViz, which is installed there if missing"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 512], help="number of tokens of each page")
    parser.add_argument(
        "--long", type=int, default=4096, help="number of tokens of the long input, at least 3,256, or 0 for none"
    )
    parser.add_argument("--memory", type=int, default=12 * 10**9, help="memory limit of a process, in bytes")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--keep", type=Path, help="folder in which to keep our pages and pictures")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)  # for the measured process
    options = parser.parse_args()
    if 0 < options.long < TILE[0].stop:
        parser.error(f"--long takes at least {TILE[0].stop:,} tokens, or 0 for none; not {options.long}")
    return options


def main() -> None:
    options = arguments()
    if options.job is not None:
        sys.path.append(str(options.bertviz.resolve()))
        job, length, file = options.job
        be_measured(job, int(length), Path(file), options.memory)
        return
    install(options.bertviz)
    console, results = Console(width=120), dict[str, Any]()
    measure = Measurer(options.bertviz, options.memory, Console(stderr=True))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        results["pages"] = pages(options.lengths, measure, folder)
        console.print(pages_table(results["pages"]))
        if chromium() is not None:
            longest = max(options.lengths)
            results["opened"] = measure("open", longest, folder / f"saccade-{longest}.html").seconds
            console.print(f"Chromium opens our page of {longest:,} tokens, in seconds: {results['opened']}")
        if options.long:
            results["long"] = long_input(options.long, measure, folder)
            console.print(long_table(results["long"]))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
