"""``saccade words``: nearest words, similarities and a map of a model's word vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import Model, console
from saccade.errors import OptionError

if TYPE_CHECKING:
    from saccade.tasks.base.word_vectors import WordVectors

__all__ = ["words"]


def words(
    model: Model,
    given: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Words to compare.", show_default=False)
    ] = None,
    neighbours: Annotated[int, typer.Option(help="Number of nearest words to show for a single word.", min=1)] = 10,
    embedding: Annotated[
        str | None,
        typer.Option(
            help="Which of the model's embeddings to use: source, target, input, words or pieces; by default, its "
            "first one."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--map", help="Draw a map of the words to this .png, .svg or .pdf file.", show_default=False),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Give the picture a dark background.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which words are close to each other in a model's embedding.

    \b
    Examples:
      saccade words runs/demo dog --neighbours 10
      saccade words runs/demo dog cat
      saccade words runs/demo dog cat bank --map words.png
    """
    from saccade.lens.figures.formats import check_suffix, save
    from saccade.tasks.base.model_folder import read_bundle
    from saccade.tasks.base.word_vectors import word_vectors

    if picture is not None:
        check_suffix(picture)
    vectors = word_vectors(read_bundle(Path(model)), embedding)
    asked = given or []
    if not asked and picture is None:
        raise OptionError("Give one or more words, or --map with the name of an image file.")
    shown = console()
    if as_json:
        print(json.dumps(_record(vectors, asked, neighbours), ensure_ascii=False))
    else:
        for line in _lines(vectors, asked, neighbours):
            shown.print(line, markup=False)
    if picture is not None:
        save(vectors.map(asked).figure(named=asked, dark=dark), picture)
        if not as_json:
            shown.print(f"Wrote {picture}.", markup=False)


def _lines(vectors: WordVectors, asked: list[str], neighbours: int) -> list[str]:
    from saccade.lens.words import visible

    lines = [
        f"{word} consists of {len(vectors.ids(word))} pieces; its vector is their mean"
        for word in asked
        if len(vectors.ids(word)) > 1
    ]
    if vectors.one_hot:
        lines.append("This model's words are one-hot vectors: any two are equally far apart, with cosine 0.")
    if len(asked) == 1 and not vectors.one_hot:
        found = vectors.neighbours(asked[0], neighbours)
        width = max(len(visible(one.word)) for one in found)
        lines += [f"{visible(one.word):<{width}}  {one.cosine:6.3f}" for one in found]
    for number, one in enumerate(asked):
        for other in asked[number + 1 :]:
            lines.append(
                f"{one} and {other}: correlation {vectors.correlation(one, other):.3f}, "
                f"cosine {vectors.cosine(one, other):.3f}"
            )
    return lines


def _record(vectors: WordVectors, asked: list[str], neighbours: int) -> dict[str, object]:
    pairs = [(one, other) for number, one in enumerate(asked) for other in asked[number + 1 :]]
    return {
        "embedding": vectors.name,
        "one_hot": vectors.one_hot,
        "neighbours": {word: [one._asdict() for one in vectors.neighbours(word, neighbours)] for word in asked},
        "pairs": [
            {
                "words": [one, other],
                "correlation": vectors.correlation(one, other),
                "cosine": vectors.cosine(one, other),
            }
            for one, other in pairs
        ],
    }
