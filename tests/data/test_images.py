"""Images in every form that they are published in, and what is said of files that are not what they should be."""

import base64
import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from saccade.data.digits import CAPTION_SIZE, captioned_digits, read_digits
from saccade.data.images import read_images, read_picture
from saccade.data.picture_folders import pictures_within
from saccade.data.pictures import decode_picture, fit_picture
from saccade.errors import FileError
from saccade.tasks.image_autoencoder.data import ImageAutoencoderData, ImageAutoencoderFiles

HEIGHT, WIDTH, COUNT = 3, 5, 4
PIXELS = np.arange(COUNT * HEIGHT * WIDTH, dtype=np.uint8).reshape(COUNT, HEIGHT, WIDTH)
LABELS = [2, 0, 1, 2]


def idx(magic, shape, values):
    return struct.pack(f">I{len(shape)}I", magic, *shape) + bytes(values)


def idx_images():
    return idx(2051, PIXELS.shape, PIXELS.tobytes())


def idx_labels():
    return idx(2049, (COUNT,), LABELS)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def picture(folder, name, pixels, mode=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels, mode).save(path)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_idx_files(tmp_path, pack):
    found = read_images(written(tmp_path, "i", pack(idx_images())), written(tmp_path, "l", pack(idx_labels())))
    assert [image.label for image in found] == ["2", "0", "1", "2"]
    assert [image.line for image in found] == [1, 2, 3, 4]
    assert all((image.pixels[..., 0] == pixels).all() for image, pixels in zip(found, PIXELS, strict=True))


@pytest.mark.parametrize("labels", [np.array(LABELS), np.array(["cat", "dog", "cow", "cat"])])
def test_npz(tmp_path, labels):
    np.savez(tmp_path / "set.npz", images=PIXELS, labels=labels)
    found = read_images(tmp_path / "set.npz")
    assert [image.label for image in found] == [str(label) for label in labels.tolist()]
    assert (found[3].pixels[..., 0] == PIXELS[3]).all()


def test_numbers_up_to_1_become_bytes(tmp_path):
    np.savez(tmp_path / "set.npz", images=np.array([[[[0.0, 0.5, 1.0]]]]), labels=[0])
    (found,) = read_images(tmp_path / "set.npz")
    assert found.pixels.tolist() == [[[0, 128, 255]]]  # 127.5 is rounded to even


def test_a_folder_for_each_class(tmp_path):
    picture(tmp_path, "dog/b.png", PIXELS[1])
    picture(tmp_path, "dog/a.png", PIXELS[0])
    picture(tmp_path, "cat/c.bmp", PIXELS[2])
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    found = read_images(tmp_path)
    assert [(image.label, image.pixels[0, 0, 0]) for image in found] == [("cat", 30), ("dog", 0), ("dog", 15)]
    assert found[1].where.endswith("a.png")


def test_pictures_are_grey_or_coloured(tmp_path):
    colours = np.zeros((2, 3, 4), dtype=np.uint8)
    colours[..., 0], colours[..., 3] = 200, 255
    assert read_picture(picture(tmp_path, "colours.png", colours)).tolist() == [[[200, 0, 0]] * 3] * 2
    assert read_picture(picture(tmp_path, "grey.png", PIXELS[0])).shape == (HEIGHT, WIDTH, 1)
    deep = np.array([[0, 65535], [257 * 7, 0]], dtype=np.uint16)
    assert read_picture(picture(tmp_path, "deep.png", deep))[..., 0].tolist() == [[0, 255], [7, 0]]


def test_equal_images_have_one_source(tmp_path):
    np.savez(tmp_path / "set.npz", images=PIXELS[[0, 1, 0]], labels=[0, 1, 2])
    first, other, copy = read_images(tmp_path / "set.npz")
    assert first.source == copy.source != other.source


# --- what is not right ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (idx_labels(), idx_labels(), "i starts with the number 2049; an idx file of images starts with 2051"),
        (idx_images(), b"ab", "l starts with the number 24930; an idx file of labels starts with 2049"),
        (idx_images()[:-1], idx_labels(), "should have 4 × 3 × 5 = 60 bytes of images; it has only 59"),
        (idx_images() + b"x", idx_labels(), "60 bytes of images; it has more"),
        (idx_images(), idx(2049, (3,), [0, 0, 0]), "has 4 images, but .* has 3 labels; there must be one label"),
        (gzip.compress(idx_images(), mtime=0)[:-12], idx_labels(), "i cannot be decompressed"),
        (idx(2051, (1 << 31, 99, 99), b""), idx_labels(), "the limit is 4,294,967,296"),
        (idx(2051, (0, 3, 5), b""), idx(2049, (0,), []), "There are no images in"),
    ],
)
def test_idx_files_that_are_not_right(tmp_path, images, labels, said):
    with pytest.raises(FileError, match=said):
        read_images(written(tmp_path, "i", images), written(tmp_path, "l", labels))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"pictures": PIXELS}, "no array 'images'; it has: pictures"),
        ({"images": PIXELS}, "no array 'labels'; it has: images"),
        ({"images": PIXELS, "labels": [0, 1]}, r"4 images, but labels has shape \(2,\); expected \(4,\)"),
        ({"images": PIXELS[0], "labels": [0]}, r"shape \(3, 5\); expected \(n, H, W\)"),
        ({"images": PIXELS.astype(float), "labels": LABELS}, "numbers from 0.0 to 59.0; expected bytes"),
        ({"images": PIXELS, "labels": [0.5] * 4}, "has type float64; expected whole numbers or text"),
        ({"images": np.array([None]), "labels": [0]}, "is not an .npz file of plain arrays"),
    ],
)
def test_npz_files_that_are_not_right(tmp_path, arrays, said):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(FileError, match=said):
        read_images(tmp_path / "set.npz")


def test_a_missing_array_is_all_that_is_said(tmp_path):
    np.savez(tmp_path / "set.npz", images=PIXELS)
    with pytest.raises(FileError) as raised:
        read_images(tmp_path / "set.npz")
    assert str(raised.value) == f"{tmp_path / 'set.npz'} has no array 'labels'; it has: images."


def test_what_is_no_npz(tmp_path):
    with pytest.raises(FileError, match=r"is not an \.npz file of plain arrays"):
        read_images(written(tmp_path, "set.npz", b"something else"))
    with pytest.raises(FileError, match="There is no file"):
        read_images(tmp_path / "none.npz")


def test_empty_folders_are_named(tmp_path):
    with pytest.raises(FileError, match="contains no folders; expected one folder of pictures per class"):
        read_images(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(FileError, match=r"dog contains no pictures"):
        read_images(tmp_path)


def test_a_broken_picture_is_named(tmp_path):
    whole = picture(tmp_path, "a/whole.png", np.random.default_rng(0).integers(0, 255, (40, 40), dtype=np.uint8))
    cut = written(tmp_path, "cut.png", whole.read_bytes()[:300])
    for path in (cut, written(tmp_path, "text.png", b"no picture")):
        with pytest.raises(FileError, match=f"{path.name} cannot be read as a picture"):
            read_picture(path)


def test_idx_images_need_labels(tmp_path):
    with pytest.raises(FileError, match="has no labels; give an idx file"):
        read_images(written(tmp_path, "i", idx_images()))


# --- the built-in digits ----------------------------------------------------------------------------------


def test_digits():
    digits = read_digits()
    assert len(digits) == 1797
    assert digits[0].pixels.shape == (8, 8, 1)
    assert [image.label for image in digits[:10]] == [str(number) for number in range(10)]
    assert max(int(image.pixels.max()) for image in digits) == 255


def test_captions_say_what_is_there_from_left_to_right():
    digits = read_digits()[:30]
    shown = captioned_digits(digits, 200, seed=3)
    assert {image.pixels.shape for image in shown} == {(*CAPTION_SIZE, 1)}
    assert len({image.text for image in shown}) > 60
    pairs = [image for image in shown if " and " in image.text]
    assert len(pairs) == 100
    names = {"zero": "0", "eight": "8", "three": "3"}
    for image in pairs:
        for half, words in zip((image.pixels[:, :8], image.pixels[:, 8:]), image.text.split(" and "), strict=True):
            article, name = words.split()
            assert article == ("an" if name == "eight" else "a")
            if name in names:
                assert any((digit.pixels == half).all() for digit in digits if digit.label == names[name])
    assert captioned_digits(digits, 200, seed=3)[7].source == shown[7].source
    assert captioned_digits(digits, 200, seed=4)[7].source != shown[7].source


# --- pictures of any size and mode ------------------------------------------------------------------------


def test_pictures_of_different_sizes_are_fitted_to_the_median(tmp_path):
    for number, (height, width) in enumerate([(20, 30), (22, 50), (600, 30)]):
        picture(tmp_path, f"cat/{number}.png", np.full((height, width), 7, dtype=np.uint8))
    said = []
    found = read_images(tmp_path, say=said.append)
    assert {image.pixels.shape for image in found} == {(24, 32, 1)}  # of 22×30, in multiples of 8
    assert {int(value) for image in found for value in np.unique(image.pixels)} == {7}
    assert said == [f"fitted 3 of 3 pictures in {tmp_path} to 24×32 pixels, grey"]


def test_large_pictures_become_small_and_one_in_colour_makes_all_coloured(tmp_path):
    picture(tmp_path, "cat/1.png", np.full((400, 800), 9, dtype=np.uint8))
    picture(tmp_path, "dog/2.png", np.full((401, 800, 3), (1, 2, 3), dtype=np.uint8))
    found = read_images(tmp_path)
    assert [image.pixels.shape for image in found] == [(48, 96, 3)] * 2
    assert [image.pixels[5, 7].tolist() for image in found] == [[9, 9, 9], [1, 2, 3]]


def test_pictures_are_fitted_to_a_given_shape(tmp_path):
    picture(tmp_path, "cat/1.png", np.array([[0, 100], [200, 40]], dtype=np.uint8))
    said = []
    (found,) = read_images(tmp_path, shape=(1, 1, 3), say=said.append)
    assert found.pixels.tolist() == [[[85, 85, 85]]]  # their mean
    assert len(said) == 1
    assert read_images(tmp_path, shape=(2, 2, 1), say=said.append)[0].pixels[..., 0].tolist() == [[0, 100], [200, 40]]
    assert len(said) == 1


def test_a_folder_of_parts_is_told_from_a_folder_of_classes(tmp_path):
    for part in ("test", "train"):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / part / name / "1.png")
    with pytest.raises(FileError, match=rf"give each part: --data {tmp_path}/train --data {tmp_path}/test\."):
        read_images(tmp_path)
    with pytest.raises(FileError, match=rf"give each part: --data {tmp_path}/train"):
        pictures_within(tmp_path)  # to predict
    assert [image.label for image in read_images(tmp_path / "train")] == ["cat", "dog"]
    (tmp_path / "train" / "cat" / "more").mkdir()
    (tmp_path / "train" / "dog" / "more").mkdir()
    assert len(pictures_within(tmp_path / "train")) == 2  # the classes have pictures of their own


def test_a_folder_with_pictures_of_its_own_may_have_other_folders(tmp_path):
    (tmp_path / "notes" / "old").mkdir(parents=True)
    picture(tmp_path, "1.png", np.zeros((2, 2), dtype=np.uint8))
    assert pictures_within(tmp_path) == [tmp_path / "1.png"]


def test_transparent_areas_have_their_stored_colours(tmp_path):
    colours = np.array([[[200, 10, 30, 0], [1, 2, 3, 128]]], dtype=np.uint8)
    assert read_picture(picture(tmp_path, "1.png", colours)).tolist() == [[[200, 10, 30], [1, 2, 3]]]
    assert read_picture(picture(tmp_path, "2.png", colours[..., 2:])).tolist() == [[[30], [3]]]  # grey


@pytest.mark.parametrize("shape", [(5, 7, 1), (5, 7, 3), (4, 4, 1), (4, 4, 3)])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "P", "RGB", "RGBA", "CMYK"])
def test_a_picture_in_a_request_is_read_like_a_file(tmp_path, mode, shape):
    values = np.random.default_rng(3).integers(0, 65536, (5, 7), dtype=np.uint16)
    colours = Image.fromarray(np.stack([values >> 8, values & 255, values >> 4], -1).astype(np.uint8))
    made = Image.fromarray(values) if mode == "I;16" else colours.convert(mode)
    path = tmp_path / ("1.jpg" if mode == "CMYK" else "1.png")
    made.save(path)
    sent = decode_picture(base64.b64encode(path.read_bytes()).decode())
    assert fit_picture(sent, shape).tolist() == read_picture(path, shape).tolist()


def test_files_of_a_folder_that_are_not_read_are_counted(tmp_path):
    for name in ("a/1.png", "b/2.png", "b/deeper/3.png", "top.png", "b/.hidden/4.png"):
        picture(tmp_path, name, PIXELS[0])
    (tmp_path / "a" / "5.heic").write_bytes(b"")
    notes = []
    assert len(read_images(tmp_path, say=notes.append)) == 2
    assert notes == [f"left out 3 other files in {tmp_path}, the first: {tmp_path / 'a' / '5.heic'}"]


def test_an_autoencoder_is_trained_on_the_pictures_that_predict_reads(tmp_path):
    for name in ("a/1.png", "b/2.png", "top.png", ".cache/3.png"):
        picture(tmp_path, name, PIXELS[0])
    notes = []
    found = ImageAutoencoderFiles.read_for_scoring(ImageAutoencoderData(images=str(tmp_path)), notes.append)
    assert [one.where for one in found] == list(map(str, pictures_within(tmp_path))) == [str(tmp_path / "top.png")]
    assert notes == [f"left out 2 other files in {tmp_path}, the first: {tmp_path / 'a' / '1.png'}"]
