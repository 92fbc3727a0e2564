"""``saccade demo``: train a translator on built-in data and draw its attention, in about two minutes."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

import saccade
from saccade.cli.look import show
from saccade.cli.options import Device, console, resolve_device
from saccade.cli.train import run_session

__all__ = ["demo"]

SENTENCE = "The black cat ate the mouse."


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the run.")] = Path("runs/demo"),
    device: Device = "auto",
) -> None:
    """Train a small translator, and show what it attends to.

    The translator is trained on the built-in English-French corpus. If the folder already contains the trained model,
    it is not trained again.

    \b
    Example:
      saccade demo
    """
    from saccade.training.recipe import read_recipe

    with as_file(files("saccade.training") / "demo.toml") as path:
        recipe = read_recipe(path)
    result = run_session(recipe, output, resolve_device(device))
    shown = console()
    scores = result["scores"]
    shown.print(
        f"\nOn test sentences with combinations of words that training never saw: BLEU {scores['bleu']:.1f}. "
        f"The alignment is right for {scores['alignment']:.1f}% of {scores['alignment_words']:,.0f} content words.\n"
    )
    pronoun, bank = (result["kinds"][kind] for kind in ("pronoun", "bank"))
    shown.print(
        f"Of the hard sentences, it translated exactly right: {pronoun[0]} of the {pronoun[1]} with a pronoun whose "
        f"gender depends on another word, and {bank[0]} of the {bank[1]} in which another word decides what 'bank' "
        "means.\n"
    )
    shown.print(SENTENCE, markup=False)
    answer = saccade.open(output, resolve_device(device)).predict([SENTENCE])[0]
    show(answer, [output / "look.png", output / "look.svg"])
    shown.print(
        "\nTry next:\n"
        f'  saccade look {output} "The small white dog saw the old man."\n'
        f'  saccade predict {output} "The cat did not eat the mouse." --n-best 3\n'
        f"  saccade serve {output}              the same in the browser\n"
        "  saccade explain                    the numbers behind attention\n"
        "  saccade new YOUR.en YOUR.fr        a recipe for your own files",
        markup=False,
    )
