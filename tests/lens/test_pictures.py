"""Heat maps as files: their text read back, their colours, and that the same figure gives the same bytes."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from saccade.errors import FileError, OptionError, ShapeError, TooLargeError
from saccade.lens.colours import ramp, theme
from saccade.lens.figures.formats import save
from saccade.lens.figures.matrix import draw_weights

WEIGHTS = torch.tensor([[0.9, 0.1, 0.0], [0.25, 0.004, 0.746]])
ROWS, COLUMNS = ["le", "chat"], ["the", "black", "cat"]
ODD = [
    "$x_1$",
    "<script>alert(1)</script>",
    " the",
    "\u202eevil",
    "猫が",
    "👩\u200d🚀",
    "السلام",
    "a&b\"'",
    "x" * 99,
    "",
]


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_an_svg_holds_tokens_and_numbers_as_text(tmp_path: Path) -> None:
    path = save(draw_weights(WEIGHTS, ROWS, COLUMNS, title="decoder.1.cross, mean"), tmp_path / "a.svg")
    written = texts(path)
    assert written.count("le") == written.count("chat") == written.count("black") == 1
    assert "decoder.1.cross, mean" in written
    numbers = [text for text in written if text[0].isdigit() and len(text) == 4]
    assert numbers == ["0.90", "0.10", "0.25", "0.75"]  # those below 0.005 are left blank


def test_token_text_is_text(tmp_path: Path) -> None:
    figure = draw_weights(torch.eye(len(ODD)), ODD, ODD, title="$x^2$ <b>")
    written = texts(save(figure, tmp_path / "a.svg"))
    shown = ["$x_1$", "<script>aler…1)</script>", "·the", "⟨U+202E⟩evil", "猫が", "👩\u200d🚀", "السلام", "a&b\"'"]
    for token in [*shown, "x" * 12 + "…" + "x" * 11, "∅"]:
        assert written.count(token) == 2, token  # once a side
    assert "$x^2$ <b>" in written
    assert "<script" not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    save(figure, tmp_path / "a.png")  # letters that no font has: no warning, no error


@pytest.mark.parametrize("dark", [False, True])
def test_cells_have_the_colours_of_the_scale(tmp_path: Path, dark: bool) -> None:
    figure = draw_weights(torch.tensor([[0.0, 0.4, 1.0]]), ["row"], ["a", "b", "c"], dark=dark, values=False)
    pixels = imread(save(figure, tmp_path / "a.png"))[..., :3]
    height, width, _ = pixels.shape
    left, bottom, right, top = figure.axes[0].get_position().extents
    middle = round(height * (1 - (bottom + top) / 2))
    found = [pixels[middle, round(width * (left + (right - left) * x))] for x in (1 / 6, 3 / 6, 5 / 6)]
    np.testing.assert_allclose(found, ramp([0.0, 0.4, 1.0], dark=dark), atol=0.01)
    np.testing.assert_allclose(pixels[0, 0], to_rgb(theme(dark).background), atol=0.01)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        save(draw_weights(WEIGHTS, ROWS, COLUMNS, gold=[(0, 0)]), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_settings_of_the_process_are_left_alone_and_do_not_matter(tmp_path: Path) -> None:
    expected = save(draw_weights(WEIGHTS, ROWS, COLUMNS), tmp_path / "a.svg").read_bytes()
    others = {"svg.fonttype": "path", "savefig.bbox": "tight", "font.size": 30, "axes.grid": True, "svg.hashsalt": "x"}
    with matplotlib.rc_context(others):
        assert save(draw_weights(WEIGHTS, ROWS, COLUMNS), tmp_path / "b.svg").read_bytes() == expected
        assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    def draw(name: int) -> None:
        save(draw_weights(WEIGHTS, ROWS, COLUMNS), tmp_path / f"{name}.svg")

    threads = [threading.Thread(target=draw, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(tmp_path / f"{name}.svg").read_bytes() for name in range(3)}) == 1


def tokens(count: int) -> list[str]:
    words = ["the", "of", "internationalisation", "anticonstitutionnellement", "<unk>", "Wg"]
    return [words[number % len(words)] for number in range(count)]


@pytest.mark.parametrize(("num_rows", "num_columns"), [(12, 11), (60, 59), (1, 60), (60, 1), (1, 1), (0, 3), (0, 0)])
@pytest.mark.parametrize("title", [None, "a title that is longer than so small a picture would be"])
def test_no_label_is_cut_and_none_overlaps_the_next(num_rows: int, num_columns: int, title: str | None) -> None:
    figure = draw_weights(torch.zeros(num_rows, num_columns), tokens(num_rows), tokens(num_columns), title=title)
    FigureCanvasAgg(figure).draw()
    page = figure.bbox
    for text in figure.findobj(Text):
        if text.get_text():
            box = text.get_window_extent()
            assert page.x0 <= box.x0, text
            assert box.x1 <= page.x1, text
            assert page.y0 <= box.y0, text
            assert box.y1 <= page.y1, text
    labels = [text.get_window_extent() for text in figure.axes[0].texts[:num_rows]]
    assert all(above.y0 >= below.y1 for above, below in pairwise(labels))
    if num_columns:  # letters tilted by 45° stand a cell's width times √½ apart: more than their height
        cell = figure.axes[0].get_window_extent().width / num_columns
        assert cell * 0.5**0.5 > 10 / 72 * figure.dpi


def test_gold_links_are_outlined_in_their_column_and_row() -> None:
    figure = draw_weights(WEIGHTS, ROWS, COLUMNS, gold=[(2, 1), (0, 0)])
    outlines = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    places = [(int(patch.get_x()), int(patch.get_y())) for patch in outlines]
    assert places == [(0, 0), (2, 1)]
    assert "gold" in [text.get_text() for text in figure.findobj(Text)]
    assert "gold" not in [text.get_text() for text in draw_weights(WEIGHTS, ROWS, COLUMNS).findobj(Text)]


def test_numbers_are_written_where_there_are_few_or_when_asked() -> None:
    def numbers(figure: Figure) -> int:
        return sum(text.get_text() == "0.50" for text in figure.axes[0].texts)

    half = torch.full((13, 14), 0.5)
    assert numbers(draw_weights(half[:, :13], tokens(13), tokens(13))) == 169
    assert numbers(draw_weights(half, tokens(13), tokens(14))) == 0
    assert numbers(draw_weights(half, tokens(13), tokens(14), values=True)) == 182
    assert numbers(draw_weights(half[:2, :2], tokens(2), tokens(2), values=False)) == 0


def test_weights_past_one_are_ink_and_the_scale_says_so() -> None:
    figure = draw_weights(np.array([[1.5, 0.5]]), ["a"], ["b", "c"])
    assert "≥ 1" in [text.get_text() for text in figure.findobj(Text)]
    (mesh,) = (child for child in figure.axes[0].get_children() if isinstance(child, QuadMesh))
    assert mesh.get_array().tolist() == [[1.5, 0.5]]
    mesh.update_scalarmappable()
    np.testing.assert_allclose(mesh.get_facecolor()[0, :3], to_rgb(theme().ink), atol=1e-6)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"2 by 2 cells needs weights of that shape, not \(2, 3\)"):
        draw_weights(WEIGHTS, ROWS, ROWS)
    with pytest.raises(OptionError, match="must be finite and at least 0, not nan"):
        draw_weights(torch.tensor([[float("nan")]]), ["a"], ["b"])
    with pytest.raises(OptionError, match=r"not -0.5"):
        draw_weights(torch.tensor([[-0.5]]), ["a"], ["b"])
    with pytest.raises(OptionError, match=r"gold link 3-0 is outside the 3 columns and 2 rows"):
        draw_weights(WEIGHTS, ROWS, COLUMNS, gold=[(3, 0)])
    with pytest.raises(TooLargeError, match="at most 400 tokens per side, not 1 by 401"):
        draw_weights(torch.zeros(1, 401), ["a"], ["b"] * 401)


def test_where_a_picture_cannot_be_saved(tmp_path: Path) -> None:
    figure = draw_weights(WEIGHTS, ROWS, COLUMNS)
    with pytest.raises(FileError, match=r"saved as .png, .svg, .pdf, not as .gif"):
        save(figure, tmp_path / "a.gif")
    with pytest.raises(FileError, match="not as a file without a suffix"):
        save(figure, tmp_path / "a")
    with pytest.raises(FileError, match=r"a.png: the picture cannot be written: No such file or directory"):
        save(figure, tmp_path / "nowhere" / "a.png")
    assert save(figure, str(tmp_path / "A.PNG")).exists()
