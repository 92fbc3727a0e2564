"""Ask: take apart; heads switched off, links cut, words swapped, and what is different then."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from servers import Running, post
from studio_pages import (
    ADDRESS,
    CROSS,
    OPTIONS,
    SENTENCE,
    OpenStudio,
    answer,
    matrix,
    number,
    parts_of,
    place_of,
    readout,
)


def test_a_head_is_switched_off_and_on(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1")
    page.get_by_role("button", name="Switch this head off").click()
    changed = post(
        running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, without_heads=[f"{CROSS}:1"]
    )["change"]
    page.wait_for_selector(".outcome dd")
    before, after = page.locator(".outcome dd").all_inner_texts()
    assert before == look["answer"]["text"]
    assert after == ("the same answer" if changed["same"] else changed["after"]["text"])
    page.locator(".outcome summary").click()
    shown = [[number(cell) for cell in row.all_inner_texts()] for row in cells_of(page)]
    expected = np.exp(np.array([changed["before"]["before"], changed["before"]["after"]]).T)
    np.testing.assert_allclose(shown, expected, atol=5.01e-5)
    assert parts_of(page)["off"] == f"{CROSS}:1"
    page.get_by_role("button", name=re.compile("^Undo")).click()
    page.wait_for_selector(".outcome dd", state="hidden")
    assert "off" not in parts_of(page)


def cells_of(page: Page) -> list[Any]:
    return [row.locator("td") for row in page.locator(".outcome tbody tr").all()]


def test_a_link_is_cut(open_studio: OpenStudio) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=0&w=0&row=2&col=1")
    assert readout(page, 2, 1) > 0
    page.get_by_role("button", name=re.compile("^Cut the link")).click()
    page.wait_for_selector(".outcome dd")
    assert parts_of(page)["cut"] == f"{CROSS}:0:2:1"
    expect(page.locator(".figure:visible .readout b")).to_have_text("0.000000")
    page.get_by_role("radio", name="before").check(force=True)
    expect(page.locator(".figure:visible .readout b")).not_to_have_text("0.000000")


def test_a_word_is_swapped(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(ADDRESS)
    page.get_by_label("The word that is swapped").select_option("cat")
    page.get_by_label("The word in its place").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    page.wait_for_selector(".outcome dd")
    swapped = SENTENCE.replace("cat", "dog")
    (expected,) = post(running.client, "/api/models/tiny/predict", inputs=[swapped], options=OPTIONS)["answers"]
    assert page.locator(".outcome dd").nth(1).inner_text().strip() == expected["text"]


def test_a_head_off_while_answers_are_drawn(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&how=draw&seed=3&off={CROSS}:1")
    asked = {"input": SENTENCE, "options": {"sample": True, "tries": 5, "seed": 3}}
    before = post(running.client, "/api/models/tiny/looks", **asked)
    after = post(running.client, "/api/models/tiny/looks", **asked, without_heads=[f"{CROSS}:1"])
    names = ["drawn before", "drawn after", "likeliest before", "likeliest after"]
    assert page.locator(".outcome dt").all_inner_texts() == names
    said = [text.strip() for text in page.locator(".outcome dd").all_inner_texts()]
    assert said[0] == before["answer"]["text"] == answer(page)
    assert said[1] in (after["answer"]["text"], "the same answer")
    assert said[2] == after["change"]["before"]["text"]


def test_a_difference_only_of_the_same_words(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a=encoder.0.self&h=1&w=0&off=encoder.0.self:0&show=difference&row=0&col=0")
    expect(page.locator(".figure:visible h2")).to_have_text("encoder.0.self, head 1 · pieces · after minus before")
    assert readout(page, 0, 0) == 0  # a head of the first layer does not see that another one is off
    every = ",".join(f"{one['name']}:{head}" for one in look["attentions"] for head in range(one["heads"]))
    changed = post(
        running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, without_heads=every.split(",")
    )
    assert changed["alignment"]["rows"] != look["alignment"]["rows"]
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&off={every}&show=difference")
    expect(page.locator(".figure:visible h2")).to_have_text(f"{CROSS}, head 1 · words · after")
    expect(page.get_by_role("radio", name="difference")).to_be_disabled()
    expect(page.get_by_role("radio", name="after")).to_be_checked()
    expect(page.locator(".edits")).to_contain_text("there is no difference")


def test_the_difference_of_two_texts(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    other = "the white dog sees the cat."
    page = open_studio(f"{ADDRESS}&t2={other.replace(' ', '+')}&a=encoder.0.self&h=1&w=0&row=1&col=2")
    page.get_by_label("second minus first").check()
    expect(page.locator(".figure h2").nth(1)).to_have_text("encoder.0.self, head 1 · pieces · second minus first")
    second = post(running.client, "/api/models/tiny/looks", input=other, options=OPTIONS)
    one, two = (matrix(running, which, name="encoder.0.self", head=1) for which in (look, second))
    shown = number(page.locator(".figure .readout b").nth(1).inner_text())
    assert shown == pytest.approx(two[1, 2] - one[1, 2], abs=1.01e-6)
    assert parts_of(page)["d"] == "1"
    page.get_by_label("The second text").fill("the dog sleeps.")
    expect(page.get_by_label("second minus first")).to_be_disabled()


def test_a_word_that_stands_twice_is_swapped_by_itself(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=tiny&t=the+cat+sees+the+cat.")
    page.get_by_label("The word that is swapped").select_option(label="cat (2 of 2)")
    page.get_by_label("The word in its place").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    page.wait_for_selector(".outcome dd")
    (expected,) = post(running.client, "/api/models/tiny/predict", inputs=["the cat sees the dog."], options=OPTIONS)[
        "answers"
    ]
    assert page.locator(".outcome dd").nth(1).inner_text().strip() == expected["text"]
    page.reload()
    page.wait_for_selector(".outcome dd")
    assert page.get_by_label("The word in its place").input_value() == "dog"


def test_the_link_that_can_be_cut_is_the_one_that_is_read_out(open_studio: OpenStudio) -> None:
    switched = f"{ADDRESS}&a=encoder.0.self&h=1&off=encoder.0.self:1"

    def told(page: Page) -> tuple[str, tuple[int, int]]:
        expect(page.locator(".figure:visible h2")).to_have_text("encoder.0.self, head 1 · words · after minus before")
        expect(page.locator(".figure:visible p.quiet").first).to_contain_text("still looks as before")
        words = " → ".join(page.locator(".figure:visible .readout bdi").all_inner_texts())
        expect(page.locator(".edits")).to_contain_text(f"Cut the link {words}")
        return words, place_of(page)

    page = open_studio(switched)
    page.wait_for_selector(".heads[data-ready]")
    page.get_by_role("radio", name="difference").check(force=True)
    clicked = told(page)
    assert clicked == told(open_studio(f"{switched}&show=difference"))
    page = open_studio(f"{ADDRESS}&a=encoder.0.self&h=0&off=encoder.0.self:1&show=difference")
    expect(page.locator(".figure:visible p.quiet").first).to_contain_text("the change does not reach this head")
