"""Every figure of a view: what is drawn is read back from it and compared with a softmax written out here."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage, imread
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from torch import Tensor

import saccade
from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.lens.colours import contrast
from saccade.lens.colours import theme as theme_of
from saccade.lens.figures import FIGURES, drawable
from saccade.lens.figures.canvas import label
from saccade.lens.figures.formats import save
from saccade.lens.view import View, view

HEADS, WIDTH = 3, 4
ODD = [
    "$x_1$",
    "\\frac{a}",
    "<script>alert(1)</script>",
    "</text>",
    "\u202eevil",
    "猫が",
    "👩\u200d🚀",
    "السلام",
    "\x00",
    "",
]


def exact(query: Tensor, key: Tensor) -> Tensor:
    return (query[0].double() @ key[0].double().transpose(-1, -2) / math.sqrt(WIDTH)).softmax(-1)


def watched(num_queries: int, num_keys: int, seed: int = 0) -> tuple[Any, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query = 2 * torch.randn(1, HEADS, num_queries, WIDTH, generator=generator)
    key = torch.randn(1, HEADS, num_keys, WIDTH, generator=generator)
    with saccade.watch() as seen:
        saccade.attend(query, key, key)
    return seen["attention"], exact(query, key)


def tokens(count: int) -> list[str]:
    words = ["the", "of", "internationalisation", "anticonstitutionnellement", "<unk>", "Wg"]
    return [words[number % len(words)] for number in range(count)]


def small() -> tuple[View, dict[str, Tensor]]:
    """An encoder of two layers and a decoder's look at it, of coprime lengths."""
    sizes = {"encoder.0.self": (7, 7), "encoder.1.self": (7, 7), "decoder.0.cross": (5, 7)}
    parts = {name: watched(*size, seed) for seed, (name, size) in enumerate(sizes.items())}
    traces = {name: trace for name, (trace, _) in parts.items()}
    shown = view(traces, tokens(5), source_tokens=tokens(7), words=[0, 1, 1, 2, 3], gold=[(6, 0), (2, 3)])
    return shown, {name: weights for name, (_, weights) in parts.items()}


def drawn(figure: Figure) -> list[np.ndarray]:
    """The arrays behind meshes and images, without the bars of the scales, which have 50 steps in one row."""
    artists = [artist for axes in figure.axes for artist in axes.get_children()]
    found = [np.ma.filled(artist.get_array(), np.nan) for artist in artists if isinstance(artist, QuadMesh | AxesImage)]
    return [array for array in found if array.shape != (1, 50)]


def assert_close(found: np.ndarray, true: Tensor) -> None:
    np.testing.assert_allclose(found, true.numpy(), rtol=0, atol=1e-6)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def assert_on_page(figure: Figure) -> None:
    """No text is cut by the edge of the page."""
    page, written = figure.bbox, [text for text in figure.findobj(Text) if text.get_text()]
    assert written
    for text in written:
        box = text.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, text
        assert page.y0 <= box.y0 <= box.y1 <= page.y1, text


# --- the numbers -------------------------------------------------------------------------------------------


def test_heat_maps_hold_the_weights() -> None:
    shown, true = small()
    weights = true["decoder.0.cross"]
    for head, expected in ((2, weights[2]), ("mean", weights.mean(0)), ("max", weights.amax(0))):
        figure = shown.figure("heatmap", name="decoder.0.cross", head=head)
        (found,) = drawn(figure)
        assert_close(found, expected)
    words = shown.figure("heatmap", name="decoder.0.cross", words=True)
    mean = weights.mean(0)
    assert_close(drawn(words)[0], torch.stack([mean[0], mean[1:3].mean(0), mean[3], mean[4]]))
    assert "decoder.0.cross, mean of 3 heads" in texts(words)


def test_arcs_are_as_thick_as_their_weights_and_a_column_a_head_stands_beside_them() -> None:
    shown, true = small()
    weights = true["decoder.0.cross"][:, 4]
    figure = shown.figure("arcs", row=4)
    (columns,) = drawn(figure)
    assert_close(columns, weights.T)
    (lines,) = figure.findobj(LineCollection)
    mean = weights.mean(0)
    strong = sorted(weight for weight in mean.tolist() if weight >= 0.005)
    np.testing.assert_allclose(lines.get_linewidth(), [8 * weight for weight in strong], atol=1e-5)
    ends = [path.vertices[-1, 1] for path in lines.get_paths()]
    assert ends == [key + 0.5 for key in mean.argsort().tolist() if mean[key] >= 0.005]
    bold = [text.get_text() for text in figure.findobj(Text) if text.get_fontweight() == "bold"]
    assert bold == [tokens(5)[4]]


def test_of_many_keys_arcs_show_the_strongest() -> None:
    trace, weights = watched(90, 90)
    figure = view({"h.0": trace}, tokens(90)).figure("arcs", row=80, most=11)
    chosen = weights[:, 80].amax(0).topk(11).indices.sort().values
    assert_close(drawn(figure)[0], weights[:, 80, chosen].T)
    assert "h.0, mean of 3 heads: the 11 strongest of 90 keys" in texts(figure)
    assert f"{chosen[0]} {label(tokens(90)[chosen[0]])}" in texts(figure)  # which of the many alike it is
    assert "80 internationalisation" in texts(figure)
    assert_on_page(figure)


def test_the_grid_has_every_head() -> None:
    shown, true = small()
    found = drawn(shown.figure("grid"))
    assert len(found) == 3 * HEADS
    for array, weights in zip(found, torch.cat([*true.values()][:2]), strict=False):
        assert_close(array, weights)
    for array, weights in zip(found[2 * HEADS :], true["decoder.0.cross"], strict=True):
        assert_close(array, weights)
    assert len(drawn(shown.figure("grid", names=["encoder.1.self"]))) == HEADS


def test_an_alignment_has_gold_in_it_and_beside_it() -> None:
    shown, true = small()
    weights = true["decoder.0.cross"].mean(0)
    figure = shown.figure("alignment")
    found, gold = drawn(figure)
    assert_close(found, torch.stack([weights[0], weights[1:3].mean(0), weights[3], weights[4]]))
    assert np.argwhere(gold).tolist() == [[0, 6], [3, 2]]
    outlines = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert [(int(patch.get_x()), int(patch.get_y())) for patch in outlines] == [(2, 3), (6, 0)]
    assert len(drawn(view(shown.traces).figure("alignment", name="decoder.0.cross"))) == 1
    with pytest.raises(OptionError, match=r"connect words; draw the alignment with words=True"):
        shown.figure("alignment", words=False)
    with pytest.raises(OptionError, match=r"gold link 9-0 is outside"):
        shown.figure("alignment", gold={(9, 0)})
    with pytest.raises(OptionError, match=r"needs cross-attention; there is none among encoder.0.self"):
        view({"encoder.0.self": shown.traces["encoder.0.self"]}).figure("alignment")


def test_rollout_and_its_scale() -> None:
    shown, true = small()
    layers = [0.5 * true[name].mean(0) + 0.5 * torch.eye(7) for name in ("encoder.0.self", "encoder.1.self")]
    figure = shown.figure("rollout")
    assert_close(drawn(figure)[0], layers[1] @ layers[0])
    (mesh, *_) = figure.findobj(QuadMesh)
    assert mesh.norm.vmax == pytest.approx(float((layers[1] @ layers[0]).max()), abs=1e-6)
    with pytest.raises(OptionError, match="needs self-attention"):
        view({"decoder.0.cross": shown.traces["decoder.0.cross"]}).figure("rollout")


def test_a_difference_is_around_zero() -> None:
    shown, true = small()
    trace, weights = watched(7, 7, seed=5)
    other = view({"encoder.1.self": trace}, tokens(7))
    figure = shown.figure("difference", other=other, name="encoder.1.self", head=1)
    assert_close(drawn(figure)[0], true["encoder.1.self"][1] - weights[1])
    (mesh, *_) = figure.findobj(QuadMesh)
    assert (mesh.norm.vmin, mesh.norm.vmax) == (-1.0, 1.0)
    mesh.update_scalarmappable()
    colours = mesh.get_facecolor()[:, :3].reshape(7, 7, 3)
    found = drawn(figure)[0]
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert colours[row, column, 2] > colours[row, column, 0]  # more is blue
    row, column = np.unravel_index(found.argmin(), found.shape)
    assert colours[row, column, 2] < colours[row, column, 0]  # less is orange
    with pytest.raises(OptionError, match="1 to 200 tokens that both inputs share, not 0"):
        shown.figure("difference", other=view({"encoder.1.self": trace}, list("abcdefg")), name="encoder.1.self")


def test_entropy_and_distance_of_every_head() -> None:
    shown, true = small()
    bits, away = drawn(shown.figure("entropy"))
    assert_close(bits, torch.stack([-(weights * weights.log2()).sum(-1).mean(-1) for weights in true.values()]))
    steps = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    assert_close(away[:2], torch.stack([(true[name] * steps).sum(-1).mean(-1) for name in list(true)[:2]]))
    assert np.isnan(away[2]).all()
    assert len(drawn(shown.figure("entropy", names=["decoder.0.cross"]))) == 1


@pytest.mark.parametrize("colours", [(), (3,)])
@pytest.mark.parametrize("class_token", [True, False])
def test_patches_lie_over_the_image(colours: tuple[int, ...], class_token: bool) -> None:
    count = 2 * 3 + class_token
    trace, weights = watched(count, count)
    image = np.random.default_rng(0).random((8, 12, *colours))
    seen = view({"encoder.0.self": trace})
    figure = seen.figure("patches", image=image, grid=(2, 3), class_token=class_token)
    picture, _, over = drawn(figure)
    assert np.array_equal(picture, image)
    assert_close(over, weights.mean(0)[0, int(class_token) :].reshape(2, 3))
    assert figure.axes[1].images[1].get_extent() == [-0.5, 11.5, 7.5, -0.5]
    mean = seen.figure("patches", image=image, grid=(2, 3), class_token=class_token, row="mean", head=1)
    assert_close(drawn(mean)[2], weights[1].mean(0)[int(class_token) :].reshape(2, 3))
    assert_on_page(figure)


def test_images_that_are_none() -> None:
    seen = view({"a": watched(7, 7)[0]})
    with pytest.raises(ShapeError, match=r"not \(8, 12, 4\)"):
        seen.figure("patches", image=np.zeros((8, 12, 4)), grid=(2, 3))
    with pytest.raises(OptionError, match=r"bytes or numbers in 0..1, not 0.0 to 9.0"):
        seen.figure("patches", image=np.full((8, 12), 9.0) * np.eye(8, 12), grid=(2, 3))
    with pytest.raises(ShapeError, match="a has 7 keys, but 2×4 patches and a class token need 9"):
        seen.figure("patches", image=np.zeros((8, 12)), grid=(2, 4))
    bytes_of_image = seen.figure("patches", image=np.full((8, 12), 255, np.uint8), grid=(2, 3))
    assert drawn(bytes_of_image)[0].max() == 1.0


# --- long inputs -------------------------------------------------------------------------------------------


def test_a_long_input_is_an_overview_that_says_so() -> None:
    trace, weights = watched(401, 401)
    shown = view({"h.0": trace}, tokens(401))
    figure = shown.figure("heatmap", head=1)
    (found,) = drawn(figure)
    assert found.shape == (134, 134)  # cells of 3×3
    assert_close(found[:133, :133], weights[1, :399, :399].reshape(133, 3, 133, 3).amax((1, 3)))
    assert "h.0, head 1: max of 3×3 weights" in texts(figure)
    assert "h.0, mean of 3 heads: mean of 3×3 weights" in texts(shown.figure("heatmap"))
    assert "0 the" in texts(figure)
    with pytest.raises(OptionError, match="at most 200 words, not 401"):
        shown.figure("alignment", name="h.0")
    done: list[float] = []
    assert any("max of 3×3 weights" in text for text in texts(shown.figure("grid", progress=done.append)))
    shown.figure("heatmap", progress=done.append)
    shown.figure("entropy", progress=done.append)
    assert done.count(1.0) >= 3
    assert_on_page(figure)
    with pytest.raises(OptionError, match="at most 200 tokens, not 401"):
        shown.figure("rollout")


def test_many_words_are_merged_before_they_are_pooled() -> None:
    trace, exact = watched(402, 402)
    shown = view({"h": trace}, tokens(402), words=[token // 2 if token < 300 else token - 150 for token in range(402)])
    assert shown.rows["h"].num_words == 252
    merged = shown.matrix("h", 0, words=True).numpy()
    expected = merged.reshape(126, 2, 126, 2).max((1, 3))
    heatmap, grid = shown.figure("heatmap", head=0, words=True), shown.figure("grid", words=True)
    for figure in (heatmap, grid):
        np.testing.assert_allclose(drawn(figure)[0], expected)
        assert any("max of 2×2 weights" in text for text in texts(figure))
    assert_close(drawn(shown.figure("heatmap", words=True))[0][:75, :75], _pooled(exact.mean(0)[:300, :300]))
    assert any(text.startswith("14 ") for text in texts(heatmap))  # of 252 words, not 402 tokens


def _pooled(weights: Tensor) -> Tensor:
    """Words of two tokens, cells of two words: sums of the columns' pieces, means of all else."""
    return weights.unflatten(1, (-1, 2, 2)).sum(-1).mean(-1).unflatten(0, (-1, 4)).mean(1)


def test_too_many_weights_for_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawable, "WEIGHTS_LIMIT", 401 * 400)
    trace, _ = watched(401, 401)
    assert view({"h": trace}, tokens(401)).figure("heatmap", words=True)  # tokens that are words need no merging
    shown = view({"h": trace}, tokens(401), words=[0, *range(400)])
    for kind in ("heatmap", "grid"):
        with pytest.raises(OptionError, match=r"401 by 401 weights of h are too many.*words=False"):
            shown.figure(kind, words=True)


@pytest.mark.parametrize("kind", ["heatmap", "arcs", "alignment", "patches"])
def test_an_attention_that_is_not_there_is_named(kind: str) -> None:
    shown, _ = small()
    options: dict[str, Any] = {"image": np.eye(6), "grid": (2, 3)} if kind == "patches" else {}
    with pytest.raises(UnknownNameError, match=r"no attention 'encoder.9.self'; allowed: decoder.0.cross"):
        shown.figure(kind, name="encoder.9.self", **options)


# --- how it looks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["heatmap", "arcs", "grid", "alignment", "rollout", "entropy"])
@pytest.mark.parametrize("size", [12, 60])
def test_nothing_is_cut_at_12_and_at_60_tokens(kind: str, size: int) -> None:
    layer, cross = watched(size, size)[0], watched(size - 1, size)[0]
    shown = view(
        {"encoder.0.self": layer, "decoder.0.cross": cross},
        tokens(size - 1),
        source_tokens=tokens(size),
        gold=[(0, 0)],
    )
    figure = shown.figure(kind)
    assert_on_page(figure)


@pytest.mark.parametrize("size", [12, 60, 113, 199])
def test_labels_never_overlap_and_are_legible(size: int) -> None:
    figure = view({"h": watched(size, size)[0]}, tokens(size)).figure("heatmap", head=0)
    labels = [text for text in figure.axes[0].texts if text.get_ha() == "right"]
    assert len(labels) == (size if size <= 120 else 100)
    assert all(text.get_fontsize() >= 6 for text in labels)
    boxes = [text.get_window_extent() for text in labels]
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    upright = [text.get_window_extent() for text in figure.axes[0].texts if text.get_rotation() == 90]
    assert all(left.x1 <= right.x0 for left, right in pairwise(upright))
    assert bool(upright) == (size > 60)


@pytest.mark.parametrize("kind", ["heatmap", "arcs"])
def test_token_text_is_shown_as_text_and_without_a_warning(kind: str, tmp_path: Path) -> None:
    shown = view({"$a_1$ <b>": watched(len(ODD), len(ODD))[0]}, ODD)
    figure = shown.figure(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "plain.png")  # matplotlib's own way: every letter has a glyph or its code point
        save(figure, tmp_path / "a.png")
        save(figure, tmp_path / "a.pdf")
    save(figure, tmp_path / "a.svg")
    tree = ElementTree.parse(tmp_path / "a.svg")
    written = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    for token in ["$x_1$", "\\frac{a}", "<script>aler…1)</script>", "</text>", "⟨U+202E⟩evil", "⟨U+0000⟩", "∅"]:
        assert written.count(token) == 2, token
    assert written.count("猫が") == written.count("السلام") == 2  # whole: the browser has the fonts
    assert "猫が" in texts(figure) or "⟨U+732B⟩⟨U+304C⟩" in texts(figure)
    assert "<script" not in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_every_figure_in_both_themes(tmp_path: Path) -> None:
    shown, _ = small()
    options: dict[str, dict[str, Any]] = {
        "difference": {"other": shown},
        "patches": {"name": "encoder.0.self", "image": np.eye(6), "grid": (2, 3)},
    }
    for kind in FIGURES:
        light, dark = (shown.figure(kind, theme=theme, **options.get(kind, {})) for theme in ("light", "dark"))
        assert to_rgb(light.get_facecolor()) == (1.0, 1.0, 1.0)
        pixels = imread(save(dark, tmp_path / f"{kind}.png"))[..., :3]
        np.testing.assert_allclose(pixels[0, 0], to_rgb(theme_of(dark=True).background), atol=0.01)
        assert pixels.max() > 0.8
    with pytest.raises(UnknownNameError, match="no theme 'blue'"):
        shown.figure("heatmap", theme="blue")


def test_a_scale_ends_where_it_is_asked_to() -> None:
    shown, _ = small()
    figure = shown.figure("heatmap", scale=0.25)
    assert "≥ 0.25" in texts(figure)
    assert shown.figure("heatmap", scale=None).findobj(QuadMesh)[0].norm.vmax < 1
    largest = max(float(shown.matrix(name, head).max()) for name in shown.names for head in range(HEADS))
    assert {image.norm.vmax for image in shown.figure("grid", scale=None).findobj(AxesImage)} == {largest}
    for kind in ("heatmap", "grid"):
        with pytest.raises(OptionError, match="scale must be above 0, not 0"):
            shown.figure(kind, scale=0)


def test_a_view_is_saved_by_the_suffix(tmp_path: Path) -> None:
    shown, _ = small()
    assert "a title" in shown.save(tmp_path / "a.svg", "grid", title="a title").read_text(encoding="utf-8")
    assert shown.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    page = shown.save(tmp_path / "a.html", title="A <title>").read_text(encoding="utf-8")
    assert "A &lt;title&gt;" in page
    assert shown.save(tmp_path / "b.html", heads=[0]).stat().st_size < len(page.encode())


def test_a_view_shows_itself_in_a_notebook_and_in_a_line() -> None:
    shown, _ = small()
    for figure in (shown.figure(), shown.figure("grid"), shown.figure("arcs")):  # a notebook asks for these bytes
        assert figure._repr_png_().startswith(b"\x89PNG")
    assert shown._repr_html_().startswith("<iframe")
    assert repr(shown) == "View(encoder.0.self: (3, 7, 7), encoder.1.self: (3, 7, 7), decoder.0.cross: (3, 5, 7))"


def test_numbers_can_be_read_on_their_cells() -> None:
    """Each number is in the one of two colours that stands out more; 3 is what WCAG asks of large text."""
    shown, _ = small()
    other = view({"encoder.0.self": watched(7, 7, seed=9)[0]}, tokens(7))
    for theme in ("light", "dark"):
        for options in ({"head": 0}, {"kind": "difference", "other": other, "name": "encoder.0.self", "head": 0}):
            figure = shown.figure(**options, theme=theme)
            mesh = figure.axes[0].collections[0]
            mesh.update_scalarmappable()
            behind = mesh.get_facecolor().reshape(*mesh.get_array().shape, 4)
            numbers = [text for text in figure.axes[0].texts if "." in text.get_text()]
            assert len(numbers) > 7
            for text in numbers:
                column, row = (int(place) for place in text.get_position())
                assert contrast(behind[row, column, :3], text.get_color()) > 3
