"""All pages: for everyone, at every width, light and dark, and in the colours of the lens."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from servers import Running
from studio_pages import OpenStudio, violations

from saccade.lens.ramp import difference_ramp, ramp

TEXT = "the+black+cat+sees+the+dog."
PAGES = {
    "ask": f"/ask?m=tiny&t={TEXT}&a=decoder.0.cross&h=1&off=decoder.0.cross:0",
    "two": f"/ask?m=tiny&t={TEXT}&t2=the+dog+sleeps.&v=arcs",
    "tags": f"/ask?m=tagger&t={TEXT}",
    "label": f"/ask?m=sorter&t={TEXT}",
    "image": "/ask?m=shapes",
    "walk": "/walk?mask=causal",
    "map": f"/map?m=filler&t={TEXT}",
    "runs": "/runs",
    "words": "/words?m=tiny&word=cat&other=dog",
}


def settled(page: Page) -> None:
    page.wait_for_function("() => !document.querySelector('.heads') || document.querySelector('.heads[data-ready]')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_everyone_can_use_it_at_every_width(open_studio: OpenStudio, name: str, dark: bool) -> None:
    page = open_studio(PAGES[name], width=1600, dark=dark)
    for width in (1600, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
        settled(page)
        assert violations(page) == []


def test_other_colours_are_chosen_and_stay(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    page.get_by_role("button", name="Dark colours").click()
    page.wait_for_selector("html[data-theme=dark]")
    page.reload()
    page.wait_for_selector("html[data-theme=dark]")
    page.get_by_role("button", name="Light colours").click()
    page.wait_for_selector("html[data-theme=light]")


def test_the_ramp_is_that_of_the_lens(open_studio: OpenStudio) -> None:
    shades = np.arange(256) / 255
    differences = np.linspace(-1, 1, 511)
    script = """async ([shades, isDifference]) => {
      const { colourOf } = await import('/static/ramp.js');
      return shades.map(one => colourOf(one, isDifference).match(/\\d+/g).map(Number));
    }"""
    for dark in (False, True):
        page = open_studio("/walk", dark=dark)
        found = page.evaluate(script, [shades.tolist(), False])
        np.testing.assert_allclose(found, 255 * ramp(shades, dark=dark), atol=0.51)
        found = page.evaluate(script, [differences.tolist(), True])
        np.testing.assert_allclose(found, 255 * difference_ramp(differences, dark=dark), atol=2.6)


def test_what_is_not_there_is_refused(open_studio: OpenStudio, running: Running) -> None:
    assert running.client.get("/asks").status_code == 404
    page = open_studio("/ask?m=nobody")
    expect(page.locator("#status .error")).to_have_text("There is no model «nobody» here; choose one at the top.")
    assert page.locator("main *").count() == 0
    page.get_by_label("model").select_option("tagger")
    page.wait_for_selector("textarea")
    expect(page.locator("#status .error")).to_be_hidden()
    page.go_back()
    expect(page.locator("#status .error")).to_be_visible()
