"""Runs and Words: curves as they grow, one sentence over the checkpoints, what a model knows of words."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Route, expect
from servers import Runner, Running
from studio_pages import OpenStudio, number, parts_of

from saccade.serving import Limits, Models
from saccade.storage import seal


@pytest.fixture
def followed(tiny_run: Path, tmp_path: Path, runner: Runner) -> tuple[str, Path]:
    """The address of a server, and a run that it shows as if it were not finished yet."""
    run = tmp_path / "runs" / "growing"
    shutil.copytree(tiny_run, run)
    (run / "result.json").unlink()
    shutil.copytree(tiny_run, tmp_path / "runs" / "done")
    return runner.start(Models(Limits()), runs=tmp_path / "runs").url, run


def test_a_training_is_followed(open_studio: OpenStudio, followed: tuple[str, Path]) -> None:
    url, run = followed
    page = open_studio("/runs?run=growing", url=url)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line for line in lines if "loss" in line]
    curve = page.locator(".curve", has_text="training loss")
    expect(curve.locator(".mono")).to_contain_text(f"at step {losses[-1]['step']}")
    assert f"{len(losses)} points" in (curve.locator("canvas").get_attribute("aria-label") or "")
    shown = number(curve.locator(".mono").inner_text().split()[0])
    assert shown == pytest.approx(losses[-1]["loss"], abs=0.006)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": losses[-1]["step"] + 7, "loss": 0.5, "rate": 0.1, "seconds": 9.0}) + "\n")
    expect(curve.locator(".mono")).to_contain_text(f"at step {losses[-1]['step'] + 7}")
    (run / "result.json").write_text((run.parent / "done" / "result.json").read_text())
    expect(page.locator(".run p.quiet").first).to_contain_text("finished")


def test_a_slow_process_is_named(open_studio: OpenStudio, followed: tuple[str, Path]) -> None:
    url, run = followed
    page = open_studio("/runs?run=growing", url=url)
    said = page.locator(".run p.quiet").first
    expect(said).to_contain_text(" per second")
    expect(said).not_to_contain_text("process")
    for third, sentence in ((0.5, "3 processes · 1,235 tokens per second$"), (1.5, "slow: it takes 3.0 times as long")):
        line = {"step": 10_000, "loss": 0.5, "speed": {"tokens": 1234.5}}
        line["processes"] = {"0": 0.4, "1": 0.6, "2": third}
        with (run / "metrics.jsonl").open("a") as file:
            file.write(seal(line) + "\n")
        expect(said).to_contain_text(re.compile(sentence))


def test_scores_say_what_they_are_of(open_studio: OpenStudio, followed: tuple[str, Path]) -> None:
    """Wrong before: scores of the test data and of the validation data were both called "bleu"."""
    url, run = followed
    part = json.loads((run.parent / "done" / "result.json").read_text()).get("part", "test")
    page = open_studio("/runs?run=growing", url=url)
    listed = page.locator(".run-list")
    expect(listed.get_by_role("button", name="done")).to_contain_text(f" · {part} bleu ")
    expect(listed.get_by_role("button", name="growing")).to_contain_text(" · validation bleu ")
    expect(page.locator(".curve h3", has_text="validation bleu")).to_have_count(1)


def test_one_sentence_over_the_checkpoints(open_studio: OpenStudio, followed: tuple[str, Path]) -> None:
    url, run = followed
    page = open_studio("/runs", url=url)
    page.get_by_role("button", name="growing").click()
    probes = sorted((run / "probes").glob("*.json"))
    last, first = (json.loads(probes[place].read_text()) for place in (-1, 0))
    expect(page.locator(".probe-text")).to_have_text(last["text"])
    expect(page.locator(".probe .mono").first).to_contain_text(f"{len(probes)} of {len(probes)}")
    page.get_by_label("Checkpoint", exact=True).press("Home")
    expect(page.locator(".probe-text")).to_have_text(first["text"])
    expect(page.locator(".probe .mono").first).to_contain_text(f"1 of {len(probes)}")
    page.locator(".probe .heatmap").focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".probe .readout small")).to_have_text("row 0, column 1")
    expect(page.locator(".probe .readout b")).to_have_text(f"{first['weights'][0][1]:.6f}")
    assert parts_of(page)["step"] == str(int(probes[0].stem.removeprefix("step-")))
    page.reload()
    expect(page.locator(".probe-text")).to_have_text(first["text"])


def test_the_sentence_is_written_out_and_can_be_asked(
    open_studio: OpenStudio, tiny_run: Path, tmp_path: Path, runner: Runner
) -> None:
    """Wrong before: its words stood only at the map, on which the wheel did not scroll the page."""
    for name in ("tiny", "other"):
        shutil.copytree(tiny_run, tmp_path / "runs" / name)
    models = Models(Limits())
    models.add(tmp_path / "runs" / "tiny")
    url = runner.start(models, runs=tmp_path / "runs").url
    probe = json.loads(max((tiny_run / "probes").glob("*.json")).read_text())
    page = open_studio("/runs?run=other", url=url)
    source = page.locator(".probe-source span")
    text = "".join(probe["inputs"]).replace("</s>", "").replace("▁", " ").strip()
    expect(source).to_have_text(text)
    expect(page.get_by_role("link", name="Ask this text")).to_be_hidden()  # this model is not served
    page.locator(".probe .heatmap").hover()
    start = page.evaluate("() => scrollY")
    assert start > 100
    page.mouse.wheel(0, -100)
    page.wait_for_function("start => scrollY < start", arg=start)
    page.get_by_role("button", name="tiny").click()
    page.get_by_role("link", name="Ask this text").click()
    expect(page.locator(".sentence:visible .answer")).to_have_text(probe["text"])
    assert parts_of(page)["t"] == text


@pytest.mark.slow
def test_a_training_that_begins_is_listed_and_a_server_that_ends_is_told(
    open_studio: OpenStudio, tiny_run: Path, tmp_path: Path, runner: Runner
) -> None:
    page = open_studio("/runs", url=runner.start(Models(Limits()), runs=tmp_path).url, may_refuse=True)
    shutil.copytree(tiny_run, tmp_path / "later")
    expect(page.locator(".run-title")).to_have_text("later")
    expect(page.locator("#status .error")).to_be_hidden()
    page.route("**/api/runs", lambda route: route.fulfill(status=503, json={"error": "The server is about to end."}))
    expect(page.locator("#status .error")).to_have_text("The server is about to end.")


def test_without_a_training_the_page_says_how_to_begin_one(
    open_studio: OpenStudio, runner: Runner, tmp_path: Path
) -> None:
    page = open_studio("/runs", url=runner.start(Models(Limits()), runs=tmp_path).url)
    expect(page.locator("#status .error")).to_have_text("There are no runs yet; start one with `saccade train`.")
    assert page.locator(".run").is_hidden()


@pytest.mark.slow
def test_a_list_of_models_that_comes_late_takes_no_sentence_away(
    open_studio: OpenStudio, runner: Runner, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Wrong before: the sentence of Runs was gone as soon as the models were known."""
    models = Models(Limits())
    models.add(folders["tiny"])
    page = open_studio("/runs", url=runner.start(models, runs=tmp_path).url)
    held: list[Route] = []
    page.route("**/api/models", lambda route: held.append(route))
    page.reload()
    said = page.locator("#status .error")
    expect(said).to_have_text("There are no runs yet; start one with `saccade train`.")
    expect(page.locator("#model option[value=tiny]")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("#model option[value=tiny]")).to_have_count(1)
    expect(said).to_have_text("There are no runs yet; start one with `saccade train`.")


def test_words_and_their_neighbours(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/words?m=tiny")
    page.get_by_label("A word").fill("cat")
    page.get_by_label("Another word").fill("dog")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector(".pair:visible")
    query = {"word": "cat", "other": "dog", "neighbours": 12}
    expected = running.client.get("/api/models/tiny/words", params=query).json()
    shown = [number(text) for text in page.locator(".bars .mono").all_inner_texts()]
    np.testing.assert_allclose(shown, [one["cosine"] for one in expected["neighbours"]], atol=5.01e-4)
    shown = [number(text) for text in page.locator(".pair dd").all_inner_texts()]
    np.testing.assert_allclose(shown, [expected["other"][key] for key in ("correlation", "cosine")], atol=5.01e-5)
    assert parts_of(page) == {"m": "tiny", "word": "cat", "other": "dog"}
    name = page.locator(".bars button").first.inner_text().lstrip("·")
    page.locator(".bars button").first.click()
    expect(page.get_by_label("A word")).to_have_value(name)


@pytest.mark.slow
def test_the_plane_stays_as_it_is_from_word_to_word(open_studio: OpenStudio, running: Running) -> None:
    """Wrong before: the plane was fitted anew for each word, so that every point moved."""
    frequent = running.client.get("/api/models/tiny/words/map", params={"others": 100, "fixed": True}).json()["words"]
    page = open_studio("/words?m=tiny&word=cat")
    asked = {"others": 100, "fixed": 1}
    for word in ("cat", "dog"):
        with page.expect_response(lambda one: "/map?" in one.url and "words=" in one.url) as answered:
            page.get_by_label("A word").fill(word)
            page.get_by_label("Another word").fill("the")
            page.get_by_role("button", name="Show").click()
        places = {one["word"]: (one["x"], one["y"]) for one in answered.value.json()["words"]}
        assert f"others={asked['others']}&fixed=1" in answered.value.url
        shown = [places[one["word"]] for one in frequent]
        np.testing.assert_allclose(shown, [(one["x"], one["y"]) for one in frequent], atol=1e-5)


def test_a_model_without_words_says_so_and_leads_to_others(open_studio: OpenStudio) -> None:
    """Wrong before: an empty frame."""
    page = open_studio("/words?m=shapes")
    expect(page.get_by_text("shapes has learned no words. These models have:")).to_be_visible()
    expect(page.locator(".scatter")).to_be_hidden()
    page.locator("main").get_by_role("button", name="tiny", exact=True).click()
    page.wait_for_selector(".bars li")


def test_an_unknown_word_is_a_sentence(open_studio: OpenStudio) -> None:
    page = open_studio("/words?m=back&word=zebra", may_refuse=True)
    expect(page.locator(".words .error")).to_have_text("The model does not know the word 'zebra' (source vocabulary).")


def test_words_begins_with_a_model_that_has_words(
    open_studio: OpenStudio, runner: Runner, folders: dict[str, Path]
) -> None:
    models = Models(Limits())
    for name in ("shapes", "back"):
        models.add(folders[name])
    page = open_studio("/words", url=runner.start(models).url)
    page.wait_for_selector(".bars li")
    assert page.locator("#model option").count() == 1
    assert page.locator("#model").input_value() == "back"
