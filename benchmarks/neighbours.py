"""Counts how many of the 10 nearest words of ten animals are animals (lecture 004: animals agglomerate).

python benchmarks/neighbours.py runs/demo runs/grammar-masked             vectors that models learned
python benchmarks/neighbours.py --counts grammar $SACCADE_DATA/multi30k/train.en   what the texts themselves have

With ``--counts``, no network is involved: the vector of a word comes from the positive mutual information of the words
around it, reduced to 50 numbers by its largest singular vectors.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saccade.data.grammar import generate
from saccade.data.grammar.lexicon import NOUNS

ASKED = ("dog", "cat", "horse", "cow", "lion", "bird", "mouse", "rabbit", "snake", "bear")
#: Animals of the built-in corpus, singular and plural, and some more that real texts have.
ANIMALS = {form for kind in ("animal", "prey") for noun in NOUNS[kind] for form in (noun.english, noun.english_plural)}
ANIMALS |= {"pig", "pigs", "sheep", "puppy", "puppies", "fish", "monkey", "donkey", "bull", "camel", "tiger", "kitten"}
WIDTH, MOST_WORDS, LEAST_OFTEN = 50, 4000, 3


def counted_vectors(texts: Sequence[Sequence[str]], window: int) -> tuple[list[str], NDArray[np.float32]]:
    """The frequent words of these texts, and a vector of length 1 for each."""
    often = Counter(word for text in texts for word in text)
    words = [word for word, count in often.most_common() if count >= LEAST_OFTEN and word.isalpha()][:MOST_WORDS]
    number = {word: index for index, word in enumerate(words)}
    near = np.zeros((len(words), len(words)), dtype=np.float32)
    for text in texts:
        ids = [number.get(word, -1) for word in text]
        for place, one in enumerate(ids):
            around = ids[max(0, place - window) : place] + ids[place + 1 : place + window + 1]
            for other in around if one >= 0 else []:
                near[one, other] += other >= 0
    total, rows = near.sum(), near.sum(axis=1)
    smoothed = rows**0.75  # rare words would otherwise be overrated (Levy et al. 2015)
    expected = np.outer(rows, smoothed / smoothed.sum() * total)
    information = np.maximum(np.log(np.maximum(near * total / np.maximum(expected, 1e-9), 1e-12)), 0)
    left, sizes, _ = np.linalg.svd(information)
    vectors = left[:, :WIDTH] * np.sqrt(sizes[:WIDTH])
    return words, vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def report(name: str, words: Sequence[str], nearest: dict[str, list[str]]) -> None:
    found = [word in ANIMALS for near in nearest.values() for word in near]
    chance = sum(word in ANIMALS for word in words) / len(words)
    print(
        f"{name}: {100 * sum(found) / max(1, len(found)):.0f} % animals near {len(nearest)} animals, by chance "
        f"{100 * chance:.1f} %; dog: {', '.join(nearest.get('dog', ['unknown']))}",
        flush=True,
    )


def of_counts(source: str, window: int, count: int) -> None:
    if source == "grammar":
        texts = [[word.lower() for word in one.source] for one in generate(8000, 1)]
    else:
        lines = Path(source).read_text(encoding="utf-8").lower().splitlines()
        texts = [re.findall(r"[a-z]+|[^\sa-z]", line) for line in lines]
    words, vectors = counted_vectors(texts, window)
    number = {word: index for index, word in enumerate(words)}
    nearest = {}
    for word in (one for one in ASKED if one in number):
        order = np.argsort(-vectors @ vectors[number[word]], kind="stable")
        nearest[word] = [words[index] for index in order if index != number[word]][:count]
    report(f"{source}, {window} words on each side", words, nearest)


def of_model(folder: Path, embedding: str | None, count: int) -> None:
    from saccade.tasks.base.model_folder import read_bundle
    from saccade.tasks.base.word_vectors import word_vectors

    vectors = word_vectors(read_bundle(folder), embedding)
    known = [word for word in ASKED if len(vectors.ids(word)) == 1]
    nearest = {word: [one.word.strip("▁ ").lower() for one in vectors.neighbours(word, count)] for word in known}
    everything = [one.word.strip("▁ ").lower() for one in vectors.neighbours(known[0], 10**9)]
    report(str(folder), everything, nearest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="+", help="model folders or, with --counts, text files or the word grammar")
    parser.add_argument("--counts", action="store_true", help="count words of texts instead of opening models")
    parser.add_argument("--window", type=int, default=2, help="with --counts, words on each side")
    parser.add_argument("--embedding", help="source, target, input, words or pieces; by default the first")
    parser.add_argument("--count", type=int, default=10, help="number of nearest words")
    options = parser.parse_args()
    for given in options.given:
        if options.counts:
            of_counts(given, options.window, options.count)
        else:
            of_model(Path(given), options.embedding, options.count)


if __name__ == "__main__":
    main()
