"""The page in a real browser, opened from disk with the network off: what it shows is what the traces say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, Route, sync_playwright

from saccade.attention import attend, causal, dense, watch
from saccade.attention.watching.coverage import Coverage
from saccade.lens import page as page_module
from saccade.lens.page import render_frame, render_page
from saccade.lens.view import View, view

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: THE PAGE WAS NOT TESTED")

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SOURCE = ["The", "animal", "did", "n't", "cross", "the", "street"]
TARGET = ["L'", "animal", "n'", "a", "pas"]
HOSTILE = [
    *("<script>window.hacked=1</script>", "</script><img/src=x/onerror='window.hacked=1'>", '"', "\u202egnp.exe"),
    *("שלום", "漢字", "👩‍👩‍👧", "Donaudampfschifffahrtsgesellschaftskapitänsmütze" * 4, " ", "", "$script"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens a document from disk; at the end no error was told, and nothing was asked of any network."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    context.set_default_timeout(20_000)

    def refuse(route: Route) -> None:
        if route.request.url.startswith("file://"):
            route.continue_()
        else:
            complaints.append(f"asked for {route.request.url}")
            route.abort()

    context.route("**/*", refuse)

    def opened(document: str, address: str = "") -> Page:
        file = tmp_path / "page.html"
        file.write_text(document, encoding="utf-8")
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri() + address)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector("#grid[data-ready]")
        return page

    yield opened
    context.close()
    assert complaints == []


def trace_of(num_queries: int, num_keys: int, heads: int, seed: int, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(seed)
    query, key = (1.7 * torch.randn(1, heads, count, 8, generator=generator) for count in (num_queries, num_keys))
    with watch() as seen:
        attend(query, key, key, **options)
    return seen["attention"]


@pytest.fixture(scope="module")
def translated() -> View:
    """Two layers that read seven tokens, and one that looks at them from five; "didn't" is one word of two pieces."""
    traces = {f"encoder.{layer}.self": trace_of(7, 7, 3, layer) for layer in range(2)}
    traces["decoder.0.cross"] = trace_of(5, 7, 3, 9)
    return view(traces, TARGET, source_tokens=SOURCE, source_words=[0, 1, 2, 2, 3, 4, 5], gold=[(1, 1), (2, 2), (2, 4)])


def readout(page: Page, row: int, column: int) -> float:
    """The number that the page reads out, once it has come to this cell."""
    page.wait_for_selector(f"#readout small:text-matches('row {row}, column {column}(,|$)')")
    return float(page.inner_text("#readout b"))


def walk(page: Page, num_rows: int, num_columns: int) -> np.ndarray:
    """Every number of the map, by the arrow keys alone."""
    page.focus("#viewport")
    page.keyboard.press("PageUp")
    found = np.zeros((num_rows, num_columns))
    for row in range(num_rows):
        page.keyboard.press("Home")
        for column in range(num_columns):
            found[row, column] = readout(page, row, column)
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    return found


def go_to(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address }", address)


def test_every_number_of_a_head_by_keys(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=decoder.0.cross&head=2")
    exact = translated.matrix("decoder.0.cross", 2).numpy()
    np.testing.assert_allclose(walk(page, 5, 7), exact, atol=5.01e-7)


def test_the_value_in_words_under_the_pointer(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=decoder.0.cross&head=1&row=0&column=0")
    box = page.locator("#cells").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] - 30)
    page.wait_for_selector("#readout small:text-matches('row 4')")
    text = page.inner_text("#readout")
    column = int(re.search(r"column (\d+)", text)[1])  # type: ignore[index]
    assert f"from «pas» to «{SOURCE[column]}»: {translated.matrix('decoder.0.cross', 1)[4, column]:.6f}" in text


@pytest.mark.parametrize("head", ["mean", pytest.param("max", marks=pytest.mark.slow), "rollout"])
def test_heads_together(open_page: Callable[..., Page], translated: View, head: Any) -> None:
    page = open_page(render_page(translated, title="A"), f"#attention=encoder.1.self&head={head}")
    exact = translated.rollout() if head == "rollout" else translated.matrix("encoder.1.self", head)
    np.testing.assert_allclose(walk(page, 7, 7), exact.numpy(), atol=5.1e-7)


def test_words(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=encoder.0.self&head=0")
    page.check("#words")
    exact = translated.matrix("encoder.0.self", 0, words=True).numpy()
    assert exact.shape == (6, 6)
    np.testing.assert_allclose(walk(page, 6, 6), exact, atol=5.1e-7)
    page.check("#words")
    page.keyboard.press("Tab")
    assert "didn't" in page.evaluate("() => [...document.querySelectorAll('#top bdi')].map(e => e.textContent)")


def test_a_page_opens_on_what_was_shown(open_page: Callable[..., Page], translated: View) -> None:
    chosen = render_page(translated, title="A", names=["encoder.0.self"], head="max", words=True)
    page = open_page(chosen, "")
    exact = translated.matrix("encoder.0.self", "max", words=True).numpy()
    np.testing.assert_allclose(walk(page, 6, 6), exact, atol=5.1e-7)
    page.uncheck("#words")
    assert "words=no" in page.url


def test_a_page_opens_on_the_word_that_was_chosen(open_page: Callable[..., Page], translated: View) -> None:
    document = render_page(translated, name="encoder.1.self", head=2, row="street", column=1, kind="arcs")
    page = open_page(document)
    assert page.input_value("#attention") == "1"
    assert page.input_value("#head") == "2"
    assert page.is_checked("input[value=arcs]")
    assert page.inner_text("#from [aria-pressed=true]") == "street"
    page.check("input[value=map]")
    assert readout(page, 6, 1) == pytest.approx(float(translated.matrix("encoder.1.self", 2)[6, 1]), abs=5.1e-7)
    # The address that someone was sent says more than what the page was written with.
    elsewhere = open_page(document, "#attention=encoder.0.self&head=0&row=3&column=2&view=map")
    assert elsewhere.input_value("#attention") == "0"
    assert readout(elsewhere, 3, 2) == pytest.approx(float(translated.matrix("encoder.0.self", 0)[3, 2]), abs=5.1e-7)
    merged = open_page(render_page(translated, name="encoder.0.self", row=2, words=True))
    assert "from «didn't» to «" in merged.inner_text("#readout")  # "did" and "n't"
    exact = translated.matrix("encoder.0.self", 0, words=True)[2].max()
    assert merged.inner_text("#readout b") == f"{exact:.6f}"


INK = """() => {
  const canvas = document.getElementById("lines");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let most = 0, drawn = 0;
  for (let place = 3; place < data.length; place += 4) {
    if (data[place]) drawn += 1;
    most = Math.max(most, data[place]);
  }
  return [most, drawn];
}"""


def test_all_links_are_faint_until_a_word_is_pointed_at(open_page: Callable[..., Page]) -> None:
    """Five words that look at themselves: five links beside each other, and full ink for the one that is pointed at."""
    seen = view({"encoder.0.self": torch.eye(5)[None, None]}, ["a", "b", "c", "d", "e"])
    page = open_page(render_page(seen, kind="arcs"))
    page.set_viewport_size({"width": 540, "height": 900})  # no squares, which are ink too
    page.wait_for_function("() => document.getElementById('links').style.getPropertyValue('--squares') === '0px'")
    most, drawn = page.evaluate(INK)
    assert 80 < most < 140  # 0.4 of 255
    page.hover("#from button:text-is('b')")
    pointed, same = page.evaluate(INK)
    assert pointed == 255
    assert same == pytest.approx(drawn, rel=0.05)  # the others are fainter, and still there
    assert "from «b» to «b»: 1.000000" in page.inner_text("#readout")
    page.hover("#to bdi:text-is('e')")
    assert page.evaluate(INK)[0] == 255
    page.hover("#title")
    assert page.evaluate(INK) == [most, drawn]
    page.click("#from button:text-is('c')")
    page.hover("#title")
    assert page.evaluate(INK)[0] == 255  # chosen, so bright without the pointer


def test_the_links_of_a_row_and_the_measures(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=encoder.0.self&head=1&row=3&column=0")
    row = translated.matrix("encoder.0.self", 1)[3]
    shown = [float(text) for text in page.locator("#top .number").all_inner_texts()]
    np.testing.assert_allclose(shown, row.sort(descending=True).values, atol=5.1e-7)
    page.click("th[data-key=entropy] button")
    entropies = [float(text) for text in page.locator("#measures tbody td:nth-child(3)").all_inner_texts()]
    every = torch.cat([translated.entropy(name) for name in translated.names]).sort().values
    np.testing.assert_allclose(entropies, every, atol=5.1e-4)
    assert page.get_attribute("th[data-key=entropy]", "aria-sort") == "ascending"


def test_stretched_colours_say_what_the_ink_is(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=encoder.0.self&head=mean")
    assert page.inner_text("#ink") == "1"
    page.check("#stretch")
    strongest = translated.matrix("encoder.0.self", "mean").max()
    page.wait_for_selector(f"#ink:text-is('{strongest:.6f}')")


def test_gold_links_are_told(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=decoder.0.cross&head=0&row=2&column=3")
    assert "a gold link" in page.inner_text("#readout")  # word 2 is tokens 2 and 3
    page.uncheck("#gold")
    page.wait_for_selector("#readout small:text-is('row 2, column 3')")


def test_the_address_holds_the_view(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"))
    page.click("#grid [aria-label='encoder.1.self, head 2']")
    page.check("input[value=arcs]")
    page.click("#from button:text-is('street')")
    page.click("#theme")
    page.wait_for_selector("html[data-theme=dark]")
    page.reload()
    page.wait_for_selector("html[data-ready][data-theme=dark]")
    assert page.input_value("#attention") == "1"
    assert page.input_value("#head") == "2"
    assert page.inner_text("#from [aria-pressed=true]") == "street"
    weight = translated.matrix("encoder.1.self", 2)[6].max()
    assert page.inner_text("#readout b") == f"{weight:.6f}"


def test_arcs_by_keys(open_page: Callable[..., Page], translated: View) -> None:
    page = open_page(render_page(translated, title="A"), "#attention=encoder.0.self&head=mean&view=arcs&row=1&column=0")
    assert page.locator("#legend button").count() == 4
    page.focus("#from [aria-pressed=true]")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#from [aria-pressed=true]:text-is('did')")
    assert page.evaluate("() => document.activeElement.textContent") == "did"


def test_what_was_not_seen_of_the_model_is_told(open_page: Callable[..., Page], translated: View) -> None:
    assert open_page(render_page(translated)).is_hidden("#coverage")
    unseen = {"decoder.9.<b>self</b>": "its softmax is written out", "decoder.8.self": "its softmax is written out"}
    partly = replace(translated, coverage=Coverage(tuple(translated.names), {"x": "it looks at windows"}, unseen))
    page = open_page(render_page(partly))
    assert page.inner_text("#coverage-summary") == (
        f"This is not everything: {len(translated.names)} attentions of this model could be seen, 3 could not."
    )
    assert page.locator("#coverage li").all_inner_texts() == [
        "x (cannot be shown): it looks at windows.",
        "decoder.9.<b>self</b>, decoder.8.self (not seen): its softmax is written out.",
    ]


def test_hostile_tokens_are_shown_and_do_nothing(open_page: Callable[..., Page]) -> None:
    count = len(HOSTILE)
    seen = view({"encoder.0.self": trace_of(count, count, 2, 5)}, HOSTILE)
    page = open_page(render_page(seen, title="<b>A</b>"), "#view=arcs&head=mean&row=0&column=0")
    shown = page.evaluate("() => [...document.querySelectorAll('#from button')].map(e => e.textContent)")
    assert shown[:3] == HOSTILE[:3]
    assert shown[3] == "⟨U+202E⟩gnp.exe"
    assert shown[4:7] == HOSTILE[4:7]
    assert shown[8:10] == ["·", "∅"]
    assert page.inner_text("h1") == "<b>A</b>"
    go_to(page, "#view=map&row=1&column=0")
    readout(page, 1, 0)
    assert HOSTILE[1] in page.inner_text("#readout")
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_wider_than_the_window(open_page: Callable[..., Page], width: int) -> None:
    seen = view({"encoder.0.self": trace_of(61, 61, 4, 5)}, [*HOSTILE, *map(str, range(50))])
    page = open_page(render_page(seen, title="A" * 80))
    page.set_viewport_size({"width": width, "height": 900})
    for kind in ("map", "arcs"):
        go_to(page, f"#view={kind}")
        page.wait_for_selector(f"#{kind}:not([hidden])")
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(
    ("room", "options"),
    [
        pytest.param(42_000, {}, marks=pytest.mark.slow),
        (42_000, {"mask": causal}),
        pytest.param(6_000, {"weights": "sparsemax"}, marks=pytest.mark.slow),
    ],
    ids=["plain", "causal", "sparse"],
)
def test_rounded_weights_are_the_exact_ones_rounded(
    open_page: Callable[..., Page], browser: Browser, monkeypatch: pytest.MonkeyPatch, room: int, options: Any
) -> None:
    """A page that has to be small: every weight of every head is read back by the page's own script."""
    limit = len(render_page(view({"encoder.0.self": trace_of(1, 1, 1, 1)})).encode()) + room
    monkeypatch.setattr(page_module, "LIMIT", limit)
    monkeypatch.setattr(page_module, "_WEIGHTS_WITHIN_LIMIT", 10**9)
    seen = view({"encoder.0.self": trace_of(131, 131, 3, 3, **options)})
    document = render_page(seen, title="A")
    assert len(document.encode()) <= limit
    step = float(re.search(r'"step":([^,]+),', document)[1])  # type: ignore[index]
    for head in range(3):
        exact = seen.matrix("encoder.0.self", head).double().numpy()
        np.testing.assert_allclose(read_back(browser, document, head, 131), exact, atol=step / 2 + 1e-7, rtol=0)
    page = open_page(document, "#head=1&row=7&column=5")
    assert abs(readout(page, 7, 5) - exact_weight(seen, 1, 7, 5)) <= step / 2 + 1e-9
    assert f"to within {step / 2:.10f}".rstrip("0") in page.inner_text("#tolerance")


def test_factors_that_all_round_to_nothing(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = dense(torch.rand(256, 256, generator=torch.Generator().manual_seed(0)) < 0.5)
    with watch() as seen:
        attend(torch.zeros(1, 1, 256, 8), torch.randn(1, 1, 256, 8), torch.zeros(1, 1, 256, 8), mask=allowed)
    shown = view({"encoder.0.self": seen["attention"]})
    exact_size = len(render_page(shown, title="A").encode())
    monkeypatch.setattr(page_module, "LIMIT", exact_size - 5000)
    document = render_page(shown, title="A")
    assert '"step":1e-05' in document
    assert '"rank":0' in document
    exact = shown.matrix("encoder.0.self", 0).double().numpy()
    np.testing.assert_allclose(read_back(browser, document, 0, 256), exact, atol=0.51e-5, rtol=0)


def exact_weight(seen: View, head: int, row: int, column: int) -> float:
    return float(seen.matrix("encoder.0.self", head)[row, column])


def read_back(browser: Browser, document: str, head: int, size: int) -> np.ndarray:
    """All the weights of a head, as the script of the page reads them from its text."""
    data = "".join(re.findall(r'<script type="application/[^>]*>.*?</script>', document, re.DOTALL))
    script = page_module._read("weights.js") + "\nglobalThis.weightsOf = weightsOf; globalThis.content = content;"
    page = browser.new_page()
    page.set_content(f"{data}<script>{script}</script>")
    values = page.evaluate(
        "async head => Array.from((await weightsOf(content.attentions[0], head, false)).values)", head
    )
    page.close()
    return np.array(values).reshape(size, size)


def test_in_the_frame_of_a_notebook(browser: Browser, translated: View) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(f"<!doctype html><p>a cell</p>{render_frame(translated)}")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    assert "from «" in frame.locator("#readout").inner_text()
    assert complaints == []
    page.close()
