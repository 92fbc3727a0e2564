"""How another library generates text by default: what Saccade uses of it, names, or refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tiny import CONTINUING, REWRITING, save

import saccade
from saccade.errors import FileError, UnsupportedError
from saccade.tasks.translation.predictor import TranslationPredictor


def _settings(folder: Path, **settings: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("name", REWRITING)
def test_a_forced_first_token_is_refused(name: str, file: str, tmp_path: Path) -> None:
    """Wrong before: the token was left out, and with it perhaps the language to translate into."""
    folder = save(REWRITING[name](), tmp_path)
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(settings | {"forced_bos_token_id": 5}))
    with pytest.raises(UnsupportedError, match="forced_bos_token_id forces the first token"):
        saccade.open(folder)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("start", [-1, 31, "</s>", True])
def test_a_first_token_outside_the_vocabulary_is_refused(start: Any, file: str, tmp_path: Path) -> None:
    """Wrong before: the output began with another token, that of bos_token_id."""
    folder = save(REWRITING["bart"](), tmp_path)
    for name in ("config.json", "generation_config.json"):
        table = json.loads((folder / name).read_text()) | {"decoder_start_token_id": start if name == file else None}
        (folder / name).write_text(json.dumps(table))
    with pytest.raises(FileError, match="it must be a token id from 0 to 30"):
        saccade.open(folder)


@pytest.mark.parametrize("start", [3, 9])
@pytest.mark.parametrize("name", REWRITING)
def test_first_and_last_tokens_are_those_of_transformers(name: str, start: int, tmp_path: Path) -> None:
    """Wrong before: only config.json was read, so an output could begin with another token than in transformers."""
    folder = save(REWRITING[name](), tmp_path)
    _settings(folder, decoder_start_token_id=start, eos_token_id=2, pad_token_id=1)
    opened = saccade.open(folder)
    assert isinstance(opened, TranslationPredictor)
    special = opened.task.state.target.special
    assert (special.start, special.end) == (start, 2)
    text = "5 6 7 8"
    ids = opened.task.state.source.ended(opened.task.state.source.encode(text).ids)
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    options = {"num_beams": 1, "do_sample": False, "max_new_tokens": 6, "use_cache": False}
    found = theirs.generate(torch.tensor([ids]), **options)[0, 1:].tolist()
    (answer,) = opened.predict([text], beam=1)
    expected = found[: found.index(2)] if 2 in found else found
    assert answer.ids[: len(found)] == expected


@pytest.mark.parametrize("name", ["gpt2", "bart", "marian", "t5"])
def test_defaults_that_are_not_used_are_named(name: str, tmp_path: Path) -> None:
    folder = save((CONTINUING | REWRITING)[name](), tmp_path)
    before = saccade.open(folder).describe().get("not used", "")
    _settings(folder, num_beams=6, repetition_penalty=1.0, no_repeat_ngram_size=3, eos_token_id=[2, 4], top_k=50)
    after = saccade.open(folder).describe()["not used"].removeprefix(before).split(", ")
    assert {"no_repeat_ngram_size", "num_beams", "every eos_token_id but the first"} <= set(after)
    assert not {"repetition_penalty", "top_k"} & set(after)
