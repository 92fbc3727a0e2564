"""Does a head link a word to the one that decides it: a pronoun to its noun, "bank" to "river"?

The built-in corpus gives these links; the lectures (002, 003) draw them from a trained model. What is counted is the
simplest reading of an attention picture: the strongest link of the word's row. Many heads look at many places, so the
share of sentences in which *some* head is right is high by chance alone; it is reported together with that chance
level, and with the share of the one head that was best on other sentences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from saccade.data.grammar import Example
from saccade.errors import OptionError
from saccade.lens.view import View

__all__ = ["LinkShares", "link_shares"]

#: A function that reads a text and returns its attention.
Reading = Callable[[str], View]
#: "encoder.0.self:3" -> the word that its strongest link points to
Strongest = dict[str, int]


@dataclass(frozen=True)
class LinkShares:
    """In how many sentences with a link of one kind it is the strongest link of a head."""

    kind: str  # "pronoun" or "bank"
    sentences: int
    heads: int
    some: float  # share of sentences in which some head is right
    some_by_chance: float  # the same if every head chose a word at random
    best_head: str  # the head that is right most often on the sentences in ``choose``
    best: float  # its share on the sentences in ``judge``
    best_by_chance: float

    def __str__(self) -> str:
        return (
            f"{self.kind}: some head of {self.heads} links to the true word in {100 * self.some:.0f} % of "
            f"{self.sentences} sentences (chance {100 * self.some_by_chance:.0f} %); {self.best_head}, chosen on other "
            f"sentences, in {100 * self.best:.0f} % (chance {100 * self.best_by_chance:.0f} %)"
        )


def link_shares(read: Reading, kind: str, choose: Sequence[Example], judge: Sequence[Example]) -> LinkShares:
    """The shares on the sentences in ``judge``; the best head is the one that is right most often in ``choose``."""
    rights: Counter[str] = Counter()
    for strongest, true, _ in _links(read, kind, choose):
        rights.update(head for head, word in strongest.items() if word == true)
    found = list(_links(read, kind, judge))
    if not found or not rights:
        raise OptionError(f"There are no sentences with a link of kind {kind!r} to count.")
    best_head = rights.most_common(1)[0][0]
    heads = len(found[0][0])
    missed_by_chance = [math.prod([1 - 1 / words] * heads) for *_, words in found]
    return LinkShares(
        kind,
        len(found),
        heads,
        sum(true in strongest.values() for strongest, true, _ in found) / len(found),
        1 - sum(missed_by_chance) / len(found),
        best_head,
        sum(strongest[best_head] == true for strongest, true, _ in found) / len(found),
        sum(1 / words for *_, words in found) / len(found),
    )


def _links(read: Reading, kind: str, examples: Sequence[Example]) -> Iterator[tuple[Strongest, int, int]]:
    """For each link of this kind: where each head's strongest link points, the true word, and the number of words."""
    for example in examples:
        for link in example.links:
            if link.kind == kind:
                view = read(example.source_text)
                words = view.columns[view.names[0]].joined[: len(example.source)]
                if [word.lower() for word in words] != [word.lower() for word in example.source]:
                    raise OptionError(f"This model does not read the words {' '.join(example.source)} one by one.")
                yield _strongest(view, link.word), link.antecedent, len(view.columns[view.names[0]].joined)


def _strongest(view: View, row: int) -> Strongest:
    """The word that the strongest link of a row points to, in each head."""
    ends: Strongest = {}
    for name in view.names:
        weights = view.row(name, row, words=True)
        ends |= {f"{name}:{head}": int(end) for head, end in enumerate(weights.argmax(dim=1))}
    return ends
