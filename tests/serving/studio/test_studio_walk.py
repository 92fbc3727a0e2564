"""Walk: the numbers are those of `saccade explain`, and an edited number changes the same cells in both."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from servers import Runner, Running, numbers, post
from studio_pages import OpenStudio, held, parts_of

from saccade.lens import EXAMPLES
from saccade.lens.walk.document import ChangedNumber
from saccade.serving import Limits, Models

READ = """() => Object.fromEntries([...document.querySelectorAll('.step')].map(step => [step.dataset.step,
  [...step.querySelectorAll('tbody tr')].map(row =>
    [...row.querySelectorAll('td[data-row]')].map(cell => cell.title))]))"""
GLOWING = """() => [...document.querySelectorAll('.step [data-glow]')].map(cell =>
  [cell.closest('.step').dataset.step, Number(cell.dataset.row), Number(cell.dataset.column)])"""
LIT = GLOWING.replace("data-glow", "data-lit")


def shown(page: Page) -> dict[str, np.ndarray]:
    """Every number of the page, by step; a masked one is NaN."""
    read = page.evaluate(READ)
    return {
        name: np.array([[np.nan if one == "masked" else float(one) for one in row] for row in rows])
        for name, rows in read.items()
    }


def opened(page: Page, name: str) -> np.ndarray:
    """The numbers of a step; where they are many it is shown as colours, and its block opens to them."""
    page.wait_for_selector(f".step[data-step={name}]")
    block = page.locator(f".step[data-step={name}] .colours")
    if block.is_hidden():
        return shown(page)[name]
    if block.get_attribute("aria-expanded") != "true":
        block.click()
    page.wait_for_selector(f".step[data-step={name}] .colours[aria-expanded=true]")
    cells = page.evaluate(
        "() => [...document.querySelectorAll('.walk-panel tbody tr')].map(row => "
        "[...row.querySelectorAll('td[data-row]')].map(cell => cell.title))"
    )
    return np.array([[np.nan if one == "masked" else float(one) for one in row] for row in cells])


def explained(changes: dict[str, Any] | None = None, name: str = "projection") -> dict[str, np.ndarray]:
    """What `saccade explain` computes; of the weighted values those of the first query."""
    walk = EXAMPLES[name].model_copy(update=changes or {}).walkthrough().to_dict()
    steps = {step["name"]: np.array(step["values"], dtype=float) for step in walk["steps"]}
    return {name: values[0] if values.ndim == 3 else values for name, values in steps.items()}


def assert_same(page: Page, expected: dict[str, np.ndarray]) -> None:
    found = shown(page)
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [name if name in ("projection", "retrieval4") else pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES],
)
def test_the_lectures_examples(open_studio: OpenStudio, name: str) -> None:
    page, expected = open_studio(f"/walk?x={name}"), explained(name=name)
    page.wait_for_selector(f".step[data-step={[*expected][-1]}]")
    assert_same(page, expected)
    page.get_by_label("code", exact=True).check()
    assert "@ W_query" in page.inner_text(".walk") or name != "projection"
    assert page.evaluate("() => document.documentElement.scrollWidth <= 1280")


def test_an_edited_number_glows_down_the_page(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    before = explained()
    inputs = [list(row) for row in EXAMPLES["projection"].inputs or ()]
    inputs[0][1] = 2.5
    after = explained({"inputs": inputs})
    page.get_by_label("Inputs, row input 1, column 2").fill("2.5")
    page.wait_for_selector("[data-step=sum] [data-glow]")
    assert_same(page, after)
    changed = {
        (name, int(row), int(column)) for name in after for row, column in np.argwhere(before[name] != after[name])
    }
    assert {tuple(one) for one in page.evaluate(GLOWING)} == changed
    assert parts_of(page)["e"] == "inputs:0:1:2.5"
    page.reload()
    page.wait_for_selector(".step[data-step=sum]")
    assert_same(page, after)
    page.get_by_role("button", name="As it was").click()
    expect(page.get_by_label("Inputs, row input 1, column 2")).to_have_value("0")
    assert_same(page, before)


def test_a_computed_number_is_changed_and_put_back(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    score = ChangedNumber(step="scores", place=(0, 1), value=3.25)
    page.get_by_label("Scores, row input 1, column input 2").fill("3.25")
    page.wait_for_selector("[data-step=sum] [data-glow]")
    assert_same(page, explained({"changed": (score,)}))
    assert page.evaluate(GLOWING.replace("data-glow", "data-changed")) == [["scores", 0, 1]]
    page.get_by_label("Weights, row input 1, column input 3").fill("0.9")
    weight = ChangedNumber(step="weights", place=(0, 2), value=0.9)
    note = page.locator("[data-step=weights] .row-note").first
    expect(note).to_contain_text("not to 1")
    assert_same(page, explained({"changed": (score, weight)}))
    page.get_by_role("combobox", name="The query whose weighted values are shown").select_option("2")
    page.get_by_label("Weighted values, row input 2, column 1").fill("-7")
    expect(page.get_by_label("Sum, row input 3, column 1")).to_have_value(re.compile("^−"))
    assert parts_of(page)["e"] == "scores:0:1:3.25,weights:0:2:0.9,weighted:2:1:0:-7"
    page.reload()
    page.wait_for_selector("[data-step=weights] [data-changed]")
    weighted = ChangedNumber(step="weighted", place=(2, 1, 0), value=-7)
    chooser = page.get_by_role("combobox", name="The query whose weighted values are shown")
    expect(chooser).to_have_value("2")  # the address has the query too
    chooser.select_option("0")
    assert_same(page, explained({"changed": (score, weight, weighted)}))
    page.get_by_role("button", name="Restore row input 1, column input 3 of Weights").click()
    expect(note).to_have_text("")
    assert_same(page, explained({"changed": (score, weighted)}))
    assert parts_of(page)["e"] == "scores:0:1:3.25,weighted:2:1:0:-7"
    page.get_by_role("button", name="As it was").click()
    expect(page.locator("[data-changed]")).to_have_count(0)
    assert_same(page, explained())


def test_another_score_forgets_the_scaled_numbers(open_studio: OpenStudio) -> None:
    page = open_studio("/walk?x=retrieval&e=scaled:0:0:2,scores:1:1:4")
    page.wait_for_selector("[data-step=scaled] [data-changed]")
    page.get_by_role("combobox", name="score", exact=True).select_option("dot")
    expect(page.locator("[data-step=scaled]")).to_have_count(0)
    assert_same(
        page,
        explained({"score": "dot", "changed": (ChangedNumber(step="scores", place=(1, 1), value=4),)}, "retrieval"),
    )


def test_by_arrow_keys_and_by_dragging(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    cell = page.get_by_label("Query matrix, row 1, column 1")
    cell.press("ArrowUp")
    cell.press("Shift+ArrowUp")
    expect(cell).to_have_value("2.1")
    other = page.get_by_label("Key matrix, row 1, column 1")
    other.scroll_into_view_if_needed()
    box = other.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 9, box["y"] + 9)
    page.mouse.down()
    page.mouse.move(box["x"] + 9 + 31, box["y"] + 9, steps=3)
    page.mouse.up()
    expect(other).to_have_value("0.5")
    assert parts_of(page)["e"] == "W_query:0:0:2.1,W_key:0:0:0.5"


def test_score_weights_and_mask(open_studio: OpenStudio) -> None:
    page = open_studio("/walk?x=retrieval")
    page.get_by_role("combobox", name="score", exact=True).select_option("cosine")
    page.get_by_role("combobox", name="weights", exact=True).select_option("sparsemax")
    page.get_by_role("combobox", name="mask", exact=True).select_option("causal")
    page.wait_for_selector("[data-step=masked]")
    changes = {"score": "cosine", "weights": "sparsemax", "mask": "causal"}
    page.wait_for_function("() => document.querySelector('[data-step=weights] code').textContent.includes('Sparsemax')")
    assert_same(page, explained(changes, "retrieval"))
    page.get_by_label("Masked scores, row token 1, column token 3").click()
    by_hand = [[True, False, True], [True, True, False], [True, True, True]]
    expect(page.get_by_role("combobox", name="mask", exact=True)).to_have_value("by hand")
    assert_same(page, explained(changes | {"mask": by_hand}, "retrieval"))


def test_what_a_number_is_made_of_lights_up(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    page.hover("[data-step=scores] td[data-row='1'][data-column='2']")
    lit = {tuple(one) for one in page.evaluate(LIT)}
    assert lit == {("queries", 1, column) for column in range(3)} | {("keys", 2, column) for column in range(3)}
    page.hover("[data-step=queries] td[data-row='2'][data-column='0']")
    lit = {tuple(one) for one in page.evaluate(LIT)}
    assert lit == {("inputs", 2, column) for column in range(4)} | {("W_query", row, 0) for row in range(4)}


def test_the_weighted_values_of_another_query(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    page.get_by_role("combobox", name="The query whose weighted values are shown").select_option("2")
    weighted = EXAMPLES["projection"].walkthrough()["weighted"].values[2].numpy()
    np.testing.assert_array_equal(shown(page)["weighted"], weighted)


def test_a_wrong_number_is_told_and_the_old_one_put_back(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    cell = page.get_by_label("Inputs, row input 1, column 1")
    said = page.locator("[data-step=inputs] .wrong")
    allowed = "is not a number; write one such as 2, −0.5 or 1e3, or 1 is kept."
    for typed, key in {"abc": "Tab", "1e400": "Enter", "": "Enter"}.items():
        cell.fill(typed)
        expect(cell).to_have_attribute("data-wrong", "")
        expect(said).to_have_text(f"«{typed}» {allowed}" if typed else f"An empty cell {allowed}")
        cell.press(key)
        expect(cell).to_have_value("1")
        expect(said).to_contain_text(allowed)
        assert_same(page, explained())
    cell.fill("one")
    cell.press("Escape")
    expect(cell).to_have_value("1")
    expect(said).to_have_text("")
    cell.fill("abc")
    cell.fill("1.5")
    expect(said).to_have_text("")


def test_a_number_that_cannot_be_computed_with_goes_back(open_studio: OpenStudio) -> None:
    """Wrong before: 1e308 stayed in X while Q, K and V were the old ones."""
    page = open_studio("/walk", may_refuse=True)
    cell = page.get_by_label("Inputs, row input 1, column 1")
    cell.fill("2")
    page.wait_for_selector("[data-step=sum] [data-glow]")
    cell.fill("1e308")
    expect(page.locator("#status .error")).to_be_visible()
    expect(cell).to_have_value("2")
    inputs = [list(row) for row in EXAMPLES["projection"].inputs or ()]
    inputs[0][0] = 2
    assert_same(page, explained({"inputs": inputs}))
    assert parts_of(page)["e"] == "inputs:0:0:2"


def test_a_head_arrives_with_the_word_that_was_chosen(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: "Take this head apart" and the exported page forgot the word."""
    page = open_studio("/ask?m=tiny&t=the+black+cat+sees+the+dog.&a=encoder.0.self&h=1&row=2&col=1&pin=1")
    page.locator(".share summary").click()
    with page.expect_request("**/export?*") as exported:
        page.get_by_role("button", name="HTML", exact=True).click()
    assert "&row=2&column=1" in exported.value.url
    page.get_by_role("link", name="Take this head apart").click()
    page.wait_for_selector(".step[data-step=sum]")
    look = post(running.client, "/api/models/tiny/looks", input="the black cat sees the dog.")
    axis = look["axes"][look["attentions"][0]["rows"]]
    row = axis["words"].index(2)
    chosen = page.get_by_role("combobox", name="The query whose weighted values are shown")
    expect(chosen).to_have_value(str(row))
    opened(page, "weights")
    expect(page.locator(".walk-panel tr[data-chosen] th")).to_have_text(axis["tokens"][row].replace("▁", "·"))


def test_no_other_numbers_stand_under_a_model_that_has_none(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: the lecture's matrices stayed under the heading of a real model."""
    page = open_studio("/walk", may_refuse=True)
    page.wait_for_selector(".step[data-step=sum]")
    page.route("**/api/models/tiny/looks", lambda route: route.fulfill(status=400, json={"error": "No attention."}))
    page.evaluate(
        "() => { history.pushState(null, '', '/walk?from=model&m=tiny&t=the+cat'); "
        "dispatchEvent(new PopStateEvent('popstate')); }"
    )
    expect(page.locator("#status .error")).to_have_text("No attention.")
    expect(page.locator(".step")).to_have_count(0)


@pytest.mark.slow
def test_every_column_of_a_wide_matrix_is_seen(open_studio: OpenStudio) -> None:
    """Wrong before: 5 of 32 columns were in sight."""
    page = open_studio("/walk", width=1280)
    wide = {"queries": [[1.25] * 32] * 2, "keys": [[-1.25] * 32] * 2, "values": [[0.5] * 32] * 2}
    page.route("**/api/walkthroughs", lambda route: route.fulfill(json={"projection": wide}))
    page.reload()
    page.wait_for_selector(".step[data-step=sum]")
    names = ("queries", "keys", "values")
    drawn = page.evaluate(
        "names => names.map(name => document.querySelector(`[data-step=${name}] canvas`).width)", list(names)
    )
    assert drawn == [32, 32, 32]
    page.locator("[data-step=queries] .colours").click()
    page.wait_for_selector(".walk-panel td")
    hidden = page.evaluate(
        "() => [...document.querySelectorAll('.walk-panel .scroll, .flow-place')]"
        ".filter(one => one.scrollWidth > one.clientWidth + 1).length"
    )
    assert hidden == 0
    assert page.locator(".walk-panel tbody tr").first.locator("td[data-row]").count() == 32


@pytest.mark.parametrize("address", ["/walk", "/walk?x=retrieval4&mask=causal", "/walk?x=additive"])
def test_all_steps_are_on_one_screen_and_none_covers_another(open_studio: OpenStudio, address: str) -> None:
    page = open_studio(address)
    page.wait_for_selector(".step[data-step=sum]")
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.flow .step, .step-like, .walk-said, .walk-choices')].map(one => {"
        " const { left, top, right, bottom } = one.getBoundingClientRect(); return [left, top, right, bottom]; })"
    )
    assert len(boxes) > 6
    for box in boxes:
        assert min(box) >= 0, box
        assert (box[2], box[3]) < (1281, 10**6), box
        assert box[3] <= 801, box
    for one, other in combinations(boxes, 2):
        across = min(one[2], other[2]) - max(one[0], other[0])
        assert across <= 1 or min(one[3], other[3]) - max(one[1], other[1]) <= 1, (one, other)


def test_arithmetic_strips_and_the_softmax_opened(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    page.hover("[data-step=scores] td[data-row='1'][data-column='2']")
    expect(page.locator(".walk .arithmetic")).to_have_text("2·2 + 2·3 + 2·1 = 12")
    expect(page.locator(".pair-strips")).to_contain_text("Σ = 12.000")
    page.hover("[data-step=queries] td[data-row='1'][data-column='0']")
    expect(page.locator(".walk .arithmetic")).to_have_text("0·1 + 2·1 + 0·0 + 2·0 = 2")
    page.hover("[data-step=weights] td[data-row='0'][data-column='1']")
    expect(page.locator(".walk .arithmetic")).to_have_text("e^4 / (e^2 + e^4 + e^4) = 0.468")
    weights = EXAMPLES["projection"].walkthrough()["weights"].values
    rows = page.locator("[data-block=powers] tbody tr").all()
    for row, wanted in zip(rows, weights.tolist(), strict=True):
        *powers, total = (float(cell.get_attribute("title") or "nan") for cell in row.locator("td").all())
        np.testing.assert_allclose([power / total for power in powers], wanted, rtol=1e-12)


def test_temperature(open_studio: OpenStudio) -> None:
    page = open_studio("/walk?x=retrieval")
    page.get_by_label("Temperature").fill("1")
    page.wait_for_function("() => new URL(location.href).searchParams.get('temp') === '2'")
    expect(page.locator(".walk-choices .mono")).to_have_text("2.000")
    page.wait_for_function("() => document.querySelector('[data-step=scaled] .equation').textContent.includes('T = 2')")
    assert_same(page, explained({"temperature": 2.0}, "retrieval"))
    page.reload()
    page.wait_for_selector(".step[data-step=sum]")
    assert_same(page, explained({"temperature": 2.0}, "retrieval"))
    page.get_by_role("button", name="As it was").click()
    page.wait_for_function(
        "() => !document.querySelector('[data-step=scaled] .equation').textContent.includes('T = 2')"
    )
    assert_same(page, explained(name="retrieval"))


def test_back_undoes_a_number(open_studio: OpenStudio) -> None:
    page = open_studio("/walk")
    cell = page.get_by_label("Inputs, row input 1, column 2")
    cell.fill("2.5")
    page.get_by_label("Inputs, row input 2, column 1").fill("7")
    page.wait_for_function("() => new URL(location.href).searchParams.get('e') === 'inputs:0:1:2.5,inputs:1:0:7'")
    page.go_back()
    page.wait_for_function("() => new URL(location.href).searchParams.get('e') === 'inputs:0:1:2.5'")
    page.go_back()
    expect(cell).to_have_value("0")
    assert "e" not in parts_of(page)


def test_the_real_numbers_of_a_head(open_studio: OpenStudio, running: Running) -> None:
    sentence = "the black cat sees the dog."
    page = open_studio("/ask?m=tiny&t=the+black+cat+sees+the+dog.&a=decoder.0.cross&h=1")
    page.get_by_role("link", name="Take this head apart").click()
    page.wait_for_selector(".step[data-step=output]")
    options = {"beam": 5, "n_best": 5}  # what the Ask page asks for
    look = post(running.client, "/api/models/tiny/looks", input=sentence, options=options)
    document = post(running.client, f"/api/looks/{look['id']}/walk", name="decoder.0.cross", head=1)
    walk = post(running.client, "/api/walkthrough", **document)
    names = [step["name"] for step in walk["steps"]]
    assert names[:4] == ["inputs", "source", "W_query", "W_key"]  # it begins at X
    assert page.locator(".step").evaluate_all("all => all.map(one => one.dataset.step)").sort() == names.sort()
    for step in walk["steps"]:
        if step["name"] in ("inputs", "W_value", "keys", "scaled", "weights", "output"):
            np.testing.assert_array_equal(opened(page, step["name"]), np.array(step["values"], dtype=float))
    exact = numbers(running.client, f"/api/looks/{look['id']}/matrix", name="decoder.0.cross", head=1)
    np.testing.assert_allclose(opened(page, "weights"), exact, atol=1e-5)
    assert page.evaluate("() => document.documentElement.scrollWidth <= 1280")
    expect(page.locator(".architecture .dot[aria-pressed=true]")).to_have_attribute(
        "aria-label", "reading while writing, layer 1, head 2"
    )
    parameters = sum(one.numel() for one in running.models["tiny"].predictor.model.parameters())
    expect(page.locator(".architecture .all")).to_contain_text(f"{parameters:,} parameters in all")
    page.get_by_label("The head").select_option("encoder.0.self:0")
    page.wait_for_function("() => new URL(location.href).searchParams.get('a') === 'encoder.0.self'")
    page.get_by_role("button", name="reading, layer 1, head 2").click()
    page.wait_for_function("() => new URL(location.href).searchParams.get('h') === '1'")


def weights_of(running: Running, name: str, head: int, **asked: Any) -> np.ndarray:
    look = post(running.client, "/api/models/tiny/looks", **asked)
    return numbers(running.client, f"/api/looks/{look['id']}/matrix", name=name, head=head)


@pytest.mark.slow
def test_an_address_that_leads_to_a_head_waits_for_the_model(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/runs")
    waiting = held(page, "**/api/models")
    page.goto(f"{running.url}/walk?from=model&m=tiny&t=the+dog+sleeps.&a=encoder.0.self&h=1")
    page.wait_for_function("() => document.title.startsWith('Walk')")
    assert page.locator(".step").count() == 0
    waiting[0].continue_()
    page.wait_for_selector(".step[data-step=weights]")
    expect(page.get_by_label("The text that the model reads")).to_have_value("the dog sleeps.")
    exact = weights_of(running, "encoder.0.self", 1, input="the dog sleeps.")
    np.testing.assert_allclose(opened(page, "weights"), exact, atol=1e-5)


@pytest.mark.slow
def test_a_model_that_comes_late_is_offered(open_studio: OpenStudio) -> None:
    page = open_studio("/runs")
    waiting = held(page, "**/api/models")
    page.goto(f"{page.url.removesuffix('/runs')}/walk")
    page.wait_for_selector(".step[data-step=sum]")
    options = page.get_by_label("start").locator("option")
    expect(options).to_have_count(len(EXAMPLES))
    waiting[0].continue_()
    expect(options).to_have_count(len(EXAMPLES) + 1)


def test_a_head_of_the_answer_that_is_seen(open_studio: OpenStudio, running: Running) -> None:
    """Drawn answers, the third of them, and a head that is switched off: Walk takes the same."""
    sentence, options = "the black cat sees the dog.", {"sample": True, "tries": 5, "seed": 4}
    ask = "/ask?m=tiny&t=the+black+cat+sees+the+dog.&a=decoder.0.cross&h=1&how=draw&seed=4"
    for part, asked in {
        "&n=2": {"which": 2},
        "&off=decoder.0.cross:0": {"without_heads": ["decoder.0.cross:0"]},
    }.items():
        page = open_studio(ask + part)
        page.get_by_role("link", name="Take this head apart").click()
        page.wait_for_selector(".step[data-step=weights]")
        exact = weights_of(running, "decoder.0.cross", 1, input=sentence, options=options, **asked)
        np.testing.assert_allclose(opened(page, "weights"), exact, atol=1e-5)
        expect(page.locator(".from-model .quiet")).to_contain_text("sampled answers, seed 4 · ")


@pytest.mark.slow
def test_without_a_model_there_is_a_way_back(open_studio: OpenStudio, runner: Runner) -> None:
    page = open_studio("/walk?from=model", url=runner.start(Models(Limits())).url)
    expect(page.locator("#status .error")).to_contain_text("There is no model here")
    page.get_by_label("start").select_option("retrieval")
    page.wait_for_selector(".step[data-step=sum]")
    expect(page.locator("#status .error")).to_be_hidden()


def test_each_line_leads_to_what_is_made_of_its_block(open_studio: OpenStudio) -> None:
    """Wrong before: the line of the values ran into the powers of the scores, which are not made of them."""
    page = open_studio("/walk")
    page.wait_for_selector(".flow-lines path")
    joined = page.evaluate(
        "() => [...document.querySelectorAll('.flow-lines path')].map(p => [p.dataset.from, p.dataset.to])"
    )
    for from_, to in [("scores", "powers"), ("powers", "weights"), ("weights", "weighted"), ("values", "weighted")]:
        assert [from_, to] in joined
    assert [from_ for from_, to in joined if to in ("scores", "powers")] == ["queries", "keys", "scores"]
    low = page.evaluate(
        """() => {
          const box = document.querySelector('[data-block=powers]').getBoundingClientRect();
          const path = document.querySelector('[data-from=values]');
          const top = document.querySelector('.flow-lines').getBoundingClientRect().top;
          const middle = path.getPointAtLength(path.getTotalLength() / 2).y + top;
          return middle - box.bottom;
        }"""
    )
    assert low > 0  # it goes round the block that is in its way


def test_what_is_read_out_follows_an_edit(open_studio: OpenStudio) -> None:
    """Wrong before: "1 is given" with 2 in the cell, and a sum for a score that was typed over it."""
    page = open_studio("/walk")
    given = page.locator("[data-step=inputs] td[data-row='0'][data-column='0'] input")
    given.fill("2")
    said = page.locator(".arithmetic")
    expect(said).to_have_text("2 is given")
    page.locator("[data-step=scores] td[data-row='0'][data-column='0'] input").fill("9")
    expect(said).to_have_text("9 was typed here, in place of what is computed")
    page.get_by_role("button", name="As it was").click()
    expect(said).to_have_text("1·0 + 0·1 + 2·1 = 2")
    page.get_by_label("score", exact=True).select_option("cosine")
    expect(said).to_contain_text("|q_i|")  # not a sum of products


def test_an_address_that_asks_for_what_is_not_there(open_studio: OpenStudio) -> None:
    page = open_studio("/walk?score=zzz", may_refuse=True)
    expect(page.locator(".error:visible")).to_have_text(re.compile("There is no score 'zzz'"))
    expect(page.locator("[data-step=weights]")).to_be_visible()  # the walk as it is given
    assert "score" not in parts_of(page)


def test_tab_leads_through_all_numbers_and_on(open_studio: OpenStudio) -> None:
    """Wrong before: the page took every Tab for a key of its own, so that nothing could be reached by keyboard."""
    page = open_studio("/walk?x=retrieval")
    page.wait_for_selector(".step[data-step=sum]")
    label = "() => document.activeElement.ariaLabel ?? document.activeElement.tagName"

    def walked(key: str) -> list[str]:
        """What Tab leads to, until it leaves the page."""
        found: list[str] = []
        while len(found) < 120 and found[-1:] != ["BODY"]:
            page.keyboard.press(key)
            found.append(page.evaluate(label))
        return found

    there = walked("Tab")
    for name in ("Temperature", "Queries, row token 1, column 1", "Values, row token 3, column 3", "Sum"):
        assert name in there
    assert there[-1] == "BODY"
    page.get_by_label("Temperature").focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(label) == "mask"


def test_an_edited_number_stays_in_its_column_and_its_query_is_chosen(open_studio: OpenStudio) -> None:
    """Wrong before: the way back pushed the number out of its column, and another query stayed marked,
    or was the one of the address."""
    page = open_studio("/walk?x=retrieval&temp=4&row=2")
    chosen = page.locator(".step[data-step=queries] tr[data-chosen] th")
    expect(chosen).to_have_text("token 3")
    number = page.get_by_label("Queries, row token 2, column 1")
    box = number.bounding_box()
    number.fill("1.5")
    expect(page.get_by_role("button", name="Restore row token 2, column 1 of Queries")).to_be_visible()
    assert number.bounding_box() == box
    expect(chosen).to_have_text("token 2")
    assert parts_of(page)["row"] == "1"
    expect(page.locator("[data-block=powers] [data-glow]")).not_to_have_count(0)
    page.get_by_label("Scores, row token 2, column token 1").hover()
    expect(page.locator(".walk .arithmetic")).to_have_text("9.28 / (√3 · 4) = 1.339")
