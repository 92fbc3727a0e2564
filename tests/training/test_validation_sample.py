"""What a validation scores while training: all, or where answers take a search a sample that is drawn once."""

from __future__ import annotations

import re
import signal
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import saccade, sentences, write_recipe

from saccade.tasks.registry import TASKS
from saccade.training.recipe import read_tables
from saccade.training.recommendation import Request, recommended_recipe
from saccade.training.trainer import Progress, Trainer

#: Texts of 60 examples, the shortest first, as many corpora are sorted.
TEXTS = sorted((text for text, _ in sentences(60)), key=len)
SAMPLE = 7
PICTURES = ("images", "captions", "image-autoencoder")


def written(name: str, folder: Path) -> dict[str, Any]:
    """A file of these examples for a task, and its ``[data]`` table."""
    if name == "trajectories":
        return {"builtin": "world", "count": 100}
    if name == "base-pairs":
        stems = [f">m{n}\n{'G' * n}AAAA{'C' * n}\n{'(' * n}....{')' * n}\n" for n in range(2, 9) for _ in range(5)]
        (folder / "data.dbn").write_text("".join(stems))
        return {"file": str(folder / "data.dbn")}
    lines = {
        "translation": [f"{text}\t{text.upper()}" for text in TEXTS],
        "tagging": ["\n".join(f"{word} {word[0]}" for word in text.split()) + "\n" for text in TEXTS],
        "classification": [f"{'ab'[len(text) % 2]} {text}" for text in TEXTS],
    }.get(name, TEXTS)
    pixels = np.random.default_rng(1).integers(0, 255, (60, 4, 6), dtype=np.uint8)
    arrays = {"labels": [*"ab"] * 30} if name == "images" else {"texts": TEXTS}
    np.savez(folder / "data.npz", images=pixels, **arrays)
    file = folder / ("data.tsv" if name == "translation" else "data.txt")
    file.write_text("".join(f"{line}\n" for line in lines))
    return TASKS[name].data.table([folder / "data.npz" if name in PICTURES else file], None)


class Listener:
    """Keeps the scores."""

    def updated(self, *_: object) -> None: ...

    def validated(self, progress: Progress, *_: object) -> None:
        self.scores = dict(progress.scores)

    def save(self) -> None: ...


@pytest.mark.parametrize("name", TASKS)
def test_scores_are_on_all_or_on_a_drawn_sample(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(name, tmp_path) | ({"documents": "line"} if "language" in name else {})
    tables = recommended_recipe(Request(name, data), lambda text: None)[0].tables()
    tables["data"]["validation"] = 0.5
    known = TASKS[name].task.tables["training"]
    wanted = ["steps=1", "warmup=0", "validate_every=1", f"{known.batch_key}=512"]
    searches = "validation_sample" in known.model_fields
    if searches:
        wanted.append(f"validation_sample={SAMPLE}")
    recipe = read_tables(tables, "the test", [f"training.{one}" for one in wanted])
    splits = recipe.entry.data.read(recipe.settings["data"], 1)
    state = recipe.task.prepare(recipe.settings, splits.train)
    task = recipe.build_task(state)
    validation = task.encode(splits.validation)
    model = task.build(recipe.kind, recipe.model)
    trainer = Trainer(task, model, task.encode(splits.train), validation)
    given = []
    validate = task.validate
    monkeypatch.setattr(task, "validate", lambda m, some, check: given.append(list(some)) or validate(m, some))
    listener = Listener()
    trainer.run(lambda: None, listener)
    (scored,) = given
    if not searches:
        assert scored == list(validation)
    else:
        places = [next(i for i, one in enumerate(validation) if one is example) for example in scored]
        assert len(set(places)) == SAMPLE < len(validation)
        assert places != list(range(SAMPLE))
        other = {**recipe.settings, "training": recipe.training.model_copy(update={"seed": 2})}
        again, differs = (
            Trainer(recipe.task(state, settings), model, task.encode(splits.train), validation).sample
            for settings in (recipe.settings, other)
        )
        assert [id(one) for one in again] == [id(one) for one in scored] != [id(one) for one in differs]
    # the loss and every other score are of these examples, and of them all
    assert listener.scores == validate(model.eval(), scored)
    assert listener.scores != validate(model, scored[:-1])


def test_the_log_and_the_model_folder_say_on_how_many(tmp_path: Path) -> None:
    run, recipe = tmp_path / "run", write_recipe(tmp_path)
    saccade(tmp_path / "log", "train", recipe, "-o", run, signal_at=(signal.SIGKILL, "Trainer._validate", 2))
    before = (run / "model" / "README.md").read_text()
    code, out, _ = saccade(tmp_path / "log", "train", recipe, "-o", run)
    assert code == 0
    words = " ".join(out.split())
    (held_out,) = re.findall(r"validation examples (\d+) ", words)
    assert f"only 5 of the {held_out} validation examples are scored" in words
    beam = tomllib.loads(recipe.read_text())["decoding"]["beam"]
    assert beam > 1
    assert f"Computed on a sample of 5 of the {held_out} examples, with a beam of 1." in before  # greedy, to save time
    assert f"Computed on all {held_out} examples, with a beam of {beam}." in (run / "model" / "README.md").read_text()
    assert f"validation with a beam of {beam}: " in words


def test_scores_that_need_no_search_name_no_beam(tmp_path: Path) -> None:
    """A language model has an option of this name, but its scores are losses."""
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("the cat sees the dog.\n" * 400)
    settings = ["--set", "training.steps=2", "--set", "text.context=16", "--set", "decoding.beam=4"]
    code, out, _ = saccade(
        tmp_path / "log", "train", "--task", "language-model", "--data", text, "-o", run, "--size", "tiny", *settings
    )
    assert code == 0
    assert "beam" not in out
    assert re.search(r"Computed on all [\d,]+ examples\.\n", (run / "model" / "README.md").read_text())
