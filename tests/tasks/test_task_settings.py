"""The settings of a recipe reach the objective; a setting of another task is refused by a sentence that says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.images import LabelledImage
from saccade.errors import OptionError
from saccade.tasks.base.image_augmentation import ImageSettings
from saccade.tasks.base.settings import ImageTraining, TextTraining, TrainingSettings
from saccade.tasks.images.task import Images, ImagesState
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState, LanguageModelText
from saccade.tasks.registry import TASKS
from saccade.tasks.text_autoencoder.data import TextLine
from saccade.tasks.text_autoencoder.task import NoisyText, TextAutoencoder, TextAutoencoderState
from saccade.tasks.trajectories.task import TrajectoriesTraining
from saccade.tasks.translation.task import TranslationTraining
from saccade.text import MASK, Tokenizer
from saccade.training.recipe import read_tables

WORDS = Tokenizer.train(["dog cat"], "word")


@pytest.mark.parametrize("name", TASKS)
def test_a_recipe_without_settings_has_those_of_its_task(name: str) -> None:
    entry = TASKS[name]
    keys = ("table", "file", "images", "texts", "files")
    key = next(key for key in keys if key in entry.data.settings.model_fields)
    recipe = read_tables({"task": name, "data": {key: ["here"] if key == "files" else "here"}}, "r.toml")
    assert type(recipe.training) is entry.task.tables["training"]
    assert recipe.training.batch_size == getattr(recipe.training, recipe.training.batch_key)


def test_noise_is_that_of_the_recipe() -> None:
    noisy = TextAutoencoder(TextAutoencoderState(WORDS), {"text": NoisyText(mask=0.999)})
    plain = TextAutoencoder(TextAutoencoderState(WORDS))
    examples = plain.encode([TextLine("dog cat dog", 1)])
    torch.manual_seed(0)
    assert noisy.batch(examples).source.tolist() == [[MASK] * 3 + examples_end(plain, examples)]
    assert plain.batch(examples).source.tolist() == noisy.plain_batch(examples).source.tolist()


def examples_end(task: TextAutoencoder, examples: Any) -> list[int]:
    return [int(task.plain_batch(examples).source[0, -1])]


def test_changes_of_images_are_those_of_the_recipe() -> None:
    state = ImagesState(["a", "b"], (4, 6, 1), (0.5, 0.25))
    image = LabelledImage(np.arange(24, dtype=np.uint8).reshape(4, 6, 1), "a", 1, "here")
    moved, still = Images(state, {"images": ImageSettings(shift=3)}), Images(state)
    examples = still.encode([image] * 20)
    torch.manual_seed(0)
    assert not torch.equal(moved.batch(examples).images, still.batch(examples).images)
    torch.testing.assert_close(still.batch(examples).images, still.plain_batch(examples).images)


def test_a_run_that_begins_from_a_model_of_its_task_has_its_own_context() -> None:
    theirs = LanguageModelState(WORDS, 8, separated=False)
    ours = theirs.continued({"text": LanguageModelText(context=7)}, [])
    assert (ours.context, ours.tokenizer, theirs.context) == (7, WORDS, 8)


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        (ImageTraining, "batch_tokens", "here: batch_tokens does not apply to this task; use batch_images."),
        (TrajectoriesTraining, "batch_tokens", "here: batch_tokens does not apply to this task; use batch_paths."),
        (TextTraining, "batch_images", "here: batch_images does not apply to this task; use batch_tokens."),
        (TextTraining, "guided_alignment", "here: guided_alignment does not apply to this task; leave it out."),
        (ImageTraining, "label_smoothing", "here: label_smoothing does not apply to this task; leave it out."),
        (TextTraining, "validation_sentences", "here: validation_sentences does not apply to this task; leave it out."),
        (TranslationTraining, "validation_sentences", "here: validation_sentences is now called validation_sample."),
    ],
)
def test_a_key_of_another_task_is_refused(table: type[TrainingSettings], key: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        table.read({key: 1}, "here")
    assert str(refused.value) == said


@pytest.mark.parametrize("name", TASKS)
def test_the_setting_that_makes_examples_smaller_exists(name: str) -> None:
    entry = TASKS[name]
    table, _, key = (entry.task.length_key or "training.steps").partition(".")
    assert key in {"data": entry.data.settings, **entry.task.tables}[table].model_fields


def test_an_example_that_is_larger_than_a_batch_is_named_in_the_unit_of_its_task() -> None:
    Images(ImagesState(["a"], (4, 6, 1), (0.5, 0.25))).check_lengths(np.array([[1], [64]]))
    with pytest.raises(OptionError) as refused:
        Images(ImagesState(["a"], (4, 6, 1), (0.5, 0.25))).check_lengths(np.array([[1], [65]]))
    asked = "training.batch_images = 64 is too small: the largest example has 65 images; raise it to at least 65."
    assert str(refused.value) == asked
    with pytest.raises(OptionError, match=r"has 4097 tokens; raise it to at least 4097, or lower text.context\.$"):
        LanguageModel(LanguageModelState(WORDS, 8, separated=False)).check_lengths(np.array([[4097]]))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"task": "autoencoder"}, "use text-autoencoder for texts, image-autoencoder for images"),
        (
            {"task": "classification", "data": {"file": "a", "class_weights": "balanced"}},
            r"\[data\]: class_weights belongs in \[training\]; set training.class_weights",
        ),
    ],
)
def test_what_an_earlier_version_wrote_is_told_its_new_place(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_tables(tables, "r.toml")
