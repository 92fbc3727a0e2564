"""Image classification as people use it: files, a short training, pictures in, classes and overlays out."""

import gzip
import io
import json
import math
import struct
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import saccade
from saccade.cli.main import main
from saccade.cli.options import examples_of
from saccade.data.images import LabelledImage
from saccade.data.picture_folders import PICTURES
from saccade.errors import FileError, OptionError
from saccade.models import VisionConfig
from saccade.tasks.base.data import Splits
from saccade.tasks.base.image_augmentation import ImageSettings, augment
from saccade.tasks.base.image_task import measure_images, suggest_patch
from saccade.tasks.images.data import ImageData, ImagesFiles
from saccade.tasks.images.task import Images, ImagesState, patch_flow

CORNERS = ("north-east", "north-west", "south-east", "south-west")
SETTINGS = {
    "model.patch": 4,
    "model.width": 32,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.feedforward_width": 64,
    "model.dropout": 0.0,
    "images.shift": 0,
    "training.steps": 200,
    "training.warmup": 20,
    "training.lr": 5e-3,
    "training.batch_images": 32,
    "training.validate_every": 200,
}


def spots(count, seed):
    """Noisy images of 8×12 pixels; the name of the corner that is bright is the class."""
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 90, (count, 8, 12), dtype=np.uint8)
    labels = draw.integers(4, size=count)
    for image, label in zip(pixels, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[4 * row : 4 * row + 4, 8 - 8 * column : 12 - 8 * column] += 120
    return pixels, np.array([CORNERS[label] for label in labels])


@pytest.fixture(scope="module")
def run(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("spots")
    for part, count in (("train", 300), ("test", 60)):
        pixels, labels = spots(count, seed=count)
        np.savez(folder / f"{part}.npz", images=pixels, labels=labels)
    chosen = SETTINGS | {"data.test_images": folder / "test.npz"}
    changes = [argument for key, value in chosen.items() for argument in ("--set", f"{key}={value}")]
    with pytest.raises(SystemExit) as left:
        main(["train", "--task", "images", "--data", str(folder / "train.npz"), "-o", str(folder / "run"), *changes])
    assert left.value.code == 0
    return folder


@pytest.fixture
def model(run):
    return saccade.open(run / "run")


def shown(part, **how):
    console = Console(file=io.StringIO(), width=100, **how)
    console.print(part)
    return console.file.getvalue()


def test_it_learns(run):
    scores = json.loads((run / "run" / "result.json").read_text())["scores"]
    assert scores["accuracy"] >= 95
    assert scores["f1"] >= 95


def test_answers_have_probabilities_and_what_was_looked_at(run, model, tmp_path):
    pixels, labels = spots(5, seed=9)
    Image.fromarray(pixels[0]).save(tmp_path / "spot.png")
    inputs = [str(tmp_path / "spot.png"), f"{run / 'test.npz'}:7", pixels[3]]
    first, second, third = model.predict(inputs)
    expected = [labels[0], np.load(run / "test.npz")["labels"][6], labels[3]]
    assert [first.text, second.text, third.text] == expected
    assert sum(first.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert first.probabilities[first.text] == first.score == max(first.probabilities.values())
    assert json.loads(json.dumps(first.record()))["label"] == first.text
    assert first.view.names == ["encoder.0.self"]
    assert first.view.rows["encoder.0.self"].tokens[:4] == ["1,1", "1,2", "1,3", "2,1"]
    flow = patch_flow(first.view, first.config)
    assert flow.shape == (2, 3)
    assert 0 < float(flow.sum()) <= 1


def test_answers_are_shown(model, tmp_path):
    (answer,) = model.predict([spots(1, seed=9)[0][0]])
    printed = "".join(shown(part) for part in answer.terminal())
    assert printed.startswith(answer.text)
    assert "looked at" in printed
    assert "▀" in shown(answer.terminal()[1], force_terminal=True, color_system="truecolor")
    figure = answer.figure(dark=False)
    assert len([axes for axes in figure.axes if axes.images]) == 3  # the image, all layers, the one layer


def test_all_images_of_a_file_and_a_folder(run, model, tmp_path):
    assert len(model.read_file(run / "test.npz")[0]) == 60
    for number in range(3):
        Image.fromarray(spots(3, seed=1)[0][number]).save(tmp_path / f"{number}.png")
    assert [given.where for given in model.read_file(tmp_path)[0]] == [str(tmp_path / f"{n}.png") for n in range(3)]


def test_a_folder_that_can_be_scored_can_be_predicted(model, tmp_path):
    """One folder for each class, as in training; and idx files."""
    pixels = spots(4, seed=1)[0]
    classes = tmp_path / "classes"
    for number, name in enumerate(("b", "a", "b", "a")):
        (classes / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[number]).save(classes / name / f"{number}.png")
    found, said = model.read_file(classes)
    scored = ImagesFiles.read_for_scoring(ImagesFiles.settings.read(ImagesFiles.table([classes], None), ""))
    assert [image.where for image in found] == [image.where for image in scored]
    assert said == "pictures, as they are; they are in 2 folders, whose names are not used"
    idx = tmp_path / "idx"
    idx.mkdir()
    sizes = b"".join(size.to_bytes(4, "big") for size in pixels.shape)
    (idx / "t10k-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + pixels.tobytes())
    (idx / "t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x04" + bytes(4))
    assert np.array_equal([image.pixels[..., 0] for image in model.read_file(idx)[0]], pixels)
    for name, content in {"images-idx3": b"\0\0\x08\x03" + sizes + bytes(pixels.size), "labels-idx1": b""}.items():
        (idx / f"train-{name}-ubyte").write_bytes(content)
    found, said = model.read_file(idx)  # not the training images, which the model has seen
    assert np.array_equal([image.pixels[..., 0] for image in found], pixels)
    assert said == f"images of the test part, {idx / 't10k-images-idx3-ubyte'}"


def image_files(folder):
    """The same images in each format that training reads: name, content, and their number."""
    pixels = spots(3, seed=1)[0]
    idx = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in pixels.shape) + pixels.tobytes()
    yield "a.idx", idx, 3
    yield "a-ubyte.gz", gzip.compress(idx), 3
    for name, save in (("a.npz", np.savez), ("packed.npz", np.savez_compressed)):
        save(folder / name, images=pixels, labels=[0, 1, 2])
        yield name, (folder / name).read_bytes(), 3
    for suffix in PICTURES:
        name = f"a{suffix}"
        Image.fromarray(pixels[0]).save(folder / name, **({"lossless": True} if suffix == ".webp" else {}))
        yield name, (folder / name).read_bytes(), 1


def test_a_file_of_images_is_read_alike_everywhere(model, tmp_path):
    """From a file with a name, from standard input, and by the server, which only decodes PNG and JPEG pictures."""
    for name, content, count in image_files(tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        named = [image.pixels for image in model.read_file(path)[0]]
        streamed, said = model.read_stream(io.BytesIO(content))
        assert len(named) == count
        assert np.array_equal([image.pixels for image in streamed], named), name
        assert said.startswith("images" if count == 3 else "pictures"), name
        if path.suffix in PICTURES and path.suffix not in (".png", ".jpg", ".jpeg"):
            with pytest.raises(FileError, match="must be PNG or JPEG files; this is a"):
                model.read_bytes(content)
        else:
            sent, _ = model.read_bytes(gzip.decompress(content) if name.endswith("gz") else content)
            assert np.array_equal([image.pixels for image in sent], named), name
            assert [image.where for image in sent] == (
                ["image 1", "image 2", "image 3"] if count == 3 else ["the image"]
            )


def test_the_server_opens_no_files_that_a_request_names(model, run, monkeypatch):
    monkeypatch.chdir(run)
    listed = b"test.npz:1\n"
    assert len(model.read_stream(io.BytesIO(listed))[0]) == 1
    with pytest.raises(FileError, match="never opens files that a request names"):
        model.read_bytes(listed)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_may_hide_their_size_are_refused(compression, model, tmp_path):
    """zipfile decompresses them without a limit, whatever size the archive claims."""
    np.savez(tmp_path / "a.npz", images=spots(3, seed=1)[0])
    with zipfile.ZipFile(tmp_path / "a.npz") as plain, zipfile.ZipFile(tmp_path / "b.npz", "w", compression) as packed:
        packed.writestr("images.npy", plain.read("images.npy"))
    for read in (model.read_file, lambda path: model.read_bytes(path.read_bytes())):
        with pytest.raises(FileError, match="uses a compression that NumPy does not write"):
            read(tmp_path / "b.npz")


def test_a_file_that_is_compressed_twice_is_limited_too(model):
    """The server removes the first compression itself."""
    idx = b"\0\0\x08\x03" + struct.pack(">3I", 20 << 14, 8, 12)
    with pytest.raises(FileError, match=r"The file has 31,457,280 bytes of images; the limit is 16,777,216"):
        model.read_bytes(gzip.compress(idx + bytes(1 << 20)))


def test_a_sent_file_cannot_fill_the_memory(model, tmp_path):
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((17, 1024, 1024), dtype=np.uint8))
    with pytest.raises(FileError, match=r"The file has 17,825,\d+ bytes of images; the limit is 16,777,216"):
        model.read_bytes((tmp_path / "a.npz").read_bytes())


def test_a_picture_of_another_size_is_fitted_and_it_says_so(model, tmp_path):
    pixels = spots(1, seed=1)[0][0]
    Image.fromarray(pixels).resize((120, 80), Image.Resampling.NEAREST).convert("RGB").save(tmp_path / "large.png")
    (given,), said = model.read_file(tmp_path / "large.png")
    assert np.array_equal(given.pixels[..., 0], pixels)
    assert said == "pictures, 1 fitted to 8×12 pixels, grey"
    assert model.predict([tmp_path / "large.png"])[0].text == model.predict([pixels])[0].text


@pytest.mark.parametrize(("count", "shift"), [(5_000, 2), (5_001, 0)])
def test_only_few_images_are_shifted(count, shift):
    """Many are seen only a few times, and shifted images take longer to learn."""
    image = LabelledImage(np.zeros((28, 28, 1), dtype=np.uint8), "0", 1, "a")
    found = ImagesFiles.recommend(Splits([image] * count, [image], []), "small")
    assert found["images"]["shift"] == shift


def test_a_folder_of_idx_files_is_told_apart_by_names(tmp_path):
    for part in ("train", "t10k"):
        for name in ("images-idx3", "labels-idx1"):
            (tmp_path / f"{part}-{name}-ubyte.gz").touch()
    found = ImagesFiles.table([tmp_path], None)
    assert {key: Path(path).name.partition("-")[0] for key, path in found.items()} == {
        "images": "train", "labels": "train", "test_images": "t10k", "test_labels": "t10k"
    }  # fmt: skip
    for path in tmp_path.glob("train*"):
        path.unlink()
    assert list(ImagesFiles.table([tmp_path], None)) == ["images", "labels"]  # the only part, to evaluate
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileError, match=r"t10k-labels-idx1-ubyte\.gz, which should have the labels"):
        ImagesFiles.table([tmp_path], None)


def test_the_test_part_of_a_folder_is_scored(tmp_path, monkeypatch, capsys):
    """Not the training images, which the model has seen."""
    for part, count in (("train", 5), ("t10k", 2)):
        sizes = b"".join(size.to_bytes(4, "big") for size in (count, 8, 12))
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + bytes(count * 96))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + sizes[:4] + bytes(count))
    recipe = {"task": "images", "data": {}, "model": {"image_size": [8, 12], "channels": 1}}
    monkeypatch.setattr("saccade.tasks.base.model_folder.bundle_recipe", lambda *_, **__: recipe)
    assert len(examples_of("run", None, None, [tmp_path], None, None)) == 2
    assert "the test part" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(OptionError, match=r"Give one file with --data, not .*: the examples of one file are scored"):
        examples_of("run", None, None, [tmp_path / "a.npz", tmp_path / "b.npz"], None, None)


def test_evaluated_pictures_are_fitted_to_the_model(tmp_path):
    (tmp_path / "set" / "cat").mkdir(parents=True)
    Image.fromarray(np.full((40, 50), 3, dtype=np.uint8)).save(tmp_path / "set" / "cat" / "1.png")
    recipe = {"data": {"classes": []}, "model": {"image_size": [8, 12], "channels": 3}}
    data = ImageData.read(ImagesFiles.as_trained(recipe) | ImagesFiles.table([tmp_path / "set"], None), "the test")
    assert ImagesFiles.read_for_scoring(data)[0].pixels.shape == (8, 12, 3)


def test_without_its_only_heads_it_knows_less(model):
    given = spots(1, seed=9)[0][0]
    change = model.compare(given, without_heads=["encoder.0.self:0", "encoder.0.self:1"])
    assert change.before.tokens == [model.predict([given])[0].text]
    assert change.before.before[0] != change.before.after[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("none.png", "There is no file none.png"),
        ("set.npz", r"There is no file 'set.npz'; give a picture .*, such as images.npz:1"),
        ("{run}/test.npz", r"test.npz is not a picture .* as in .*test.npz:1"),
        ("{run}/test.npz:61", "must be from 1 to 60"),
        ("{run}/test.npz:0", "must be from 1 to 60"),
        ("digits:1", "digits:1 is 8×8 pixels, grey; this model takes 8×12 pixels, grey"),
    ],
)
def test_what_cannot_be_asked(run, model, given, said):
    with pytest.raises((FileError, OptionError), match=said):
        model.predict([given.format(run=run)])


def test_an_array_of_other_numbers_is_refused(model):
    with pytest.raises(OptionError, match="an array of uint8"):
        model.predict([np.zeros((8, 12))])
    with pytest.raises(OptionError, match="Only words of a text can be replaced"):
        model.compare(np.zeros((8, 12), dtype=np.uint8), replace=("a", "b"))


# --- the task ---------------------------------------------------------------------------------------------


def labelled(pixels, label, line=1):
    return LabelledImage(np.asarray(pixels, dtype=np.uint8), label, line, f"set, image {line}")


def task(**changes):
    images = [labelled(np.full((2, 3, 1), value), str(label)) for value, label in ((0, 10), (255, 2))]
    settings = {"images": ImageSettings(**changes)}
    return Images(ImagesState.prepare(settings, images), settings)


def test_classes_are_in_the_order_of_numbers():
    assert task().labels == ["2", "10"]
    assert task().state.pixels == (0.5, 0.5)


def test_a_task_is_what_it_was_when_it_is_loaded():
    one = task().state
    assert ImagesState.load(json.loads(json.dumps(one.description())), lambda name: b"", "here") == one


def test_pixels_become_numbers_about_0():
    image = labelled([[[0], [255], [51]], [[0], [0], [0]]], "2")
    assert measure_images([image]) == (image.pixels.shape, (0.2, 0.365148))
    numbers = ImagesState([], image.pixels.shape, (0.5, 0.25)).normalise([image.pixels])
    torch.testing.assert_close(numbers[0, 0, 0], torch.tensor([-2.0, 2.0, -1.2]))


def test_what_does_not_fit_is_named_by_file_and_number():
    with pytest.raises(
        FileError, match=r"set, image 7: the label '3' is not in the training data; .* The known labels are 2, 10"
    ):
        task().encode([labelled(np.zeros((2, 3, 1)), "3", line=7)])
    with pytest.raises(FileError, match="set, image 8 is 3×2 pixels, grey; this model takes 2×3 pixels, grey"):
        task().encode([labelled(np.zeros((3, 2, 1)), "2", line=8)])
    with pytest.raises(OptionError, match=r"set image_size = \[2, 3\] and channels = 1"):
        task().build("transformer", VisionConfig(image_size=(4, 4), patch=4))


def test_a_class_that_no_training_image_has_counts_as_an_error():
    one = task()
    given = [labelled(np.zeros((2, 3, 1)), label, line=line) for line, label in enumerate(("2", "10", "3"), start=1)]
    images = one.encode(given)
    found = one.evaluate(one.build("transformer", VisionConfig(image_size=(2, 3), patch=1, width=4)).eval(), images)
    assert found.scores["accuracy"] == pytest.approx(100 / 3)  # all three look the same: one of the two is right
    assert found.lines[0] == ("1 of 3 labels are not in training and count as errors: 3 1 (first: set, image 3)")
    assert math.isfinite(found.scores["loss"])


def test_labels_are_named_by_classes(tmp_path):
    np.savez(tmp_path / "set.npz", images=np.zeros((3, 2, 2), dtype=np.uint8), labels=[1, 0, 2])
    data = ImageData(images=str(tmp_path / "set.npz"), classes=["cat", "dog", "cow"])
    assert [image.label for image in ImagesFiles.read_for_scoring(data)] == ["dog", "cat", "cow"]
    with pytest.raises(FileError, match=r"image 3 has the label '2', but data.classes only names 0 to 1"):
        ImagesFiles.read_for_scoring(ImageData(images=str(tmp_path / "set.npz"), classes=["cat", "dog"]))


def test_a_test_image_of_another_size_is_named(tmp_path):
    np.savez(tmp_path / "set.npz", images=np.zeros((3, 2, 2), dtype=np.uint8), labels=[1, 0, 2])
    np.savez(tmp_path / "test.npz", images=np.zeros((3, 2, 5), dtype=np.uint8), labels=[1, 0, 2])
    data = ImageData(images=str(tmp_path / "set.npz"), test_images=str(tmp_path / "test.npz"))
    with pytest.raises(FileError, match=r"test\.npz, image 1 is 2×5 pixels, grey; expected 2×2 pixels"):
        ImagesFiles.read(data, seed=1)


def test_equal_images_are_never_in_two_parts(tmp_path):
    pixels = np.arange(40, dtype=np.uint8).repeat(2).reshape(80, 1, 1)
    np.savez(tmp_path / "set.npz", images=pixels, labels=np.arange(80) % 3)
    splits = ImagesFiles.read(ImageData(images=str(tmp_path / "set.npz"), validation=0.2, test=0.2), seed=1)
    parts = [{image.source for image in part} for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 40
    assert all(parts)


def test_files_of_the_command_line(tmp_path):
    assert ImagesFiles.table([tmp_path], None) == {"images": str(tmp_path)}
    assert ImagesFiles.table([tmp_path / "i", tmp_path / "l"], None)["labels"] == str(tmp_path / "l")
    three = ImagesFiles.table([tmp_path / f"{part}.npz" for part in ("a", "b", "c")], None)
    assert list(three) == ["images", "validation_images", "test_images"]
    (tmp_path / "i").touch()
    with pytest.raises(OptionError, match="not these: "):
        ImagesFiles.table([tmp_path / "i"] * 3, None)
    with pytest.raises(FileError, match=r"There is no file or folder .*nowhere\."):
        ImagesFiles.table([tmp_path / "nowhere"], None)


@pytest.mark.parametrize(
    ("size", "patch"), [((28, 28), 4), ((8, 16), 2), ((31, 31), 1), ((224, 224), 32), ((48, 36), 6)]
)
def test_a_patch_that_fits(size, patch):
    assert suggest_patch(*size) == patch


# --- changes to training images ---------------------------------------------------------------------------


def numbered(count=1, height=4, width=5):
    return torch.arange(1.0, 1 + height * width).view(1, 1, height, width).repeat(count, 2, 1, 1)


def test_a_shift_moves_the_whole_image_and_leaves_black():
    torch.manual_seed(0)
    places = Counter()
    for image in augment(numbered(300), ImageSettings(shift=1)):
        assert (image[0] == image[1]).all()
        row, column = divmod(int((image[0] == 8).nonzero()[0] @ torch.tensor([5, 1])), 5)  # 8 stood at (1, 2)
        places[row - 1, column - 2] += 1
        kept = image[0][max(0, row - 1) : 4 + min(0, row - 1), max(0, column - 2) : 5 + min(0, column - 2)]
        assert (kept > 0).all()
        assert int((image[0] == 0).sum()) == 20 - kept.numel()
    assert set(places) == {(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)}


def test_a_flip_mirrors_half_of_them():
    torch.manual_seed(0)
    mirrored = augment(numbered(400), ImageSettings(flip=True))[:, 0, 0, 0] == 5
    assert 150 < int(mirrored.sum()) < 250


def test_turning_by_nothing_changes_nothing():
    torch.manual_seed(0)
    torch.testing.assert_close(augment(numbered(3), ImageSettings(rotate=1e-6)), numbered(3), rtol=1e-4, atol=1e-4)


def test_a_turned_line_is_as_long_as_before():
    """In an oblong image too: a short line through the middle, turned by any angle, keeps its sum."""
    torch.manual_seed(0)
    images = torch.zeros(50, 1, 21, 41)
    images[:, :, 10, 16:25] = 1.0
    sums = augment(images, ImageSettings(rotate=180)).sum(dim=(1, 2, 3))
    torch.testing.assert_close(sums, torch.full((50,), 9.0), rtol=0.12, atol=0)


def test_erased_rectangles_are_as_large_as_allowed():
    torch.manual_seed(0)
    black = (augment(torch.ones(500, 1, 20, 10), ImageSettings(erase=0.5)) == 0).float().mean(dim=(1, 2, 3))
    assert 0.2 < float(black.max()) <= 0.3
    assert float(black.mean()) == pytest.approx(1 / 16, rel=0.15)  # the mean of two shares of 0 to 1/2


def test_contrast_and_noise():
    torch.manual_seed(0)
    ones = torch.ones(300, 1, 7, 9)
    brighter = augment(ones, ImageSettings(contrast=0.3))
    assert float(brighter.min()) >= 0.7
    assert float(brighter.max()) <= 1.3
    assert (brighter == brighter[:, :, :1, :1]).all()
    assert float(augment(ones, ImageSettings(noise=0.2)).std()) == pytest.approx(0.2, rel=0.02)


@pytest.mark.slow
def test_digits_are_read(tmp_path, one_thread):
    with pytest.raises(SystemExit) as left:
        main(["train", "recipes/digits.toml", "-o", str(tmp_path / "run")])
    assert left.value.code == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    assert found["part"] == "test"
    assert found["scores"]["accuracy"] >= 97
