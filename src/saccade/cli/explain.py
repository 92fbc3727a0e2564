"""``saccade explain``: work through attention number by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import given_only
from saccade.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from saccade.lens import WalkDocument

__all__ = ["explain"]


def explain(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A JSON or TOML file with your own numbers.", show_default=False),
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(
            help="A worked example from the lectures: projection, retrieval, retrieval4, dictionary, additive, heads "
            "or channels."
        ),
    ] = None,
    mask: Annotated[str | None, typer.Option(help="Mask: none, causal or window:R (R keys on each side).")] = None,
    score: Annotated[str | None, typer.Option(help="Score: dot, scaled_dot, cosine or equal.")] = None,
    weights: Annotated[str | None, typer.Option(help="Weights: softmax, relu, sparsemax, hard or lookup.")] = None,
    heads: Annotated[
        int | None,
        typer.Option(help="Number of heads; the columns of queries, keys and values are divided among them."),
    ] = None,
    scale: Annotated[
        bool | None, typer.Option("--scale/--no-scale", help="Whether to divide the dot product by √D.")
    ] = None,
    row: Annotated[int | None, typer.Option(help="Show only this query, counting from 1.")] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Compare attention weights with a fixed matrix, for two inputs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all steps as JSON.")] = False,
) -> None:
    """Work through attention number by number, as the lectures do.

    The steps are: inputs, queries, keys and values, scores, weights, and the weighted sum of the values.
    Without a file, the example "projection" is shown.

    \b
    Examples:
      saccade explain
      saccade explain --example retrieval --mask causal --row 2
      saccade explain --example dictionary
      saccade explain --example heads
      saccade explain --fixed
      saccade explain numbers.toml --weights sparsemax --json
    """
    if row is not None and as_json:
        raise OptionError("--row prints one table and --json prints all steps; give only one of them.")
    options = given_only(mask=mask, score=score, weights=weights, scale=scale, heads=heads)
    if "score" in options:
        options.setdefault("scale", None)  # a score that the user names is used unchanged
    document = _document(file, example).model_copy(update=options)
    if fixed:
        _print_fixed(document, row, as_json)
        return
    walk = document.walkthrough()
    if as_json:
        print(json.dumps(walk.to_dict(), ensure_ascii=False, allow_nan=False), flush=True)
    else:
        from rich.console import Console

        from saccade.lens.terminal.walkthrough import print_walkthrough

        print_walkthrough(walk, Console(highlight=False), row)


def _print_fixed(document: WalkDocument, row: int | None, as_json: bool) -> None:
    if row is not None or as_json:
        raise OptionError("--fixed prints two inputs side by side; --row and --json do not apply to it.")
    from rich.console import Console

    from saccade.lens.terminal.walkthrough import print_sides
    from saccade.lens.walk.fixed import fixed_and_dynamic

    print_sides(fixed_and_dynamic(document), Console(highlight=False))
    print("The fixed matrix W is the same for both inputs; the attention weights A are computed from each input.")


def _document(file: Path | None, example: str | None) -> WalkDocument:
    from saccade.lens import EXAMPLES, read_document

    if file is not None and example is not None:
        raise OptionError(f"Give either the file {file} or the example {example!r}, not both.")
    if file is not None:
        return read_document(file)
    name = "projection" if example is None else example
    if name not in EXAMPLES:
        raise UnknownNameError("example", name, EXAMPLES)
    return EXAMPLES[name]
