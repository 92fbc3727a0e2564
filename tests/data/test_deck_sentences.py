"""Sentences like those of the lectures: right French, true links, and the lectures' own never in training."""

from __future__ import annotations

import pytest

from saccade.data.deck_sentences import OWN, deck_sentences
from saccade.errors import OptionError

TRANSLATED = {
    "The agreement on the European Economic Area was signed in August 1992.": (
        "L'accord sur la zone économique européenne a été signé en août 1992."
    ),
    "The animal didn't cross the street because it was too tired.": (
        "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    ),
    "Fatima accepted a job in deep learning because she loves the topic.": (
        "Fatima a accepté un poste en apprentissage profond parce qu'elle aime le sujet."
    ),
}
PARTS = [deck_sentences(400, 3, split) for split in ("train", "validation", "test")]


def test_the_sentences_of_the_lectures_come_first_in_the_test_split_and_nowhere_else() -> None:
    assert {example.source_text: example.target_text for example in PARTS[2][: len(OWN)]} == TRANSLATED
    texts = [{example.source_text for example in part} for part in PARTS]
    assert [len(part) for part in texts] == [400, 400, 400]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]


def test_words_of_another_order_are_linked() -> None:
    example = PARTS[2][0]
    linked = {(example.source[source], example.target[target]) for source, target in example.alignment}
    assert {("European", "européenne"), ("Economic", "économique"), ("Area", "zone"), ("was", "été")} <= linked
    assert ("European", "zone") not in linked


@pytest.mark.parametrize("part", PARTS)
def test_it_has_the_gender_of_what_it_refers_to(part: list) -> None:
    for example in (one for one in part if one.kind == "animal"):
        (link,) = example.links
        assert example.source[link.word] == "it"
        noun = next(example.target[target] for source, target in example.alignment if source == link.antecedent)
        feminine = noun in {"vache", "poule", "chèvre", "rue", "rivière", "route"}
        assert ("elle" in example.target) == feminine, example.target_text


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(OptionError, match="must be 0 or more, not -1"):
        deck_sentences(-1, 0)
