"""Write one self-contained interactive HTML page: a heat map, arcs from one query, and a grid of all heads.

The page loads nothing: it contains its style and scripts, and its content security policy forbids everything else.
Tokens are stored as JSON with every ``<``, ``>`` and ``&`` escaped and shown as text, so they are never read as markup.
The module ``pack`` describes how the weights are stored.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from saccade.attention import Trace
from saccade.attention.watching.coverage import Coverage
from saccade.attention.watching.overview import ReportProgress, progress_of_part
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens.axis import Axis
from saccade.lens.causal import find_places
from saccade.lens.colours import ramp, theme
from saccade.lens.page.pack import Matrix, Pack, pack
from saccade.lens.view import Head, View
from saccade.lens.words import visible, visible_text

__all__ = ["LIMIT", "MOST_WEIGHTS", "Frame", "Lead", "render_frame", "render_page"]

#: Maximum size in bytes of a page with up to 48 heads of 512×512 weights; with more heads or weights, it grows too.
LIMIT = 5_000_000
_HEADS_WITHIN_LIMIT = 48
_WEIGHTS_WITHIN_LIMIT = _HEADS_WITHIN_LIMIT * 512 * 512
#: Maximum number of weights on a page (27 MB).
MOST_WEIGHTS = 1 << 26

#: In the order in which they are concatenated into one module.
SCRIPTS = ("weights.js", "state.js", "map.js", "arcs.js", "heads.js", "page.js")
#: The main view of the page, named like the kinds of figures.
PageKind = Literal["heatmap", "arcs"]
_HEIGHT = 760  # pixels: height of the frame in a notebook


class Lead(NamedTuple):
    """The top of the page: the model's answer, a sentence on its probability, and a PNG picture of the answer."""

    text: str
    certainty: str = ""
    picture: bytes | None = None


class Frame(str):
    """A string of HTML that a notebook renders when it is the result of a cell."""

    def _repr_html_(self) -> str:
        return self


def render_page(
    view: View,
    *,
    title: str = "Attention",
    names: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    name: str | None = None,
    head: Head | None = None,
    row: int | str | None = None,
    column: int | str | None = None,
    words: bool = False,
    kind: PageKind = "heatmap",
    lead: Lead | None = None,
    progress: ReportProgress | None = None,
) -> str:
    """Return the page as a complete HTML document, which can be saved and opened from disk.

    Args:
        names: the attentions on the page; all of them by default.
        heads: the heads on the page; all of them by default.
        name: the attention that the page shows first, at this ``head``; by default the first one of the page.
        row: the query that the page shows first, by position or as a word; by default that of the largest weight.
        column: the key that the page shows first, by position or as a word.
        words: merge tokens into words; the positions ``row`` and ``column`` then count words.
        kind: which view the page shows first: the heat map or the arcs.
        lead: the model's answer, shown at the top of the page.
        progress: called again and again with the fraction of the work that is done.
    """
    chosen = _chosen(view, names, heads)
    name = name or next(iter(chosen))
    _check_opening(view, chosen, name, head, kind)
    opens = {
        "attention": list(chosen).index(name),
        "head": head,
        "row": _position(view.rows[name], row, words),
        "column": _position(view.columns[name], column, words),
        "words": words,
        "view": "map" if kind == "heatmap" else kind,
    }
    count = sum(len(numbers) * _size(view.traces[name]) for name, numbers in chosen.items())
    if count > MOST_WEIGHTS:
        raise TooLargeError(
            f"A page of {count:,} weights would be too large; the limit is {MOST_WEIGHTS:,}. Choose attentions with "
            "names= and heads with heads=, or draw an overview()."
        )
    parts = [progress_of_part(progress, part, 2) for part in range(2)]
    content, matrices = _content(view, chosen, title, parts[0])
    num_heads = sum(map(len, chosen.values()))
    limit = LIMIT * max(1.0, num_heads / _HEADS_WITHIN_LIMIT, count / _WEIGHTS_WITHIN_LIMIT)
    overhead = len(_document(title, content, [], lead).encode()) + 100 * len(matrices)
    packed = pack(matrices, int(limit) - overhead, parts[1])
    content["opens"] = opens
    content["step"] = packed.step
    content["stored"] = _index(packed)
    return _document(title, content, packed.texts, lead)


def _check_opening(view: View, chosen: Mapping[str, Sequence[int]], name: str, head: Head | None, kind: str) -> None:
    """Refuse an attention, a head or a kind of view that is not on the page."""
    if name not in chosen:
        raise UnknownNameError("attention on the page", name, chosen)
    if kind not in get_args(PageKind):
        raise UnknownNameError("kind of page", kind, get_args(PageKind))
    if isinstance(head, int) and head not in chosen[name]:
        raise OptionError(f"Head {head} of {name} is not on the page, which has {', '.join(map(str, chosen[name]))}.")
    if head is not None:
        view.one_row(name, 0, head)  # raises an error for any word but mean and max


def render_frame(view: View, **options: Any) -> Frame:
    """Return the page in an iframe for a notebook; its scripts cannot reach anything outside the iframe."""
    return Frame(
        f'<iframe title="{html.escape(visible_text(options.get("title", "Attention")))}" sandbox="allow-scripts" '
        f'srcdoc="{html.escape(render_page(view, **options))}" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
    )


def _position(axis: Axis, given: int | str | None, words: bool) -> int | None:
    """Return the position of a token among the tokens, or of a word among the words."""
    if given is None:
        return None
    if isinstance(given, int) and words:
        if not 0 <= given < axis.num_words:
            raise ShapeError(f"There is no word {given}; there are {axis.num_words}, numbered from 0.")
        return given
    place = find_places(axis, given)[0]
    return axis.words[place] if words else place


def _size(trace: Trace) -> int:
    return trace.shape[2] * trace.shape[3]


def _chosen(view: View, names: Sequence[str] | None, heads: Sequence[int] | None) -> dict[str, list[int]]:
    """Return the chosen heads of each chosen attention."""
    chosen: dict[str, list[int]] = {}
    for name in view.names if names is None else names:
        if name not in view.traces:
            raise UnknownNameError("attention", name, view.names)
        num_heads = view.heads(name)
        for head in heads or ():
            if not 0 <= head < num_heads:
                raise ShapeError(f"There is no head {head} in {name}; there are {num_heads}, numbered from 0.")
        if not _size(view.traces[name]):
            raise OptionError(f"{name} has no weights, so a page cannot show it; choose other attentions with names=.")
        chosen[name] = list(range(num_heads)) if heads is None else list(heads)
    if not any(chosen.values()):
        raise OptionError("A page needs at least one attention and one head, but names or heads is empty.")
    return chosen


def _content(
    view: View, chosen: Mapping[str, Sequence[int]], title: str, progress: ReportProgress | None
) -> tuple[dict[str, Any], list[Matrix]]:
    """Return the data of the page as JSON values, and the matrices that its heads and rollouts refer to."""
    axes: list[Axis] = []
    matrices: list[Matrix] = []
    attentions = []
    for name, numbers in chosen.items():
        rows, columns = view.rows[name], view.columns[name]
        crosses = not view.is_self(name)
        entropy, distance = view.entropy(name), None if crosses else view.distance(name)
        attentions.append(
            {
                "name": visible_text(name),
                "rows": _index_of(axes, rows),
                "columns": _index_of(axes, columns),
                "crosses": crosses,
                "note": view.notes.get(name),
                "heads": [
                    {
                        "number": head,
                        "matrix": len(matrices) + place,
                        "entropy": round(float(entropy[head]), 6),
                        "distance": None if distance is None else round(float(distance[head]), 6),
                    }
                    for place, head in enumerate(numbers)
                ],
            }
        )
        matrices += [_matrix(view, name, head) for head in numbers]
        if progress is not None:
            progress(len(attentions) / len(chosen))
    rollouts = _add_rollouts(view, chosen, axes, matrices)
    content = {
        "title": visible_text(title),
        "coverage": None if view.coverage is None else _covered(view.coverage, len(chosen)),
        "axes": [
            {
                "tokens": [visible(token) for token in axis.tokens],
                "words": [visible(word) for word in axis.joined],
                "wordOf": axis.words,
            }
            for axis in axes
        ],
        "attentions": attentions,
        "rollouts": rollouts,
        "gold": None if view.gold is None else sorted(view.gold),
        "ramps": {"light": _colours(dark=False), "dark": _colours(dark=True)},
    }
    return content, matrices


def _add_rollouts(
    view: View, chosen: Mapping[str, Sequence[int]], axes: list[Axis], matrices: list[Matrix]
) -> list[dict[str, Any]]:
    """Append the rollout of each stack whose heads are all on the page, and return a description of each rollout."""
    rollouts: list[dict[str, Any]] = []
    for stack, names in view.stacks.items():
        if len(names) > 1 and all(len(chosen.get(name, ())) == view.heads(name) for name in names):
            rollouts.append(
                {
                    "name": visible_text(stack),
                    "axis": _index_of(axes, view.rows[names[0]]),
                    "layers": [visible_text(name) for name in names],
                    "matrix": len(matrices),
                    "note": view.assumption(names),
                }
            )
            matrices.append(Matrix(_numpy(view.rollout(stack, assume_only_attention=True))))
    return rollouts


def _covered(coverage: Coverage, on_page: int) -> dict[str, Any]:
    """Return what the page says about the whole model: each reason once, with the attentions it applies to."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for what, found in (("cannot be shown", coverage.refused), ("not seen", coverage.unseen)):
        for name, reason in found.items():
            reasons.setdefault((what, reason), []).append(visible_text(name))
    return {
        "seen": len(coverage.seen),
        "onPage": on_page,
        "leftOut": [
            {"what": what, "reason": visible_text(reason), "names": names} for (what, reason), names in reasons.items()
        ],
        "notes": [visible_text(note) for note in coverage.notes],
    }


def _matrix(view: View, name: str, head: int) -> Matrix:
    return Matrix(_numpy(view.matrix(name, head)), _factors(view.traces[name], head, view.batch))


def _factors(trace: Trace, head: int, batch: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return queries and keys whose product is the scores, or None if the scores are not a plain product."""
    call = trace.only_call(head=head, batch=batch)
    if call is None or call.bias is not None or not call.score.is_product or not call.weights.merges:
        return None
    product = call.score.as_product(call.query.double(), call.key.double())
    return (product.query[0, 0] * product.scale).cpu().numpy(), product.key[0, 0].cpu().numpy()


def _numpy(weights: torch.Tensor) -> np.ndarray:
    return weights.float().cpu().numpy()


def _index_of(axes: list[Axis], axis: Axis) -> int:
    """Return the index of this axis in the list, adding it if needed; most attentions share their axes."""
    if axis not in axes:
        axes.append(axis)
    return axes.index(axis)


def _colours(*, dark: bool) -> str:
    """Return 256 colours of the ramp, each as six hexadecimal digits."""
    colours = np.rint(ramp(np.linspace(0, 1, 256), dark=dark) * 255)
    return bytes(colours.astype(np.uint8)).hex()


def _index(packed: Pack) -> list[dict[str, Any]]:
    """Return where each matrix begins and ends in the joined text, and the numbers needed to decode it."""
    places: list[dict[str, Any]] = []
    start = 0
    for stored, text in zip(packed.matrices, packed.texts, strict=True):
        places.append({"from": start, "to": start + len(text), "rank": stored.rank, "grain": stored.grain})
        start += len(text)
    return places


def _lead(lead: Lead) -> str:
    """Return the markup of the answer. A picture is only as wide as the page."""
    parts = [f'<p class="answer">{html.escape(visible_text(lead.text))}</p>']
    if lead.certainty:
        parts.append(f'<p class="quiet">{html.escape(visible_text(lead.certainty))}</p>')
    if lead.picture is not None:
        encoded = base64.b64encode(lead.picture).decode()
        parts.append(f'<img alt="What the model looked at for this answer" src="data:image/png;base64,{encoded}">')
    return f'<section class="lead" aria-label="Answer">{"".join(parts)}</section>'


def _document(title: str, content: Mapping[str, Any], texts: Sequence[str], lead: Lead | None) -> str:
    script = "\n".join(_read(name) for name in SCRIPTS)
    variables = ""
    for name, colours in (("light", theme(dark=False)), ("dark", theme(dark=True))):
        pairs = {"background": colours.background, "ink": colours.ink, "text": colours.text, "gold": colours.gold}
        values = "".join(f"--{key}: {value}; " for key, value in pairs.items())
        variables += f":root[data-theme={name}] {{ color-scheme: {name}; {values}}}\n"
    style = variables + _read("style.css")
    return Template(_read("template.html")).substitute(
        title=html.escape(visible_text(title)),
        lead="" if lead is None else _lead(lead),
        images="" if lead is None or lead.picture is None else "img-src data:; ",
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        content=_json(content),
        weights="".join(texts),
    )


def _read(name: str) -> str:
    return files("saccade.lens.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of an element's text in the form that a content security policy uses."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(content: Mapping[str, Any]) -> str:
    """Return JSON that no browser can mistake for markup, whatever the tokens contain."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
