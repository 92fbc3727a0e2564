"""The page as a text: what it holds, what it escapes, how large it is, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest
import torch

from saccade.attention import attend, causal, dense, watch
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens import page
from saccade.lens.colours import ramp
from saccade.lens.page import Lead, render_frame, render_page
from saccade.lens.page.pack import STEPS, Matrix, exponential, pack
from saccade.lens.view import View, view

HOSTILE = [
    "<script>alert(1)</script>",
    "</script>",
    '"',
    "'",
    "&amp;",
    "\u202eevil",
    "\u2028",
    "<!--",
    "$title",
    "${1}",
]


def looked_at(num_queries: int, num_keys: int, heads: int = 2, layers: int = 1, **options: Any) -> View:
    torch.manual_seed(num_queries)
    traces = {}
    for layer in range(layers):
        query, key = torch.randn(1, heads, num_queries, 8), torch.randn(1, heads, num_keys, 8)
        with watch() as seen:
            attend(query, key, torch.randn(1, heads, num_keys, 8), **options)
        traces[f"encoder.{layer}.self" if num_queries == num_keys else f"decoder.{layer}.cross"] = seen["attention"]
    return view(traces)


def element(document: str, name: str) -> str:
    """The text of the element with this id."""
    found = re.search(rf'<script [^>]*id="{name}">(.*?)</script>', document, re.DOTALL)
    assert found is not None
    return found.group(1)


def content_of(document: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(element(document, "content"))
    return content


def test_the_policy_allows_the_page_its_own_style_and_script_and_nothing_else() -> None:
    document = render_page(looked_at(5, 5), title="A")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', document)
    assert found is not None
    policy = dict(part.strip().split(" ", 1) for part in found.group(1).split(";"))
    assert policy["default-src"] == "'none'"
    for kind, tag in (("script-src", '<script type="module">'), ("style-src", "<style>")):
        text = document.split(tag, 1)[1].split("</", 1)[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[kind] == f"'sha256-{digest}'"


def test_an_answer_leads_its_page() -> None:
    lead = Lead("<b>good</b>", "good 58%, bad 42%", b"PNG")
    document = render_page(looked_at(5, 5), title="A", lead=lead)
    section = document.split('<section class="lead"', 1)[1].split("</section>", 1)[0]
    assert "&lt;b&gt;good&lt;/b&gt;</p>" in section
    assert "good 58%, bad 42%" in section
    assert f'src="data:image/png;base64,{base64.b64encode(b"PNG").decode()}"' in section
    assert document.index('class="lead"') < document.index('id="map"')
    assert "img-src data:; " in document
    assert "img-src" not in render_page(looked_at(5, 5), lead=Lead("good"))


def test_the_page_names_no_address() -> None:
    document = render_page(looked_at(5, 5), title="A")
    assert not re.search(r"(?:https?:)?//[a-z0-9-]+\.[a-z]|\bsrc=|@import|\burl\(|\bimport[ (]", document)
    assert not re.search(r"<[^>]+ on[a-z]+=", document)  # no handler inside the markup


def test_hostile_tokens_are_data() -> None:
    seen = looked_at(len(HOSTILE), len(HOSTILE))
    plain = render_page(seen, title="A")
    document = render_page(view(seen.traces, HOSTILE), title="A")
    assert document.count("<") == plain.count("<")
    assert document.count(">") == plain.count(">")
    assert "\u202e" not in document
    assert "\u2028" not in document
    tokens = content_of(document)["axes"][0]["tokens"]
    assert tokens[:3] == ["<script>alert(1)</script>", "</script>", '"']
    assert tokens[5] == "⟨U+202E⟩evil"


def test_a_hostile_title_is_text() -> None:
    document = render_page(looked_at(3, 3), title="</title><script>alert(1)</script>\u202e")
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩</title>" in document


def test_what_a_page_opens_on() -> None:
    tokens, words = ["un", "do", "it", "now"], [0, 0, 1, 2]
    seen = view(looked_at(4, 4, layers=2).traces, tokens, words=words)
    opens = content_of(seen.html())["opens"]
    assert opens == {"attention": 0, "head": None, "row": None, "column": None, "words": False, "view": "map"}
    options: dict[str, Any] = {"name": "encoder.1.self", "row": "undo", "column": 3, "kind": "arcs"}
    opens = content_of(seen.html(head=1, **options))["opens"]
    assert opens == {"attention": 1, "head": 1, "row": 0, "column": 3, "words": False, "view": "arcs"}
    assert content_of(seen.html(row="it", column=2, words=True))["opens"]["row"] == 1
    framed = seen.page(title="A <b>", head="max", **options)
    assert framed._repr_html_().startswith('<iframe title="A &lt;b&gt;"')
    assert "&quot;head&quot;:&quot;max&quot;" in framed


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"row": 4}, OptionError, "There is no token at position 4; there are 4 tokens, numbered from 0"),
        ({"row": 4, "words": True}, ShapeError, "There is no word 4; there are 4"),
        ({"column": "blue"}, OptionError, "There is no word 'blue' in: 0 1 2 3"),
        ({"head": 2}, OptionError, "Head 2 of encoder.0.self is not on the page, which has 0, 1"),
        ({"head": "sum"}, OptionError, "mean or max"),
        ({"name": "encoder.1.self"}, UnknownNameError, "attention on the page"),
        ({"kind": "grid"}, UnknownNameError, "heatmap"),
        ({"rows": 3}, OptionError, r"A page: got an unexpected keyword argument 'rows'"),
    ],
)
def test_a_page_cannot_open_on_what_is_not_there(options: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        looked_at(4, 4).html(**options)


def test_progress_goes_from_nothing_to_everything() -> None:
    told: list[float] = []
    looked_at(7, 7, heads=3, layers=2).html(progress=told.append)
    assert told == sorted(told)
    assert 0 < told[0] < 0.5
    assert told[-1] == 1


def test_small_pages_keep_float32() -> None:
    seen = looked_at(5, 7, heads=3)
    document = render_page(seen, title="A")
    content = content_of(document)
    assert content["step"] is None
    assert [head["number"] for head in content["attentions"][0]["heads"]] == [0, 1, 2]
    entropies = [head["entropy"] for head in content["attentions"][0]["heads"]]
    np.testing.assert_allclose(entropies, seen.entropy("decoder.0.cross"), atol=1e-6)
    assert all(head["distance"] is None for head in content["attentions"][0]["heads"])
    assert content["stored"][-1]["to"] == len(element(document, "weights"))


def test_the_colours_are_those_of_every_picture() -> None:
    ramps = content_of(render_page(looked_at(3, 3), title="A"))["ramps"]
    for name, dark in (("light", False), ("dark", True)):
        colours = np.frombuffer(bytes.fromhex(ramps[name]), dtype=np.uint8).reshape(256, 3) / 255
        np.testing.assert_allclose(colours, ramp(np.linspace(0, 1, 256), dark=dark), atol=0.5 / 255 + 1e-9)


def test_a_part_of_the_view() -> None:
    seen = looked_at(5, 5, heads=3, layers=2)
    content = content_of(render_page(seen, title="A", names=["encoder.1.self"], heads=[2, 0]))
    assert [one["name"] for one in content["attentions"]] == ["encoder.1.self"]
    assert [head["number"] for head in content["attentions"][0]["heads"]] == [2, 0]
    assert content["rollouts"] == []  # which needs every head of every layer
    assert len(content_of(render_page(seen, title="A"))["rollouts"]) == 1


def test_what_is_not_there_is_refused() -> None:
    seen = looked_at(5, 5)
    with pytest.raises(UnknownNameError, match=r"encoder\.9\.self"):
        render_page(seen, title="A", names=["encoder.9.self"])
    with pytest.raises(ShapeError, match="no head 2 in"):
        render_page(seen, title="A", heads=[2])
    with pytest.raises(OptionError, match="at least one"):
        render_page(seen, title="A", heads=[])


def test_too_large_a_page_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_WEIGHTS", 100)
    seen = looked_at(11, 11, heads=2)
    with pytest.raises(TooLargeError, match=r"242 weights.*names=.*heads=.*overview\(\)"):
        render_page(seen, title="A")


def test_what_fits_at_no_step_is_refused() -> None:
    with pytest.raises(TooLargeError, match=r"121 weights.*7 bytes.*overview\(\)"):
        pack([Matrix(np.full((11, 11), 1 / 11, dtype=np.float32))], limit=7)


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_finest_step_that_fits(is_causal: bool) -> None:
    """About what 512 tokens and 48 heads may take: less than half a byte a weight."""
    seen = looked_at(211, 211, heads=4, mask=causal if is_causal else None)
    matrices = [page._matrix(seen, "encoder.0.self", head) for head in range(4)]
    sizes = []
    steps = []
    for limit in (10**6, 10**5, 4 * 10**4):
        packed = pack(matrices, limit)
        steps.append(STEPS.index(packed.step))
        sizes.append(sum(map(len, packed.texts)))
        assert limit / 3 < sizes[-1] <= limit
    assert steps == sorted(set(steps))
    assert steps[0] == 0


def test_factors_foretell_a_product_of_queries_and_keys() -> None:
    """The same weights take less where queries and keys are known."""
    seen = looked_at(211, 211)
    known = page._matrix(seen, "encoder.0.self", 1)
    assert known.factors is not None
    with_factors, without = (pack([one], 30_000) for one in (known, Matrix(known.weights)))
    assert with_factors.matrices[0].rank == 8
    assert with_factors.step is not None
    assert without.step is not None
    assert with_factors.step < without.step


def test_factors_that_all_round_to_nothing_are_told_from_none() -> None:
    """Queries of 0: every score is, so what is foretold needs no factors, only the mask and the length of each row."""
    allowed = torch.rand(256, 256, generator=torch.Generator().manual_seed(0)) < 0.5
    with watch() as seen:
        attend(torch.zeros(1, 1, 256, 8), torch.randn(1, 1, 256, 8), torch.zeros(1, 1, 256, 8), mask=dense(allowed))
    packed = pack([page._matrix(view(seen), "attention", 0)], limit=14_000)
    (stored,) = packed.matrices
    assert packed.step == 1e-5
    assert stored.rank == 0
    assert stored.grain > 0
    content = zlib.decompress(stored.content, wbits=-zlib.MAX_WBITS)
    assert len(content) == 4 * 256 + 256 * 256 // 8 + 256 * 256
    offsets = np.frombuffer(content[: 4 * 256], dtype="<f4")
    np.testing.assert_allclose(np.exp(offsets), 1 / allowed.sum(1), rtol=1e-6)


def test_stacks_of_two_lengths_have_rollouts_of_their_own() -> None:
    long, short = looked_at(8, 8, layers=2), looked_at(4, 4, layers=2)
    traces = {**long.traces, **{f"encoder.{layer + 2}.self": short.traces[f"encoder.{layer}.self"] for layer in (0, 1)}}
    rollouts = content_of(render_page(view(traces), title="A"))["rollouts"]
    assert [(one["name"], one["layers"]) for one in rollouts] == [
        ("encoder.*.self of 8 tokens", ["encoder.0.self", "encoder.1.self"]),
        ("encoder.*.self of 4 tokens", ["encoder.2.self", "encoder.3.self"]),
    ]


def test_weights_that_are_not_finite_have_no_page() -> None:
    query, key = torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 5, 8)
    key[:, 1, 4] = torch.nan
    with watch() as seen:
        attend(query, key, key)
    with pytest.raises(OptionError, match="Head 1 of attention has weights that are not finite"):
        render_page(view(seen), title="A")
    assert view(seen)._repr_html_().startswith("<p>Head 1 of attention has")


def test_without_weights_there_is_nothing_to_show() -> None:
    with pytest.raises(OptionError, match=r"decoder\.0\.cross has no weights.*names="):
        render_page(looked_at(3, 0), title="A")


def test_the_exponential_of_exact_operations() -> None:
    x = np.linspace(-27, 0.5, 1001)
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=1e-13)
    assert exponential(np.array([-1000.0]))[0] == 0
    assert exponential(np.array([0.0]))[0] == 1


def test_the_page_in_a_frame() -> None:
    seen = looked_at(3, 3)
    fragment = render_frame(seen, title='"A"')
    assert fragment.startswith('<iframe title="&quot;A&quot;" sandbox="allow-scripts" srcdoc="')
    inside = re.search(r'srcdoc="([^"]*)"', fragment)
    assert inside is not None
    assert html.unescape(inside.group(1)) == render_page(seen, title='"A"')
