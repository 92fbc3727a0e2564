"""Ask: type, read, hover, pin, take apart; what is seen is what the server's interface says."""

from __future__ import annotations

import io
import itertools
import math
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect
from servers import Running, numbers, post
from studio_pages import (
    ADDRESS,
    CROSS,
    OPTIONS,
    SENTENCE,
    OpenStudio,
    answer,
    head_name,
    held,
    layer_name,
    matrix,
    parts_of,
    percent,
    place_of,
    readout,
)


def test_an_answer_as_soon_as_typing_stops(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio("/ask?m=tiny")
    page.get_by_label("Your text").press_sequentially(SENTENCE)
    page.wait_for_selector(".answer")
    expect(page.locator(".sentence:visible .answer")).to_have_text(look["answer"]["text"])
    assert parts_of(page)["t"] == SENTENCE
    probability = percent(math.exp(look["answer"]["log_probability"]))
    told = page.locator(".sentence:visible .probability").inner_text()
    assert told == f"{probability} probability of the whole answer"


def test_every_weight_by_arrow_keys(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&w=0&row=0&col=0")
    exact = matrix(running, look, name=CROSS, head=1)
    page.locator(".heatmap:visible").focus()
    for row in range(3):
        for column in range(exact.shape[1]):
            assert readout(page, row, column) == pytest.approx(exact[row, column], abs=5.01e-7)
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("End")
    last = exact.shape[0] - 1, exact.shape[1] - 1
    assert readout(page, *last) == pytest.approx(exact[last], abs=5.01e-7)


def test_hover_and_pin(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    alignment = np.array(look["alignment"]["values"])
    box = page.locator(".heatmap:visible canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    row, column = place_of(page)
    assert (row, column) != (0, 0)
    assert readout(page, row, column) == pytest.approx(alignment[row, column], abs=5.01e-7)
    page.mouse.click(x, y)
    expect(page.locator("button.word[aria-pressed=true]")).to_have_text(look["alignment"]["rows"][row])
    page.mouse.move(x, y - 120)  # another row: the pinned one is still read out
    assert place_of(page) == (row, column)
    assert parts_of(page)["pin"] == "1"
    page.locator(".heatmap:visible").focus()
    page.keyboard.press("Escape")
    page.wait_for_selector("button.word[aria-pressed=true]", state="detached")


def test_a_word_of_the_answer_pins_its_row(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    rows, columns = look["alignment"]["rows"], look["alignment"]["columns"]
    page.locator("button.word", has_text=re.compile(f"^{re.escape(rows[2])}$")).first.click()
    best = int(np.argmax(look["alignment"]["values"][2]))
    readout(page, 2, best)
    assert f"«{rows[2]}»" in page.locator(".figure:visible .readout").inner_text()
    assert columns[best] in page.locator(".figure:visible .strongest .item").first.inner_text()


@pytest.mark.slow
def test_heads_together(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a=encoder.0.self&h=0")
    for unit, head in itertools.product(("words", "pieces"), ("mean", "max", "rollout")):
        page.get_by_role("radio", name=unit, exact=True).check(force=True)
        page.get_by_role("radio", name=head, exact=True).check(force=True)
        together = {"mean": "mean of all heads", "max": "maximum of all heads", "rollout": "rollout over the layers"}
        said = together[head]
        expect(page.locator(".figure:visible h2")).to_have_text(re.compile(f"{said} · {unit}$"))
        if head == "rollout":
            path = f"/api/looks/{look['id']}/rollout"
            exact = numbers(running.client, path, stack="encoder.*.self", words=unit == "words")
        else:
            exact = matrix(running, look, name="encoder.0.self", head=head, words=unit == "words")
        page.locator(".heatmap:visible").focus()
        page.keyboard.press("PageUp")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert readout(page, 0, 1) == pytest.approx(exact[0, 1], abs=5.01e-7)


def test_the_grid_opens_heads_and_the_address_holds_them(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    page = open_studio(ADDRESS)
    page.wait_for_selector(".heads[data-ready]")
    assert page.locator(".heads button.head").count() == sum(one["heads"] for one in look["attentions"])
    page.get_by_role("button", name=head_name(CROSS, 1)).first.click()
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, 1)} · words")
    expect(page.locator(".figure:visible .named-as")).to_have_text(f"{CROSS}:1")
    page.keyboard.press("]")
    heads = next(one["heads"] for one in look["attentions"] if one["name"] == CROSS)
    following = 2 % heads
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, following)} · words")
    page.keyboard.press("w")
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, following)} · pieces")
    assert parts_of(page) | {"a": CROSS, "h": str(following), "w": "0"} == parts_of(page)
    page.reload()
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, following)} · pieces")
    exact = matrix(running, look, name=CROSS, head=following)
    place = np.unravel_index(int(np.argmax(exact)), exact.shape)
    assert readout(page, int(place[0]), int(place[1])) == pytest.approx(exact[place], abs=5.01e-7)
    page.go_back()
    expect(page.locator(".figure:visible h2")).to_have_text(aligned(look))


def test_other_answers_have_their_own_attention(
    open_studio: OpenStudio, look: dict[str, Any], running: Running
) -> None:
    page = open_studio(ADDRESS)
    page.locator(".others summary").click()
    assert page.locator(".others li bdi").all_inner_texts() == [one["text"] for one in look["alternatives"]]
    page.locator(".others li button").nth(2).click()
    expect(page.locator(".sentence:visible .answer")).to_have_text(look["alternatives"][2]["text"])
    other = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, which=2)
    exact = np.array(other["alignment"]["values"])
    place = np.unravel_index(int(np.argmax(exact)), exact.shape)
    assert readout(page, int(place[0]), int(place[1])) == pytest.approx(exact[place], abs=5.01e-7)


@pytest.mark.slow
def test_drawn_answers(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(ADDRESS)
    page.get_by_role("radio", name="sampled").check(force=True)
    options = {"sample": True, "tries": 5, "seed": 1}
    drawn = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=options)
    expect(page.locator(".others li")).to_have_count(len(drawn["alternatives"]))
    expect(page.locator(".sentence:visible .answer")).to_have_text(drawn["answer"]["text"])
    page.get_by_role("button", name="Sample again").click()
    drawn = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=options | {"seed": 2})
    expect(page.locator(".sentence:visible .answer")).to_have_text(drawn["answer"]["text"])


def test_step_by_step(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    words = page.locator("button.word").count()
    page.get_by_role("button", name="One word back").click()
    page.get_by_role("button", name="One word back").click()
    expect(page.locator("button.word.later")).to_have_count(2)
    assert parts_of(page)["step"] == str(words - 2)
    page.get_by_role("slider", name="Words written so far").press("End")
    expect(page.locator("button.word.later")).to_have_count(0)


def test_two_texts(open_studio: OpenStudio, running: Running) -> None:
    other = "the dog sees the black cat."
    page = open_studio(ADDRESS)
    page.get_by_label("Beside it").select_option("two texts")
    page.get_by_label("The second text").fill(other)
    (expected,) = post(running.client, "/api/models/tiny/predict", inputs=[other], options=OPTIONS)["answers"]
    expect(page.locator(".sentence .answer").nth(1)).to_have_text(expected["text"])
    expect(page.locator(".heatmap:visible")).to_have_count(2)
    assert parts_of(page)["t2"] == other


def test_arcs(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a=encoder.0.self&h=mean&v=arcs&row=1&col=0")
    words = look["axes"][next(one["rows"] for one in look["attentions"] if one["name"] == "encoder.0.self")]["labels"]
    assert page.locator(".from button:visible").all_inner_texts() == words
    page.locator(".from button[aria-pressed=true]:visible").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".from button[aria-pressed=true]:visible")).to_have_text(words[2])


def aligned(look: dict[str, Any]) -> str:
    heads = next(one["heads"] for one in look["attentions"] if one["name"] == look["layer"])
    return f"alignment: mean of the {heads} heads of {layer_name(look['layer'])}"


def saved(page: Page, name: str) -> bytes:
    share = page.locator(".share")
    if not share.evaluate("one => one.open"):
        share.locator("summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return download.value.path().read_bytes()


def caption_of(drawn: ElementTree.Element) -> list[str | None]:
    """The lines below a picture, which are in the file itself and not in one of its groups."""
    return [one.text for one in drawn.findall("{http://www.w3.org/2000/svg}text")]


def test_files_to_keep(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1")
    drawn = ElementTree.fromstring(saved(page, "SVG"))
    labels = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    attention = next(one for one in look["attentions"] if one["name"] == CROSS)
    rows, columns = (look["axes"][attention[side]]["labels"] for side in ("rows", "columns"))
    assert labels[: 1 + len(rows) + len(columns)] == [f"{head_name(CROSS, 1)} · words", *rows, *columns]
    caption = " ".join(str(label) for label in caption_of(drawn))  # a picture says where it comes from
    probability = percent(math.exp(look["answer"]["log_probability"]))
    said = f"{SENTENCE} → {look['answer']['text']} probability {probability}"
    scale = "model tiny; weight 0 is the background, 1 the ink"
    assert re.fullmatch(rf"{re.escape(said)} {scale}; \d{{4}}-\d\d-\d\d", caption)
    picture = Image.open(io.BytesIO(saved(page, "PNG")))
    assert picture.size == (2 * int(drawn.attrib["width"]), 2 * int(drawn.attrib["height"]))
    assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10  # something is drawn
    exact = matrix(running, look, name=CROSS, head=1, words=True)
    np.testing.assert_array_equal(np.load(io.BytesIO(saved(page, "numbers"))), exact)
    assert saved(page, "HTML").startswith(b"<!doctype html>")


def test_a_saved_picture_says_what_is_changed(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    """Wrong before: of a link that was cut, a picture said only "after", and a page said nothing."""
    edits = {"without_links": [("encoder.0.self", 2, 3)], "without_heads": [f"{CROSS}:{head}" for head in range(2)]}
    after = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, **edits)
    old = " → ".join(percent(math.exp(sum(after["change"]["before"][side]))) for side in ("before", "after"))
    page = open_studio(f"{ADDRESS}&a=encoder.0.self&h=1&cut=encoder.0.self:2:3&off={CROSS}:0,{CROSS}:1")
    drawn = ElementTree.fromstring(saved(page, "SVG"))
    caption = " ".join(str(label) for label in caption_of(drawn))
    assert caption.startswith(f"{SENTENCE} → {after['answer']['text']} ")
    same = after["answer"]["text"] == look["answer"]["text"]
    before = "the same answer as before the change" if same else f"before the change: {look['answer']['text']}"
    assert f"{before} (probability {old})" in caption
    changes = page.locator(".chips button").all_inner_texts()[:-1]  # the last one undoes them all
    assert f"changed: {'; '.join(one.removesuffix(' · undo') for one in changes)} model tiny" in caption
    assert [one.get("class") for one in drawn.iter("{http://www.w3.org/2000/svg}path")] == ["cut"]
    kept = page.context.new_page()
    kept.set_content(saved(page, "HTML").decode())
    assert kept.locator("#title").inner_text() == SENTENCE
    assert kept.locator(".lead .answer").inner_text() == after["answer"]["text"]
    for said in (
        f"(probability {old})",
        "all heads of reading, layer 1",
        f"{head_name('encoder.0.self', 1)} is head 1",
    ):
        assert said in kept.locator(".lead").inner_text()
    kept.close()


def test_a_long_answer_in_another_script_is_saved_as_a_page(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: a note of 1,000 letters of nine bytes each was longer than an address may be, and refused."""
    page = open_studio("/runs")

    def answer_in_hindi(route: Route) -> None:
        found = route.fetch().json()
        if "change" not in found or found["change"] is None:
            found["answer"]["text"] = "नमस्ते" * 300
        route.fulfill(json=found)

    page.route("**/api/models/tiny/looks", answer_in_hindi)
    page.goto(f"{running.url}{ADDRESS}&a=encoder.0.self&h=1&cut=encoder.0.self:2:3")
    page.wait_for_selector(".heads[data-ready]")
    assert "नमस्तेनमस्ते" in saved(page, "HTML").decode()


def test_a_button_says_that_it_copied_and_then_what_it_does(open_studio: OpenStudio) -> None:
    """Wrong before: "Copied" stayed for minutes, and the buttons moved under the pointer."""
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".share summary").click()
    label = "Copy the link to this view"
    places = [one.bounding_box() for one in page.locator(".saving button").all()]
    page.get_by_role("button", name=label).click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    for place, one in zip(places, page.locator(".saving button").all(), strict=True):
        assert place == pytest.approx(one.bounding_box(), abs=1)
    assert page.evaluate("() => navigator.clipboard.readText()") == page.url
    expect(page.get_by_role("button", name=label)).to_be_visible()


def test_the_numbers_are_those_that_are_seen(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    numbers = np.load(io.BytesIO(saved(page, "numbers")))
    np.testing.assert_allclose(numbers, look["alignment"]["values"], atol=1e-7)
    page.get_by_role("radio", name="arcs").check(force=True)
    page.wait_for_selector(".arcs:visible")
    drawn = ElementTree.fromstring(saved(page, "SVG"))
    labels = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    named = [aligned(look), *look["alignment"]["rows"], *look["alignment"]["columns"]]
    assert labels == [*named, *caption_of(drawn)]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}path"))) > 0


HOSTILE = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script> \u202ecat"


def test_markup_is_text(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tagger")
    page.get_by_label("Your text").fill(HOSTILE)
    page.wait_for_selector(".answer")
    assert "</script><script>window.hacked=1</script" in page.locator(".answer").inner_text()
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    assert "⟨U+202E⟩" in page.locator(".answer").inner_text()


def test_an_error_is_a_sentence_with_a_way_out(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS, may_refuse=True)
    page.get_by_label("Your text").fill("cat " * 6000)
    page.wait_for_selector("#status .error:visible")
    assert page.locator("#status .error").inner_text() == "The text has 24,000 characters; the limit is 20,000."
    page.get_by_label("Your text").fill(SENTENCE)
    page.wait_for_selector("#status .error", state="hidden")
    assert answer(page) == look["answer"]["text"]


@pytest.mark.slow
def test_waiting_is_told_and_can_be_stopped(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    page.route("**/looks", lambda route: None)  # an answer that does not come
    page.get_by_label("Your text").fill("the dog sleeps.")
    page.wait_for_selector(".working:visible")
    assert re.fullmatch(r"Asking the model … \d+\.\d s", page.locator(".working span").inner_text())
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector(".working", state="hidden")


def test_keys_are_listed(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    page.keyboard.press("?")
    assert "switch the open head off or on" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    page.wait_for_selector("html[data-ready=walk]")
    page.go_back()
    page.wait_for_selector("html[data-ready=ask]")


def test_by_keyboard_alone(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tiny")

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {selector}")

    tab_to("textarea")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    page.wait_for_selector(".heads[data-ready]")
    tab_to("button.word")
    tab_to(".heatmap")
    page.keyboard.press("PageDown")
    page.keyboard.press("Enter")
    expect(page.locator("button.word[aria-pressed=true]")).to_have_text(".")
    tab_to("button.head")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("button.head[aria-pressed=true]")).to_be_focused()
    page.keyboard.press("x")
    page.wait_for_selector(".cell[data-off] button.head[aria-pressed=true]")
    page.wait_for_selector(".was:visible")


def test_a_text_too_long_for_the_map_of_this_page(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=filler&t=" + "+".join(["the cat sees [MASK]".replace(" ", "+")] + ["dog"] * 1200))
    expect(page.get_by_role("link", name="open this text in Map")).to_have_attribute(
        "href", re.compile("^/map[?]m=filler&t=")
    )
    assert page.locator(".bars li").count() == 5  # the answer is there all the same


@pytest.mark.slow
def test_a_later_view_is_not_dimmed_by_an_earlier_one(open_studio: OpenStudio) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1")
    waiting = held(page, "**/api/looks/*/heads?*")
    page.get_by_label("Your text").fill("the dog sleeps.")
    page.wait_for_function("() => document.querySelector('.heads:not([data-ready])')")
    page.locator(".heatmap:visible").focus()
    page.keyboard.press("w")
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, 1)} · pieces")
    for route in waiting:
        route.continue_()
    page.unroute("**/api/looks/*/heads?*")
    page.wait_for_selector(".heads[data-ready]")
    page.wait_for_function("() => !document.querySelector('.working:not([hidden])')")
    assert page.locator(".ask[data-old]").count() == 0


@pytest.mark.slow
def test_a_text_that_is_cleared_has_no_answer(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    held(page, "**/looks")
    with page.expect_request("**/looks"):
        page.get_by_label("Your text").fill("the dog sleeps.")
    with page.expect_event("requestfailed"):  # the answer is not waited for
        page.get_by_label("Your text").fill("")
    expect(page.locator(".answer")).to_have_count(0)
    expect(page.locator(".stage")).to_be_hidden()
    page.unroute("**/looks")
    page.get_by_label("Your text").fill(SENTENCE)
    page.wait_for_selector(".answer")
    expect(page.locator(".stage")).to_be_visible()
    assert page.locator(".ask[data-old]").count() == 0


def test_spaces_are_no_text(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    page.get_by_label("Your text").fill("   ")
    expect(page.locator(".answer")).to_have_count(0)
    expect(page.locator("#status .error")).to_be_hidden()
    what_to_do = page.get_by_text("Type a text above. The model answers when you stop typing")
    expect(what_to_do).to_be_visible()
    page.get_by_label("Your text").fill(SENTENCE)
    page.wait_for_selector(".answer")
    expect(what_to_do).to_be_hidden()


def test_a_very_long_word_does_not_widen_the_page(open_studio: OpenStudio) -> None:
    page = open_studio(f"/ask?m=tagger&t={'a' * 3000}", width=400)
    page.wait_for_selector(".tag")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_an_answer_that_is_not_there(open_studio: OpenStudio) -> None:
    page = open_studio(f"{ADDRESS}&n=77")
    expect(page.locator("#status .error")).to_have_text("The address asks for answer 78; there are at most 5 here.")


def test_each_way_to_take_heads_together_says_what_it_shows(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    for way in ("alignment", "head", "mean", "max", "rollout"):
        option = page.locator("fieldset.choice:visible label", has_text=re.compile(f"^{way}$"))
        expect(option).to_have_attribute("title", re.compile(f"{way}", re.IGNORECASE))
