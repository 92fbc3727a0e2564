"""What the tests of the studio read off its pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect
from servers import Running, numbers

#: What is asked in most tests, as the page asks it.
SENTENCE = "the black cat sees the dog."
ADDRESS = "/ask?m=tiny&t=the+black+cat+sees+the+dog."
OPTIONS = {"beam": 5, "n_best": 5}
CROSS = "decoder.0.cross"

OpenStudio = Callable[..., Page]
AXE = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"


def parts_of(page: Page) -> dict[str, str]:
    """The parameters of the address, once it has been written."""
    page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 150))")
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query, keep_blank_values=True).items()}


def layer_name(name: str) -> str:
    """An attention as the page names it: "reading, layer 2" is encoder.1.self."""
    side, number, kind = name.split(".")
    does = "reading while writing" if kind == "cross" else {"encoder": "reading", "decoder": "writing"}[side]
    return f"{does}, layer {int(number) + 1}"


def head_name(name: str, head: int) -> str:
    return f"{layer_name(name)}, head {head + 1}"


def percent(share: float) -> str:
    """A probability as the page writes it."""
    value = 100 * share
    if 0 < value < 0.005:
        return "< 0.01 %"
    decimals = 0 if value >= 100 else 2 if value > 99 or 0 < value < 1 else 1
    return f"{value:.{decimals}f} %"


def readout(page: Page, row: int, column: int) -> float:
    """The number that is read out, once the page has come to this cell."""
    place = page.locator(".figure:visible .readout small").first
    expect(place).to_have_text(re.compile(rf"^row {row}, column {column}( |$)"))
    return number(page.locator(".figure:visible .readout b").first.inner_text())


def place_of(page: Page) -> tuple[int, int]:
    """The row and column that are read out."""
    found = re.match(r"row (\d+), column (\d+)", page.locator(".figure:visible .readout small").first.inner_text())
    assert found is not None
    return int(found[1]), int(found[2])


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def answer(page: Page) -> str:
    return page.locator(".sentence:visible .answer").first.inner_text()


def held(page: Page, pattern: str) -> list[Route]:
    """Requests that are not answered until the test lets them go on."""
    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route))
    return waiting


def violations(page: Page) -> list[dict[str, Any]]:
    """What axe-core finds that keeps somebody out."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm ci): THE STUDIO'S ACCESSIBILITY WAS NOT CHECKED")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [{"id": one["id"], "nodes": [node["html"][:160] for node in one["nodes"]]} for one in serious]


def matrix(running: Running, look: dict[str, Any], **query: Any) -> np.ndarray:
    """All the weights of a head, as the interface gives them."""
    return numbers(running.client, f"/api/looks/{look['id']}/matrix", **query)
