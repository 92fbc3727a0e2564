"""Map: the whole matrix of a long text, from a labelled overview down to the number itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect
from servers import Running, events, numbers
from studio_pages import OpenStudio, number, parts_of

TEXT = " ".join(["the black cat sees the dog and"] * 90)  # 630 words
LAYER = "encoder.0.self"


@pytest.fixture(scope="module")
def look(running: Running) -> dict[str, Any]:
    return list(events(running.client, "/api/models/filler/maps", text=TEXT))[-1]["look"]


def open_map(open_studio: OpenStudio, width: int = 1200) -> Page:
    """The page with this text pasted."""
    page = open_studio("/map?m=filler&t=the+cat", width=width)
    page.get_by_label("Your long text").fill(TEXT)
    page.get_by_role("button", name="Read this text").click()
    page.wait_for_function("() => new URL(location.href).searchParams.has('k')")
    expect(page.locator(".map-frame p.quiet")).to_have_text("630 × 630 weights")
    page.wait_for_selector(".map[data-ready=yes]")
    return page


def reading(page: Page) -> tuple[int, int, float, str]:
    """Row, column, number and all that is said of the cell."""
    said = page.locator("#map-readout")
    expect(said).to_have_text(re.compile(r"\d\.\d{6}$"))
    text = said.inner_text()
    places = re.findall(r"\((\d+)\)", text)
    return int(places[0]), int(places[1]), number(text.split()[-1]), text


def test_from_all_of_it_to_one_number(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_map(open_studio, width=400)
    name, head = look["layer"], int(look["head"])
    expect(page.locator(".map-label")).to_have_text("max of 2×2 weights")
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    row, column, value, text = reading(page)
    part = {"rows": f"{row // 2 * 2}:{row // 2 * 2 + 2}", "columns": f"{column // 2 * 2}:{column // 2 * 2 + 2}"}
    exact = numbers(running.client, f"/api/looks/{look['id']}/tile", name=name, head=head, **part)
    assert "max of 2×2 weights is" in text
    assert value == pytest.approx(exact.max(), abs=5.01e-7)
    for _ in range(6):
        page.keyboard.press("+")
    page.wait_for_selector(".map[data-ready=yes][data-level='1']")
    expect(page.locator(".map-label")).to_have_text("exact weights")
    page.keyboard.press("ArrowDown")
    row, column, value, _ = reading(page)
    part = {"rows": f"{row}:{row + 1}", "columns": f"{column}:{column + 1}"}
    exact = numbers(running.client, f"/api/looks/{look['id']}/tile", name=name, head=head, **part)
    assert value == pytest.approx(float(exact[0, 0]), abs=5.01e-7)
    place = parts_of(page)
    page.reload()
    page.wait_for_selector(".map[data-ready=yes][data-level='1']")
    assert parts_of(page) == place
    page.keyboard.press("Tab")
    page.get_by_role("button", name="All of it").click()
    page.wait_for_selector(".map[data-level='2']")


def test_another_head_and_means(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_map(open_studio, width=400)
    page.get_by_label("layer").select_option(LAYER)
    page.get_by_label("head").select_option("1")
    page.get_by_role("radio", name="mean", exact=True).check(force=True)
    expect(page.locator(".map-label")).to_have_text("mean of 2×2 weights")
    assert parts_of(page) | {"a": LAYER, "h": "1", "pool": "mean"} == parts_of(page)
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    row, column, value, _ = reading(page)
    part = {"rows": f"{row // 2 * 2}:{row // 2 * 2 + 2}", "columns": f"{column // 2 * 2}:{column // 2 * 2 + 2}"}
    exact = numbers(running.client, f"/api/looks/{look['id']}/tile", name=LAYER, head=1, **part)
    assert value == pytest.approx(exact.mean(), abs=5.01e-7)


def test_the_wheel_zooms_where_the_pointer_is_and_dragging_moves(open_studio: OpenStudio) -> None:
    page = open_map(open_studio)
    box = page.locator(".map canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 400, box["y"] + 300
    page.mouse.move(x, y)
    row, column, *_ = reading(page)
    page.mouse.wheel(0, -480)  # four times as large
    page.wait_for_function("() => new URL(location.href).searchParams.has('z')")
    page.mouse.move(x + 1, y + 1)
    after = reading(page)
    np.testing.assert_allclose(after[:2], (row, column), atol=1)
    before = parts_of(page)
    page.mouse.down()
    page.mouse.move(x - 99, y + 1, steps=3)
    page.mouse.up()
    moved = parts_of(page)
    assert float(moved["x"]) - float(before["x"]) == pytest.approx(100 / float(before["z"]), abs=0.2)
    assert moved["y"] == before["y"]


def test_a_busy_server_is_asked_again_after_the_pause_that_it_wants(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=429, headers={"Retry-After": "2"}, json={"error": "Too much to do."})

    page.route("**/api/looks/*/tile?*", refuse)
    page.get_by_label("layer").select_option(LAYER)
    expect(page.locator("#status .error")).to_have_text("Too much to do.")
    expect(page.locator(".map-label")).to_have_text("exact weights · 0 of 1 tiles · 1 s")  # many frames later
    assert len(asked) == 1
    page.unroute("**/api/looks/*/tile?*")
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.locator("#status .error")).to_be_hidden()


def test_a_tile_that_is_refused_is_not_asked_for_again(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=413, json={"error": "Too large."})

    page.route("**/api/looks/*/tile?*", refuse)
    page.get_by_label("layer").select_option(LAYER)
    expect(page.locator("#status .error")).to_have_text("Too large.")
    for key in ("+", "-", "ArrowRight"):
        page.locator(".map").press(key)
    expect(page.locator(".map-label")).to_have_text("exact weights · 0 of 1 tiles")
    assert len(asked) == 1


def test_a_text_that_the_server_no_longer_keeps_is_read_again(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    gone = {"error": "This look is no longer kept; ask for it again."}
    page.route("**/api/looks/*/tile?*", lambda route: route.fulfill(status=404, json=gone), times=1)
    with page.expect_response("**/maps"):
        page.get_by_label("layer").select_option(LAYER)
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.locator("#status .error")).to_be_hidden()


def test_no_more_words_are_made_up_than_can_be_chosen(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&words=999999999&t=the+cat")  # the text is given: only the choice is made
    assert page.locator("select[aria-label='The text'] option").all_inner_texts()[-2] == "60,000 words of examples"
