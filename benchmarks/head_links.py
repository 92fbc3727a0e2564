"""Measure how often an attention head links a word to the word that decides its meaning: a pronoun to its noun, "bank"
to "river".

In the built-in corpus these links are known; lectures 002 and 003 show them in a trained model. A head is right if the
largest weight in the word's row is at the linked word. Because there are many heads, the fraction of sentences in which
*some* head is right is high by chance alone. So it is reported together with the fraction that heads which look at
random words would reach, and with the fraction for a single head: the one that was right most often on other sentences.
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

#: A function that views the attention of a model as it reads a text.
ViewText = Callable[[str], View]
#: The word with the strongest weight, for each head: "encoder.0.self:3" -> word
Strongest = dict[str, int]


@dataclass(frozen=True)
class LinkShares:
    """In which fraction of the sentences that have a link of one kind some head finds the link, and in which fraction
    the best head does."""

    kind: str  # "pronoun" or "bank"
    sentences: int
    heads: int
    some: float  # the fraction of sentences in which some head is right
    some_by_chance: float  # the same fraction if every head chose a word at random
    best_head: str  # the head that is right most often on the sentences in ``choose``
    best: float  # the fraction of sentences in ``judge`` in which this head is right
    best_by_chance: float

    def __str__(self) -> str:
        return (
            f"{self.kind}: at least one of {self.heads} heads links to the true word in {100 * self.some:.0f} % of "
            f"{self.sentences} sentences (chance {100 * self.some_by_chance:.0f} %); the head {self.best_head}, chosen "
            f"on other sentences, does in {100 * self.best:.0f} % (chance {100 * self.best_by_chance:.0f} %)"
        )


def link_shares(read: ViewText, kind: str, choose: Sequence[Example], judge: Sequence[Example]) -> LinkShares:
    """Return the fractions of the sentences in ``judge`` in which some head, and the best head, finds the link. The
    best head is the one that is right most often on the sentences in ``choose``."""
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


def _links(read: ViewText, kind: str, examples: Sequence[Example]) -> Iterator[tuple[Strongest, int, int]]:
    """Yield, for each link of this kind, the strongest word in each head, the true word, and the number of words."""
    for example in examples:
        for link in example.links:
            if link.kind == kind:
                view = read(example.source_text)
                words = view.columns[view.names[0]].joined[: len(example.source)]
                if [word.lower() for word in words] != [word.lower() for word in example.source]:
                    raise OptionError(
                        f"This model splits {example.source_text!r} into other words than the built-in corpus does, so "
                        f"its heads cannot be compared with the true links."
                    )
                strongest: Strongest = {}
                for name in view.names:
                    best = view.row(name, link.word, words=True).argmax(dim=1)
                    strongest |= {f"{name}:{head}": int(word) for head, word in enumerate(best)}
                yield strongest, link.antecedent, len(view.columns[view.names[0]].joined)
