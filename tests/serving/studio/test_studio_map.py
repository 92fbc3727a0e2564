"""Map: the whole matrix of a long text, from a labelled overview down to the number itself."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect
from servers import Running, events, numbers
from studio_pages import OpenStudio, number, parts_of

TEXT = " ".join(["the black cat sees the dog and"] * 90)  # 630 words
LAYER = "encoder.0.self"
WHOLE = "rows=0%3A"  # in the address of a tile, not in that of the row that is told beside the map


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
    expect(said).to_have_text(re.compile(r"(\d\.\d{6}|\d\.\d{3}e−\d+)$"))
    text = said.inner_text()
    places = re.findall(r"\((\d+)\)", text)
    return int(places[0]), int(places[1]), number(text.split()[-1]), text


def test_from_all_of_it_to_one_number(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_map(open_studio, width=400)
    name, head = look["layer"], int(look["head"])
    expect(page.locator(".map-label")).to_have_text("max of 4×4 weights")
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    row, column, value, text = reading(page)
    part = {"rows": f"{row // 4 * 4}:{row // 4 * 4 + 4}", "columns": f"{column // 4 * 4}:{column // 4 * 4 + 4}"}
    exact = numbers(running.client, f"/api/looks/{look['id']}/tile", name=name, head=head, **part)
    assert "max of 4×4 weights is" in text
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
    page.wait_for_selector(".map[data-level='4']")


def test_one_row_is_told_in_words_beside_the_map(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """Wrong before: the right half of a wide window was empty."""
    page = open_map(open_studio, width=1600)
    asked = {"name": look["layer"], "head": int(look["head"])}

    def exact(row: int) -> np.ndarray:
        found = numbers(
            running.client, f"/api/looks/{look['id']}/tile", rows=f"{row}:{row + 1}", columns="0:630", **asked
        )
        return found[0]

    def told() -> list[tuple[int, float]]:
        items = page.locator(".row-list [data-weight]").all()
        return [(int(one.get_attribute("data-weight") or -1), number(one.inner_text())) for one in items]

    expect(page.locator(".map-row h2")).to_have_text("«the» (315) looks at")
    assert [value for _, value in told()] == [round(float(one), 4) for one in np.sort(exact(315))[::-1][:14]]
    box = page.locator(".map").bounding_box()
    beside = page.locator(".map-row").bounding_box()
    assert box is not None
    assert beside is not None
    assert beside["x"] >= box["x"] + box["width"]
    assert beside["x"] + beside["width"] > 1500
    page.mouse.click(box["x"] + 200, box["y"] + 300)
    row = reading(page)[0]
    expect(page.locator(".map-row h2")).to_contain_text(f"({row}) looks at")
    page.wait_for_function(f"() => new URL(location.href).searchParams.get('row') === '{row}'")
    assert all(value == pytest.approx(exact(row)[column], abs=5.01e-5) for column, value in told())
    column = told()[0][0]
    page.locator(".row-list button").first.click()  # leads to that weight on the map
    page.wait_for_selector(".map[data-ready=yes][data-level='1']")
    assert float(parts_of(page)["x"]) == pytest.approx(column, abs=0.06)


def test_a_weight_without_a_pixel_of_its_own_is_pooled_and_the_page_says_so(open_studio: OpenStudio) -> None:
    """Wrong before: "exact weights" where 565 weights shared 430 pixels, and two in five were never drawn."""
    page = open_map(open_studio)
    label = page.locator(".map-label")
    for scale, said in ((0.76, "max of 2×2 weights"), (0.99, "max of 2×2 weights"), (1.0, "exact weights")):
        page.evaluate(
            """scale => {
              const url = new URL(location.href);
              url.searchParams.set('x', '300'); url.searchParams.set('y', '300'); url.searchParams.set('z', scale);
              history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate'));
            }""",
            scale,
        )
        page.wait_for_selector(".map[data-ready=yes]")
        expect(label).to_have_text(said)


def test_a_single_row_is_not_mapped_and_there_is_a_way_out(open_studio: OpenStudio) -> None:
    """Wrong before: the map of a classifier that looks at its text once was a line of two pixels."""
    page = open_studio(f"/map?m=sorter&t={TEXT[:60]}")
    rows, _ = (int(part.replace(",", "")) for part in page.locator(".map-frame p.quiet").inner_text().split()[::2][:2])
    assert rows > 1
    assert "pooling" not in page.get_by_label("layer").locator("option").all_inner_texts()


def test_another_head_and_means(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_map(open_studio, width=400)
    page.get_by_label("layer").select_option(LAYER)
    page.get_by_label("head").select_option(label="2")  # heads are counted from 1; their addresses from 0
    page.get_by_role("radio", name="mean", exact=True).check(force=True)
    expect(page.locator(".map-label")).to_have_text("mean of 4×4 weights")
    assert parts_of(page) | {"a": LAYER, "h": "1", "pool": "mean"} == parts_of(page)
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    row, column, value, _ = reading(page)
    part = {"rows": f"{row // 4 * 4}:{row // 4 * 4 + 4}", "columns": f"{column // 4 * 4}:{column // 4 * 4 + 4}"}
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


@pytest.mark.slow
def test_a_busy_server_is_asked_again_after_the_pause_that_it_wants(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.extend([route.request.url] if WHOLE in route.request.url else [])
        route.fulfill(status=429, headers={"Retry-After": "2"}, json={"error": "Too much to do."})

    page.route("**/api/looks/*/tile?*", refuse)
    page.get_by_label("layer").select_option(LAYER)
    expect(page.locator("#status .error")).to_have_text("Too much to do.")
    expect(page.locator(".map-label")).to_have_text("exact weights · 0 of 1 tiles · 1 s")  # many frames later
    assert len(asked) == 1
    expect(page.locator(".map-row > small")).to_have_text("Too much to do.")
    page.unroute("**/api/looks/*/tile?*")
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.locator("#status .error")).to_be_hidden()
    expect(page.locator(".map-row > small")).to_contain_text("weights, exact")  # the row beside it, too


@pytest.mark.slow
def test_a_tile_that_is_refused_is_not_asked_for_again(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.extend([route.request.url] if WHOLE in route.request.url else [])
        route.fulfill(status=413, json={"error": "Too large."})

    page.route("**/api/looks/*/tile?*", refuse)
    page.get_by_label("layer").select_option(LAYER)
    expect(page.locator("#status .error")).to_have_text("Too large.")
    for key in ("+", "-", "ArrowRight"):
        page.locator(".map").press(key)
    expect(page.locator(".map-label")).to_have_text("exact weights · 0 of 1 tiles")
    assert len(asked) == 1


def test_a_text_that_the_server_no_longer_keeps_is_read_again(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+old+cat+sleeps", may_refuse=True)  # no tile of it is in the browser's cache
    gone = {"error": "This look is no longer in memory; request it again."}
    page.route("**/api/looks/*/tile?*", lambda route: route.fulfill(status=404, json=gone), times=1)
    with page.expect_response("**/maps"):
        page.get_by_label("layer").select_option(LAYER)
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.locator("#status .error")).to_be_hidden()


def test_the_ink_follows_the_weights_that_are_seen(open_studio: OpenStudio, running: Running) -> None:
    text = " ".join(TEXT.split()[:60])
    look = list(events(running.client, "/api/models/filler/maps", text=text))[-1]["look"]
    every = numbers(running.client, f"/api/looks/{look['id']}/tile", name=LAYER, head=1)
    usual, strong = (float(np.quantile(every, share, method="lower")) for share in (0.98, 0.999))
    inks = [digit * 10.0**-power for power in range(1, 9) for digit in (1, 2, 5)]
    ink = min(one for one in [1, *inks] if one >= max(usual, strong / 20))
    assert ink < 1
    page = open_studio(f"/map?m=filler&t={text}&a={LAYER}&h=1")
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.get_by_label("darkest at")).to_have_value("auto")
    legend = page.locator(".legend .mono").last
    expect(legend).to_have_text(f"{ink:.3f} and more")
    expect(page.get_by_label("darkest at").locator("option").first).to_have_text(f"auto: {ink:g}")
    page.get_by_label("darkest at").select_option("0.00002")
    expect(legend).to_have_text("2e−5 and more")
    assert parts_of(page)["ink"] == "0.00002"


def test_however_small_weights_are_told(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat")
    told = page.evaluate(
        """async () => {
          const { briefly, exactly } = await import("/static/shared/legend.js");
          return [0.5, 0.0123, 0.000029, 4.5678e-10, 0].map(one => [briefly(one), exactly(one)]);
        }"""
    )
    assert told == [
        ["0.500", "0.500000"],
        ["0.012", "0.012300"],
        ["2.9e−5", "2.900e−5"],
        ["5e−10", "4.568e−10"],
        ["0", "0"],
    ]


def test_an_ink_for_few_strong_weights_and_for_many_weak_ones(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat")
    found = page.evaluate(
        """async () => {
          const { settledInk, usualInk } = await import("/static/map/ink.js");
          const even = Float32Array.from({ length: 1000 }, (_, place) => 1e-5 * (1 + place / 1000));
          const one = even.map((value, place) => place % 250 ? value : 0.9);
          const none = new Float32Array(10);
          return [usualInk(even), usualInk(one), usualInk(none), settledInk(0.01, 0.005), settledInk(0.01, 0.001)];
        }"""
    )
    assert found == [2e-5, 0.05, None, 0.01, 0.001]


@pytest.mark.parametrize("width", [1200, 800, 400])
def test_the_map_stays_where_it_is_when_a_cell_is_read_out(open_studio: OpenStudio, width: int) -> None:
    """Wrong before: the sentence pushed the map down, so that another cell lay under the pointer."""
    page = open_map(open_studio, width=width)
    canvas = page.locator(".map canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    reading(page)
    assert canvas.bounding_box() == box


def test_what_is_read_out_is_under_the_pointer_also_after_the_wheel(open_studio: OpenStudio) -> None:
    page = open_map(open_studio)
    box = page.locator(".map canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 300, box["y"] + 250
    page.mouse.move(x, y)
    reading(page)
    page.mouse.wheel(0, 240)  # away: the map is as small as it gets, and lies elsewhere
    page.mouse.wheel(0, -960)
    page.wait_for_selector(".map[data-ready=yes]")
    place = parts_of(page)
    scale = float(place["z"])
    left = float(place["x"]) - (box["width"] - 96) / scale / 2
    top = float(place["y"]) - (box["height"] - 72) / scale / 2
    row, column, *_ = reading(page)
    assert column == pytest.approx(left + (x - box["x"] - 96) / scale, abs=1)
    assert row == pytest.approx(top + (y - box["y"] - 72) / scale, abs=1)


def with_examples(open_studio: OpenStudio, address: str) -> Page:
    """An address, where the model that fills in has examples."""
    page = open_studio("/runs", may_refuse=True)

    def add(route: Route) -> None:
        models = route.fetch().json()
        shown = [
            one | {"examples": ["the black cat sees the dog"]} if one["name"] == "filler" else one for one in models
        ]
        route.fulfill(json=shown)

    page.route("**/api/models", add)
    page.goto(urljoin(page.url, address))
    return page


def test_where_there_are_no_examples_a_text_is_asked_for(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler")
    expect(page.locator(".map-note")).to_have_text("Paste a long text to see its map.")
    expect(page.get_by_label("Your long text")).to_be_visible()
    assert texts(page) == ["your own text …"]


def texts(page: Page) -> list[str]:
    return page.locator("select[aria-label='The text'] option").all_inner_texts()


def test_as_many_words_are_offered_as_are_taken(open_studio: OpenStudio) -> None:
    page = with_examples(open_studio, "/map?m=filler&words=500")
    page.wait_for_selector(".map[data-ready=yes]")
    most = int(texts(page)[-2].split()[0].replace(",", ""))
    size = page.locator(".map-frame p.quiet").inner_text().split()[0]
    tokens = int(size.replace(",", "")) / 500 * most
    assert 64_000 < tokens <= 65_536


def test_a_text_that_is_refused_leaves_no_other_map_in_its_place(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=filler&t=the+cat", may_refuse=True)
    page.wait_for_selector(".map[data-ready=yes]")
    much = {"error": "The text has 67,778 tokens; the limit is 65,536."}
    page.route("**/maps", lambda route: route.fulfill(status=413, json=much))
    page.get_by_label("Your long text").fill(TEXT)
    page.get_by_role("button", name="Read this text").click()
    expect(page.locator("#status .error")).to_have_text(much["error"])
    expect(page.locator(".map-note span")).to_have_text("This text was not read, so there is no map of it.")
    expect(page.locator(".map-note").get_by_role("button", name=re.compile(r"\bAsk\b"))).to_be_visible()
    expect(page.locator(".map-note").get_by_role("button", name="Read it")).to_have_count(0)  # refused again
    expect(page.locator(".map-frame")).to_be_hidden()


@pytest.mark.slow
def test_a_text_that_was_stopped_has_no_map_until_it_is_read(open_studio: OpenStudio) -> None:
    page = with_examples(open_studio, "/map?m=filler&t=the+cat")
    page.wait_for_selector(".map[data-ready=yes]")
    held: list[Route] = []
    page.route("**/maps", lambda route: held.append(route))
    page.get_by_label("The text").select_option("2000")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".map-note")).to_contain_text("This text was not read, so there is no map of it.")
    expect(page.locator(".map-frame")).to_be_hidden()
    expect(page.get_by_label("The text")).to_have_value("2000")
    page.unroute("**/maps")
    page.get_by_role("button", name="Read it").click()
    page.wait_for_selector(".map[data-ready=yes]")
    expect(page.locator(".map-note")).to_be_hidden()
    page.go_back()
    expect(page.get_by_label("The text")).to_have_value("own")
    expect(page.locator(".map-frame p.quiet")).to_have_text(re.compile(r"^\d × \d weights$"))


def test_a_model_that_does_not_read_leads_to_those_that_do(open_studio: OpenStudio, running: Running) -> None:
    models = running.client.get("/api/models").json()
    blind = next(one["name"] for one in models if one["input"]["kind"] == "image")
    readers = [one["name"] for one in models if one["reads"] and one["has_attention"]]
    page = open_studio(f"/map?m={blind}")
    expect(page.locator(".map-note")).to_contain_text(
        f"{blind} takes images, not texts. These models can read long texts:"
    )
    assert page.locator(".map-note button").all_inner_texts() == readers
    page.locator(".map-note button", has_text="filler").click()
    expect(page.locator(".map-note")).to_have_text("Paste a long text to see its map.")
    assert parts_of(page)["m"] == "filler"


def test_a_text_that_is_cut_is_told(open_studio: OpenStudio) -> None:
    page = open_studio("/map?m=writer&t=the+cat")

    def cut(route: Route) -> None:
        answer = route.fetch()
        *before, last = answer.text().strip().split("\n\n")
        told = json.loads(last.removeprefix("data: ")) | {"tokens": 2731}
        route.fulfill(response=answer, body="\n\n".join([*before, f"data: {json.dumps(told)}"]) + "\n\n")

    page.route("**/maps", cut)
    page.get_by_label("Your long text").fill("the dog")
    page.get_by_role("button", name="Read this text").click()
    expect(page.locator(".map-note")).to_have_text(
        re.compile(r"^This is the last \d+ of the text's 2,731 tokens: the model reads no more at once\.$")
    )


def test_a_pasted_text_is_in_its_address(open_studio: OpenStudio) -> None:
    page = open_map(open_studio)
    page.locator(".map").press("+")
    page.wait_for_function("() => location.hash.startsWith('#text=') && location.search.includes('z=')")
    link = urlsplit(page.url)
    other = open_studio(f"{link.path}?{link.query}#{link.fragment}")  # another browser: it keeps nothing of the first
    expect(other.locator(".map-frame p.quiet")).to_have_text("630 × 630 weights")
    expect(other.get_by_label("Your long text")).to_have_value(TEXT)
    assert urlsplit(other.url).fragment == link.fragment
    for wrong in ("", "#text=AAAA", "#text=***"):
        lost = open_studio(f"{link.path}?{link.query}{wrong}")
        expect(lost.locator("#status .error")).to_contain_text("paste it again")
        expect(lost.locator(".map-frame")).to_be_hidden()


@pytest.mark.slow
def test_a_long_text_is_previewed_until_it_is_pooled(open_studio: OpenStudio) -> None:
    page = with_examples(open_studio, "/map?m=filler&t=the+cat")
    held: list[Route] = []
    page.route(re.compile(r"/overview\?(?!.*preview=1)"), lambda route: held.append(route))
    page.get_by_label("The text").select_option("8000")
    label = page.locator(".map-label")
    expect(label).to_have_text(
        re.compile(
            r"^preview: each cell is the max of \d+ weights in one row; only 1 row in \d+ is computed"
            r" · being computed: max of 16×16 weights"
        )
    )
    expect(label).to_have_text(re.compile(r" \d+ s$"))  # it is waited for, and told how long
    page.locator(".map").press("ArrowRight")
    expect(page.locator("#map-readout")).to_contain_text(": preview: each cell is the max of ")
    page.unroute(re.compile(r"/overview\?(?!.*preview=1)"))
    for route in held:
        route.continue_()
    page.wait_for_selector(".map[data-ready=yes]")
    expect(label).to_have_text("max of 16×16 weights")
