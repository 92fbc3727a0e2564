"""Learn: every scene has an address, its numbers are the library's, and it works by keyboard, in light and dark."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from servers import Running, numbers, post
from studio_pages import OPTIONS, SENTENCE, OpenStudio, held, layer_name, percent, violations

from saccade.attention import Sinusoidal
from saccade.lens import EXAMPLES
from saccade.lens.walk.document import WalkDocument

SCENES = ["links", "cut", "own", "look-up", "attention", "positions", "mask", "heads"]
SELF = "encoder.0.self"
#: A link of the sentence, as if the server had found that the answer hangs on it.
OPENING = {"input": SENTENCE, "name": SELF, "row": 2, "column": 1}


def open_scene(open_studio: OpenStudio, running: Running, name: str, **options: Any) -> Page:
    """A scene where the translator has examples, and a link that decides."""
    page = open_studio("/runs", **options)
    page.route("**/api/models/tiny/opening", lambda route: route.fulfill(json=OPENING))

    def add(route: Any) -> None:
        shown = [one | {"examples": [SENTENCE]} if one["name"] == "tiny" else one for one in route.fetch().json()]
        route.fulfill(json=shown)

    page.route("**/api/models", add)
    page.goto(f"{running.url}/learn?s={name}")
    page.wait_for_selector(".scene-picture[data-ready]")
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_scene_is_for_everyone_and_reached_by_arrow_keys(
    open_studio: OpenStudio, running: Running, dark: bool
) -> None:
    page = open_scene(open_studio, running, SCENES[0], dark=dark, width=1280)
    for place, name in enumerate(SCENES):
        expect(page.locator(f".scene-picture[data-scene='{name}'][data-ready]")).to_be_visible()
        assert page.url.endswith(f"?s={name}")
        assert violations(page) == [], name
        assert page.evaluate("() => document.documentElement.scrollWidth <= 1280")
        smallest = page.evaluate("() => parseFloat(getComputedStyle(document.querySelector('.caption')).fontSize)")
        assert smallest >= 20
        if place + 1 < len(SCENES):
            page.locator("h1").click()
            page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".scene-picture[data-scene='mask'][data-ready]")).to_be_visible()
    page.go_back()
    expect(page.locator(".scene-picture[data-scene='heads'][data-ready]")).to_be_visible()
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 400")


def test_the_front_page_is_the_story(open_studio: OpenStudio) -> None:
    page = open_studio("/")
    expect(page.get_by_role("heading", name="Words look at each other")).to_be_visible()
    expect(page.get_by_role("link", name="Learn")).to_have_attribute("aria-current", "page")


def test_the_story_from_the_links_to_another_answer(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "links")
    look = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS)
    expect(page.locator(".scene-answer b")).to_have_text(look["answer"]["text"])
    weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=SELF, head="mean", words=True)
    labels = look["axes"][look["attentions"][0]["rows"]]["labels"]
    expect(page.locator(".link-word[aria-pressed=true]")).to_have_text(labels[2])
    others = sorted((one for one in range(len(labels)) if one != 2), key=lambda one: -weights[2, one])
    expect(page.locator(".strip-said")).to_contain_text(f"looked at {labels[others[0]]} {weights[2, others[0]]:.2f}")
    page.get_by_role("button", name="next").click()
    page.locator("[data-link='2,1']").click()
    tokens = [
        [place for place, word in enumerate(look["axes"][look["attentions"][0]["rows"]]["words"]) if word == number]
        for number in (2, 1)
    ]
    links = [(SELF, one, other) for one in tokens[0] for other in tokens[1]]
    after = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, without_links=links)
    expect(page.locator(".scene-answer b")).to_have_text([look["answer"]["text"], after["answer"]["text"]])
    chances = [percent(math.exp(one["answer"]["log_probability"])) for one in (look, after)]
    expect(page.locator(".scene-answer .mono")).to_have_text(chances)
    expect(page.locator(".caption")).to_contain_text(f"in all heads of {layer_name(SELF)}")
    page.get_by_role("button", name="next").click()
    page.get_by_label("Your sentence").fill("the dog sleeps.")
    other = post(running.client, "/api/models/tiny/looks", input="the dog sleeps.", options=OPTIONS)
    expect(page.locator(".scene-answer b")).to_have_text(other["answer"]["text"])
    page.get_by_role("link", name="Try it yourself").click()
    expect(page.get_by_label("Your text")).to_have_value("the dog sleeps.")


def test_without_a_story_the_page_says_what_it_needs(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=cut")
    expect(page.locator(".caption")).to_contain_text("start the server with `saccade serve`, without a model")


def test_the_look_up_is_that_of_the_library(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=look-up")
    page.wait_for_selector(".scene-picture[data-ready]")
    slider = page.get_by_label("Temperature, from hard to soft")
    for value, query in ((0, 0), (-3, 1), (3, 2)):
        slider.fill(str(value))
        page.get_by_label("The query").select_option(str(query))
        expect(page.locator(".temperature")).to_have_text(f"temperature {2.0**value:.2f}")
        given = EXAMPLES["retrieval"].model_dump(exclude_none=True)
        given["queries"] = [[one / 2.0**value for one in row] for row in given["queries"]]
        weights = WalkDocument(**given).walkthrough()["weights"].values[query].tolist()
        expect(page.locator("[data-weight]")).to_have_text([f"{one:.4f}" for one in weights])


def test_a_number_says_what_it_is_made_of(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=attention")
    page.wait_for_selector(".scene-picture[data-ready]")
    walk = EXAMPLES["projection"].walkthrough()
    for name in ("inputs", "queries", "keys", "values", "scores", "weights", "sum"):
        cells = page.locator(f"[data-step={name}] td")
        shown = [float(cell.get_attribute("title") or "nan") for cell in cells.all()]
        np.testing.assert_allclose(shown, walk[name].values.flatten().tolist(), rtol=1e-12)
    page.hover("[data-step=scores] td[data-row='1'][data-column='2']")
    expect(page.locator(".arithmetic")).to_have_text("2·2 + 2·3 + 2·1 = 12")
    assert page.locator("[data-lit]").count() == 6
    page.hover("[data-step=weights] td[data-row='0'][data-column='1']")
    expect(page.locator(".arithmetic")).to_have_text("e^4 / (e^2 + e^4 + e^4) = 0.468")
    page.hover("[data-step=inputs] td[data-row='0'][data-column='0']")
    expect(page.locator(".arithmetic")).to_have_text("1 is given")


def test_the_waves_are_those_of_the_library(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=positions")
    page.wait_for_selector(".scene-picture[data-ready]")
    found = page.evaluate(
        """async () => {
          const { sinusoid } = await import('/static/learn/positions.js');
          return [0, 1, 7, 47].map(position => sinusoid(position, 64));
        }"""
    )
    expected = Sinusoidal(64).table(0, 48)[[0, 1, 7, 47]]
    np.testing.assert_allclose(found, expected.double().numpy(), atol=2e-6)


def test_nothing_ahead_is_looked_at(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=mask")
    page.wait_for_selector(".scene-picture[data-ready]")
    walk = EXAMPLES["retrieval4"].model_copy(update={"mask": "causal"}).walkthrough()
    weights = walk["weights"].values
    shown = page.locator("[data-step=weights] td").all_inner_texts()
    assert shown == [f"{one:.3f}" for one in weights.flatten().tolist()]
    page.get_by_label("Words written so far").fill("2")
    expect(page.locator("[data-step=scores] td")).to_have_text([re.compile(".")] * 8 + [""] * 8)


def test_the_measures_of_heads_are_those_of_the_library(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "heads")
    look = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS)
    view = running.app.state.looks[look["id"]].view
    expected = {f"{name}:{head}": float(one) for name in view.names for head, one in enumerate(view.entropy(name))}
    shown = {
        str(card.get_attribute("data-key")): float(card.locator(".mono").inner_text())
        for card in page.locator(".head-cards a").all()
    }
    assert shown == pytest.approx(expected, abs=5.01e-4)
    assert list(shown.values()) == sorted(shown.values(), reverse=True)
    page.get_by_role("radio", name="distance (words)").check(force=True)
    first = page.locator(".head-cards a").first
    name, head = str(first.get_attribute("data-key")).split(":")
    farthest = float(torch.stack([view.distance(one).max() for one in view.names if view.is_self(one)]).max())
    assert float(first.locator(".mono").inner_text()) == pytest.approx(farthest, abs=5.01e-4)
    assert float(view.distance(name)[int(head)]) == pytest.approx(farthest)


def test_a_scene_that_is_left_does_not_come_back(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "look-up")
    held(page, "**/api/walkthrough")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.scene-picture').dataset.scene === 'attention'")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".scene-picture[data-scene=positions][data-ready]")
    expect(page.locator(".block")).to_have_count(0)
