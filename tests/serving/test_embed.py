"""Views in the frames of other pages: only where --allow-embed names their origin, and only read-only ones."""

from __future__ import annotations

import pytest
from servers import Runner

from saccade.cli.main import main
from saccade.data.grammar import showcase
from saccade.serving import Limits, Models

ORIGIN = "https://lectures.example.org"
#: In a browser the last value counts, so these pages would not be read-only.
MIXED = ("/ask?embed=1&embed=0", "/ask?embed=1&embed=", "/ask?embed=1&%65mbed=0")


def test_only_named_origins_and_only_read_only_views(runner: Runner) -> None:
    allowing = runner.start(Models(Limits()), embedders=(ORIGIN,)).client
    policies = {
        path: allowing.get(path).headers["Content-Security-Policy"]
        for path in ("/ask?t=a&embed=1", "/ask", "/ask?embed=0", "/learn?embed=1", *MIXED)
    }
    assert f"frame-ancestors {ORIGIN}" in policies["/ask?t=a&embed=1"]
    assert f"frame-ancestors {ORIGIN}" in policies["/learn?embed=1"]
    for path in ("/ask", "/ask?embed=0", *MIXED):
        assert "frame-ancestors 'none'" in policies[path]
    strict = runner.start(Models(Limits())).client
    assert "frame-ancestors 'none'" in strict.get("/ask?embed=1").headers["Content-Security-Policy"]


@pytest.mark.parametrize("wrong", ["lectures.example.org", "https://a.org/page", "https://a.org; script-src *", "*"])
def test_what_is_no_origin_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", "--allow-embed", wrong])
    assert left.value.code == 2
    assert "--allow-embed takes an origin such as https://lectures.example.org" in capsys.readouterr().err


def test_the_examples_of_the_page_are_those_of_the_documentation() -> None:
    """Wrong before: the page opened on another sentence than the README, and "bank" was not shown."""
    texts = [example.source_text for example in showcase()]
    assert "The black cat ate the mouse." in texts
    assert "The cat ate the mouse because it was hungry." in texts
    assert [text for text in texts if "bank" in text] == [
        "I arrived at the bank after crossing the street.",
        "I arrived at the bank after crossing the river.",
    ]
