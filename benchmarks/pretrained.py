"""Models of other libraries: how fast a folder opens, how fast a GPT-2 writes, and how fast ONNX Runtime encodes.

    python benchmarks/pretrained.py open --folder ~/models/minilm
    python benchmarks/pretrained.py generate
    python benchmarks/pretrained.py encode --folder ~/models/minilm --texts sentences.txt
    python benchmarks/pretrained.py tag --folder runs/ewt-minilm --texts en_ewt-ud-test.conllu

open: `saccade.open(folder)` against `AutoTokenizer` and `AutoModel` of transformers, in one process, after all imports.
generate: greedy continuation of a prompt by a GPT-2 with random weights, by Saccade and by `generate` of transformers
with its cache. encode: the vectors of a sentence encoder, in padded batches, by torch and by ONNX Runtime with the
graph that `saccade export --to onnx` writes; both get the same tensors. The ratios depend on the length of the texts.
It also measures `predict` for one text at a time, and `--engine onnx` against torch, from texts to vectors. tag: the
labels of words by a tagger, by torch and by `--engine onnx`, in padded batches and with `predict`. Everything runs in
one thread. Each round measures both, in random order, in processor time; the figures are the median, smallest
and largest ratio.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from translation_timing import median_and_range

import saccade
from saccade.text import pad

PROMPT, TOKENS = list(range(1, 9)), 100


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def ratios(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> list[float]:
    """How many times as fast ours is, in each round."""
    found = []
    for one in (ours, theirs):  # once, so that one-time costs are not measured
        one()
    for _ in range(rounds):
        times = {one: seconds(one) for one in random.sample([ours, theirs], 2)}
        found.append(times[theirs] / times[ours])
    return found


def opening(folder: Path, rounds: int) -> None:
    import transformers

    def theirs() -> None:
        transformers.AutoTokenizer.from_pretrained(folder)
        transformers.AutoModel.from_pretrained(folder)

    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    found = [1 / ratio for ratio in ratios(lambda: saccade.open(folder), theirs, rounds)]
    print(f"opening {size / 1e6:.0f} MB: time / transformers {median_and_range(found)}")


def generating(rounds: int) -> None:
    for sizes in ((4, 128, 4, 5000), (6, 384, 6, 5000)):
        with tempfile.TemporaryDirectory() as folder:
            home, opened = random_gpt2(Path(folder), *sizes)
            ours, theirs = partial(continued, opened), partial(continued_at_home, home)
            same = ours() == theirs()
            found = ratios(ours, theirs, rounds)
        what = f"generating, {sizes[0]} layers of width {sizes[1]}"
        print(f"{what}: speed / transformers {median_and_range(found)}, same tokens: {same}")


def random_gpt2(folder: Path, layers: int, width: int, heads: int, vocabulary: int) -> tuple[Any, Any]:
    """A GPT-2 with random weights in transformers, and the same opened by Saccade."""
    import transformers

    torch.manual_seed(0)
    sizes: Any = {"n_layer": layers, "n_embd": width, "n_head": heads, "vocab_size": vocabulary, "n_positions": 256}
    ids: Any = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    network: Any = transformers.GPT2LMHeadModel
    home = network(transformers.GPT2Config(**sizes, **ids)).eval()
    home.save_pretrained(folder)
    opened = saccade.open(folder)
    opened.is_exclusive = True  # as in the command line
    return home, opened


def continued(opened: Any) -> list[int]:
    (answer,) = opened.predict([" ".join(map(str, PROMPT))], sample=False, max_tokens=TOKENS)
    found: list[int] = answer.ids
    return found


@torch.inference_mode()
def continued_at_home(home: Any) -> list[int]:
    given = torch.tensor([PROMPT])
    written = home.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=TOKENS, do_sample=False, pad_token_id=0
    )
    found: list[int] = written[0, len(PROMPT) :].tolist()
    return found


def encoding(folder: Path, path: Path, rounds: int) -> None:
    import onnxruntime

    from saccade.tasks.base.exporting import export

    texts = [line.split(" ", 1)[-1] for line in path.read_text(encoding="utf-8").splitlines()[:128]]
    opened = saccade.open(folder)
    tokenizer: Any = opened.task.state.vocabularies()["tokenizer"]
    rows = sorted((tokenizer.framed(ids) for ids in tokenizer.encode_ids(texts)), key=len)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as temporary:
        export(folder, "onnx", Path(temporary) / "out", texts[:3])
        (graph,) = (Path(temporary) / "out").glob("*.onnx")
        session = onnxruntime.InferenceSession(graph, settings)
        names = [one.name for one in session.get_inputs()]
        for size in (1, 8, 32):
            count = 64 if size == 1 else len(rows)
            batches = [pad(rows[start : start + size]) for start in range(0, count, size)]
            given = [dict(zip(names, (one.numpy() for one in batch), strict=False)) for batch in batches]
            found = ratios(partial(run_graph, session, given), partial(run_network, opened.model, batches), rounds)
            print(f"encoding, {size} at once: speed of ONNX Runtime / torch {median_and_range(found)}")
    predicting(opened, sorted(texts, key=len)[:64], rounds)
    both_predict(opened, saccade.open(folder, engine="onnx"), texts, rounds)


def tagging(folder: Path, path: Path, rounds: int) -> None:
    opened, fast = saccade.open(folder), saccade.open(folder, engine="onnx")
    inputs = opened.read_file(path)[0][:128]
    rows = sorted((opened.prepare(one) for one in inputs), key=lambda one: len(one.words))
    print(f"median number of words: {len(rows[len(rows) // 2].words)}")
    for size in (1, 8, 32):
        chosen = rows[::2] if size == 1 else rows
        batches = [opened.task.plain_batch(chosen[start : start + size]) for start in range(0, len(chosen), size)]
        run = partial(run_tagger, opened.task, batches)
        found = ratios(partial(run, fast.engine), partial(run, opened.model), rounds)
        print(f"tagging, {size} at once: speed of ONNX Runtime / torch {median_and_range(found)}")
    both_predict(opened, fast, inputs, rounds)


@torch.inference_mode()
def run_tagger(task: Any, batches: Any, network: Any) -> None:
    for batch in batches:
        task.logits(network, batch)


def both_predict(opened: Any, fast: Any, texts: list[Any], rounds: int) -> None:
    opened.is_exclusive = fast.is_exclusive = True
    each = {"one at a time": [[text] for text in texts[:64]], "all at once": [texts]}
    for how, parts in each.items():
        found = ratios(partial(predicted, fast, parts), partial(predicted, opened, parts), rounds)
        print(f"predict, {how}: speed of --engine onnx / torch {median_and_range(found)}")


def predicted(opened: Any, parts: list[list[Any]]) -> None:
    for part in parts:
        opened.predict(part)


def predicting(opened: Any, texts: list[str], rounds: int) -> None:
    """The milliseconds that one text takes from Python, and in the command line, where no code changes the weights."""
    for where, is_exclusive in (("from Python", False), ("in the command line", True)):
        opened.is_exclusive = is_exclusive
        opened.predict(texts[:1])
        found = [1000 * seconds(lambda: [opened.predict([text]) for text in texts]) / len(texts) for _ in range(rounds)]
        print(f"predicting one text {where}: milliseconds {median_and_range(found)}")


@torch.inference_mode()
def run_network(model: Any, batches: Any) -> None:
    for tokens, lengths in batches:
        model(tokens, lengths)


def run_graph(session: Any, given: Any) -> None:
    for one in given:
        session.run(None, one)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure models of other libraries.")
    parser.add_argument("what", choices=("open", "generate", "encode", "tag"))
    parser.add_argument("--folder", type=Path, help="a sentence encoder, for open and encode, or a tagger")
    parser.add_argument(
        "--texts",
        type=Path,
        help="for encode, a file with a label, a space and a text per line; for tag, a file that the model reads",
    )
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    if options.what == "open":
        opening(options.folder, options.rounds)
    elif options.what == "generate":
        generating(options.rounds)
    elif options.what == "encode":
        encoding(options.folder, options.texts, options.rounds)
    else:
        tagging(options.folder, options.texts, options.rounds)


if __name__ == "__main__":
    main()
