"""The README of a model folder: what the model does, how good it is, what it was trained on, and how to use it."""

from __future__ import annotations

from typing import Any

from saccade.errors import counted
from saccade.tasks.base.task import Bundle

__all__ = ["model_readme"]


def model_readme(bundle: Bundle, recipe: dict[str, Any], result: dict[str, Any]) -> str:
    """Return the README, written from the facts of the run in the usual order of a model card."""
    given = (
        value for values in recipe["data"].values() for value in (values if isinstance(values, list) else [values])
    )
    origins = [value for value in given if isinstance(value, str) and ("/" in value or "." in value)]
    origin = recipe["data"].get("builtin") or ", ".join(origins)
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    rows = [f"| {name} | {value:.2f} |" for name, value in result["scores"].items()]
    scored, of = result["examples"], result["of"]
    sample = f"all {of:,}" if scored == of else f"a sample of {scored:,} of the {of:,}"
    beam = result.get("beam")
    lines = [
        f"# {bundle.task.name}: {bundle.task.about}",
        "",
        f"A {bundle.kind} network with {parameters:,} parameters, trained for {counted(result['steps'], 'update')}.",
        "",
        f"- data: {origin}",
        *(f"- {fact}" for fact in bundle.task.facts()),
        "- command: `saccade train recipe.toml`, with the `recipe.toml` in this folder",
        "",
        f"## Scores on the {result['part']} part",
        "",
        f"Computed on {sample} examples{f', with a beam of {beam}' if beam else ''}.",
        "",
        "| score | value |",
        "|---|---|",
        *rows,
        "",
        "## Use",
        "",
        "```",
        "saccade predict THIS_FOLDER INPUT",
        "```",
        "",
    ]
    return "\n".join(lines)
