"""Which head links a word to the one that decides it: counted on attentions whose links are known by construction."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import saccade
from from_benchmarks import link_shares
from saccade.data.grammar import Example, generate
from saccade.errors import OptionError


class Pointing(nn.Module):
    """One head of which each query looks at the position that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Identity()

    def forward(self, ends: Tensor) -> Tensor:
        positions = torch.eye(len(ends))
        query = 50.0 * positions[ends]
        return saccade.attend(query[None, None], positions[None, None], positions[None, None], owner=self.encoder)


def reading(examples: list[Example], kind: str, *, right: bool) -> object:
    by_text = {example.source_text: example for example in examples}

    def read(text: str) -> saccade.View:
        example = by_text[text]
        ends = torch.arange(len(example.source))  # every word looks at itself ...
        for link in example.links:
            if right and link.kind == kind:
                ends[link.word] = link.antecedent  # ... but for those that are decided by another
        model = Pointing()
        with saccade.watch(model) as seen:
            model(ends)
        return saccade.view(seen, list(example.source))

    return read


EXAMPLES = generate(60, 3, "train")


@pytest.mark.parametrize("kind", ["pronoun", "bank"])
def test_a_head_that_points_right_is_right_everywhere_and_chance_is_one_in_n(kind: str) -> None:
    found = link_shares(reading(EXAMPLES, kind, right=True), kind, EXAMPLES, EXAMPLES)  # type: ignore[arg-type]
    linked = [example for example in EXAMPLES for link in example.links if link.kind == kind]
    chance = sum(1 / len(example.source) for example in linked) / len(linked)
    assert (found.sentences, found.heads, found.some, found.best) == (len(linked), 1, 1.0, 1.0)
    assert found.best_head == "encoder:0"
    assert found.some_by_chance == pytest.approx(chance)
    assert found.best_by_chance == pytest.approx(chance)
    assert f"100 % of {len(linked)} sentences" in str(found)


def test_a_head_that_looks_elsewhere_is_never_right() -> None:
    choose = reading(EXAMPLES, "pronoun", right=True)
    others = generate(90, 5, "test")
    judge = reading(others, "pronoun", right=False)

    def read(text: str) -> saccade.View:
        known = any(example.source_text == text for example in EXAMPLES)
        return (choose if known else judge)(text)  # type: ignore[operator, no-any-return]

    found = link_shares(read, "pronoun", EXAMPLES, others)
    assert (found.some, found.best) == (0.0, 0.0)


def test_without_such_sentences_there_is_nothing_to_count() -> None:
    with pytest.raises(OptionError, match="no sentences with a link of kind 'ghost'"):
        link_shares(reading(EXAMPLES, "ghost", right=True), "ghost", EXAMPLES, EXAMPLES)  # type: ignore[arg-type]
