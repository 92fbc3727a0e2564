"""Autoencoders as people use them: texts and images in, the same out, their small vectors and neighbours."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import saccade
from saccade.cli.main import main
from saccade.errors import FileError, OptionError
from saccade.storage import write_folder
from saccade.tasks.base.image_augmentation import ImageSettings
from saccade.tasks.base.model_folder import bundle_recipe
from saccade.tasks.base.neighbours import MOST_SAVED, NeighbourIndex, evenly_spaced
from saccade.tasks.image_autoencoder.data import ImageAutoencoderData, ImageAutoencoderFiles
from saccade.tasks.image_autoencoder.task import ImageAutoencoder, ImageAutoencoderState
from saccade.tasks.text_autoencoder.data import TextAutoencoderData, TextAutoencoderFiles
from saccade.tasks.text_autoencoder.task import NoisyText, TextAutoencoder, TextAutoencoderState
from saccade.text import END, MASK
from toy_language import toy_pairs, write_lines

TEXT = {
    "text.kind": "word",
    "text.vocabulary": 100,
    "text.mask": 0.0,
    "model.kind": "transformer",
    "model.width": 48,
    "model.num_heads": 4,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feedforward_width": 96,
    "model.scaled_embedding": "true",
    "model.code_width": 24,
    "training.steps": 400,
    "training.warmup": 20,
    "training.lr": 5e-3,
    "training.batch_tokens": 400,
    "training.validate_every": 400,
    "training.label_smoothing": 0.0,
}
IMAGES = {
    "images.noise": 0.1,
    "model.width": 32,
    "model.patch": 2,
    "model.code_width": 4,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "training.steps": 200,
    "training.warmup": 20,
    "training.lr": 5e-3,
    "training.validate_every": 200,
}


def train(folder, given, settings):
    changes = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    with pytest.raises(SystemExit) as left:
        main(["train", *map(str, given), "-o", str(folder / "run"), *changes])
    assert left.value.code == 0
    return folder


def waves(count, seed):
    """Images of 4×6 pixels with two causes: how bright the left and the right half are."""
    draw = np.random.default_rng(seed)
    return draw.integers(0, 255, (count, 1, 2), dtype=np.uint8).repeat(4, axis=1).repeat(3, axis=2)


@pytest.fixture(scope="module")
def text_run(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("texts")
    write_lines(folder / "texts.txt", [source for source, _ in toy_pairs(400, seed=0)])
    (folder / "recipe.toml").write_text(f'task = "text-autoencoder"\n[data]\ntexts = "{folder / "texts.txt"}"\n')
    return train(folder, [folder / "recipe.toml"], TEXT)


@pytest.fixture(scope="module")
def image_run(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("waves")
    np.savez(folder / "waves.npz", images=waves(300, seed=0))
    return train(folder, ["--task", "image-autoencoder", "--data", folder / "waves.npz"], IMAGES)


def shown(answer):
    console = Console(file=io.StringIO(), width=120)
    console.print(*answer.terminal())
    return console.file.getvalue()


def test_texts_come_back(text_run):
    scores = json.loads((text_run / "run" / "result.json").read_text())["scores"]
    assert scores["loss"] < 0.5
    assert scores["chrf"] > 60
    opened = saccade.open(text_run / "run")
    lines = (text_run / "texts.txt").read_text().splitlines()
    answers = opened.predict(lines[:3], neighbours=4)
    for answer, line in zip(answers, lines, strict=False):
        assert len(answer.code) == 24
        assert len(answer.neighbours) == 4
        distances = [one.distance for one in answer.neighbours]
        assert distances == sorted(distances)
        assert answer.neighbours[0].distance == pytest.approx(0, abs=1e-3) or line not in opened.task.state.index.texts
        assert answer.text in shown(answer)
        assert json.loads(json.dumps(answer.record()))["given"] == line
    assert answers[0].view.names == ["encoder.0.self", "decoder.0.self", "pooling"]
    assert answers[0].view.rows["pooling"].tokens == ["code"]
    assert answers[0].figure(dark=False).axes
    assert len(opened.token_scores(lines[0], answers[0])) == len(answers[0].tokens)
    change = opened.compare(lines[0], without_heads=["encoder.0.self:0"])
    assert change.before.before != change.before.after


def test_images_come_back(image_run):
    scores = json.loads((image_run / "run" / "result.json").read_text())["scores"]
    assert scores["loss"] < 0.2  # of the variance; the mean image would lose all of it
    opened = saccade.open(image_run / "run")
    image = waves(1, seed=7)[0]
    (answer,) = opened.predict([image], neighbours=2)
    assert answer.pixels.shape == (4, 6, 1)
    assert -answer.score == pytest.approx(np.square((image - answer.pixels[..., 0].astype(float)) / 255).mean())
    assert [one.pixels.shape for one in answer.neighbours] == [(4, 6, 1)] * 2
    assert answer.view.names == ["encoder.0.self", "decoder.0.self"]
    assert "reconstructed" in shown(answer)
    assert len([axes for axes in answer.figure(dark=True).axes if axes.images]) == 4
    with pytest.raises(OptionError, match="have no probabilities"):
        opened.compare(image, without_heads=["encoder.0.self:0"])


def test_a_link_is_found_in_the_text_that_was_changed(text_run):
    opened = saccade.open(text_run / "run")
    text, link = "the black cat sees the old dog", ("encoder.0.self", "fish", "black")
    change = opened.compare(text, replace=("cat", "fish"), without_links=[link])
    assert change.changed == ["without link encoder.0.self:2:1", "with 'fish' instead of 'cat'"]
    with pytest.raises(OptionError, match="'cat'"):
        opened.compare(text, replace=("cat", "fish"), without_links=[("encoder.0.self", "cat", "black")])


def test_a_server_counts_the_steps_of_writing_the_text_again(text_run):
    predictor = saccade.open(text_run / "run")
    tokens = predictor.count_tokens("the cat sees the dog")
    written = tokens + tokens // 2 + 20
    assert predictor.cost("the cat sees the dog", predictor.chosen({})) == (tokens, 1 + written, tokens + written)


def test_an_empty_text_is_named(text_run):
    with pytest.raises(OptionError, match="Text 2 is empty"):
        saccade.open(text_run / "run").predict(["cat", " "])


@pytest.mark.parametrize("medium", ["texts", "images"])
def test_answers_come_in_pieces(medium, text_run, image_run, monkeypatch):
    monkeypatch.setattr("saccade.tasks.base.predictor.Predictor.at_once", 2)
    opened = saccade.open((text_run if medium == "texts" else image_run) / "run")
    given = ["the cat", "the dog sees", "the fish"] if medium == "texts" else list(waves(3, seed=7))
    done = []
    together = opened.predict(given, progress=done.append)
    assert done == [2, 3]
    alone = [opened.predict([one])[0] for one in given]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4)
    assert opened.predict([]) == []


# --- the task ---------------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path):
    write_lines(tmp_path / "texts.txt", [source for source, _ in toy_pairs(60, seed=0)])
    return tmp_path / "texts.txt"


def of_texts(file, **noise):
    splits = TextAutoencoderFiles.read(TextAutoencoderData(texts=str(file)), seed=1)
    settings = {"text": NoisyText(kind="word", **noise)}
    return TextAutoencoder(TextAutoencoderState.prepare(settings, splits.train), settings), splits


def of_images(file):
    splits = ImageAutoencoderFiles.read(ImageAutoencoderData(images=str(file)), seed=1)
    settings = {"images": ImageSettings(noise=0.2, shift=1)}
    return ImageAutoencoder(ImageAutoencoderState.prepare(settings, splits.train), settings), splits


def test_noise_is_read_and_never_asked_for(texts):
    torch.manual_seed(0)
    task, splits = of_texts(texts, mask=0.3, drop=0.3)
    examples = task.encode(splits.train)
    tokens = sum(len(one.ids) for one in examples)
    batch = task.batch(examples)
    masked, read = int((batch.source == MASK).sum()), int(batch.lengths.sum()) - len(examples)
    assert 0.6 < read / tokens < 0.8
    assert 0.2 < masked / read < 0.4
    assert batch.predicted[batch.real].tolist() == [i for one in examples for i in (*one.ids, END)]
    assert not bool((task.plain_batch(examples).source == MASK).any())


def test_noise_is_on_what_is_read_of_an_image_and_moves_are_on_both(tmp_path):
    np.savez(tmp_path / "waves.npz", images=waves(60, seed=0))
    torch.manual_seed(0)
    task, splits = of_images(tmp_path / "waves.npz")
    batch = task.batch(task.encode(splits.train))
    difference = (batch.read - batch.target) * task.state.pixels[1]
    assert float(difference.std()) == pytest.approx(0.2, rel=0.1)
    plain = task.plain_batch(task.encode(splits.train))
    assert not torch.allclose(plain.target, batch.target)  # shifted


@pytest.mark.parametrize("medium", ["texts", "images"])
def test_a_state_is_what_it_was_when_it_is_loaded(medium, texts, tmp_path):
    np.savez(tmp_path / "waves.npz", images=waves(60, seed=0))
    task, _ = of_texts(texts) if medium == "texts" else of_images(tmp_path / "waves.npz")
    state = task.state
    other = type(state).load(json.loads(json.dumps(state.description())), state.files().__getitem__, "here")
    assert other.description() == state.description()
    assert other.files() == state.files()


@pytest.mark.parametrize("medium", ["texts", "images"])
def test_a_folder_from_when_there_was_one_autoencoder_opens(medium, text_run, image_run, tmp_path):
    folder = (text_run if medium == "texts" else image_run) / "run" / "model"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    description = json.loads(files["config.json"])
    old = {**description, "format": 1, "task": "autoencoder", "medium": "text" if medium == "texts" else "images"}
    recipe = files["recipe.toml"].replace(b'task = "text-', b'task = "').replace(b'task = "image-', b'task = "')
    write_folder(tmp_path / "old", {**files, "config.json": json.dumps(old).encode(), "recipe.toml": recipe})
    opened = saccade.open(tmp_path / "old")
    assert opened.task.name == description["task"]
    assert bundle_recipe(tmp_path / "old")["task"] == description["task"]


def test_an_empty_line_is_named(tmp_path):
    (tmp_path / "texts.txt").write_text("a cat\n\na dog\n")
    with pytest.raises(FileError, match=r"texts\.txt, line 2: the line is empty; there must be one text per line"):
        TextAutoencoderFiles.read(TextAutoencoderData(texts=str(tmp_path / "texts.txt")), seed=1)


def test_files_of_the_command_line(tmp_path):
    assert TextAutoencoderFiles.table([tmp_path / "a.txt"], None) == {"texts": str(tmp_path / "a.txt")}
    assert ImageAutoencoderFiles.table([tmp_path], None) == {"images": str(tmp_path)}
    for reader in (TextAutoencoderFiles, ImageAutoencoderFiles):
        with pytest.raises(OptionError, match="without --columns"):
            reader.table([tmp_path], "text")
    for name in ("a.csv", "a.jsonl.gz", "a.json"):
        with pytest.raises(OptionError, match="one text per line, not a table"):
            TextAutoencoderFiles.table([tmp_path / name], None)


# --- neighbours -------------------------------------------------------------------------------------------


def test_the_nearest_come_first_and_survive_a_folder():
    kept = NeighbourIndex(torch.tensor([[0.0, 3.0], [4.0, 0.0], [1.0, 0.0]]), [5, 6, 7], ["a", "é", "c"], None)
    again = NeighbourIndex.from_files(*kept.files().values(), "here")
    near = again.nearest(torch.tensor([0.0, 0.0]), 2)
    assert [(one.distance, one.line, one.text) for one in near] == [(1.0, 7, "c"), (3.0, 5, "a")]
    assert len(again.nearest(torch.tensor([0.0, 0.0]), 99)) == 3


def test_damaged_neighbours_are_refused():
    tensors, about = NeighbourIndex(torch.zeros(2, 3), [1, 2], ["a", "b"], None).files().values()
    with pytest.raises(FileError, match="here: the neighbours cannot be read"):
        NeighbourIndex.from_files(tensors, b"{}", "here")
    with pytest.raises(FileError, match="there are 1 neighbours and 2 code vectors"):
        NeighbourIndex.from_files(tensors, about.replace(b"[1, 2]", b"[1]"), "here")


def test_a_bounded_number_is_kept():
    assert list(evenly_spaced(3, MOST_SAVED)) == [0, 1, 2]
    chosen = list(evenly_spaced(10 * MOST_SAVED, MOST_SAVED))
    assert (len(chosen), chosen[0], chosen[-1]) == (MOST_SAVED, 0, 10 * MOST_SAVED - 1)
    assert len(set(chosen)) == MOST_SAVED


@pytest.mark.slow
def test_digits_come_back_from_8_numbers(tmp_path, one_thread):
    with pytest.raises(SystemExit) as left:
        main(["train", "recipes/digit-autoencoder.toml", "-o", str(tmp_path / "run")])
    assert left.value.code == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["scores"]["loss"] <= 0.2


def test_pictures_of_different_sizes_are_fitted(tmp_path):
    for grey, (name, shape) in enumerate((("one", (20, 30)), ("two", (22, 50)), ("three", (40, 30)))):
        Image.fromarray(np.full(shape, grey, dtype=np.uint8)).save(tmp_path / f"{name}.png")
    splits = ImageAutoencoderFiles.read(ImageAutoencoderData(images=str(tmp_path), validation=0.3), seed=1)
    assert {image.pixels.shape for image in [*splits.train, *splits.validation]} == {(24, 32, 1)}
    assert splits.notes == [f"fitted 3 of 3 pictures in {tmp_path} to 24×32 pixels, grey"]
