"""Agents on the plane, and bases that pair, in Learn and in Ask: their numbers are those of the library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from servers import Running, numbers, post
from studio_pages import OpenStudio, parts_of, percent


def open_scene(open_studio: OpenStudio, address: str) -> Page:
    page = open_studio(f"/learn?{address}")
    page.wait_for_selector(".scene-picture[data-ready]")
    return page


def paths_look(running: Running, **edits: Any) -> dict[str, Any]:
    model = next(one for one in running.client.get("/api/models").json() if one["name"] == "paths")
    return post(running.client, "/api/models/paths/looks", input=model["examples"][0], options={"samples": 5}, **edits)


def test_an_agent_looks_at_the_moments_of_others(open_studio: OpenStudio, running: Running) -> None:
    look = paths_look(running)
    page = open_scene(open_studio, f"s=agents&agent=0&head={look['layer']}:0")
    weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=look["layer"], head="0")
    count = len(look["answer"]["agents"])
    shown = page.locator(".walkers-others [data-share]")
    expect(shown).to_have_count(count - 1)
    assert float(shown.first.get_attribute("data-share") or "nan") == pytest.approx(
        weights[0, 1::count].sum(), rel=1e-5
    )
    expect(page.locator(".plane-said")).to_contain_text(f"itself {weights[0, ::count].sum():.2f}")
    expect(page.locator(".plane .agent[aria-pressed=true]")).to_have_attribute("data-agent", "0")
    page.locator(".plane .agent[data-agent='1'] circle").click()
    expect(page.locator(".plane-said")).to_contain_text(f"itself {weights[1, 1::count].sum():.2f}")
    assert parts_of(page)["agent"] == "1"
    page.get_by_role("button", name="one moment on").click()
    expect(page.locator(".plane-said")).to_contain_text("2 moments ahead, looks at")
    expect(page.locator(".plane-said")).to_contain_text(f"itself {weights[count + 1, 1::count].sum():.2f}")
    page.get_by_label("The head").select_option(f"{look['layer']}:1")
    one = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=look["layer"], head="1")
    expect(page.locator(".plane-said")).to_contain_text(f"itself {one[count + 1, 1::count].sum():.2f}")


def test_the_scene_opens_with_the_strongest_link_to_another_agent(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, "s=agents")
    look = paths_look(running)
    count = len(look["answer"]["agents"])
    found = {}
    for one in (one for one in look["attentions"] if one["name"].startswith("decoder")):
        for head in range(one["heads"]):
            weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=one["name"], head=str(head))
            by_agent = weights.reshape(len(weights), -1, count).sum(axis=1)  # of each row
            shares = np.stack([by_agent[agent::count].mean(axis=0) for agent in range(count)])
            np.fill_diagonal(shares, 0)
            found[f"{one['name']}:{head}"] = shares
    strongest = max(found, key=lambda key: float(found[key].max()))
    expect(page.get_by_label("The head")).to_have_value(strongest)
    chosen = int(found[strongest].max(axis=1).argmax())
    expect(page.locator(".plane .agent[aria-pressed=true]")).to_have_attribute("data-agent", str(chosen))


def test_the_moments_play_to_the_end(open_studio: OpenStudio) -> None:
    page = open_scene(open_studio, "s=agents")
    page.get_by_label("Moment", exact=True).fill("0")
    page.get_by_role("button", name="play").click()
    expect(page.locator(".player-said")).to_have_text("2 moments ahead")
    expect(page.get_by_role("button", name="play")).to_be_visible()  # it has stopped by itself
    expect(page.get_by_role("button", name="one moment on")).to_be_disabled()


def test_an_agent_that_may_not_look_at_another(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, "s=agents&agent=0")
    before = paths_look(running)
    links = []
    for one in before["attentions"]:
        rows, columns = (len(before["axes"][one[side]]["tokens"]) for side in ("rows", "columns"))
        links += [(one["name"], row, column) for row in range(0, rows, 2) for column in range(1, columns, 2)]
    after = paths_look(running, without_links=links)
    page.get_by_role("button", name="do not let it look at agent").first.click()
    expect(page.locator(".walkers-others [data-share]").first).to_have_text("0.00")
    ends = [np.array(next(iter(one["answer"]["agents"].values()))["likely"][-1]) for one in (before, after)]
    expect(page.locator(".walkers-told")).to_contain_text(f"ends {np.linalg.norm(ends[0] - ends[1]):.2f} away")
    expect(page.locator(".plane .path.before")).to_have_count(1)
    page.get_by_role("button", name=re.compile("look at agent . again")).click()
    expect(page.locator(".plane .path.before")).to_have_count(0)


def test_a_pair_says_what_it_looked_at(open_studio: OpenStudio, running: Running) -> None:
    page = open_scene(open_studio, "s=residues&pair=2-9")
    model = next(one for one in running.client.get("/api/models").json() if one["name"] == "pairs")
    look = post(running.client, "/api/models/pairs/looks", input=model["examples"][0])
    sequence = look["answer"]["sequence"]
    name = f"{sequence[1]}2 – {sequence[8]}9"
    expect(page.locator(".pair-said")).to_have_text(f"{name}: {percent(look['probabilities'][1][8])}")
    found = running.client.get(f"/api/looks/{look['id']}/between", params={"first": 2, "second": 9}).json()
    assert {one["name"].rpartition(".")[2] for one in found} == {"starting", "ending"}
    every = sorted((weight for one in found for row in one["weights"] for weight in row), reverse=True)
    shown = [float(one.get_attribute("data-weight") or "nan") for one in page.locator("[data-weight]").all()]
    np.testing.assert_allclose(shown, every[: len(shown)], rtol=1e-5)
    page.locator(".pair-matrix").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pair-said")).to_contain_text(f"{sequence[9]}10:")
    assert parts_of(page)["pair"] == "2-10"
    page.get_by_role("button", name="do not let it look at").first.click()
    expect(page.locator(".residue-told")).to_contain_text("in all heads of this attention. The probability of")
    expect(page.get_by_role("button", name=re.compile("^let it look at"))).to_have_count(1)


def test_a_model_of_words_has_no_pairs(running: Running) -> None:
    look = post(running.client, "/api/models/tiny/looks", input="the dog sleeps.")
    answer = running.client.get(f"/api/looks/{look['id']}/between", params={"first": 1, "second": 2})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "This model does not predict which places of its input belong together.",
    )
    pairs = post(running.client, "/api/models/pairs/looks", input="GGGGAAAACCCC")
    refused = running.client.get(f"/api/looks/{pairs['id']}/between", params={"first": 1, "second": 13})
    assert refused.status_code == 400
    assert "There is no base 13; this sequence has 12" in refused.json()["error"]


def test_ask_draws_the_paths_of_agents(open_studio: OpenStudio, running: Running) -> None:
    look = paths_look(running)
    name, count = look["layer"], len(look["answer"]["agents"])
    page = open_studio(f"/ask?m=paths&a={name}&h=0&row=0&col=0")
    figure = page.locator(".figure").first
    expect(figure.locator(".plane .agent")).to_have_count(count)
    weights = numbers(running.client, f"/api/looks/{look['id']}/matrix", name=name, head="0")
    said = figure.locator(".plane-said")
    expect(said).to_contain_text(f"itself {weights[0, ::count].sum():.2f}")
    figure.locator(".plane .agent[data-agent='1'] circle").click()
    expect(said).to_contain_text(f"itself {weights[1, 1::count].sum():.2f}")
    figure.get_by_role("button", name="one moment on").click()
    expect(said).to_contain_text("2 moments ahead, looks at")
    expect(said).to_contain_text(f"itself {weights[count + 1, 1::count].sum():.2f}")
    assert parts_of(page)["row"] == str(count + 1)
    page.get_by_text("Share", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    drawn = saved.value.path().read_text()
    assert drawn.count("<polyline") >= 2 * count
    assert "2 moments ahead, looks at" in drawn
    page.get_by_role("radio", name="map").check()
    expect(figure.locator(".plane")).to_be_hidden()


def test_ask_draws_the_pairs_of_bases(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=pairs&t=GGGGAAAACCCC&row=1&col=10")
    look = post(running.client, "/api/models/pairs/looks", input="GGGGAAAACCCC")
    figure = page.locator(".figure").first
    expect(figure.locator(".pair-said")).to_have_text(f"G2 – C11: {percent(look['probabilities'][1][10])}")
    expect(figure.locator(".pair-note")).to_contain_text("Below: the predicted pairs")
    figure.locator(".pair-matrix").focus()
    page.keyboard.press("ArrowLeft")
    expect(figure.locator(".pair-said")).to_have_text(f"G2 – C10: {percent(look['probabilities'][1][9])}")
    assert (parts_of(page)["row"], parts_of(page)["col"]) == ("1", "9")
    page.get_by_text("Share", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    assert "G2 – C10" in saved.value.path().read_text()
