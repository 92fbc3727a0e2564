"""The README of a model folder: what it is, how good, from what, and how to use it."""

from __future__ import annotations

from typing import Any

from saccade.tasks.bundle import Bundle

__all__ = ["model_readme"]


def model_readme(bundle: Bundle, recipe: dict[str, Any], result: dict[str, Any]) -> str:
    """Plain facts in the field's usual order; everything comes from the run itself."""
    data = recipe["data"]
    origin = data.get("builtin") or data.get("table") or data.get("nettalk") or f"{data['source']}, {data['target']}"
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    rows = [f"| {name} | {value:.2f} |" for name, value in result["scores"].items()]
    lines = [
        f"# {bundle.task.name}: {data['source_language']} to {data['target_language']}",
        "",
        f"A {bundle.kind} network of {parameters:,} parameters, trained by Saccade for {result['steps']:,} updates.",
        "",
        f"- data: {origin}",
        f"- text: {recipe['text']['kind']} tokens, {bundle.task.source.vocabulary_size:,} for the source, "
        f"{bundle.task.target.vocabulary_size:,} for the target",
        "- command: `saccade train recipe.toml` with the `recipe.toml` beside this file",
        "",
        f"## Scores on the {result['part']} part",
        "",
        "BLEU and chrF by sacrebleu on raw text; `exact` is the share of texts that are exactly right, in percent.",
        "",
        "| score | value |",
        "|---|---|",
        *rows,
        "",
        "## Use",
        "",
        "```",
        'saccade predict THIS_FOLDER "your text"',
        "```",
        "",
    ]
    return "\n".join(lines)
