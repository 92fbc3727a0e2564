"""Every task has an answer of its own kind: tags, a label, holes that are filled, a text that streams, an image."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from servers import Running, numbers, post
from studio_pages import OpenStudio, parts_of, percent, place_of

SENTENCE = "the black cat sees the dog."
TYPED = "the+black+cat+sees+the+dog."


def predicted(running: Running, name: str, given: Any, **options: Any) -> Any:
    return post(running.client, f"/api/models/{name}/predict", inputs=[given], options=options)["answers"][0]


def test_tags_beside_their_words(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(f"/ask?m=tagger&t={TYPED}")
    expected = predicted(running, "tagger", SENTENCE)
    assert page.locator(".tag bdi").all_inner_texts() == expected["words"]
    shown = [text.split()[0] for text in page.locator(".tag-name").all_inner_texts()]
    assert shown == expected["labels"]


def test_a_label_with_where_the_pooling_looked(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(f"/ask?m=sorter&t={TYPED}")
    look = post(running.client, "/api/models/sorter/looks", input=SENTENCE)
    assert page.locator(".label").inner_text() == look["answer"]["label"]
    expected = sorted(look["answer"]["probabilities"].values(), reverse=True)
    assert page.locator(".bars .mono").all_inner_texts() == [percent(one) for one in expected]
    expect(page.locator(".deciding small").first).to_have_text("where the pooling looked: ")  # not: what decided
    assert page.locator(".decided").all_inner_texts() == [one["word"] for one in look["deciding"]]


def test_a_hole_is_filled(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=filler&t=the+[MASK]+sees+the+dog.")
    expected = predicted(running, "filler", "the [MASK] sees the dog.")
    assert page.locator(".answer > p").inner_text() == expected["text"]
    shown = page.locator(".bars .mono").all_inner_texts()
    assert shown == [percent(one["probability"]) for one in expected["masks"][0]]


def test_a_text_streams(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=writer")
    with page.expect_response(re.compile("/stream$")) as streamed:
        page.get_by_label("Your text").fill("the cat")
    assert streamed.value.headers["content-type"].startswith("text/event-stream")
    expected = predicted(running, "writer", "the cat", seed=1, max_tokens=40)
    page.wait_for_selector(".probability b")
    assert page.locator(".answer").text_content() == f"the cat{expected['text']}"
    page.get_by_role("button", name="Sample again").click()
    again = predicted(running, "writer", "the cat", seed=2, max_tokens=40)
    expect(page.locator(".answer")).to_have_text(f"the cat{again['text']}")


@pytest.mark.slow
def test_a_head_off_while_a_text_is_drawn(open_studio: OpenStudio, running: Running) -> None:
    off = "decoder.0.self:1"
    page = open_studio(f"/ask?m=writer&t=the+cat&a=decoder.0.self&h=1&off={off}")
    asked = {"input": "the cat", "options": {"seed": 1, "max_tokens": 40}}
    after = post(running.client, "/api/models/writer/looks", **asked, without_heads=[off])
    expect(page.locator(".answer")).to_have_text(f"the cat{after['answer']['text']}")
    change = after["change"]["before"]
    expected = " → ".join(percent(math.exp(sum(change[side]))) for side in ("before", "after"))
    expect(page.locator(".sentence:visible .probability b")).to_have_text(expected)
    expect(page.locator(".sentence:visible .probability")).to_contain_text("probability of the likeliest answer before")


def test_a_text_from_left_to_right_opens_on_a_weight_that_tells_something(
    open_studio: OpenStudio, running: Running
) -> None:
    page = open_studio("/ask?m=writer&t=the+cat&a=decoder.0.self&h=1")
    asked = {"input": "the cat", "options": {"seed": 1, "max_tokens": 40}}
    look = post(running.client, "/api/models/writer/looks", **asked)
    query = {"name": "decoder.0.self", "head": 1, "words": 1}
    weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", **query)
    assert weights[0, 0] == 1  # the strongest, and always so
    row, column = place_of(page)
    assert row - column >= 2  # two words that are not neighbours,
    assert column >= 1  # and not the start of the text
    assert weights[row, column] >= np.median(np.tril(weights, -2)[2:, 1:][np.tril_indices(len(weights) - 2)])


def test_a_drawing(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=shapes")
    box = page.locator(".pad").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 100, steps=4)
    page.mouse.up()
    page.wait_for_function("() => new URL(location.href).searchParams.has('png')")
    drawn = parts_of(page)["png"]
    expected = predicted(running, "shapes", {"png": drawn})
    expect(page.locator(".label")).to_have_text(expected["label"])
    first = percent(max(expected["probabilities"].values()))
    expect(page.locator(".bars .mono").first).to_have_text(first)
    page.reload()  # the drawing is in the address
    expect(page.locator(".bars .mono").first).to_have_text(first)
    assert page.evaluate("() => document.querySelector('.pad').toDataURL('image/png').split(',')[1]") == drawn


def test_an_image_is_uploaded_and_its_patches_are_read_out(open_studio: OpenStudio, running: Running) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(8, 6) * 5
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    page = open_studio("/ask?m=shapes")
    page.wait_for_selector(".overlay:visible")  # of a sample, with which the page opens
    with page.expect_response(lambda one: "png" in (one.request.post_data or "")):
        page.locator("input[type=file]").set_input_files(
            {"name": "a.png", "mimeType": "image/png", "buffer": content.getvalue()}
        )
    page.wait_for_function("() => new URL(location.href).searchParams.has('png')")
    given = {"pixels": (pixels / 255).tolist()}
    look = post(running.client, "/api/models/shapes/looks", input=given)
    expect(page.locator(".label")).to_have_text(look["answer"]["label"])
    page.wait_for_selector(".overlay:visible")
    box = page.locator(".overlay:visible").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    count = look["image"]["grid"][1]
    first = int(look["image"]["class_token"])
    expect(page.locator(".readout small").first).to_have_text(
        re.compile(f"^row {first + count - 1}, column {first + count - 1}")
    )
    exact = running.app.state.looks[look["id"]].view.matrix(look["layer"], int(look["head"]))
    weight = float(exact[first + count - 1, first + count - 1])
    expect(page.locator(".readout b").first).to_have_text(f"{weight:.6f}")


def test_a_file_that_is_no_picture(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=shapes")
    page.locator("input[type=file]").set_input_files(
        {"name": "notes.png", "mimeType": "image/png", "buffer": b"no picture"}
    )
    expect(page.locator("#status .error")).to_have_text(
        "The file notes.png is not an image that can be read; choose a PNG or a JPEG."
    )


def test_an_image_by_keyboard(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=shapes")
    page.locator(".pad").focus()
    before = page.evaluate("() => document.querySelector('.pad').toDataURL()")
    for key in ("ArrowLeft", "ArrowUp", "Space"):
        page.keyboard.press(key)
    page.wait_for_function("() => new URL(location.href).searchParams.has('png')")
    assert page.evaluate("() => document.querySelector('.pad').toDataURL()") != before
    page.locator(".overlay:visible").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")  # as far as the first column of patches
        page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    first, across = 1, 3  # after the class token; 6 pixels are 3 patches
    expect(page.locator(".readout small").first).to_have_text(re.compile(rf"column {first + across}$"))
    page.keyboard.press("Enter")
    expect(page.locator(".readout small").first).to_have_text(f"row {first + across}, column {first + across}")


@pytest.mark.slow
def test_tags_of_a_language_from_right_to_left(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=tagger&t=שלום+עולם")
    left = page.evaluate("() => [...document.querySelectorAll('.tag')].map(one => one.getBoundingClientRect().left)")
    assert left[0] > left[1]
