"""A toy language, learned in seconds: word by word, but the adjective goes behind its noun."""

from __future__ import annotations

import random
from pathlib import Path

NOUNS = {"cat": "chat", "dog": "chien", "man": "homme", "fish": "poisson", "bird": "oiseau"}
ADJECTIVES = {"black": "noir", "old": "vieux", "small": "petit", "white": "blanc"}
VERBS = {"sees": "voit", "eats": "mange", "hears": "entend"}

#: Options of ``saccade train`` that make a model of it in about four seconds.
SETTINGS = {
    "text.kind": "word",
    "model.width": 32,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feedforward_width": 64,
    "model.dropout": 0.0,
    "training.steps": 250,
    "training.warmup": 10,
    "training.lr": 1e-2,
    "training.batch_tokens": 600,
    "training.validate_every": 125,
}


def settings(**changed: object) -> list[str]:
    """The settings as arguments; ``training__steps=10`` changes one."""
    chosen = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    return [argument for key, value in chosen.items() for argument in ("--set", f"{key}={value}")]


def toy_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Different sentences with their translations."""
    chance = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        (subject, sujet), (thing, objet), verb = _phrase(chance), _phrase(chance), chance.choice(list(VERBS))
        pairs[f"{subject} {verb} {thing}."] = f"{sujet} {VERBS[verb]} {objet}."
    return list(pairs.items())


def _phrase(chance: random.Random) -> tuple[str, str]:
    noun = chance.choice(list(NOUNS))
    if chance.random() < 0.4:
        return f"the {noun}", f"le {NOUNS[noun]}"
    adjective = chance.choice(list(ADJECTIVES))
    return f"the {adjective} {noun}", f"le {NOUNS[noun]} {ADJECTIVES[adjective]}"


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
