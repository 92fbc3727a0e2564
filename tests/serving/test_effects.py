"""What an answer depends on: words left out one by one, and the link that a page opens with."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from servers import Running, events, post

from saccade.serving import effects

SENTENCE = "the black cat sees the dog."


def test_each_word_is_left_out_once(running: Running) -> None:
    first, *rest = events(running.client, "/api/models/tiny/effects", input=SENTENCE)
    predictor = running.models["tiny"].predictor
    answer = predictor.best_answer(SENTENCE)
    assert first["of"] == 6
    assert first["answer"] == answer.text
    assert first["before"] == pytest.approx(sum(predictor.token_scores(SENTENCE, answer)), rel=1e-6)
    assert [(one["number"], one["word"]) for one in rest] == list(enumerate(SENTENCE.strip(".").split()))
    without = sum(predictor.token_scores("the cat sees the dog.", answer))
    assert rest[1]["after"] == pytest.approx(without, rel=1e-6)
    without = sum(predictor.token_scores("the black cat sees the.", answer))
    assert rest[5]["after"] == pytest.approx(without, rel=1e-6)


def test_what_cannot_be_left_out_is_a_sentence(running: Running) -> None:
    *_, last = events(running.client, "/api/models/tagger/effects", input=SENTENCE)
    assert "no word can be left out" in last["error"]
    refused = running.client.post("/api/models/shapes/effects", json={"input": {"sample": 1}})
    assert refused.status_code == 400
    assert "This model does not take texts" in refused.json()["error"]


def test_the_link_of_an_opening_changes_the_answer(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "_STRONGEST", 30)  # a small model hangs on no link as the demo does: all are tried
    monkeypatch.setattr(effects, "_MOST_CUTS", 300)
    predictor, options = running.models["tiny"].predictor, {"beam": 2}
    texts = [SENTENCE, "the white dog sees the black cat.", "the cat sleeps."]
    search = effects.find_opening(predictor, texts, options)
    found: Any = None
    try:
        while True:
            next(search)
    except StopIteration as end:
        found = end.value
    assert found is not None
    words = predictor.view_of(found["input"], predictor.best_answer(found["input"])).columns[found["name"]].words
    row, column = ([place for place, word in enumerate(words) if word == found[side]] for side in ("row", "column"))
    links = [(found["name"], one, other) for one in row for other in column]
    assert not predictor.compare(found["input"], without_links=links, **options).is_same


def test_a_model_without_examples_or_attention_has_no_opening(client: httpx.Client) -> None:
    assert post(client, "/api/models/back/opening") is None
    assert post(client, "/api/models/shapes/opening") is None
    assert post(client, "/api/models/paths/opening") is None
    post(client, "/api/models/pairs/opening")  # its examples are sequences, which are not texts to the model


def test_a_file_is_read_though_the_recipe_names_none(client: httpx.Client) -> None:
    for content in (b"GGGAAAACCC\nGGAAACC\n", b">one\nGGGAAAACCC\n>two\nGGAAACC\n"):
        answer = client.post("/api/models/pairs/file", content=content)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["answers"]) == 2


def test_others_have_their_turn_while_an_opening_is_searched(running: Running) -> None:
    """It yields between answers, outside of the edit, which would change the answers of others."""
    predictor = running.models["tiny"].predictor
    expected = predictor.best_answer(SENTENCE).text
    steps = 0
    for _ in effects.find_opening(predictor, [SENTENCE, "the cat sleeps."], {}):
        assert predictor.best_answer(SENTENCE).text == expected
        steps += 1
    assert steps >= 2


@pytest.mark.parametrize("name", ["tiny", "shapes"])
def test_an_opening_has_the_options_of_the_model(name: str, client: httpx.Client) -> None:
    refused = client.post(f"/api/models/{name}/opening", json={"options": {"beams": 3}})
    assert refused.status_code == 400, refused.text
    assert "beams" in refused.json()["error"]


def test_words_that_a_model_does_not_know_are_told_with_its_answer(client: httpx.Client) -> None:
    look = post(client, "/api/models/back/looks", input="chat zebra")
    assert look["unknown"] == ["zebra"]
