"""What was not seen of a model is said by the view, the terminal, the figures of all heads and the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

import saccade
from saccade.attention.watching.coverage import Coverage
from saccade.errors import OptionError
from saccade.lens.view import View

REFUSED = {"layer.2": "it looks at windows"}
UNSEEN = {"layer.3": "its softmax is written out", "layer.4": "its softmax is written out"}


def weights(seed: int) -> Tensor:
    return torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(seed)).softmax(-1)


@pytest.fixture
def partly() -> View:
    whole = saccade.view([weights(0), weights(1)], ["a", "b", "c"])
    return replace(whole, coverage=Coverage(("layer.0", "layer.1"), REFUSED, UNSEEN))


def printed(shown: Any) -> str:
    screen = io.StringIO()
    Console(file=screen, width=300).print(shown)
    return screen.getvalue()


def title_of(figure: Any) -> str:
    return " ".join(text.whole for text in figure.findobj(lambda artist: hasattr(artist, "whole")))


def coverage_of(page: str) -> Any:
    found = re.search(r'id="content">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))["coverage"]


def test_everything_seen_needs_no_word() -> None:
    whole = saccade.view([weights(0), weights(1)], ["a", "b", "c"])
    assert whole.coverage == Coverage(("layer.0", "layer.1"), {}, {})
    assert whole.left_out == []
    assert repr(whole) == "View(layer.0: (2, 3, 3), layer.1: (2, 3, 3))"
    assert "In this model" not in printed(whole.terminal())
    assert coverage_of(whole.html()) == {"seen": 2, "onPage": 2, "leftOut": [], "notes": []}


@pytest.mark.parametrize("kind", ["heatmap", "arcs", "grid"])
def test_the_terminal_says_what_is_missing_and_why(partly: View, kind: str) -> None:
    said = printed(partly.terminal(kind))
    assert "In this model: 2 attentions seen; 1 refused (layer.2): it looks at windows; 2 not seen" in said
    assert "(layer.3, layer.4): its softmax is written out" in said


def test_pictures_of_all_heads_say_how_many_are_missing(partly: View) -> None:
    for kind in ("grid", "entropy"):
        assert "3 more attentions of the model not shown" in title_of(partly.figure(kind))
    assert "not shown" not in title_of(partly.figure("heatmap", name="layer.0", head=1))
    assert "1 refused (layer.2)" in repr(partly)


def test_the_page_lists_each_reason_once(partly: View) -> None:
    noted = replace(partly, coverage=Coverage(("layer.0",), REFUSED, {**UNSEEN, "<b>": "x"}, ("one ran elsewhere",)))
    assert coverage_of(noted.html(names=["layer.1"])) == {
        "seen": 1,
        "onPage": 1,
        "leftOut": [
            {"what": "cannot be shown", "reason": "it looks at windows", "names": ["layer.2"]},
            {"what": "not seen", "reason": "its softmax is written out", "names": ["layer.3", "layer.4"]},
            {"what": "not seen", "reason": "x", "names": ["<b>"]},
        ],
        "notes": ["one ran elsewhere"],
    }


def test_a_layer_without_weights_is_told_and_has_no_rollout(tmp_path: Path) -> None:
    found = saccade.view([weights(0), None, weights(1)], ["a", "b", "c"])  # type: ignore[list-item]
    assert found.names == ["layer.0", "layer.2"]
    assert found.coverage == Coverage(("layer.0", "layer.2"), {}, {"layer.1": "the model returned no weights for it"})
    assert found.stacks == {}
    with pytest.raises(
        OptionError, match=r"no rollout of layer\.\*: it would leave out layer\.1: the model returned no"
    ):
        found.rollout()
    assert "1 not seen (layer.1): the model returned no weights for it" in printed(found.terminal())


def test_what_a_watcher_saw_is_in_the_view() -> None:
    model = torch.nn.TransformerEncoderLayer(4, 2, 3, batch_first=True).eval()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.randn(1, 3, 4))
    found = saccade.view(seen)
    assert found.coverage is not None
    assert found.coverage.seen == ("self_attn",)
    assert found.coverage.is_complete
    assert saccade.view({"attention": seen["self_attn"]}).coverage is None
