"""Compares the default tagger with a CRF tagger (sklearn-crfsuite) on chunks: columns of words, tags and BIO labels.

pip install -c constraints.txt sklearn-crfsuite
SACCADE_DATA=... python benchmarks/chunking.py --minutes 10

No chunked corpus may be copied freely, so the chunks are derived from the trees of English EWT: a noun phrase (NP) is a
noun, name or pronoun and what stands directly before it and depends on it; a verb phrase (VP) is a verb and its
auxiliaries and adverbs directly before it. Both taggers read the same three files, and both see the parts of speech.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import conllu
import sklearn_crfsuite

from saccade.data.tagged import read_tagged
from saccade.tasks.base.label_scores import span_f1

PARTS = {"train": "train", "dev": "valid", "test": "test"}
#: The kinds of words that head a chunk, and the relations of the words before them that belong to it.
CHUNKS = {
    "NP": ({"NOUN", "PROPN", "PRON"}, {"det", "amod", "compound", "nummod", "nmod:poss", "flat", "advmod"}),
    "VP": ({"VERB", "AUX"}, {"aux", "aux:pass", "cop", "advmod", "mark"}),
}


def chunk_labels(sentence: Any) -> list[str]:
    """Return the BIO label of each word of a tree."""
    words = [word for word in sentence if isinstance(word["id"], int)]
    labels = ["O"] * len(words)
    for end in reversed(range(len(words))):
        kind = next((name for name, (heads, _) in CHUNKS.items() if words[end]["upos"] in heads), None)
        if kind is None or labels[end] != "O":
            continue
        start = end
        inside = {words[end]["id"]}
        while start > 0 and words[start - 1]["deprel"] in CHUNKS[kind][1] and words[start - 1]["head"] in inside:
            start -= 1
            inside.add(words[start]["id"])
        labels[start : end + 1] = [f"B-{kind}", *[f"I-{kind}"] * (end - start)]
    return labels


def write_columns(folder: Path) -> None:
    for part, name in PARTS.items():
        source = Path(os.environ["SACCADE_DATA"]) / f"ud_english_ewt/en_ewt-ud-{part}.conllu"
        with (folder / f"{name}.txt").open("w", encoding="utf-8") as file:
            for sentence in conllu.parse(source.read_text(encoding="utf-8")):
                words = [word for word in sentence if isinstance(word["id"], int)]
                for word, label in zip(words, chunk_labels(sentence), strict=True):
                    file.write(f"{word['form']}\t{word['upos']}\t{label}\n")
                file.write("\n")


def features(words: Sequence[str], tags: Sequence[str]) -> list[dict[str, str | bool]]:
    """Return the usual features of each word: it and its neighbours, their shapes, parts of speech, and endings."""
    found: list[dict[str, str | bool]] = []
    for place in range(len(words)):
        row: dict[str, str | bool] = {"bias": True}
        for offset in (-2, -1, 0, 1, 2):
            if not 0 <= place + offset < len(words):
                row[f"{offset}:edge"] = True
                continue
            word, tag = words[place + offset], tags[place + offset]
            row |= {f"{offset}:word": word.lower(), f"{offset}:tag": tag}
            row |= {f"{offset}:title": word.istitle(), f"{offset}:upper": word.isupper()}
        row |= {"ending": words[place][-3:], "short ending": words[place][-2:], "digit": words[place].isdigit()}
        found.append(row)
    return found


def crf_score(folder: Path) -> tuple[float, float]:
    """Return the F1 of spans of a CRF on the test file, and the seconds that it took."""
    began, data = time.monotonic(), {}
    for name in ("train", "test"):
        sentences = read_tagged(folder / f"{name}.txt", "0", "2", feature_columns=["1"])[0]
        inputs = [features(one.words, [tag for (tag,) in one.features]) for one in sentences]
        data[name] = inputs, [list(one.labels) for one in sentences]
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    crf.fit(*data["train"])
    return 100 * span_f1(data["test"][1], crf.predict(data["test"][0])), time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="time for our tagger")
    parser.add_argument("--output", type=Path, help="folder for the files and the run, kept")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = given.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_columns(folder)
        files = [option for name in PARTS.values() for option in ("--data", str(folder / f"{name}.txt"))]
        command = [sys.executable, "-m", "saccade", "train", "--task", "tagging", *files, "--columns", "0,2,1"]
        command += ["-o", str(folder / "run"), "--minutes", f"{given.minutes:g}"]
        print(shlex.join(command), flush=True)
        subprocess.run(command, check=True)
        score, seconds = crf_score(folder)
        print(f"CRF on the same test file: span F1 {score:.2f} in {seconds:.0f} s")


if __name__ == "__main__":
    main()
