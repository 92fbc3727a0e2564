"""Learn: every scene has an address, its numbers are the library's, and it works by keyboard, in light and dark."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from servers import Runner, Running, numbers, post
from studio_pages import OPTIONS, SENTENCE, OpenStudio, held, layer_name, parts_of, percent, violations

from saccade.attention import Sinusoidal
from saccade.lens import EXAMPLES
from saccade.lens.habits import habits
from saccade.lens.walk.document import WalkDocument
from saccade.recurrent import gradient_flow
from saccade.serving import Limits, Models

SCENES = [
    *("links", "cut", "own", "look-up", "attention", "recurrent", "vector", "positions", "mask", "heads"),
    *("patches", "points", "agents", "residues"),
]
TWINS = ("one-vector", "with-attention")
SELF = "encoder.0.self"
#: A link of the sentence, as if the server had found that the answer hangs on it.
OPENING = {"input": SENTENCE, "name": SELF, "row": 2, "column": 1}


#: Texts of a scene that could not be read from the last row; labels of cards and points may be smaller.
SMALL = """() => [...document.querySelectorAll('.learn :not(.head-cards *, .legend *, svg *)')]
  .filter(one => one.checkVisibility() && [...one.childNodes].some(part => part.nodeType === 3 && part.data.trim()))
  .filter(one => parseFloat(getComputedStyle(one).fontSize) < 20).map(one => one.outerHTML.slice(0, 90))"""


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


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_every_scene_is_for_everyone_and_reached_by_arrow_keys(
    open_studio: OpenStudio, running: Running, dark: bool
) -> None:
    page = open_scene(open_studio, running, SCENES[0], dark=dark, width=1280)
    for place, name in enumerate(SCENES):
        expect(page.locator(f".scene-picture[data-scene='{name}'][data-ready]")).to_be_visible()
        assert page.url.endswith(f"?s={name}")
        assert violations(page) == [], name
        assert page.evaluate("() => document.documentElement.scrollWidth <= 1280")
        assert page.evaluate(SMALL) == [], name
        assert len(page.locator(".caption").inner_text().rstrip(".").split(". ")) <= 2
        assert page.evaluate("() => document.documentElement.scrollHeight - innerHeight") <= 0, name
        if place + 1 < len(SCENES):
            page.locator("h1").click()
            page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".scene-picture[data-scene='agents'][data-ready]")).to_be_visible()
    page.go_back()
    expect(page.locator(".scene-picture[data-scene='residues'][data-ready]")).to_be_visible()
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
    texts = [look["answer"]["text"], after["answer"]["text"]]
    expect(page.locator(".scene-answer b")).to_have_text(list(dict.fromkeys(texts)))  # the same answer stands once
    scored = after["change"]["before"]
    old = " → ".join(percent(math.exp(sum(scored[side]))) for side in ("before", "after"))
    known = [one["log_probability"] for one in look["alternatives"] if one["text"] == after["answer"]["text"]]
    new = " → ".join(percent(math.exp(one)) for one in [*known, after["answer"]["log_probability"]])
    expect(page.locator(".scene-answer .mono")).to_have_text([old, new][: len(set(texts))])
    heads = next(one["heads"] for one in look["attentions"] if one["name"] == SELF)
    expect(page.locator(".caption")).to_contain_text(f"in all {heads} heads of {layer_name(SELF)}, the answer")
    expect(page.locator(".scene-answers .quiet")).to_have_attribute("title", "The probability of the whole answer")
    for head in range(heads):  # and in each head alone
        links = [(f"{SELF}:{head}", one, other) for one in tokens[0] for other in tokens[1]]
        alone = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, without_links=links)
        cell = page.locator(".scene-heads tr:last-child td").nth(head)
        expect(cell).to_have_text(percent(math.exp(sum(alone["change"]["before"]["after"]))))
        assert (cell.get_attribute("data-flips") is None) == (alone["answer"]["text"] == look["answer"]["text"])
    page.get_by_role("button", name="next").click()
    page.get_by_label("Your sentence").fill("the dog sleeps.")  # also while the scene is being prepared
    other = post(running.client, "/api/models/tiny/looks", input="the dog sleeps.", options=OPTIONS)
    expect(page.locator(".scene-answer b")).to_have_text(other["answer"]["text"])
    page.get_by_role("link", name="Try it yourself").click()
    expect(page.get_by_label("Your text")).to_have_value("the dog sleeps.")


def test_the_story_says_what_is_cut_now(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: after a link was restored, the scene still said that it is cut; and the words moved at a cut."""
    page = open_scene(open_studio, running, "cut")
    look = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS)
    probability = percent(math.exp(look["answer"]["log_probability"]))
    expect(page.locator(".scene-chance")).to_contain_text(f"{probability} probability")
    caption, link = page.locator(".caption"), page.locator("[data-link='2,1']")
    expect(caption).to_have_text(re.compile(r"^Click the scissors between «\S+» and «\S+»\.$"))
    told, box = caption.inner_text(), link.bounding_box()
    link.click()
    expect(caption).to_have_text(re.compile("^Without the link"))
    expect(page.locator(".scene-heads > p")).to_have_text(re.compile("enough"))
    assert link.bounding_box() == box
    assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    link.click()
    expect(caption).to_have_text(told)
    expect(page.locator(".scene-heads td")).to_have_count(0)
    page.locator(".measured > summary").click()
    page.locator(".experiment summary").first.click()
    shown = page.locator(".experiment").first
    expect(shown).to_contain_text("not on the model that is served here")
    assert all(float(one) <= 100 for one in re.findall(r"interval \S+ to ([\d.]+)", shown.inner_text()))


def test_a_link_that_is_restored_at_once_stays_restored(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: weights of the cut that came after the link was restored showed it as cut again."""
    page = open_scene(open_studio, running, "cut")
    link, told = page.locator("[data-link='2,1']"), page.locator(".caption").inner_text()
    waiting = held(page, "**/api/looks/*/matrix?*")
    with page.expect_request("**/api/looks/*/matrix?*"):
        link.click()
    link.click()
    with page.expect_response("**/api/looks/*/matrix?*"):
        waiting[0].continue_()
    page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 300))")
    expect(link).to_have_text("✂")
    expect(page.locator(".caption")).to_have_text(told)
    expect(page.locator(".scene-answer")).to_have_count(1)


def test_a_chosen_word_stays_chosen_while_another_sentence_is_typed(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: the first word was chosen instead."""
    page = open_scene(open_studio, running, "own")
    chosen = page.locator(".link-word[aria-pressed=true]")
    word = chosen.inner_text()
    page.get_by_label("Your sentence").fill("dog " + SENTENCE)
    expect(page.locator(".link-word").first).to_have_text("dog")
    expect(chosen).to_have_text(word)


def test_a_model_that_a_scene_needs_is_trained_on_request(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=cut")
    expect(page.locator(".lesson-said")).to_contain_text("needs a translator in which one link decides")
    page.unroute_all()
    waiting = {"name": "demo", "ready": False, "progress": 300, "steps": 1200, "failure": None}
    state: dict[str, Any] = {"now": []}

    def list_models(route: Any) -> None:
        route.fulfill(json=[*route.fetch().json(), *state["now"]])

    def train(route: Any) -> None:
        state["now"] = [waiting]
        route.fulfill(status=202, json={"name": "demo"})

    page.route("**/api/models", list_models)
    page.route("**/api/learn/lessons/demo", train)
    page.get_by_role("button", name="Train it now (about 2 minutes)").click()
    expect(page.locator(".lesson-said")).to_have_text("demo is being trained: step 300 of 1200, 25 %")
    expect(page.get_by_label("Progress of the training")).to_have_attribute("value", "0.25")
    state["now"] = [waiting | {"failure": "Training demo failed: no room."}]
    expect(page.locator(".lesson-said")).to_have_text("Training demo failed: no room.")


def test_the_look_up_is_that_of_the_library(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=look-up")
    page.wait_for_selector(".scene-picture[data-ready]")
    slider = page.get_by_label("Temperature, from hard to soft")
    for value, query in ((0, 0), (-3, 1), (3, 2)):
        slider.fill(str(value))
        page.get_by_label("The query").select_option(str(query))
        expect(page.locator(".temperature")).to_have_text(f"temperature T = {2.0**value:.3f}")
        given = EXAMPLES["retrieval"].model_dump(exclude_none=True)
        walk = WalkDocument(**given | {"temperature": 2.0**value}).walkthrough()
        weights = walk["weights"].values[query].tolist()
        expect(page.locator("[data-weight]")).to_have_text([f"{one:.4f}" for one in weights])
        for column, name in ((4, "scores"), (5, "scaled")):  # q·k, and divided by √d and T, as the formula says
            shown = page.locator(f".lookup tbody tr:not(.total) td:nth-child({column})").all_inner_texts()
            assert [float(one.replace("−", "-")) for one in shown] == [
                round(one, 2) for one in walk[name].values[query].tolist()
            ]
    expect(page.locator(".equation")).to_have_text("score = q·k / (√d · T)")
    page.get_by_role("link", name="Try it yourself").click()  # with the same query and temperature
    expect(page.locator(".step[data-step=queries] tr[data-chosen] th")).to_have_text("token 3")
    expect(page.locator(".step[data-step=scaled] .equation")).to_have_text("E = Q Kᵀ / (√D · T), D = 3, T = 8")


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


def test_a_given_number_is_typed_over_and_what_follows_from_it_changes(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=attention")
    page.wait_for_selector(".scene-picture[data-ready]")
    field = page.get_by_label("Inputs, row 1, column 2")
    field.fill("2,5")
    field.press("Tab")
    restore = page.get_by_role("button", name="Restore the numbers of the lecture")
    restore.wait_for()
    given = EXAMPLES["projection"].model_dump(exclude_none=True)
    given["inputs"] = [[1, 2.5, 1, 0], *given["inputs"][1:]]
    walk = WalkDocument(**given).walkthrough()
    for name in ("inputs", "queries", "keys", "values", "scores", "weights", "sum"):
        cells = page.locator(f"[data-step={name}] td").all()
        shown = [float(cell.get_attribute("title") or "nan") for cell in cells]
        np.testing.assert_allclose(shown, walk[name].values.flatten().tolist(), rtol=1e-12)
    assert parts_of(page) == {"s": "attention", "e": "inputs:0:1:2.5"}
    expect(page.get_by_role("link", name="Try it yourself")).to_have_attribute("href", re.compile("e=inputs"))
    field.press("Control+a")
    page.keyboard.type("2.")  # what is typed is applied after a moment, and typing goes on
    expect(page.locator("[data-step=inputs] td[data-row='0'][data-column='1']")).to_have_attribute("title", "2")
    page.keyboard.type("5")
    expect(page.locator("[data-step=inputs] td[data-row='0'][data-column='1']")).to_have_attribute("title", "2.5")
    expect(field).to_have_value("2.5")
    field.fill("much")  # no number: the old one stays
    field.press("Tab")
    expect(field).to_have_value("2.50")
    restore.click()
    expect(field).to_have_value("0")


@pytest.mark.slow
def test_the_gradient_of_an_unrolled_cell_is_that_of_the_library(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=recurrent&cell=gru&radius=1.2")
    page.wait_for_selector(".scene-picture[data-ready]")
    for cell in ("gru", "lstm"):
        page.get_by_role("radio", name=cell.upper()).check(force=True)
        flow = gradient_flow(cell, 24, spectral_radius=1.2, width=12, input_scale=1.0)
        first = page.locator(f".gradients li[data-norm^='{repr(float(flow.state[1]))[:8]}']").first
        expect(first).to_be_visible()
        shown = [float(one.get_attribute("data-norm") or "nan") for one in page.locator(".gradients li").all()]
        np.testing.assert_allclose(shown, flow.state[1:].tolist(), rtol=1e-5)
        page.get_by_label("A step").fill("23")
        expect(page.locator(".arithmetic")).to_contain_text("from step 24 back to step 24: gradient × 1.000")
    assert parts_of(page) == {"s": "recurrent", "cell": "lstm", "radius": "1.2", "at": "24"}


def test_the_waves_are_those_of_the_library(open_studio: OpenStudio) -> None:
    page = open_studio("/learn?s=positions&first=5000")
    page.wait_for_selector(".scene-picture[data-ready]")
    table = Sinusoidal(64).table(5000, 48).float().double()
    expect(page.locator(".scene-picture p.mono")).to_have_text(
        f"position 5012: dot product with itself {float(table[12] @ table[12]):.2f} · "
        f"one word apart {float(table[0] @ table[1]):.2f} · 47 words apart {float(table[0] @ table[47]):.2f}"
    )
    near = [float(one.get_attribute("title") or "nan") for one in page.locator(".matches span").all()]
    np.testing.assert_allclose(near, (table @ table[12]).tolist(), atol=5.1e-4)


def test_the_candidates_for_the_next_word_are_the_models(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "mask")
    predictor = running.models["tiny"].predictor
    answer = predictor.best_answer(SENTENCE, **OPTIONS)
    for step in (1, 3):
        page.get_by_label("Words written so far").fill(str(step))
        expected = predictor.likeliest(SENTENCE, answer, 5)[step - 1]
        shown = [
            float(one.get_attribute("data-probability") or "nan") for one in page.locator("[data-probability]").all()
        ]
        np.testing.assert_allclose(shown, [math.exp(value) for _, value in expected], rtol=1e-5)
        expect(page.locator(".next-words li[data-written]")).to_have_count(1)
    count = len(answer.scored_tokens)
    expect(page.locator(".mask-row .masked")).to_have_count(count * (count - 1) // 2)
    page.get_by_role("link", name="Try it yourself").click()
    expect(page.get_by_label("Your text")).to_have_value(SENTENCE)


@pytest.mark.slow
def test_without_a_model_nothing_ahead_is_looked_at(open_studio: OpenStudio, runner: Runner) -> None:
    page = open_studio("/learn?s=mask", url=runner.start(Models(Limits())).url)
    page.wait_for_selector(".scene-picture[data-ready]")
    walk = EXAMPLES["retrieval4"].model_copy(update={"mask": "causal"}).walkthrough()
    weights = walk["weights"].values
    shown = page.locator("[data-step=weights] td").all_inner_texts()
    assert shown == [f"{one:.3f}" for one in weights.flatten().tolist()]
    page.get_by_label("Words written so far").fill("2")
    expect(page.locator("[data-step=scores] td")).to_have_text([re.compile(".")] * 8 + [""] * 8)
    for name in ("look-up", "attention", "recurrent", "positions"):  # these need no model either
        page.goto(f"{page.url.partition('?')[0]}?s={name}")
        page.wait_for_selector(f".scene-picture[data-scene={name}][data-ready]")
    for name in ("vector", "patches", "points", "agents", "residues"):  # and these offer to train one
        page.goto(f"{page.url.partition('?')[0]}?s={name}")
        expect(page.get_by_role("button", name=re.compile(r"^Train .* now \(about \d+ minutes?\)$"))).to_be_visible()


def test_a_patch_looks_at_patches(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/learn?s=patches")
    page.wait_for_selector(".scene-picture[data-ready]")
    look = post(running.client, "/api/models/shapes/looks", input={"sample": 1})
    attention = look["attentions"][-1]
    weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=attention["name"], head="mean")
    others = weights * (1 - np.eye(len(weights)))
    row, column = np.unravel_index(others.argmax(), others.shape)  # it opens on the strongest link
    expect(page.locator("#patch-said")).to_contain_text(f"with weight {weights[row, column]:.3f}")
    page.get_by_label("The head").select_option("1")
    one = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=attention["name"], head="1")
    expect(page.locator("#patch-said")).to_contain_text(f"with weight {one[row, column]:.3f}")
    expect(page.locator(".scene-answer b")).to_have_text(look["answer"]["label"])


@pytest.mark.slow
def test_words_lie_where_the_words_page_has_them(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/learn?s=points&word=chien&m=back")
    page.wait_for_selector(".scene-picture[data-ready]")
    vectors = next(iter(next(one for one in running.models.values() if one.vectors).vectors.values()))
    word = page.get_by_label("A word", exact=True).input_value()
    shown = [float(one.get_attribute("data-cosine") or "nan") for one in page.locator("[data-cosine]").all()]
    np.testing.assert_allclose(shown, [one.cosine for one in vectors.neighbours(word, 6)], rtol=1e-6)
    first = page.locator(".points-side .word").first
    other = first.inner_text()
    first.click()
    expect(page.get_by_role("heading", name=f"Nearest to «{other}»")).to_be_visible()


@pytest.mark.slow
def test_two_translators_by_the_length_of_the_sentence(open_studio: OpenStudio, running: Running) -> None:
    """The measurement itself is tested in test_learn_routes.py; here it is drawn, and leads to Ask with both models."""
    page = open_studio("/runs")
    told = [
        {"from": 1, "to": 5, "bleu": 41.2, "right": 1, "of": 9},
        {"from": 12, "to": 99, "bleu": 7.4, "right": 0, "of": 9},
    ]
    more = {"sentence": SENTENCE, "reference": "un chien noir", "answer": "un chat noir"}

    def add(route: Any) -> None:
        models = route.fetch().json()
        twins = [next(one for one in models if one["name"] == "tiny") | {"name": name} for name in TWINS]
        route.fulfill(json=[*models, *twins])

    page.route("**/api/models", add)
    page.route(
        "**/api/learn/lengths/*", lambda route: route.fulfill(body=f"data: {json.dumps({'bins': told} | more)}\n\n")
    )
    page.goto(f"{running.url}/learn?s=vector")
    page.wait_for_selector(".scene-picture[data-ready]")
    expect(page.locator("[data-bleu]")).to_have_text(["41", "41", "7", "7"])
    expect(page.locator(".long-answer mark")).to_have_text(["chat", "chat"])
    expect(page.get_by_role("link", name="Try it yourself")).to_have_attribute(
        "href", re.compile(r"/ask\?m=one-vector&.*m2=with-attention")
    )


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
    assert parts_of(page)["by"] == "distance"
    farthest = float(torch.stack([view.distance(one).max() for one in view.names if view.is_self(one)]).max())
    assert float(first.locator(".mono").inner_text()) == pytest.approx(farthest, abs=5.01e-4)
    assert float(view.distance(name)[int(head)]) == pytest.approx(farthest)
    page.get_by_role("radio", name="previous word").check(force=True)
    most = max(one.previous for name in view.names if view.is_self(name) for one in habits(view, name))
    expect(first.locator(".mono")).to_have_text(f"{most:.3f}")


def test_a_scene_that_is_left_does_not_come_back(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "look-up")
    held(page, "**/api/walkthrough")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.scene-picture').dataset.scene === 'attention'")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".scene-picture[data-scene=recurrent][data-ready]")
    expect(page.locator(".block")).to_have_count(0)


def test_what_a_scene_shows_is_in_its_address(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: a query, a step or a sentence was lost when the page was loaded again."""
    page = open_scene(open_studio, running, "look-up&q=2&temp=0.25")
    expect(page.locator(".temperature")).to_have_text("temperature T = 0.250")
    expect(page.get_by_label("The query")).to_have_value("1")
    page.get_by_label("The query").select_option("2")
    assert parts_of(page) == {"s": "look-up", "q": "3", "temp": "0.25"}
    page = open_scene(open_studio, running, "recurrent&cell=gru&radius=1.2&at=5")
    expect(page.locator(".arithmetic")).to_have_text(re.compile("back to step 5:"))
    page = open_scene(open_studio, running, "positions&at=30")
    expect(page.locator(".scene-picture [role=status]")).to_have_text(re.compile("^position 30:"))
    page = open_scene(open_studio, running, "own&t=the+dog+sees+the+cat.")
    expect(page.get_by_label("Your sentence")).to_have_value("the dog sees the cat.")
    page.get_by_label("Your sentence").fill("")  # an empty sentence leaves nothing of the one before
    expect(page.locator(".strip:visible")).to_have_count(0)
    assert parts_of(page)["t"] == ""


def test_a_number_opens_the_scene_that_has_it(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, running, "nope")  # a scene that is not there: the first is
    expect(page.locator(".strip:visible")).to_have_count(1)
    page.keyboard.press("4")
    expect(page.locator("h1")).to_have_text(re.compile("^Softmax"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("one idea per screen")
    expect(page.get_by_role("dialog")).to_contain_text("A weight is the share")
