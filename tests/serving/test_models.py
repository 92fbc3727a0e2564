"""Asking models over HTTP: the answers, looks and tiles are those of the library."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from servers import Runner, Running, events, numbers, post

import untrained
from saccade.attention import edit
from saccade.serving import Models

SENTENCE = "the black cat sees the dog."
IMAGE = {"pixels": [[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]] * 8}
INPUTS = {
    "tiny": SENTENCE,
    "back": "le chat voit le chien.",
    "writer": "the cat",
    "filler": "the [MASK] sees the dog.",
    "tagger": SENTENCE,
    "sorter": SENTENCE,
    "judge": SENTENCE,
    "shapes": IMAGE,
    "teller": IMAGE,
    "echo": SENTENCE,
    "mirror": IMAGE,
}


def test_models_are_listed_with_what_they_take(client: httpx.Client) -> None:
    models = {one["name"]: one for one in client.get("/api/models").json()}
    assert set(models) == {*INPUTS, "paths", "pairs"}
    assert models["tiny"]["languages"] == {"source": "en", "target": "fr"}
    assert models["tiny"]["reads"]
    assert models["writer"]["streams"]
    assert not models["tagger"]["streams"]
    assert models["shapes"]["input"] == {"kind": "image", "height": 8, "width": 6, "channels": 1}
    assert models["tiny"]["defaults"]["beam"] == 5
    assert models["tiny"]["options"]["beam"]["maximum"] == 32


@pytest.mark.parametrize("name", INPUTS)
def test_answers_are_those_of_the_library(name: str, running: Running) -> None:
    (answer,) = post(running.client, f"/api/models/{name}/predict", inputs=[INPUTS[name]])["answers"]
    served = running.models[name]
    given: Any = INPUTS[name]
    if given is IMAGE:
        given = np.round(np.array(IMAGE["pixels"]) * 255).astype(np.uint8)
    (expected,) = served.predictor.predict([given])
    assert answer["text"] == expected.text
    assert answer["score"] == pytest.approx(expected.score, abs=1e-5)


def test_words_can_be_given_one_by_one(running: Running) -> None:
    words = ["the", "black cat", "sees"]
    (answer,) = post(running.client, "/api/models/tagger/predict", inputs=[words])["answers"]
    assert answer["text"] == running.models["tagger"].predictor.predict([words])[0].text
    post(running.client, "/api/models/tagger/looks", input=words, replace=["sees", "eats"])
    refused = running.client.post("/api/models/tagger/predict", json={"inputs": [["the", 7]]})
    assert (refused.status_code, "a text or a list of words" in refused.text) == (400, True)


FILES = {
    "columns": ("tagger", "the A\ncat B\n\ncafé A\nends B\n".encode("latin-1"), [["the", "cat"], ["café", "ends"]]),
    "lines": ("sorter", b"\xef\xbb\xbfthe cat\r\nthe dog\r\n", ["the cat", "the dog"]),
    "json": ("sorter", b'{"text": "the cat"}\n{"text": "the dog"}\n', ["the cat", "the dog"]),
    "gzip": ("tiny", gzip.compress("the cat\nthe dog\n".encode("utf-16")), ["the cat", "the dog"]),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_read_as_the_library_reads_it(kind: str, running: Running) -> None:
    name, content, inputs = FILES[kind]
    answer = running.client.post(f"/api/models/{name}/file", content=content).json()
    expected = running.models[name].predictor.predict(inputs)
    assert [one["text"] for one in answer["answers"]] == [one.text for one in expected]
    assert answer["read"]


def test_a_picture_is_a_file(running: Running) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(8, 6) * 5
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    (answer,) = running.client.post("/api/models/shapes/file", content=file.getvalue()).json()["answers"]
    assert answer["text"] == running.models["shapes"].predictor.predict([pixels])[0].text


@pytest.mark.parametrize(
    ("name", "content", "status", "said"),
    [
        ("sorter", b"", 400, "There is no input"),
        ("sorter", b"the cat\n" * 129, 413, "129 inputs"),
        ("sorter", gzip.compress(b"\n" * (5 << 20), mtime=0), 413, "The decompressed file is larger"),
        ("sorter", gzip.compress(b"the cat", mtime=0)[:-4], 400, "cannot be decompressed"),
        ("sorter", b'{"text": "a"}\n{"words": "a"}\n', 400, "The file, line 2: there is no column 'text'"),
        ("sorter", b"the cat\n" * 129, 413, "Send them in several requests, or use saccade predict"),
        ("tagger", b"the\ncat\n", 400, "send the inputs as JSON to /api/models/tagger/predict instead."),
        ("shapes", b"digits:1", 400, "never opens files that a request names"),
        ("shapes", b"image\ttext\na.png\tone\n", 400, "reads no lists or tables of pictures"),
    ],
)
def test_a_bad_file_is_refused(name: str, content: bytes, status: int, said: str, client: httpx.Client) -> None:
    refused = client.post(f"/api/models/{name}/file", content=content)
    assert (refused.status_code, said in refused.json()["error"]) == (status, True), refused.text


@pytest.mark.parametrize("name", INPUTS)
def test_every_model_can_be_looked_at(name: str, running: Running) -> None:
    look = post(running.client, f"/api/models/{name}/looks", input=INPUTS[name])
    view = running.app.state.looks[look["id"]].view
    assert [one["name"] for one in look["attentions"]] == view.names
    for one in look["attentions"]:
        rows, columns = (look["axes"][one[side]] for side in ("rows", "columns"))
        assert (rows["tokens"], columns["tokens"]) == tuple(axis.tokens for axis in view.axes(one["name"]))
        last = one["heads"] - 1
        tile = numbers(running.client, f"/api/looks/{look['id']}/tile", name=one["name"], head=last)
        exact = view.tile(one["name"], last, slice(None), slice(None)).numpy()
        np.testing.assert_array_equal(tile, exact)
    assert look["layer"] in view.names


def test_samples_are_images_of_the_data(running: Running) -> None:
    samples = running.models["shapes"].predictor.samples
    described = {one["name"]: one for one in running.client.get("/api/models").json()}
    assert described["shapes"]["examples"] == [{"sample": number + 1} for number in range(len(samples))]
    assert samples
    (answer,) = post(running.client, "/api/models/shapes/predict", inputs=[{"sample": 1}])["answers"]
    assert answer["score"] == running.models["shapes"].predictor.predict([samples[0]])[0].score
    wrong = running.client.post("/api/models/shapes/predict", json={"inputs": [{"sample": len(samples) + 1}]})
    assert (wrong.status_code, "must be a whole number from 1" in wrong.json()["error"]) == (400, True)


def test_parts_of_a_look_are_those_of_its_view(running: Running) -> None:
    client = running.client
    look = post(client, "/api/models/tiny/looks", input=SENTENCE)
    view, path = running.app.state.looks[look["id"]].view, f"/api/looks/{look['id']}"
    name = look["layer"]
    part = numbers(client, f"{path}/tile", name=name, head=1, rows="2:5", columns=":3")
    np.testing.assert_array_equal(part, view.tile(name, 1, range(2, 5), range(3)).numpy())
    for head in ("mean", "max"):
        words = numbers(client, f"{path}/matrix", name=name, head=head, words=1)
        np.testing.assert_array_equal(words, view.matrix(name, head, words=True).numpy())  # type: ignore[arg-type]
    every = numbers(client, f"{path}/heads", name=name, cells=4)
    np.testing.assert_array_equal(every[1], view.overview(name, 1, 4, "max").values.numpy())
    whole = view.tile(name, 0, range(1, 7), range(7)).numpy()
    pooled = numbers(client, f"{path}/overview", name=name, head=0, rows="1:7", columns="0:7", cells=2)
    expected = [[whole[a : a + 3, b : b + 4].max() for b in (0, 4)] for a in (0, 3)]
    np.testing.assert_array_equal(pooled, np.array(expected))
    np.testing.assert_array_equal(numbers(client, f"{path}/rollout"), view.rollout().numpy())


def test_an_alternative_is_looked_at_as_itself(client: httpx.Client) -> None:
    options = {"n_best": 3}
    looks = [post(client, "/api/models/tiny/looks", input=SENTENCE, options=options, which=n) for n in range(3)]
    texts = [look["answer"]["text"] for look in looks]
    assert len(set(texts)) == 3
    assert [one["text"] for one in looks[0]["alternatives"]] == texts
    for look in looks:
        (cross,) = (one for one in look["attentions"] if one["name"] == look["layer"])
        assert look["axes"][cross["rows"]]["tokens"][1:] == look["answer"]["tokens"]
    assert client.post("/api/models/tiny/looks", json={"input": SENTENCE, "which": 3}).status_code == 400


def test_a_change_is_told_and_seen(running: Running) -> None:
    client, name = running.client, "encoder.0.self"
    look = post(client, "/api/models/tiny/looks", input=SENTENCE, without_links=[[name, 2, 1]])
    tile = numbers(client, f"/api/looks/{look['id']}/tile", name=name, head=0)
    assert tile[2, 1] == 0
    assert tile[2].sum() == pytest.approx(1)
    change = look["change"]
    expected = running.models["tiny"].predictor.compare(SENTENCE, without_links=[(name, 2, 1)])
    assert change["changed"] == [f"without link {name}:2:1"]
    assert change["before"]["after"] == pytest.approx(expected.before.after, abs=1e-5)
    swapped = post(client, "/api/models/tiny/looks", input=SENTENCE, replace=["cat", "bird"])
    assert "oiseau" in swapped["answer"]["text"]
    wrong = client.post("/api/models/tiny/looks", json={"input": SENTENCE, "without_heads": ["encoder.9.self:0"]})
    assert (wrong.status_code, "encoder.9.self" in wrong.json()["error"]) == (400, True)


@pytest.mark.parametrize("route", ["looks", "effects"])
def test_a_word_cannot_be_replaced_by_more_than_the_limits_allow(route: str, client: httpx.Client) -> None:
    """The time of the changed text counts, not that of the short one that was sent."""
    for words, status, said in (
        (["cat", "dog " * 4500], 413, "tokens; the limit is"),
        (["cat", "dog " * 400_000], 413, "characters; the limit is 20,000"),
        (["d" * 1_000_000, "dog"], 400, "does not occur"),
    ):
        answer = client.post(f"/api/models/tiny/{route}", json={"input": SENTENCE, "replace": words})
        assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text[:300]
        assert len(answer.text) < 400


def test_the_words_that_decided_are_those_of_the_changed_model(running: Running) -> None:
    predictor = running.models["judge"].predictor
    off = [f"encoder.{layer}.self:{head}" for layer in range(2) for head in range(2)]
    found = []
    for heads in ([], off):
        look = post(running.client, "/api/models/judge/looks", input=SENTENCE, without_heads=heads)
        with edit(predictor.model, without_heads=heads):
            expected = predictor.predict([SENTENCE])[0].deciding  # type: ignore[attr-defined]
        assert [one["word"] for one in look["deciding"]] == [word for word, _ in expected]
        found.append([one["effect"] for one in look["deciding"]])
        assert found[-1] == pytest.approx([value for _, value in expected], abs=1e-5)
    assert found[0] != pytest.approx(found[1], abs=1e-4)


def test_where_nothing_is_looked_at_the_words_that_decided_are_told(tmp_path: Path, runner: Runner) -> None:
    models = Models()
    predictor = models.add(untrained.sorter(tmp_path / "blind", "mean", "window")).predictor
    look = post(runner.start(models).client, "/api/models/blind/looks", input=SENTENCE)
    assert (look["id"], look["attentions"]) == (None, [])
    assert "has attention with" in look["why"]
    expected = predictor.predict([SENTENCE])[0].deciding  # type: ignore[attr-defined]
    assert [(one["word"], one["effect"]) for one in look["deciding"]] == expected
    long = post(runner.start(models).client, "/api/models/blind/looks", input="cat " * 300)
    assert (long["deciding"], "300 words" in long["undecided"]) == ([], True)


def test_text_streams_as_it_is_written(client: httpx.Client) -> None:
    options = {"max_tokens": 20, "seed": 5}
    pieces = list(events(client, "/api/models/writer/stream", input="the", options=options))
    assert pieces.pop() == {"done": True}
    assert len(pieces) > 3
    whole = post(client, "/api/models/writer/predict", inputs=["the"], options=options)["answers"][0]["text"]
    assert "".join(piece["piece"] for piece in pieces) == whole


def test_a_long_text_is_read_once(running: Running) -> None:
    text = " ".join(["the black cat sees the old dog."] * 40)
    *_, last = events(running.client, "/api/models/tiny/maps", text=text)
    look = last["look"]
    assert len(look["axes"][look["attentions"][0]["rows"]]["tokens"]) == 40 * 8 + 1
    tile = numbers(running.client, f"/api/looks/{look['id']}/tile", name="encoder.0.self", head=0, rows="100:103")
    np.testing.assert_allclose(tile.sum(axis=1), 1, rtol=1e-5)
    assert running.client.post("/api/models/shapes/maps", json={"text": text}).status_code == 400


def test_reading_a_long_text_ends_when_the_server_stops(
    folders: dict[str, Path], runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["saccade.attention.attend"], "LONG", 4)  # a text of this many tokens is long
    models = Models()
    models.add(folders["tiny"])
    running = runner.start(models)
    running.app.state.draining = True
    (said,) = events(running.client, "/api/models/tiny/maps", text="the cat sees the dog.")
    assert said == {"error": "The server is stopping; ask again in a moment.", "status": 503}


@pytest.mark.parametrize("name", ["tiny", "writer", "filler", "tagger", "sorter"])
def test_a_text_of_nothing_is_no_fault(name: str, client: httpx.Client) -> None:
    for path, body in (("maps", {"text": " "}), ("looks", {"input": ""}), ("predict", {"inputs": [""]})):
        answer = client.post(f"/api/models/{name}/{path}", json=body)
        assert answer.status_code < 500
        assert '"status": 500' not in answer.text


@pytest.mark.parametrize("format", ["png", "svg", "html", "npy"])
def test_what_is_seen_can_be_kept(format: str, client: httpx.Client) -> None:
    look = post(client, "/api/models/tiny/looks", input=SENTENCE)
    query = {"format": format, "name": look["layer"], "head": "0"}
    answer = client.get(f"/api/looks/{look['id']}/export", params=query)
    assert answer.status_code == 200
    assert f'.{format}"' in answer.headers["content-disposition"]
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype", "npy": b"\x93NUMPY"}
    assert answer.content.startswith(begins[format])


def test_what_is_not_there_is_said(client: httpx.Client) -> None:
    for path in ("/api/looks/gone/tile?name=x", "/api/models/none/predict", "/nowhere"):
        answer = client.post(path, json={"inputs": ["a"]}) if path.endswith("predict") else client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"].endswith(".")
