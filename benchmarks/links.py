"""Finds the heads that link a pronoun to its noun, and "bank" to the word that decides its meaning.

python benchmarks/links.py runs/demo
"""

from __future__ import annotations

import argparse

import saccade
from saccade.data.grammar import generate
from saccade.tasks.translation.head_links import link_shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder whose encoder reads English sentences, such as runs/demo")
    parser.add_argument(
        "--sentences", type=int, default=2000, help="number of sentences from the grammar, for each part"
    )
    options = parser.parse_args()
    opened = saccade.open(options.model)
    choose, judge = generate(options.sentences, 11, "train"), generate(options.sentences, 12, "test")
    for kind in ("pronoun", "bank"):
        print(link_shares(opened.view_input, kind, choose, judge))


if __name__ == "__main__":
    main()
