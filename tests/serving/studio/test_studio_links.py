"""Ask: a link that is cut is the one that the page names, whatever is seen."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect
from servers import Running, post
from studio_pages import ADDRESS, CROSS, OPTIONS, SENTENCE, OpenStudio, head_name, layer_name, matrix, parts_of, readout

SELF = "encoder.0.self"
#: For every cell of a view: its label, and the links between tokens that it stands for.
LINKS = """
async ([look, parts]) => {
  const base = document.querySelector("script[type=module]").src.replace(/main\\.js$/, "");
  const { linksAt, wordsAt } = await import(`${base}ask/cells.js`);
  const { readState, settle } = await import(`${base}ask/state.js`);
  const settled = settle(readState(parts), look);
  return settled.rows.flatMap((from, row) => settled.columns.map((to, column) => {
    const links = linksAt(look, settled, row, column);
    const named = links.map((link) => wordsAt(look, link, settled.head === "alignment"));
    return { row, column, words: [from, to], links, named };
  }));
}
"""


def test_each_cell_stands_for_the_links_whose_weights_it_shows(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """Wrong before: cutting a link of the alignment cut that of the word before it, or none."""
    weights = {
        one["name"]: np.stack([matrix(running, look, name=one["name"], head=head) for head in range(one["heads"])])
        for one in look["attentions"]
    }
    views = [
        (look, {"h": "alignment", "a": SELF}, np.array(look["alignment"]["values"])),
        (look, {"h": "mean", "a": CROSS}, matrix(running, look, name=CROSS, head="mean", words=True)),
        (look, {"h": "1", "a": CROSS, "w": "0"}, weights[CROSS][1]),
    ]
    count = len(look["alignment"]["rows"])
    for heads, offset in ((0, 1), 0), ((1,), 0), ((0,), 1):  # whichever heads and rows an alignment is read from
        read = {"name": CROSS, "heads": heads, "row_offset": offset}
        values = weights[CROSS][list(heads)].mean(axis=0)[offset : offset + count]
        views.append((look | {"alignment": look["alignment"] | read}, {"h": "alignment"}, values))
    page = open_studio("/runs")
    for seen, parts, shown in views:
        cells = page.evaluate(LINKS, [seen, parts])
        assert len(cells) == shown.size
        for cell in cells:
            places = {(row, column) for _, row, column in cell["links"]}
            heads = np.concatenate([_heads(weights, key) for key in {key for key, *_ in cell["links"]}])
            total = sum(float(heads[:, row, column].mean()) for row, column in places)
            mean = total / len({row for row, _ in places})
            assert mean == pytest.approx(shown[cell["row"], cell["column"]], abs=1e-6), (parts, cell)
            assert parts.get("w") == "0" or all(words == cell["words"] for words in cell["named"])


def _heads(weights: dict[str, np.ndarray], key: str) -> np.ndarray:
    name, _, head = key.partition(":")
    return weights[name] if head == "" else weights[name][[int(head)]]


def test_what_is_cut_in_the_alignment_is_what_the_button_names(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    """Also when another attention was seen before: the alignment is of one attention alone."""
    rows, columns = look["alignment"]["rows"], look["alignment"]["columns"]
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean")
    for row in (0, len(rows) // 2):
        page.locator("button.word", has_text=re.compile(f"^{re.escape(rows[row])}$")).first.click()
        expect(page.locator(".figure:visible .readout bdi").first).to_have_text(f"«{rows[row]}»")
        words = page.locator(".figure:visible .readout bdi").all_inner_texts()
        cut = page.locator(".changes > button").first
        expect(cut).to_have_text(re.compile(re.escape(f"Cut {' → '.join(words)} in ")))
        cut.click()
        expect(page.locator(".figure:visible .readout b")).to_have_text("0.000000")
        expect(page.locator(".chips li").first).to_contain_text("✂ " + re.sub("[«»]", "", " → ".join(words)) + " in ")
        given = parts_of(page)["cut"].split(",")
        links = [(name, int(one), int(other)) for name, one, other in (link.rsplit(":", 2) for link in given)]
        after = post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS, without_links=links)
        assert after["alignment"]["values"][row][columns.index(words[1].strip("«»"))] == 0
        page.get_by_role("button", name=re.compile(" · undo$")).first.click()
        expect(page.locator(".chips li")).to_have_count(0)


def test_a_rollout_offers_no_link_to_cut(open_studio: OpenStudio) -> None:
    """Wrong before: scissors that did nothing; a rollout is of all layers at once."""
    page = open_studio(f"{ADDRESS}&a={SELF}&h=rollout&row=2&col=1")
    expect(page.locator(".strip-said:visible")).to_contain_text("looked at")
    expect(page.locator(".strip .link").first).to_be_visible()
    expect(page.locator(".strip .handle")).to_have_count(0)
    expect(page.locator(".changes > button").first).to_be_hidden()


def test_a_link_that_is_cut_in_all_heads_is_restored_in_all(open_studio: OpenStudio) -> None:
    """Wrong before: in the view of one head, "Restore" cut the link once more."""
    page = open_studio(f"{ADDRESS}&a={SELF}&h=1&row=2&col=1&cut={SELF}:2:1")
    assert readout(page, 2, 1) == 0
    cut = page.locator(".changes > button").first
    expect(cut).to_have_text(re.compile(f"Restore .* in all heads of {layer_name(SELF)}$"))
    handle = page.locator("[data-link='2,1']")
    expect(handle).to_have_attribute("aria-label", re.compile(f"^Restore .* in all heads of {layer_name(SELF)}$"))
    handle.click()
    expect(page.locator(".chips li")).to_have_count(0)
    expect(cut).to_have_text(re.compile(f"Cut .* in {head_name(SELF, 1)}$"))
    assert "cut" not in parts_of(page)


def test_all_heads_together_lead_to_the_head_with_most_of_the_link(
    open_studio: OpenStudio, running: Running, look: dict[str, Any]
) -> None:
    page = open_studio(f"{ADDRESS}&a={SELF}&h=mean&row=2&col=1&pin=1")
    readout(page, 2, 1)
    shown = page.locator(".figure:visible .readout b").first
    mean = shown.inner_text()
    page.get_by_role("radio", name="head", exact=True).check(force=True)
    expect(shown).not_to_have_text(mean)
    heads = look["attentions"][0]["heads"]
    weights = [matrix(running, look, name=SELF, head=head, words=True)[2, 1] for head in range(heads)]
    assert readout(page, 2, 1) == pytest.approx(max(weights), abs=1e-6)
    assert parts_of(page)["h"] == str(int(np.argmax(weights)))


def test_a_popup_closes_when_it_was_used_or_something_else_is_clicked(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    page.get_by_text("swap a word", exact=True).click()
    page.get_by_label("Replacement word").fill("dog")
    page.get_by_role("button", name="Swap", exact=True).click()
    expect(page.locator("details.popup[open]")).to_have_count(0)
    page.get_by_text("Share", exact=True).click()
    expect(page.locator("details.popup[open]")).to_have_count(1)
    page.locator(".figure h2").first.click()
    expect(page.locator("details.popup[open]")).to_have_count(0)


def test_the_text_goes_along_to_the_map(open_studio: OpenStudio) -> None:
    page = open_studio(ADDRESS)
    page.get_by_role("link", name="Map").click()
    page.wait_for_selector("html[data-ready=map]")
    assert parts_of(page)["t"] == SENTENCE
