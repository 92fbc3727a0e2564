"""A server with an API key: the page asks for it once and then sends it with everything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from servers import Runner, Running
from studio_pages import OpenStudio, violations

from saccade.serving import Models

KEY = "a secret of 7 words: écrit à la main"
ASK = "/ask?m=tiny&t=the+black+cat+sees+the+dog."


@pytest.fixture(scope="module")
def runs(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is not finished."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(tiny_run, folder / "growing", ignore=shutil.ignore_patterns("result.json"))
    return folder


@pytest.fixture(scope="module")
def locked(folders: dict[str, Path], runs: Path) -> Iterator[Running]:
    """A server that answers only with its key."""
    models = Models()
    for name in ("tiny", "filler"):
        models.add(folders[name])
    made = Runner()
    yield made.start(models, api_key=KEY, runs=runs)
    made.close()


def opened(open_studio: OpenStudio, locked: Running, address: str) -> tuple[Page, Locator]:
    """The page and its question for the key."""
    page = open_studio(address, url=locked.url, may_refuse=True, until="dialog[open]")
    return page, page.get_by_role("dialog", name="The key of this server")


def give(form: Locator, key: str) -> None:
    form.get_by_label("API key").fill(key)
    form.get_by_role("button", name="Use this key").click()


def test_the_key_is_asked_for_once_and_sent_with_everything(open_studio: OpenStudio, locked: Running) -> None:
    page, form = opened(open_studio, locked, ASK)
    expect(form).to_contain_text("This server was started with an API key")
    expect(form.get_by_label("API key")).to_be_focused()
    expect(form.get_by_role("alert")).to_be_hidden()
    assert violations(page) == []
    give(form, KEY)
    page.wait_for_selector(".answer")
    expect(form).to_be_hidden()
    page.locator(".share summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML", exact=True).click()
    assert download.value.path().read_bytes().startswith(b"<!doctype html>")
    assert download.value.suggested_filename.endswith(".html")
    page.goto(
        f"{locked.url}/map?m=filler&t=the+black+cat"
    )  # its text is read as a stream of events, its tiles are binary
    page.wait_for_selector(".map[data-ready=yes]")
    expect(form).to_be_hidden()
    assert page.evaluate("key => Object.values(localStorage).includes(key)", KEY) is False


def test_a_wrong_key_is_said_to_be_wrong(open_studio: OpenStudio, locked: Running) -> None:
    page, form = opened(open_studio, locked, ASK)
    give(form, "guess")
    expect(form.get_by_role("alert")).to_have_text("That is not this server's key.")
    expect(form.get_by_label("API key")).to_have_value("")
    give(form, KEY)
    page.wait_for_selector(".answer")


def test_who_has_no_key_is_told_why_nothing_comes(open_studio: OpenStudio, locked: Running) -> None:
    page, form = opened(open_studio, locked, ASK)
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(page.locator("#status .error")).to_contain_text("needs its API key")


def test_a_training_is_followed_with_the_key(open_studio: OpenStudio, locked: Running, runs: Path) -> None:
    page, form = opened(open_studio, locked, "/runs?run=growing")
    give(form, KEY)
    curve = page.locator(".curve", has_text="training loss").locator(".mono")
    expect(curve).to_contain_text("at step")
    with (runs / "growing" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 12_345, "loss": 0.5, "rate": 0.1, "seconds": 9.0}) + "\n")
    expect(curve).to_contain_text("at step 12,345")
