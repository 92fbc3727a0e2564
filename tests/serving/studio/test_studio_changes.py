"""Ask: take apart; heads switched off, links cut, words swapped, and what is different then."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from servers import Running, events, post
from studio_pages import (
    ADDRESS,
    CROSS,
    OPTIONS,
    SENTENCE,
    OpenStudio,
    answer,
    head_name,
    layer_name,
    matrix,
    number,
    parts_of,
    percent,
    place_of,
    readout,
)

SELF = "encoder.0.self"


def changed(running: Running, **edits: Any) -> Any:
    """The look at the sentence with something changed, asked for as the page does."""
    return post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, **edits)


def before_and_after(look: Any) -> str:
    """How probable the old answer was and is now, as the page writes it."""
    scored = look["change"]["before"]
    return " → ".join(percent(math.exp(sum(scored[side]))) for side in ("before", "after"))


def every_head(look: dict[str, Any]) -> list[str]:
    return [f"{one['name']}:{head}" for one in look["attentions"] for head in range(one["heads"])]


def test_the_headline_is_the_answer_of_the_model_as_it_is_changed(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """Wrong before: the old answer stayed in the headline while the map showed the new one."""
    every = every_head(look)
    after = changed(running, without_heads=every)
    assert after["answer"]["text"] != look["answer"]["text"]
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&off={','.join(every)}")
    expect(page.locator(".sentence:visible .answer")).to_have_text(after["answer"]["text"])
    expect(page.locator(".was:visible")).to_have_text(re.compile("^before: "))
    struck = page.locator(".was:visible s").all_inner_texts()
    assert struck
    assert set(struck) <= set(look["answer"]["text"].split())
    expect(page.locator(".sentence:visible .probability b")).to_have_text(before_and_after(after))
    page.get_by_role("radio", name="before").check(force=True)  # of the map: the headline stays as the model is now
    expect(page.locator(".figure:visible h2")).to_have_text(re.compile("before$"))
    expect(page.locator(".sentence:visible .answer")).to_have_text(after["answer"]["text"])


def test_a_head_is_switched_off_and_on(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1")
    page.get_by_role("button", name=f"Switch off {head_name(CROSS, 1)}").click()
    after = changed(running, without_heads=[f"{CROSS}:1"])
    expect(page.locator(".sentence:visible .probability b")).to_have_text(before_and_after(after))
    expect(page.locator(".sentence:visible .answer")).to_have_text(after["answer"]["text"])
    if after["change"]["same"]:
        expect(page.locator(".was:visible")).to_have_text("the same answer as before the change")
    page.get_by_text("each part", exact=True).click()
    scored = after["change"]["before"]
    shown = [row.locator("td").all_inner_texts() for row in page.locator(".parts tbody tr").all()]
    expected = zip(scored["before"], scored["after"], strict=True)
    assert shown == [[percent(math.exp(one)), percent(math.exp(other))] for one, other in expected]
    assert parts_of(page)["off"] == f"{CROSS}:1"
    page.get_by_role("button", name=re.compile(" · undo$")).click()
    expect(page.locator(".was:visible")).to_be_hidden()
    expect(page.locator(".sentence:visible .probability b")).to_have_text(
        percent(math.exp(look["answer"]["log_probability"]))
    )
    assert "off" not in parts_of(page)


def test_a_link_is_cut_in_one_head(open_studio: OpenStudio) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=0&w=0&row=2&col=1")
    assert readout(page, 2, 1) > 0
    page.get_by_role("button", name=re.compile(f"^✂ Cut .* in {head_name(CROSS, 0)}$")).click()
    expect(page.locator(".chips")).to_contain_text(f"in {head_name(CROSS, 0)}")
    assert parts_of(page)["cut"] == f"{CROSS}:0:2:1"
    expect(page.locator(".figure:visible .readout b")).to_have_text("0.000000")
    page.get_by_role("radio", name="before").check(force=True)
    expect(page.locator(".figure:visible .readout b")).not_to_have_text("0.000000")


def test_from_the_first_paint_to_a_cut_link_with_one_hover_and_one_click(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """The links of a word are drawn between the words, and cut there; the page says in which heads."""
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean")
    page.locator(".link-word", has_text=re.compile("^cat$")).hover()
    weights = matrix(running, look, name=SELF, head="mean", words=True)
    row = look["axes"][look["attentions"][0]["rows"]]["labels"].index("cat")
    column = int(max((one for one in range(weights.shape[1]) if one != row), key=lambda one: weights[row, one]))
    assert place_of(page) == (row, column)  # a word that is pointed at is read out with its strongest link
    handle = page.locator(f"[data-link='{row},{column}']")
    expect(handle).to_have_attribute("aria-label", re.compile(f"^Cut the link .* in all heads of {layer_name(SELF)}$"))
    handle.click()
    expect(page.locator(".chips")).to_contain_text(f"in all heads of {layer_name(SELF)}")
    expect(page.locator(".figure:visible .readout b")).to_have_text("0.000000")
    cut = [link.split(":") for link in parts_of(page)["cut"].split(",")]
    assert {name for name, *_ in cut} == {SELF}  # no head is named: it is cut in all of them
    after = changed(running, without_links=[(name, int(one), int(other)) for name, one, other in cut])
    expect(page.locator(".sentence:visible .probability b")).to_have_text(before_and_after(after))
    expect(page.locator(".sentence:visible .answer")).to_have_text(after["answer"]["text"])
    page.get_by_role("button", name=re.compile("^Restore the link")).press("Enter")
    expect(page.locator(".chips li")).to_have_count(0)


def test_the_page_opens_on_a_link_that_changes_the_answer(open_studio: OpenStudio, running: Running) -> None:
    """What is opened with was measured by the server; with no text in the address, its link is the one read out."""
    found = {"input": "the cat sees the dog.", "name": SELF, "row": 1, "column": 4}
    page = open_studio("/runs")
    page.route("**/api/models/tiny/opening", lambda route: route.fulfill(json=found))
    page.route(
        "**/api/models",
        lambda route: route.fulfill(json=[one | {"examples": ["the cat"]} for one in route.fetch().json()]),
    )
    page.goto(f"{running.url}/ask?m=tiny")
    expect(page.get_by_label("Your text")).to_have_value(found["input"])
    expect(page.locator("[data-link='1,4']")).to_have_attribute("aria-label", re.compile("^Cut the link «cat» → «dog»"))
    assert parts_of(page) | {"a": SELF, "h": "mean", "row": "1", "col": "4"} == parts_of(page)


def without(after: list[float], before: float) -> list[str]:
    """Probabilities as the page writes them, each with the way it went."""
    whole, told = percent(math.exp(before)), [percent(math.exp(one)) for one in after]
    ways = ["" if text == whole else " ↓" if one < before else " ↑" for text, one in zip(told, after, strict=True)]
    return [text + way for text, way in zip(told, ways, strict=True)]


def test_what_it_looked_at_and_what_it_depends_on_are_two_things(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(ADDRESS)
    expect(page.locator(".sentence:visible .strip-said")).to_contain_text("looked at")
    page.get_by_role("radio", name="depends on").check(force=True)
    asked = {"input": SENTENCE, "options": OPTIONS}
    whole, *left_out = events(running.client, "/api/models/tiny/effects", **asked)
    expect(page.locator(".depends:visible .depends-words bdi")).to_have_text([one["word"] for one in left_out])
    shown = page.locator(".depends:visible .depends-words .mono").all_inner_texts()
    assert shown == without([one["after"] for one in left_out], whole["before"])
    expect(page.locator(".depends:visible p")).to_have_text(
        re.compile(f"^With all words, the probability of .* is {percent(math.exp(whole['before']))};")
    )
    moved = [abs(math.exp(one["after"]) - math.exp(whole["before"])) for one in left_out]
    colours = page.locator(".depends:visible bdi").evaluate_all(
        "all => all.map(one => Number(getComputedStyle(one).backgroundColor.match(/[0-9]+/)[0]))"
    )
    assert colours[moved.index(max(moved))] == min(colours)  # the darkest, whether it rises or falls
    expect(page.locator(".strip:visible")).to_have_count(0)
    assert parts_of(page)["see"] == "depends"
    word = page.locator("button.word").nth(1)  # of the answer: what this word alone depends on
    word.click()
    expect(page.locator(".depends:visible p")).to_contain_text(
        f"the probability of «{word.inner_text()}» at its place in the answer"
    )
    shown = page.locator(".depends:visible .depends-words .mono").all_inner_texts()
    assert shown == without([one["scores"][1] for one in left_out], whole["scores"][1])  # a word is a token here


def test_what_the_changed_model_depends_on(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: below the new answer stood what the old one depends on."""
    asked = {"input": SENTENCE, "options": OPTIONS, "without_heads": [f"{CROSS}:0", f"{CROSS}:1"]}
    whole, *left_out = events(running.client, "/api/models/tiny/effects", **asked)
    page = open_studio(f"{ADDRESS}&see=depends&off={CROSS}:0,{CROSS}:1")
    expect(page.locator(".sentence:visible .answer")).to_have_text(whole["answer"])
    expect(page.locator(".depends:visible .depends-words .mono")).to_have_text(
        without([one["after"] for one in left_out], whole["before"])
    )
    page.goto(f"{running.url}{ADDRESS}&see=depends&cut={CROSS}:1:1")
    expect(page.locator(".depends:visible p")).to_contain_text("is not measured while links are cut")
    expect(page.locator(".depends:visible li")).to_have_count(0)


def test_a_text_that_is_too_long_for_a_picture_leaves_none_of_another(open_studio: OpenStudio) -> None:
    """Wrong before: the answer to the long text stood above the map of the text before it."""
    page = open_studio(ADDRESS)
    expect(page.locator(".figure:visible")).to_have_count(1)
    page.get_by_label("Your text").fill("the dog sees the cat. " * 200)
    expect(page.get_by_text(re.compile(r"1201 tokens here; this page draws up to 1024"))).to_be_visible()
    for gone in (".figure", ".strip", ".changes", ".heads", ".controls"):
        expect(page.locator(f"{gone}:visible")).to_have_count(0)


def test_a_pinned_word_leads_to_its_own_where_rows_are_other_words(
    open_studio: OpenStudio, look: dict[str, Any]
) -> None:
    """Wrong before: a pinned row kept its number when the rows became other words."""
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=0&row=2&col=1&pin=1")
    readout(page, 2, 1)
    page.keyboard.press("]")  # another head of the same words
    readout(page, 2, 1)
    assert parts_of(page)["pin"] == "1"
    page.get_by_role("button", name=head_name(SELF, 1)).first.click()
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(SELF, 1)} · words")
    read = look["axes"][look["attentions"][0]["rows"]]["labels"][1]  # the word of the text that it looked at
    expect(page.locator(".figure:visible .readout bdi").first).to_have_text(f"«{read}»")


def test_stepping_takes_the_word_along_that_is_read_out(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    """Wrong before: readout and box stayed on a word that is not written yet."""
    rows = look["alignment"]["rows"]
    words = len([word for word in rows if word != "</s>"])
    page = open_studio(f"{ADDRESS}&row={words - 1}&col=0")
    readout(page, words - 1, 0)
    page.get_by_role("button", name="One word back").click()
    expect(page.locator(".figure:visible .readout bdi").first).to_have_text(f"«{rows[words - 2]}»")
    expect(page.locator(".link-word[aria-pressed=true]")).to_have_text(rows[words - 2])
    expect(page.locator("button.word[aria-pressed=true]")).to_have_text(rows[words - 2])
    page.get_by_role("button", name="One word back").click()
    expect(page.locator(".figure:visible .readout bdi").first).to_have_text(f"«{rows[words - 3]}»")


def test_an_arc_that_is_pointed_at_is_read_out(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={SELF}&h=1&v=arcs&row=1&col=0")
    weights = matrix(running, look, name=SELF, head=1, words=True)
    page.locator(".to li[data-column='3']:visible").hover()
    assert readout(page, 1, 3) == pytest.approx(weights[1, 3], abs=5.01e-7)
    expect(page.locator(".to li[data-pointed]:visible")).to_have_attribute("data-column", "3")


def test_words_that_a_model_does_not_know_are_told(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=back&t=chat+zebra+chien")
    expect(page.locator(".unknown:visible")).to_have_text(
        re.compile(r"^1 of 3 words is new to this model \(«zebra»\), so its answer may be meaningless\.")
    )
    page.get_by_label("Your text").fill("chat chien")
    expect(page.locator(".unknown:visible")).to_have_count(0)
    page.get_by_label("Your text").fill("<i>zebra</i> zebra chat " + "z" * 3000)  # a word is counted once
    told = page.locator(".unknown:visible")
    expect(told).to_have_text(re.compile(r"^3 of 4 words are new to this model \(.* and \d+ more\)"))
    assert len(told.inner_text()) < 300
    page.get_by_label("Your text").fill("zebra")
    expect(told).to_have_text(re.compile(r"^This word is new to this model"))


def test_a_word_is_swapped(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(ADDRESS)
    page.get_by_text("swap a word", exact=True).click()
    page.get_by_label("Word to replace").select_option("cat")
    page.get_by_label("Replacement word").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    swapped = SENTENCE.replace("cat", "dog")
    (expected,) = post(running.client, "/api/models/tiny/predict", inputs=[swapped], options=OPTIONS)["answers"]
    expect(page.locator(".sentence:visible .answer")).to_have_text(expected["text"])
    expect(page.locator(".was:visible")).to_be_visible()


def test_a_word_chosen_at_once_is_kept(open_studio: OpenStudio) -> None:
    """The browser's late notice that the list was opened must not choose another word."""
    page = open_studio(f"{ADDRESS}&a={SELF}&h=1&row=5&col=5")
    kept = page.evaluate("""async () => {
        const summary = [...document.querySelectorAll("summary")].find((one) => one.textContent === "swap a word");
        const list = document.querySelector("[aria-label='Word to replace']");
        summary.click();
        const offered = list.value;
        list.value = "cat";
        await new Promise((done) => setTimeout(done, 200));
        return [offered, list.value];
    }""")
    assert kept == ["dog", "cat"]


@pytest.mark.slow
def test_a_head_off_while_answers_are_drawn(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&how=draw&seed=3&off={CROSS}:1")
    asked = {"input": SENTENCE, "options": {"sample": True, "tries": 5, "seed": 3}}
    after = post(running.client, "/api/models/tiny/looks", **asked, without_heads=[f"{CROSS}:1"])
    assert answer(page) == after["answer"]["text"]
    expect(page.locator(".sentence:visible .probability b")).to_have_text(before_and_after(after))
    expect(page.locator(".sentence:visible .probability")).to_contain_text("probability of the likeliest answer before")


@pytest.mark.slow
def test_a_difference_only_of_the_same_words(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&a={SELF}&h=1&w=0&off={SELF}:0&show=difference&row=0&col=0")
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(SELF, 1)} · pieces · after minus before")
    assert readout(page, 0, 0) == 0  # a head of the first layer does not see that another one is off
    page = open_studio(f"{ADDRESS}&a={CROSS}&h=1&off={','.join(every_head(look))}&show=difference")
    expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(CROSS, 1)} · words · after")
    expect(page.get_by_role("radio", name="difference")).to_be_disabled()
    expect(page.get_by_role("radio", name="after")).to_be_checked()
    expect(page.get_by_role("group", name="Weights to show")).to_have_attribute(
        "title", re.compile("there is no difference")
    )


def test_the_difference_of_two_texts(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    other = "the white dog sees the cat."
    page = open_studio(f"{ADDRESS}&t2={other.replace(' ', '+')}&a={SELF}&h=1&w=0&row=1&col=2")
    page.get_by_label("second minus first").check()
    expect(page.locator(".figure h2").nth(1)).to_have_text(f"{head_name(SELF, 1)} · pieces · second minus first")
    second = post(running.client, "/api/models/tiny/looks", input=other, options=OPTIONS)
    one, two = (matrix(running, which, name=SELF, head=1) for which in (look, second))
    shown = number(page.locator(".figure .readout b").nth(1).inner_text())
    assert shown == pytest.approx(two[1, 2] - one[1, 2], abs=1.01e-6)
    assert parts_of(page)["d"] == "1"
    page.get_by_label("The second text").fill("the dog sleeps.")
    expect(page.get_by_label("second minus first")).to_be_disabled()


@pytest.mark.slow
def test_a_word_that_stands_twice_is_swapped_by_itself(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=tiny&t=the+cat+sees+the+cat.")
    page.get_by_text("swap a word", exact=True).click()
    page.get_by_label("Word to replace").select_option(label="cat (2 of 2)")
    page.get_by_label("Replacement word").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    (expected,) = post(running.client, "/api/models/tiny/predict", inputs=["the cat sees the dog."], options=OPTIONS)[
        "answers"
    ]
    expect(page.locator(".sentence:visible .answer")).to_have_text(expected["text"])
    expect(page.locator(".was:visible")).to_be_visible()
    page.reload()
    page.get_by_text("swap a word", exact=True).click()
    assert page.get_by_label("Replacement word").input_value() == "dog"


def test_the_link_that_can_be_cut_is_the_one_that_is_read_out(open_studio: OpenStudio) -> None:
    switched = f"{ADDRESS}&a={SELF}&h=1&off={SELF}:1"

    def told(page: Page) -> tuple[str, tuple[int, int]]:
        expect(page.locator(".figure:visible h2")).to_have_text(f"{head_name(SELF, 1)} · words · after minus before")
        expect(page.locator(".figure:visible .side > p.quiet")).to_contain_text("still looks where it did before")
        expect(page.locator(".strip-said:visible")).to_contain_text("after the change")  # the words stay, too
        words = " → ".join(page.locator(".figure:visible .readout bdi").all_inner_texts())
        expect(page.locator(".changes")).to_contain_text(f"Cut {words}")
        return words, place_of(page)

    page = open_studio(switched)
    page.wait_for_selector(".heads[data-ready]")
    page.get_by_role("radio", name="difference").check(force=True)
    clicked = told(page)
    assert clicked == told(open_studio(f"{switched}&show=difference"))
    page = open_studio(f"{ADDRESS}&a={SELF}&h=0&off={SELF}:1&show=difference")
    expect(page.locator(".figure:visible .side > p.quiet")).to_contain_text("the change does not reach this head")
    expect(page.locator(".figure:visible .strongest")).to_contain_text("no weight differs")
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean&off={SELF}:1")
    expect(page.locator(".figure:visible .side > p.quiet")).to_contain_text("counts head 2 too, though switched off")


def test_there_is_one_unit_for_how_sure_a_model_is(open_studio: OpenStudio, look: dict[str, Any]) -> None:
    """Wrong before: one score without a name and with two meanings, −0.16 a token and −2.29 in all."""
    page = open_studio(ADDRESS)
    told = page.locator(".sentence:visible .probability")
    probability = percent(math.exp(look["answer"]["log_probability"]))
    expect(told).to_have_text(f"{probability} probability of the whole answer")
    page.get_by_text("4 more", exact=True).click()
    chances = [percent(math.exp(one["log_probability"])) for one in look["alternatives"]]
    expect(page.locator(".others .mono:visible")).to_have_text(chances)


def test_the_word_that_the_model_was_least_sure_of_is_pointed_out(open_studio: OpenStudio, running: Running) -> None:
    text = "the zebra sees the dog."
    look = post(running.client, "/api/models/tiny/looks", input=text, options=OPTIONS)
    *steps, _end = running.client.get(f"/api/looks/{look['id']}/candidates").json()
    known = [{one["token"]: one["probability"] for one in step["candidates"]} for step in steps]
    chances = [its.get(step["token"], 0) for its, step in zip(known, steps, strict=True)]
    least = chances.index(min(chances))
    assert chances[least] < 0.5
    page = open_studio(f"/ask?m=tiny&t={text.replace(' ', '+')}&a={SELF}&h=0")
    doubt = page.locator(".doubt:visible")
    expect(doubt).to_contain_text(f"least sure at «{steps[least]['token'].lstrip('▁')}»: {percent(chances[least])}, «")
    is_less = max(known[least].values()) > chances[least]  # a rival is likelier: the page says why it was not written
    assert doubt.inner_text().endswith("likelier here, but whole answers are compared") == is_less
    doubt.click()  # leads to all its candidates
    assert parts_of(page)["step"] == str(least + 1)
    expect(page.locator(".next-words:visible li")).to_have_count(5)
    expect(doubt).to_have_count(0)


def test_two_models_answer_the_same_text(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    page.get_by_label("Beside it").select_option("and back")
    (other,) = post(running.client, "/api/models/back/predict", inputs=[SENTENCE], options=OPTIONS)["answers"]
    expect(page.locator(".sentence:visible .answer")).to_have_text([look["answer"]["text"], other["text"]])
    expect(page.locator(".model-name:visible")).to_have_text(["tiny", "back"])
    assert parts_of(page)["m2"] == "back"
    page.goto(f"{page.url}&off={SELF}:0")  # a change is made to the first alone
    after = changed(running, without_heads=[f"{SELF}:0"])
    expect(page.locator(".sentence:visible .answer")).to_have_text([after["answer"]["text"], other["text"]])


def test_the_candidates_of_a_step(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(f"{ADDRESS}&step=2")
    found = running.client.get(f"/api/looks/{look['id']}/candidates").json()
    words = look["alignment"]["rows"]
    tokens = [step["token"].replace("▁", "") for step in found]
    place = tokens.index(words[1])  # a word is a token here
    shown = [percent(one["probability"]) for one in found[place]["candidates"]]
    expect(page.locator(".next-words:visible .mono")).to_have_text(shown)
    expect(page.locator(".next-words li[data-written] bdi")).to_have_text(words[1])
    page.get_by_role("button", name="One word forward").click()
    expect(page.locator(".next-words li[data-written] bdi")).to_have_text(words[2])


def test_heads_are_sorted_by_what_they_do(open_studio: OpenStudio, running: Running, look: dict[str, Any]) -> None:
    page = open_studio(ADDRESS)
    page.get_by_label("Order of the heads").select_option("distance")
    measures = running.client.get(f"/api/looks/{look['id']}/measures").json()
    view = running.app.state.looks[look["id"]].view
    for name, heads in measures.items():
        assert [one["entropy"] for one in heads] == pytest.approx(view.entropy(name).tolist())
    known = [one["distance"] for heads in measures.values() for one in heads if one["distance"] is not None]
    texts = [f"{one:.2f}" for one in sorted(known, reverse=True)]
    expect(page.locator("[data-sorted] small").first).to_have_text(texts[0])
    assert page.locator("[data-sorted] small").all_inner_texts()[: len(texts)] == texts
    assert parts_of(page)["by"] == "distance"
