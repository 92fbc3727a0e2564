"""Ask: the word that is chosen, at first and by hand, and what the page tells of it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from playwright.sync_api import expect
from servers import Running, post
from studio_pages import ADDRESS, CROSS, OPTIONS, SENTENCE, OpenStudio, matrix, parts_of, percent, place_of

SELF = "encoder.0.self"


def test_a_new_text_opens_on_a_link_that_tells_something(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """Wrong before: the first word, which looks at the word beside it, was chosen."""
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean")
    weights = matrix(running, look, name=SELF, head="mean", words=True)
    words = look["axes"][look["attentions"][0]["rows"]]["labels"]
    named = [place for place, word in enumerate(words) if re.search(r"^\w+$", word)]
    far = [(row, column) for row in named for column in named if abs(row - column) > 1]
    assert place_of(page) == max(far, key=lambda cell: weights[cell])


def test_the_chosen_word_is_offered_to_be_swapped(open_studio: OpenStudio) -> None:
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean&row=4&pin=1")  # the second «the»
    page.get_by_text("swap a word", exact=True).click()
    chosen = page.get_by_label("Word to replace")
    shown = "one => one.selectedOptions[0].textContent"
    page.wait_for_function(f"one => ({shown})(one) === 'the (2 of 2)'", arg=chosen.element_handle())
    page.keyboard.press("Escape")
    page.locator(".link-word", has_text=re.compile("^cat$")).click()
    if not chosen.is_visible():
        page.get_by_text("swap a word", exact=True).click()
    page.wait_for_function(f"one => ({shown})(one) === 'cat'", arg=chosen.element_handle())
    page.get_by_label("Replacement word").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    page.wait_for_selector(".chips button")
    assert parts_of(page)["swap"] == "cat→dog"


def test_a_change_is_told_at_the_chosen_word(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    """Wrong before: after a swap, the headline told the word that was swapped, whichever was chosen."""
    edits = {"without_heads": [f"{CROSS}:0"]}
    scored = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, **edits)["change"][
        "before"
    ]
    axis = look["axes"][next(one["rows"] for one in look["attentions"] if one["kind"] == "causal")]
    for word in range(2):
        start = axis["words"].index(1)  # the decoder reads the start first
        tokens = [place - start for place, its in enumerate(axis["words"]) if its == word + 1]
        chances = [percent(math.exp(sum(scored[side][token] for token in tokens))) for side in ("before", "after")]
        page = open_studio(f"{ADDRESS}&h=alignment&row={word}&col=0&pin=1&off={CROSS}:0")
        expect(page.locator(".moved-most")).to_have_text(f"; at «{look['alignment']['rows'][word]}»: ")
        expect(page.locator(".moved-most + .mono")).to_have_text(" → ".join(chances))


def test_candidates_that_look_alike_show_what_differs(open_studio: OpenStudio) -> None:
    """Wrong before: «il» and «il», once with a space before it and once without."""
    shares = {"▁il": 0.5, "il": 0.25, "▁elle": 0.125}
    step = {
        "token": "▁il",
        "candidates": [{"token": token, "probability": share} for token, share in shares.items()],
    }
    page = open_studio("/ask?m=tiny")
    page.route("**/api/looks/*/candidates", lambda route: route.fulfill(body=json.dumps([step] * 40)))
    page.goto(page.url.split("/ask")[0] + f"{ADDRESS}&step=1")
    expect(page.locator(".next-words:visible bdi")).to_have_text(["·il", "il", "elle"])
