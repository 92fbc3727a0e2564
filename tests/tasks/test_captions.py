"""Captions as people use them: a table of pictures and texts, a short training, words and what each looked at."""

import io
import json
import struct

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import saccade
from saccade.cli.main import main
from saccade.data.captions import read_captions
from saccade.data.digits import captioned_digits, read_digits
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.model_folder import Bundle
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.captions.data import CaptionData, CaptionsFiles
from saccade.tasks.captions.predictor import CaptionsPredictor
from saccade.tasks.captions.task import CaptionOptions, Captions, CaptionsState
from saccade.tasks.registry import TASKS
from saccade.text import Tokenizer

NAMES = ("left", "middle", "right")
SETTINGS = {
    "model.patch": 4,
    "model.width": 32,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feedforward_width": 64,
    "model.dropout": 0.0,
    "images.shift": 0,
    "training.steps": 250,
    "training.warmup": 20,
    "training.lr": 1e-2,
    "training.batch_tokens": 160,
    "training.validate_every": 250,
    "decoding.beam": 2,
}


def lamps(count, seed):
    """Noisy images of 4×12 pixels with one or two of three places bright, and a text that says which."""
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 60, (count, 4, 12), dtype=np.uint8)
    texts = []
    for image in pixels:
        chosen = sorted(draw.choice(3, size=draw.integers(1, 3), replace=False).tolist())
        for place in chosen:
            image[:, 4 * place : 4 * place + 4] += 150
        texts.append(" and ".join(NAMES[place] for place in chosen))
    return pixels, texts


@pytest.fixture(scope="module")
def run(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("lamps")
    pixels, texts = lamps(260, seed=1)
    (folder / "pictures").mkdir()
    rows = ["image\ttext"]
    for number, (image, text) in enumerate(zip(pixels, texts, strict=True)):
        Image.fromarray(image).save(folder / "pictures" / f"{number}.png")
        rows.append(f"pictures/{number}.png\t{text}")
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    pixels, texts = lamps(50, seed=2)
    np.savez(folder / "test.npz", images=pixels, texts=np.array(texts))
    chosen = SETTINGS | {"data.test_table": folder / "test.npz"}
    changes = [argument for key, value in chosen.items() for argument in ("--set", f"{key}={value}")]
    with pytest.raises(SystemExit) as left:
        main(["train", "--task", "captions", "--data", str(folder / "train.tsv"), "-o", str(folder / "run"), *changes])
    assert left.value.code == 0
    return folder


@pytest.fixture
def model(run):
    return saccade.open(run / "run")


def test_it_learns(run):
    assert json.loads((run / "run" / "result.json").read_text())["scores"]["exact"] >= 95


def test_each_word_looks_at_patches(run, model):
    answers = model.predict([f"{run / 'test.npz'}:{number}" for number in (1, 2, 3)])
    texts = lamps(50, seed=2)[1][:3]
    assert [answer.text for answer in answers] == texts
    two = next(answer for answer in answers if "and" in answer.text)
    assert [token.removeprefix("▁") for token in two.tokens] == two.text.split()
    looked = two.looked_at()
    assert [word for word, _ in looked] == two.text.split()
    assert all(grid.shape == (1, 3) and grid.sum() == pytest.approx(1, abs=1e-5) for _, grid in looked)
    assert two.layer == "decoder.0.cross"
    assert two.view.columns["decoder.0.cross"].tokens == ["1,1", "1,2", "1,3"]
    assert two.finished
    assert json.loads(json.dumps(two.record()))["text"] == two.text


def test_answers_are_shown(run, model):
    (answer,) = model.predict([f"{run / 'test.npz'}:1"])
    console = Console(file=io.StringIO(), width=120)
    console.print(*answer.terminal())
    assert answer.text in console.file.getvalue()
    assert len([axes for axes in answer.figure(dark=True).axes if axes.images]) == 1 + len(answer.tokens)


def test_other_texts_and_their_probabilities(run, model):
    given = model.parse(f"{run / 'test.npz'}:1")
    (answer,) = model.predict([given], beam=3, n_best=3)
    assert len(answer.alternatives) == 2
    assert answer.score >= answer.alternatives[0].score >= answer.alternatives[1].score
    scores = model.token_scores(given, answer)
    assert len(scores) == len(answer.scored_tokens) == len(answer.tokens) + 1
    assert sum(scores) == pytest.approx(answer.log_probability, abs=1e-3)
    change = model.compare(given, without_heads=["decoder.0.cross:0", "decoder.0.cross:1"])
    assert change.before.before != change.before.after


def test_a_beam_has_as_many_places_as_texts():
    with pytest.raises(OptionError, match="n_best = 3 needs a beam of at least 3, not 2"):
        CaptionOptions.read({"beam": 2, "n_best": 3}, "the options")


# --- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("image\ttext\none.png\t \n", r"line 2 has an empty text; expected a description of the image"),
        (
            "image\ttext\none.png\ta cat\nthree.png\ta cat\n",
            r"table\.tsv, line 3: there is no picture .*three\.png'; expected paths .* texts are image and text",
        ),
        (
            "picture\tcaption\none.png\ta cat\n",
            r"line 1: there is no picture .*picture'; .* choose other columns with --columns",
        ),
        ("image\ttext\n\n", r"line 2: there is no picture"),
        (f"image\ttext\n{'x' * 5000}\ta cat\n", r"line 2: there is no picture"),
        ("", "There are no images in"),
    ],
)
def test_tables_that_are_not_right(tmp_path, rows, said):
    Image.fromarray(np.zeros((4, 5), dtype=np.uint8)).save(tmp_path / "one.png")
    Image.fromarray(np.zeros((2, 3), dtype=np.uint8)).save(tmp_path / "two.png")
    (tmp_path / "table.tsv").write_text(rows)
    with pytest.raises(FileError, match=said):
        read_captions(tmp_path / "table.tsv")


def test_pictures_of_different_sizes_are_fitted(tmp_path):
    for grey, (name, shape) in enumerate((("one", (20, 30)), ("two", (22, 50, 3)), ("three", (40, 30)))):
        Image.fromarray(np.full(shape, grey, dtype=np.uint8)).save(tmp_path / f"{name}.png")
    for table, names in (("a.tsv", ("one", "two", "three")), ("b.tsv", ("one", "two"))):
        (tmp_path / table).write_text("image\ttext\n" + "".join(f"{name}.png\ta {name}\n" for name in names))
    data = CaptionData(table=str(tmp_path / "a.tsv"), test_table=str(tmp_path / "b.tsv"), validation=0.3)
    splits = CaptionsFiles.read(data, seed=1)
    every = [*splits.train, *splits.validation, *splits.test]
    assert {pair.pixels.shape for pair in every} == {(24, 32, 3)}
    assert {int(value) for pair in every for value in np.unique(pair.pixels)} == {0, 1, 2}
    assert "3 of 3 pictures in" in splits.notes[0]
    (alone,) = {pair.pixels.shape for pair in CaptionsFiles.read(data.model_copy(update={"shape": (8, 6, 1)}), 1).test}
    assert alone == (8, 6, 1)
    recipe = {"data": {"table": "a.tsv"}, "model": {"image_size": [24, 32], "channels": 3}}
    assert CaptionsFiles.as_trained(recipe) == {"shape": [24, 32, 3]}


TABLES = {  # suffix, header, separator or None for JSONL, and --columns
    "tsv": (".tsv", True, "\t", None),
    "tsv without a header": (".tsv", False, "\t", None),
    "tabs in a text file": (".txt", True, "\t", None),
    "swapped columns by number": (".csv", False, ";", "1,0"),
    "columns with other names": (".csv", True, ",", "file,caption"),
    "json": (".jsonl", True, None, "file,caption"),
}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("kind", TABLES)
def test_predict_reads_the_table_that_train_reads(tmp_path, monkeypatch, kind, encoding):
    suffix, is_headed, mark, columns = TABLES[kind]
    names = columns.split(",") if columns and not columns[0].isdecimal() else ["image", "text"]
    rows = [[f"é {number}.png", f"a lamp, {number}"] for number in range(3)]
    for number, (name, _) in enumerate(rows):
        Image.fromarray(np.full((4 + number, 12), 9 * number, dtype=np.uint8)).save(tmp_path / name)
    order = (1, 0) if columns == "1,0" else (0, 1)
    if mark is None:
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
    else:
        quoted = [[f'"{cell}"' if "," in cell and suffix == ".csv" else cell for cell in row] for row in rows]
        lines = [mark.join(row[place] for place in order) for row in [*([names] if is_headed else []), *quoted]]
    table = tmp_path / f"table{suffix}"
    table.write_bytes("".join(f"{line}\r\n" for line in lines).encode(encoding))
    read_as = CaptionsFiles.table([table], columns)
    pairs = CaptionsFiles.read_for_scoring(CaptionData.model_validate(read_as | {"shape": (8, 6, 1)}))
    task = Captions(CaptionsState(Tokenizer.train(["a"], kind="word", vocabulary_size=20), (8, 6, 1), (0.5, 0.5)))

    def opened(read_as):
        return CaptionsPredictor(Bundle(task, "transformer", Config(), torch.nn.Identity(), CaptionOptions(), read_as))

    model = opened(read_as)
    found, how = model.read_file(table)
    assert [image.pixels.tolist() for image in found] == [pair.pixels.tolist() for pair in pairs]
    assert how.startswith("pictures, 3 fitted to 8×6 pixels, grey, from column ")
    monkeypatch.chdir(tmp_path)
    streamed, _ = model.read_stream(io.BytesIO(table.read_bytes()))
    assert [image.pixels.tolist() for image in streamed] == [pair.pixels.tolist() for pair in pairs]
    without = opened({})  # not trained on a table, so the columns have to be chosen
    without.read_otherwise(columns or "image,text")
    assert [image.pixels.tolist() for image in without.read_file(table)[0]] == [pair.pixels.tolist() for pair in pairs]
    with pytest.raises(OptionError, match="--columns, --encoding and --separator say how to read a table, and"):
        without.read_file(tmp_path / rows[0][0])
    if suffix == ".csv":  # nothing shows that these lines are divided into cells
        with pytest.raises(OptionError, match="and this is not recognised as one; give the name of a file"):
            without.read_stream(io.BytesIO(table.read_bytes()))


def test_an_idx_file_is_not_taken_for_a_table(tmp_path):
    """Its header may contain the byte of a tab, and its pixels no byte of a line break."""
    pixels = np.zeros((2, 9, 12), dtype=np.uint8)
    path = tmp_path / "images"
    path.write_bytes(struct.pack(">4I", 2051, *pixels.shape) + pixels.tobytes())
    task = Captions(CaptionsState(Tokenizer.train(["a"], kind="word", vocabulary_size=20), (9, 12, 1), (0.5, 0.5)))
    model = CaptionsPredictor(Bundle(task, "transformer", Config(), torch.nn.Identity(), CaptionOptions(), {}))
    found, _ = model.read_file(path)
    assert [image.pixels.shape for image in found] == [(9, 12, 1)] * 2


def test_columns_of_the_command_line(tmp_path):
    table = CaptionsFiles.table([tmp_path / "t.csv"], "file, caption")
    assert table == {"table": str(tmp_path / "t.csv"), "image_column": "file", "text_column": "caption"}
    with pytest.raises(OptionError, match="such as image,text, not 'file'"):
        CaptionsFiles.table([tmp_path / "t.csv"], "file")


def test_a_table_of_one_text_shares_nothing():
    names = ("translation", "captions", "text-autoencoder")
    text = {name: TASKS[name].task.tables["text"].model_fields for name in names}
    assert [task for task, fields in text.items() if "shared" in fields] == ["translation"]


def test_no_digit_of_a_test_image_is_in_a_training_image():
    splits = CaptionsFiles.read(CaptionData(builtin="digits", count=400), seed=1)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (400, 300, 1000)
    halves = [
        {half.tobytes() for pair in part if " and " in pair.text for half in (pair.pixels[:, :8], pair.pixels[:, 8:])}
        for part in (splits.train, splits.validation, splits.test)
    ]
    assert all(halves)
    assert not halves[0] & halves[1]
    assert not halves[0] & halves[2]


def test_built_in_images_of_a_caption_model_are_those_of_its_test():
    tested = CaptionsFiles.read(CaptionData(builtin="digits", count=300), seed=1).test
    tokenizer = Tokenizer.train([tested[0].text], kind="word", vocabulary_size=20)
    task = Captions(CaptionsState(tokenizer, (8, 16, 1), (0.5, 0.5)))
    describer = CaptionsPredictor(Bundle(task, "transformer", Config(), torch.nn.Identity(), CaptionOptions()))
    assert np.array_equal(describer.parse("digits:17").pixels, tested[16].pixels)
    with pytest.raises(OptionError, match="must be from 1 to 1,000"):
        describer.parse("digits:1001")


def test_texts_with_a_period_apart_give_no_warning(caplog):
    texts = ["the black cat sat on the mat ."] * 101  # sacrebleu warns at 100
    assert text_scores(texts, texts)["bleu"] == pytest.approx(100)
    assert not caplog.records


def test_no_digit_is_held_out_for_a_test_that_is_not_wanted():
    splits = CaptionsFiles.read(CaptionData(builtin="digits", count=400, test=0), seed=1)
    assert (len(splits.train), len(splits.validation), splits.test) == (400, 300, [])


@pytest.mark.slow
def test_digits_are_described(tmp_path, one_thread):
    with pytest.raises(SystemExit) as left:
        main(["train", "recipes/digit-captions.toml", "-o", str(tmp_path / "run")])
    assert left.value.code == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    assert found["part"] == "test"
    assert found["scores"]["exact"] >= 90
    opened = saccade.open(tmp_path / "run")
    pairs = [pair for pair in captioned_digits(read_digits(), 200, seed=9) if " and " in pair.text]
    answers = [answer for answer in opened.predict([pair.pixels for pair in pairs]) if len(answer.tokens) == 5]
    assert len(answers) >= 95
    sides = [[grid[:, :2].sum() > grid[:, 2:].sum() for _, grid in answer.looked_at()] for answer in answers]
    assert np.mean([side[1] for side in sides]) >= 0.9  # "a zero and a three": for "zero" it looks at the left half,
    assert np.mean([side[4] for side in sides]) <= 0.1  # and for "three" at the right one
