"""All pages: for everyone, at every width, light and dark, and in the colours of the lens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from servers import Runner, Running
from studio_pages import OpenStudio, held, violations

from saccade.lens.colours import difference_ramp, ramp
from saccade.serving import Limits, Models

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


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1600, False),
        pytest.param(400, True, marks=pytest.mark.slow),
        pytest.param(1600, True, marks=pytest.mark.slow),
        pytest.param(400, False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", PAGES)
def test_everyone_can_use_it_at_every_width(open_studio: OpenStudio, name: str, width: int, dark: bool) -> None:
    page = open_studio(PAGES[name], width=1600, dark=dark)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    settled(page)
    assert violations(page) == []


def test_other_colours_are_chosen_and_stay(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    page.get_by_role("button", name="Dark colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_ramp_is_that_of_the_lens(open_studio: OpenStudio) -> None:
    shades = np.arange(256) / 255
    differences = np.linspace(-1, 1, 511)
    script = """async ([shades, isDifference]) => {
      const { colourOf } = await import('/static/shared/ramp.js');
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


UNTIL = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)"


@pytest.mark.slow
def test_while_the_first_model_is_trained_the_page_shows_how(
    open_studio: OpenStudio, runner: Runner, tiny_run: Path, tmp_path: Path
) -> None:
    run, end = tmp_path / "late", tmp_path / "end"
    shutil.copytree(tiny_run, run, ignore=shutil.ignore_patterns("result.json"))
    models = Models(Limits())
    models.expect("late", run, subprocess.Popen([sys.executable, "-c", UNTIL, end], stderr=subprocess.PIPE))
    page = open_studio("/ask", url=runner.start(models).url, until=".training")
    expect(page.get_by_role("heading", name="The model late is being trained")).to_be_visible()
    expect(page.locator("#model option")).to_have_text("late · being trained")
    expect(page.locator(".training canvas")).to_have_attribute("aria-label", re.compile("^training loss: .* points$"))
    assert violations(page) == []
    page.get_by_role("link", name="The Runs page").click()
    expect(page.locator(".run-title")).to_have_text("late")
    page.go_back()
    page.wait_for_selector(".training")
    end.touch()
    page.wait_for_selector("textarea")
    expect(page.locator(".training")).to_have_count(0)


@pytest.mark.slow
def test_opening_many_models_is_told(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/runs")
    waiting = held(page, "**/api/models")
    page.goto(f"{running.url}/ask?m=tiny&t={TEXT}")
    expect(page.locator(".working span")).to_have_text("Opening the models …")
    waiting[0].continue_()
    page.wait_for_selector(".answer")
    expect(page.locator(".working")).to_be_hidden()


NO_ANSWER = "The server is not responding. Is `saccade serve` still running?"


def test_a_server_that_ends_is_told_and_one_that_is_back_is_asked_again(open_studio: OpenStudio) -> None:
    page = open_studio(f"/ask?m=tiny&t={TEXT}", may_refuse=True)
    page.wait_for_selector(".heads[data-ready]")
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("link", name="Words").click()
    expect(page.locator("#status .error")).to_have_text(NO_ANSWER)
    page.get_by_role("link", name="Walk").click()
    expect(page.locator("#status .error")).to_have_text(NO_ANSWER)
    expect(page.get_by_role("heading", name="Attention, number by number")).to_be_visible()
    page.unroute("**/*")
    page.wait_for_selector(".step[data-step=sum]")
    expect(page.locator("#status .error")).to_be_hidden()


@pytest.mark.slow
def test_a_server_that_is_back_takes_no_typing_away(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tiny", may_refuse=True)
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_label("Your text").fill("the dog sleeps.")
    expect(page.locator("#status .error")).to_have_text(NO_ANSWER)
    page.unroute("**/*")
    page.wait_for_selector(".answer")
    expect(page.locator("#status .error")).to_be_hidden()
    expect(page.get_by_label("Your text")).to_be_focused()
    expect(page.get_by_label("Your text")).to_have_value("the dog sleeps.")


def test_the_links_lead_to_what_was_seen_last(open_studio: OpenStudio, running: Running) -> None:
    ask = f"/ask?m=tiny&t={TEXT}&a=decoder.0.cross&h=1&row=1&col=2"
    words = "/words?m=tiny&word=cat&other=dog"
    page = open_studio(ask)
    page.get_by_role("link", name="Words").click()
    page.get_by_label("A word").fill("cat")
    page.get_by_label("Another word").fill("dog")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector(".pair:visible")
    page.reload()
    page.get_by_role("link", name="Ask").click()
    expect(page.locator(".figure:visible h2")).to_have_text("reading while writing, layer 1, head 2 · words")
    assert page.url == running.url + ask
    page.keyboard.press("6")
    page.wait_for_selector(".pair:visible")
    assert page.url == running.url + words
    page.get_by_label("model").select_option("back")  # another model: nothing of the other one is kept
    page.wait_for_function("() => location.search === '?m=back'")
    expect(page.get_by_role("link", name="Ask")).to_have_attribute("href", "/ask?m=back")


def test_in_the_frame_of_another_page_nothing_can_be_changed(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tiny&t=the+black+cat+sees+the+dog.&embed=1")
    expect(page.locator(".sentence:visible .answer")).to_be_visible()
    for selector in ("header", ".ask-tools", ".input", ".seen-head"):
        expect(page.locator(selector).first).to_be_hidden()


def test_an_address_that_is_no_page_leads_to_one(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/foo", may_refuse=True, until="text=There is no page at this address.")
    page.get_by_role("link", name="Open the studio").click()
    page.wait_for_selector("html[data-ready]")
    assert running.client.get("/foo").json() == {"error": "There is nothing at this address."}  # for a program
