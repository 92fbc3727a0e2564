"""Ask on one screen: nothing that matters lies outside the window, and nothing covers anything else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from playwright.sync_api import Page
from servers import Runner
from studio_pages import OpenStudio

import untrained
from saccade.serving import Limits, Models

TEXT = "the+black+cat+sees+the+dog."
LONG = "+".join(["the", "black", "cat", "sees"] * 5 + ["the", "dog."])  # 22 words, 24 with the ends
#: Each task with something changed, and what has to be in sight of it.
TASKS = {
    "translation": f"/ask?m=tiny&t={TEXT}&a=encoder.0.self&h=mean&cut=encoder.0.self:2:3",
    "long": f"/ask?m=tiny&t={LONG}&a=encoder.0.self&h=1&off=encoder.0.self:0",
    "alignment": f"/ask?m=tiny&t={TEXT}&off=decoder.0.cross:0",
    "arcs": f"/ask?m=tiny&t={TEXT}&a=encoder.0.self&h=1&v=arcs&off=decoder.0.cross:0",
    "tagging": f"/ask?m=tagger&t={TEXT}",
    "classification": f"/ask?m=sorter&t={TEXT}",
    "masked": "/ask?m=filler&t=the+[MASK]+sees+the+dog.&a=encoder.0.self&h=1&off=encoder.0.self:0",
    "language model": "/ask?m=writer&t=the+cat",
    "image": "/ask?m=shapes&off=encoder.0.self:0",
    "caption": "/ask?m=teller",
    "text autoencoder": f"/ask?m=echo&t={TEXT}",
    "image autoencoder": "/ask?m=mirror",
    "trajectories": "/ask?m=walkers",
    "base pairs": "/ask?m=hairpin",
    "stepping": f"/ask?m=tiny&t={TEXT}&step=2",
    "sorted heads": f"/ask?m=tiny&t={TEXT}&by=previous",
    "two models": f"/ask?m=tiny&t={TEXT}&m2=back",
}
EXPECTED = {"input", "answer", "picture", "changes", "heads"}
#: What some have not: a model without attention to show has only an answer.
LACKING = {
    "text autoencoder": {"picture", "changes", "heads"},
    "image autoencoder": {"picture", "changes", "heads"},
    "two models": {"changes"},
}
#: One of each kind of picture; the others are drawn by the same parts.
QUICK = ("translation", "long", "arcs", "masked", "image", "base pairs", "two models")
NARROW = {"text autoencoder", "image autoencoder"}
#: The boxes of what is seen of these parts of the page; a picture is all that is drawn of it, labels included.
BOXES = """() => {
  const parts = { input: '.input', answer: '.answer-place', probability: '.probability', fresh: '.fresh',
    before: '.was',
    links: '.strip', steps: '.steps', changes: '.changes', tools: '.ask-tools', picture: '.figure .views',
    reading: '.figure .side', controls: '.seen-head', heads: 'aside', header: 'header' };
  return Object.fromEntries(Object.entries(parts).flatMap(([name, selector]) => {
    const found = [...document.querySelectorAll(selector)].find(one => one.checkVisibility() && one.innerHTML);
    if (!found) return [];
    const { left, top, right, bottom } = found.getBoundingClientRect();
    return right > left && bottom > top ? [[name, { left, top, right, bottom }]] : [];
  }));
}"""
#: Whether a picture scrolls inside its box.
CUT = """() => [...document.querySelectorAll('.views > *')].filter(one => one.checkVisibility())
  .some(one => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)"""


def settled(page: Page) -> dict[str, dict[str, float]]:
    page.wait_for_function("() => !document.querySelector('.heads') || document.querySelector('.heads[data-ready]')")
    page.wait_for_selector(".working", state="hidden")
    boxes: dict[str, dict[str, float]] = page.evaluate(BOXES)
    return boxes


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > 1 and down > 1


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the two tasks whose answers are neither texts nor labels."""
    root, models, runner = tmp_path_factory.mktemp("others"), Models(Limits()), Runner()
    for folder in (untrained.forecaster(root / "walkers"), untrained.rna_folder(root / "hairpin")):
        models.add(folder)
    yield runner.start(models).url
    runner.close()


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TASKS]
)
def test_everything_is_in_sight_and_nothing_is_covered(open_studio: OpenStudio, others: str, name: str) -> None:
    page = open_studio(TASKS[name], url=others if name in ("trajectories", "base pairs") else None)
    for width, height in ((1280, 800), (1600, 900)):
        page.set_viewport_size({"width": width, "height": height})
        boxes = settled(page)
        assert set(boxes) >= EXPECTED - LACKING.get(name, set()), name
        used = max(box["right"] for part, box in boxes.items() if part not in ("header", "input", "tools"))
        assert used > 0.75 * width or name in NARROW, name  # wide windows are used
        outside: dict[str, Any] = {
            part: box
            for part, box in boxes.items()
            if box["left"] < 0 or box["top"] < 0 or box["right"] > width + 1 or box["bottom"] > height + 1
        }
        assert outside == {}, (name, width)
        covered = [pair for pair in combinations(boxes, 2) if overlap(boxes[pair[0]], boxes[pair[1]])]
        assert covered == [], (name, width)
        if name in ("translation", "alignment", "long", "masked"):
            assert not page.evaluate(CUT)
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 400")


@pytest.mark.parametrize("beside", ["text", "model:back"])
def test_one_text_after_two_has_its_place_again(open_studio: OpenStudio, beside: str) -> None:
    """Wrong before: back from two texts or two models, the text was one letter wide and pushed all else down."""
    page = open_studio(TASKS["translation"])
    place = page.get_by_label("Your text").bounding_box()
    settled(page)
    page.get_by_label("Beside it").select_option(beside)
    page.wait_for_selector(".texts[data-two]")
    settled(page)
    page.get_by_label("Beside it").select_option("alone")
    page.wait_for_selector(".texts:not([data-two])")
    boxes = settled(page)
    assert page.get_by_label("Your text").bounding_box() == place
    assert max(box["bottom"] for box in boxes.values()) <= 801


@pytest.mark.parametrize("width", [1280, 1000, 400])
def test_the_list_of_other_answers_opens_inside_the_window(open_studio: OpenStudio, width: int) -> None:
    """Wrong before: in the second line of the answer it opened to the left, out of the window."""
    page = open_studio(f"/ask?m=tiny&t={LONG}", width=width)
    page.locator(".others summary").click()
    page.wait_for_function(
        """() => { const { left, right } = document.querySelector('.others ol').getBoundingClientRect();
          return left >= 0 && right <= innerWidth && right > left; }"""
    )


def test_every_row_of_the_map_and_of_the_heads_is_in_sight_in_a_low_window(open_studio: OpenStudio) -> None:
    """Wrong before: upright labels were not reckoned with, and the last rows lay below the window."""
    page = open_studio(TASKS["translation"] + "&step=2", height=680)
    boxes = settled(page)
    assert not page.evaluate(CUT)
    last = page.locator(".heads > div").last.bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= boxes["heads"]["bottom"]


def test_the_words_of_two_models_are_all_in_sight(open_studio: OpenStudio) -> None:
    page = open_studio(TASKS["two models"])
    settled(page)
    scrolled = "some => some.filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth).length"
    assert page.locator(".strip-scroll").evaluate_all(scrolled) == 0
