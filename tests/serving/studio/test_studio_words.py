"""Words: what is shown when a word is not known, and the ways between Words and Ask."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from servers import Running
from studio_pages import OpenStudio

UNKNOWN = "/words?m=back&word=zebra&other=chien"
SENTENCE = "The model does not know the word 'zebra' (source vocabulary)."


def shown_without_a_word(page: Page) -> str:
    """The plane as it is drawn, when nothing but the plane and the vocabularies are there."""
    expect(page.locator(".words .error")).to_have_text(SENTENCE)  # where the neighbours would stand
    expect(page.locator(".pair")).to_be_hidden()
    expect(page.get_by_role("heading", name="Nearest words")).to_be_hidden()
    expect(page.get_by_label("of the").locator("option")).to_have_text(["source", "target"])
    expect(page.locator(".word-map .quiet")).to_have_text(re.compile("% of the differences"))
    return str(page.evaluate("() => document.querySelector('.scatter canvas').toDataURL()"))


def test_an_unknown_word_leaves_the_plane_and_the_vocabularies(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/words?m=back&word=chat&other=chien", may_refuse=True)
    expect(page.locator(".pair")).to_be_visible()
    page.get_by_label("A word").fill("zebra")
    page.get_by_label("A word").press("Enter")
    typed = shown_without_a_word(page)
    assert page.url == running.url + UNKNOWN
    linked = open_studio(UNKNOWN, may_refuse=True)
    assert shown_without_a_word(linked) == typed
    empty = "() => document.createElement('canvas').toDataURL()"
    assert typed != page.evaluate(empty)
    linked.get_by_label("of the").select_option("target")
    linked.wait_for_selector(".bars li")
    expect(linked.locator(".words .error")).to_be_hidden()


def test_words_and_ask_lead_to_each_other(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tiny&t=the+black+cat+sees+the+dog.&a=encoder.0.self&h=0&row=2&pin=1")
    page.get_by_role("link", name="More like «cat»").click()
    expect(page.get_by_label("A word")).to_have_value("cat")
    expect(page.get_by_label("of the")).to_have_value("source")
    page.get_by_role("link", name="Try «cat» alone").click()
    expect(page.get_by_label("Your text")).to_have_value("cat")
