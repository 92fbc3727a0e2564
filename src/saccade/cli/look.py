"""``saccade look``: show what a model attended to, and what its answer depends on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import saccade
from saccade.cli.options import (
    Device,
    Model,
    console,
    given_only,
    note_engine,
    note_surprises,
    progress,
    read_inputs,
    refuse_unknown,
    resolve_device,
)
from saccade.errors import MissingExtraError, OptionError, UnknownNameError

if TYPE_CHECKING:
    from saccade.cli.look_views import Wanted
    from saccade.lens.page import Lead
    from saccade.lens.view import View
    from saccade.tasks.base.answer import Answer
    from saccade.tasks.base.predictor import Predictor

__all__ = ["look", "show"]

VIEWS = ("alignment", "arcs", "entropy", "grid", "heatmap", "overview", "rollout")
_SUFFIXES = {"--png": (".png",), "--svg": (".svg",), "--pdf": (".pdf",), "--html": (".html", ".htm")}
_NUMBERS = (".npy", ".safetensors")
CHANGES = "--without-head, --without-link or --replace"
_BAR_STEPS = 1000

Output = Annotated[Path | None, typer.Option(help="Write the picture to this file.", show_default=False)]
Asked = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The input: a text, or an image file.", show_default=False)
]
Book = Annotated[
    Path | None,
    typer.Option(
        help="Read this file as one text of any length, and show the attention between its tokens.", show_default=False
    ),
]
TargetText = Annotated[
    str | None,
    typer.Option(help="Show the attention for this translation instead of the model's own.", show_default=False),
]
ViewKind = Annotated[
    str | None,
    typer.Option(
        help="What to draw: alignment, heatmap, arcs (with --word), grid, rollout, entropy or overview.",
        show_default=False,
    ),
]
Layer = Annotated[
    str | None, typer.Option(help="An attention layer, such as encoder.0.self or decoder.1.cross.", show_default=False)
]
HeadName = Annotated[
    str | None, typer.Option(help="The number of a head, or mean or max over all heads.", show_default=False)
]
Word = Annotated[str | None, typer.Option(help="Show what this word (or the token at this position) attends to.")]
Words = Annotated[
    bool, typer.Option("--words/--pieces", help="Show whole words, or the tokens that the tokenizer splits them into.")
]
Rows = Annotated[
    str | None, typer.Option(help="Show only the queries in this range, such as 100:356.", show_default=False)
]
Columns = Annotated[
    str | None, typer.Option(help="Show only the keys in this range, such as 100:356.", show_default=False)
]
Against = Annotated[
    str | None,
    typer.Option(help="Subtract the attention for this other text, to show the difference.", show_default=False),
]
WithoutHead = Annotated[
    list[str] | None, typer.Option(help="Switch off a head, such as decoder.1.cross:3. Repeatable.", show_default=False)
]
WithoutLink = Annotated[
    list[str] | None,
    typer.Option(
        help="Forbid a token from attending to another, such as encoder.0.self:it:cat. Repeatable.", show_default=False
    ),
]
Replace = Annotated[
    str | None, typer.Option(metavar="WORD=OTHER", help="Replace a word in the text with another.", show_default=False)
]
MaxTokens = Annotated[
    int | None, typer.Option(help="Maximum length of a generated continuation, in tokens.", show_default=False)
]
Html = Annotated[Path | None, typer.Option(help="Write an interactive web page to this file.", show_default=False)]
Numbers = Annotated[
    Path | None, typer.Option(help="Write the exact weights to this .npy or .safetensors file.", show_default=False)
]
Dark = Annotated[bool, typer.Option("--dark", help="Give saved figures and pages a dark background.")]


def look(
    model: Model,
    text: Asked = None,
    file: Book = None,
    target: TargetText = None,
    view: ViewKind = None,
    layer: Layer = None,
    head: HeadName = None,
    word: Word = None,
    words: Words = True,
    rows: Rows = None,
    columns: Columns = None,
    against: Against = None,
    without_head: WithoutHead = None,
    without_link: WithoutLink = None,
    replace: Replace = None,
    max_tokens: MaxTokens = None,
    png: Output = None,
    svg: Output = None,
    pdf: Output = None,
    html: Html = None,
    numbers: Numbers = None,
    dark: Dark = False,
    device: Device = "auto",
) -> None:
    """Show what a model attended to.

    By default, a row is a word of the answer, and a column a word of the text. Other views show any layer and head.
    With --without-head, --without-link or --replace, show the answer and its probabilities before and after the change.

    \b
    Examples:
      saccade look runs/demo "The black cat ate the mouse."
      saccade look runs/demo "The cat slept because it was tired." --word it --html look.html
      saccade look runs/demo "I saw the bank." --layer encoder.1.self --head 2 --png look.png
      saccade look runs/demo "The black cat ate the mouse." --without-head decoder.1.cross:0
      saccade look run --file book.txt --layer encoder.0.self --head 0 --png map.png
    """
    from saccade.cli.look_views import Wanted, read_head, read_part

    _check_files({"--png": png, "--svg": svg, "--pdf": pdf, "--html": html}, numbers)
    pictures = [path for path in (png, svg, pdf) if path is not None]
    chosen = _chosen_view(view, word, layer, head, rows, columns, numbers, file)
    parts = read_part("--rows", rows), read_part("--columns", columns)
    wanted = Wanted(chosen or "alignment", layer, read_head(head), word, words, *parts, pictures, html, numbers, dark)
    _check_together(wanted, text, file, target, against, without_head or without_link or replace)
    links = [_link(given) for given in without_link or []]
    replaced = None if replace is None else _replacement(replace)
    opened = saccade.open(model, resolve_device(device))
    note_engine(opened)
    options = given_only(max_tokens=max_tokens)
    refuse_unknown(options, opened, ["max_tokens"])
    if file is not None:
        _show_file(opened, file, wanted)
    elif without_head or links or replaced:
        given, heads = _input(opened, text), without_head or []
        console().print(opened.compare(given, without_heads=heads, without_links=links, replace=replaced, **options))
    else:
        is_whole = chosen is None or (chosen == "alignment" and layer is None and head is None)
        _show_answer(opened, text, target, against, wanted, options, is_whole=is_whole)


def _show_answer(
    opened: Predictor,
    text: str | None,
    target: str | None,
    against: str | None,
    wanted: Wanted,
    options: dict[str, Any],
    *,
    is_whole: bool,
) -> None:
    """Show one view of the attention behind an answer, or, if ``is_whole``, the answer as its task presents it."""
    from saccade.cli.look_views import show_difference, show_view

    given = _input(opened, text)
    answer = opened.predict([given], **options)[0] if target is None else _answer_for(opened, given, target)
    if against is not None:
        other = opened.predict([_input(opened, against)], **options)[0]
        show_difference(answer.view, other.view, wanted, _encoder_layer(answer.view), [answer.text, other.text])
    elif is_whole:
        show(answer, list(wanted.pictures), dark=wanted.dark)
        note_surprises(opened, [given], [answer])
        if wanted.html is not None:
            written = answer.view.save(wanted.html, title=text, lead=_lead(answer, wanted.dark))
            console().print(f"Wrote {written}.", markup=False)
    else:
        layer = _encoder_layer(answer.view) if wanted.view == "arcs" else answer.layer
        show_view(answer.view, wanted, layer, answer.text)


def show(answer: Answer, files: list[Path], *, dark: bool = False) -> None:
    """Print an answer with its attention in the terminal, and write the same to files."""
    from saccade.lens.figures.formats import save

    shown = console()
    for part in answer.terminal():
        shown.print(part, markup=False)
    for path in files:
        drawn = answer.figure(dark)
        if drawn is not None:
            save(drawn, path)
            shown.print(f"Wrote {path}.", markup=False)


def _lead(answer: Answer, dark: bool) -> Lead:
    """The top of the page: the answer, its probability and, if pictures can be drawn, the picture of --png."""
    from saccade.lens.figures.formats import encode
    from saccade.lens.page import Lead

    try:
        drawn = answer.figure(dark)
    except (MissingExtraError, OptionError):  # there is nothing to draw for an autoencoder without neighbours
        drawn = None
    return Lead(answer.text, answer.certainty, None if drawn is None else encode(drawn, ".png"))


def _input(opened: Predictor, given: str | None) -> Any:
    """The input to show: the argument itself, or the first input of the file that it names."""
    assert given is not None
    inputs, _ = read_inputs(given, opened)
    if not inputs:
        raise OptionError(f"{given} is empty; there is nothing to show.")
    return inputs[0]


def _answer_for(opened: Predictor, source: str, target: str) -> Answer:
    """Return the model's answer for a translation that the user gave, instead of one that the model writes."""
    from saccade.tasks.base.capabilities import TranslatesText

    if not isinstance(opened, TranslatesText):
        raise OptionError(f"--target does not apply to {opened.plural}.")
    return opened.given_answer(source, target)


def _show_file(opened: Predictor, file: Path, wanted: Wanted) -> None:
    """Show what a model attends to in a text of any length, with a progress bar while it reads."""
    from saccade.attention import editable
    from saccade.cli.look_views import show_view
    from saccade.data.lines import read_lines

    text = " ".join(line.strip() for _, line in read_lines(file))
    layers = list(editable(opened.model))
    names = [name for name in layers if name.startswith("encoder")] or layers
    with progress("reading", _BAR_STEPS) as bar:
        seen = opened.view_input(
            text, lambda name, done: bar(round(_BAR_STEPS * (names.index(name) + done) / len(names)))
        )
    show_view(seen, wanted, seen.names[-1])


def _encoder_layer(view: View) -> str:
    """The last attention layer of the encoder, or of the model if it has no encoder."""
    return next((name for name in reversed(view.names) if name.startswith("encoder")), view.names[-1])


def _chosen_view(
    view: str | None,
    word: str | None,
    layer: str | None,
    head: str | None,
    rows: str | None,
    columns: str | None,
    numbers: Path | None,
    file: Path | None,
) -> str | None:
    """The view that the user named, or the one that the other options imply; None for the usual one, the alignment."""
    if view is not None:
        if view not in VIEWS:
            raise UnknownNameError("view", view, VIEWS)
        return view
    if word is not None:
        return "arcs"
    if file is not None:
        return "overview" if rows is None and columns is None else "heatmap"
    return "heatmap" if any(given is not None for given in (layer, head, rows, columns, numbers)) else None


def _check_files(files: dict[str, Path | None], numbers: Path | None) -> None:
    for option, path in files.items():
        if path is not None and path.suffix.lower() not in _SUFFIXES[option]:
            raise OptionError(f"{option} takes the name of a {_SUFFIXES[option][0]} file, not {path}.")
    if numbers is not None and numbers.suffix not in _NUMBERS:
        raise OptionError(f"--numbers takes the name of a {' or '.join(_NUMBERS)} file, not {numbers}.")


def _check_together(
    wanted: Wanted,
    text: str | None,
    file: Path | None,
    target: str | None,
    against: str | None,
    change: object,
) -> None:
    """Refuse options that would have no effect in this combination."""
    if (text is None) == (file is None):
        raise OptionError("Give a text, or a file with --file, but not both.")
    files: dict[str, object] = {"--target": target, "--html": wanted.html, "--numbers": wanted.numbers}
    refused: list[tuple[str, object, dict[str, object]]] = [
        (
            "--file shows what the model reads, without an answer",
            file,
            {"--target": target, "--against": against, CHANGES: change},
        ),
        ("--against compares two texts", against, files | {"--word": wanted.word, CHANGES: change}),
        (
            f"{CHANGES} compares the answers before and after",
            change,
            files | {"--layer": wanted.layer, "--word": wanted.word, "a picture": wanted.pictures},
        ),
    ]
    for reason, given, others in refused:
        idle = [name for name, other in others.items() if other]
        if given and idle:
            raise OptionError(f"{reason}, so it cannot be combined with {idle[0]}.")
    if (wanted.word is None) == (wanted.view == "arcs"):
        raise OptionError(
            "--view arcs shows what one word attends to, so --view arcs and --word must be given together."
        )
    if wanted.is_part and wanted.view != "heatmap":
        raise OptionError(f"--rows and --columns select part of a heatmap; they do not apply to --view {wanted.view}.")
    if wanted.head != "mean" and wanted.view in ("grid", "entropy"):
        raise OptionError(f"--view {wanted.view} shows every head; it cannot be combined with --head.")


def _link(given: str) -> tuple[str, int | str, int | str]:
    """Parse ``encoder.0.self:4:2``, ``encoder.0.self:it:cat`` or, with a head, ``encoder.0.self:3:it:cat``."""
    parts = given.split(":")
    if len(parts) not in (3, 4) or not all(parts):
        raise OptionError(
            f"--without-link takes ATTENTION:ROW:COLUMN or ATTENTION:HEAD:ROW:COLUMN, such as encoder.0.self:it:cat; "
            f"not {given!r}."
        )
    row, column = (int(place) if place.isdecimal() else place for place in parts[-2:])
    return ":".join(parts[:-2]), row, column


def _replacement(given: str) -> tuple[str, str]:
    old, equals, new = given.partition("=")
    if not equals or not old:
        raise OptionError(f"--replace takes WORD=OTHER, such as river=street, not {given!r}.")
    return old, new
