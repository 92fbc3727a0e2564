"""The interface of LibreTranslate: its own clients unchanged, and every form of a request."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import httpx
import pytest
from deep_translator import LibreTranslator  # type: ignore[import-not-found, import-untyped, unused-ignore]
from libretranslatepy import LibreTranslateAPI  # type: ignore[import-not-found, import-untyped, unused-ignore]
from servers import Runner, Running

from saccade.serving import Limits, Models
from saccade.serving.compat.languages import Detector
from saccade.serving.compat.segments import segment_html, segment_text

ENGLISH, FRENCH = "the black cat sees the dog.", "le chat noir voit le chien."


def test_libretranslatepy(running: Running) -> None:
    api = LibreTranslateAPI(running.url)
    assert api.translate(ENGLISH, "en", "fr") == FRENCH
    assert api.languages() == [
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
    ]
    found = api.detect("le chien mange le poisson.")
    assert found[0]["language"] == "fr"
    assert 50 < found[0]["confidence"] <= 100


def test_deep_translator(running: Running) -> None:
    asked = LibreTranslator(source="en", target="fr", custom_url=f"{running.url}/", api_key="any")
    assert asked.translate(ENGLISH) == FRENCH
    assert asked.translate_batch([ENGLISH, "the dog eats the fish."]) == [FRENCH, "le chien mange le poisson."]


FORMS: dict[str, dict[str, Any]] = {
    "json": {"json": {"q": ENGLISH, "source": "en", "target": "fr"}},
    "form": {"data": {"q": ENGLISH, "source": "en", "target": "fr"}},
    "query": {"params": {"q": ENGLISH, "source": "en", "target": "fr"}},
    "multipart": {"files": {key: (None, text) for key, text in (("q", ENGLISH), ("source", "en"), ("target", "fr"))}},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_request(form: str, client: httpx.Client) -> None:
    answer = client.post("/translate", **FORMS[form])
    assert (answer.status_code, answer.json()) == (200, {"translatedText": FRENCH})


def test_several_texts_in_an_unknown_language(client: httpx.Client) -> None:
    answer = client.post("/translate", json={"q": [ENGLISH, ENGLISH], "source": "auto", "target": "fr"}).json()
    assert answer["translatedText"] == [FRENCH, FRENCH]
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "en"]
    assert "alternatives" not in answer
    alone = client.post("/translate", json={"q": ENGLISH, "source": "auto", "target": "fr"}).json()
    assert alone["detectedLanguage"]["language"] == "en"


def test_alternatives_are_others(client: httpx.Client) -> None:
    answer = client.post("/translate", json={"q": ENGLISH, "source": "en", "target": "fr", "alternatives": 2}).json()
    assert set(answer) == {"translatedText", "alternatives"}
    assert len({answer["translatedText"], *answer["alternatives"]}) == 3


def test_lines_sentences_and_markup_stay(client: httpx.Client) -> None:
    text = f"  {ENGLISH}\n\n{ENGLISH}\n"
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "fr"}).json()
    assert answer["translatedText"] == f"  {FRENCH}\n\n{FRENCH}\n"
    page = f'<p class="a">{ENGLISH}<br/><!-- the cat --></p><script>the cat</script>'
    answer = client.post("/translate", json={"q": page, "source": "en", "target": "fr", "format": "html"}).json()
    assert answer["translatedText"] == page.replace(ENGLISH, FRENCH)
    same = client.post("/translate", json={"q": "chat", "source": "fr", "target": "fr"}).json()
    assert same == {"translatedText": "chat"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"source": "en", "target": "fr"}, "missing q"),
        ({"q": "a", "source": "en"}, "missing target"),
        ({"q": "a", "source": "en", "target": "xx"}, "xx is not supported"),
        ({"q": 3, "source": "en", "target": "fr"}, "q"),
        ({"q": "a", "source": "en", "target": "fr", "format": "odt"}, "format"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": 1000}, "alternatives"),
    ],
)
def test_what_is_wrong_is_said(body: dict[str, Any], said: str, client: httpx.Client) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_a_key_is_asked_for_where_there_is_one(folders: dict[str, Path], runner: Runner) -> None:
    models = Models()
    models.add(folders["tiny"])
    running = runner.start(models, api_key="secret")
    body = {"q": ENGLISH, "source": "en", "target": "fr"}
    assert running.client.post("/translate", json=body).status_code == 403
    assert running.client.post("/translate", json=body | {"api_key": "wrong"}).status_code == 403
    assert LibreTranslateAPI(running.url, api_key="secret").translate(ENGLISH, "en", "fr") == FRENCH
    bearer = {"Authorization": "Bearer secret"}
    assert running.client.post("/translate", json=body, headers=bearer).json() == {"translatedText": FRENCH}
    assert running.client.get("/api/models").status_code == 401
    assert running.client.get("/api/models", headers=bearer).status_code == 200
    assert running.client.get("/health").status_code == 200


def test_a_language_is_told_by_its_letters(running: Running) -> None:
    pairs = running.models.translators()
    detector = Detector({pair: served for pair, served in pairs.items() if served.name == "back"})
    for text, language in (("the old dog hears the bird", "en"), ("le vieux chien entend le oiseau", "fr")):
        first, second = detector.detect(text)
        assert first.language == language
        assert first.confidence > 90 > second.confidence
        assert first.confidence + second.confidence == pytest.approx(100, abs=0.11)
    assert [found.confidence for found in detector.detect("123 !?")] == [50, 50]
    assert Detector({}).detect("the") == []


def test_texts_are_cut_into_sentences_and_joined_again() -> None:
    text = ' One. "Two?" Three e.g. four!  Five \n\n six'
    cut = segment_text(text)
    assert cut.sentences == ["One.", '"Two?"', "Three e.g. four!", "Five", "six"]
    assert cut.join(cut.sentences) == text
    page = "<b>a &amp; b</b><pre>x &lt; y</pre>"
    cut = segment_html(page)
    assert cut.sentences == ["a & b"]
    assert cut.join(["<c>"]) == "<b>&lt;c&gt;</b><pre>x &lt; y</pre>"


def test_many_texts_are_one_request(folders: dict[str, Path], runner: Runner) -> None:
    models = Models(Limits(queue=1))
    models.add(folders["tiny"])
    running = runner.start(models)
    answer = running.client.post("/translate", json={"q": [ENGLISH, "", ENGLISH] * 40, "source": "en", "target": "fr"})
    assert answer.json() == {"translatedText": [FRENCH, "", FRENCH] * 40}


def test_markup_of_any_kind_stays_as_it_is() -> None:
    page = "<!DOCTYPE html><![if !IE]><p>One.</p><![endif]><![CDATA[a > b]]><![ x>Two. <!-- c --><?pi?>1 < 2 <a href="
    cut = segment_html(page)
    assert cut.sentences == ["One.", "Two.", "1 < 2 <a href="]
    assert html.unescape(cut.join(cut.sentences)) == page


@pytest.mark.parametrize(
    "text", [f"a{' ' * 20_000}b", f"a.{' ' * 20_000}b", "\n" * 20_000, '."' * 10_000, ". " * 10_000, "<a " * 6_000]
)
def test_a_text_of_blanks_is_cut_as_quickly_as_another(text: str) -> None:
    """A pattern that tries each blank as a beginning would take minutes for these, and nobody else be answered."""
    for cut in (segment_text(text * 40), segment_html(text)):
        assert html.unescape(cut.join(cut.sentences)).startswith(text)
