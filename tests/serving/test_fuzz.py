"""Requests, connections, model folders and data files made up at random, with a seed: refused or read, never a fault.

No status of 500 or above but the stated 503 and 504, nothing in the log, no abort, and at most 1 GB more memory.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import random
import re
import resource
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from PIL import Image
from servers import Running, post

from saccade.data.documents import read_documents
from saccade.data.images import IDX_IMAGES, read_idx_array, read_npz, read_picture
from saccade.data.labelled import read_labelled
from saccade.data.pairs import read_table
from saccade.data.structures import read_molecules
from saccade.data.tagged import read_tagged
from saccade.data.tracks import read_tracks
from saccade.errors import SaccadeError
from saccade.storage import write_folder
from saccade.tasks.base.model_folder import open_model

REQUESTS, SHAPES, FOLDERS, FILES = 10_000, 240, 80, 220
STATED = (503, 504)
NUMBERS: list[Any] = [0, 1, -1, 2, 31, 33, 10**6, 10**400, -(10**400), 0.5, 1e308, 1e-320, -0.0, True]
TEXTS = [
    "",
    " ",
    "the cat",
    "a" * 300,
    "\0",
    "\U0001f600" * 9,
    "<b>x</b>",
    "[MASK] x",
    "../..",
    "\u202e",
    "é\u0301",
    "[" * 50,
]
VALUES: list[Any] = [
    *NUMBERS,
    *TEXTS,
    None,
    [],
    {},
    [[]],
    ["a", 1],
    {"png": "AAAA"},
    {"sample": 1},
    {"pixels": [[0.5]]},
]
#: What each kind of model takes, apart from texts.
SCENE = [[moment, agent, 0.5 * moment, agent] for moment in range(3) for agent in (1, 2)]
INPUTS: dict[str, list[Any]] = {
    "shapes": [{"sample": 1}, {"pixels": [[0.5] * 6] * 8}],
    "teller": [{"sample": 1}, {"pixels": [[0.5] * 6] * 8}],
    "mirror": [{"pixels": [[0.5] * 6] * 8}],
    "paths": [SCENE, SCENE[:2], [[0, 1, -1e9, 1e9]] * 3, [[10**18, 1, 0, 0]], [[0.5, 1, 0, 0]]],
    "pairs": ["GGGAAAACCC", {"sequence": "GGGAAAACCC", "structure": "(((....)))"}, {"sequence": "GA", "name": 3}],
}
OPTIONS = [
    "beam",
    "n_best",
    "max_ratio",
    "max_tokens",
    "max_length",
    "tries",
    "sample",
    "seed",
    "stop",
    "top_p",
    "temperature",
    "samples",
    "crossing",
    "length_penalty",
]


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged, and memory stays bounded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    caplog.set_level(logging.ERROR)
    yield
    assert not caplog.records
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)  # kilobytes


class Maker:
    """Requests from a seed; half of what they hold is right, so that they get beyond the first check."""

    def __init__(self, seed: int, models: list[str], looks: dict[str, list[str]]) -> None:
        self.random = random.Random(seed)
        self.models, self.looks = models, looks

    def pick(self, *right: Any) -> Any:
        return self.random.choice(right) if right and self.random.random() < 0.7 else self.random.choice(VALUES)

    def options(self) -> Any:
        names = self.random.sample(OPTIONS, self.random.randrange(3))
        return {name: self.pick(1, 2, 0.9) for name in names} if self.random.random() < 0.9 else self.pick()

    def query(self, **right: list[Any]) -> dict[str, str]:
        chosen = {name: self.pick(*values) for name, values in right.items() if self.random.random() < 0.8}
        return {name: str(value)[:2000] for name, value in chosen.items()}

    def request(self) -> tuple[str, str, dict[str, Any]]:
        model = self.pick(*self.models)
        look = self.random.choice(list(self.looks))
        name = self.random.choice(self.looks[look])
        text = self.pick(*INPUTS.get(model, ()) if isinstance(model, str) else (), "the cat sees the dog.", "the dog")
        body = getattr(self, self.random.choice(["_of_model", "_of_look", "_of_others"]))
        method, path, given = body(model, look, name, text)
        if self.random.random() < 0.02:
            method = self.random.choice(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "X"])
        return method, path, given

    def _of_model(self, model: Any, look: str, name: str, text: Any) -> tuple[str, str, dict[str, Any]]:
        path, options = f"/api/models/{model}", self.options()
        inputs = [text] * self.random.randrange(4)
        words = self.query(word=["cat"], other=["dog"], neighbours=[3], side=["source"])
        placed = self.query(words=["cat,dog"], others=[5], side=["target"])
        wanted = json.dumps(options) if self.random.random() < 0.9 else str(options)[:100]
        return self.random.choice(
            [
                ("POST", f"{path}/file", {"content": self.file(), "params": {"options": wanted}}),
                ("POST", f"{path}/effects", {"json": {"input": text, "options": options}}),
                ("POST", f"{path}/opening", {"json": {"options": options}}),
                ("POST", f"{path}/predict", {"json": {"inputs": inputs, "options": options}}),
                ("POST", f"{path}/looks", {"json": self.look_body(text, name)}),
                ("POST", f"{path}/stream", {"json": {"input": text, "options": options}}),
                ("POST", f"{path}/maps", {"json": {"text": text}}),
                ("GET", f"{path}/words", {"params": words}),
                ("GET", f"{path}/words/map", {"params": placed}),
            ]
        )

    def _of_look(self, model: Any, look: str, name: str, text: Any) -> tuple[str, str, dict[str, Any]]:
        path, part = f"/api/looks/{look}", self.part(name)
        kind = self.pick("tile", "overview", "heads", "matrix", "rollout", "progress")
        head = {"name": name, "head": self.pick(0, 1), "rows": self.pick([0, 2])}
        return self.random.choice(
            [
                ("GET", f"{path}/{kind}", {"params": part}),
                ("GET", f"{path}/export", {"params": part | self.query(format=["npy", "html", "svg"])}),
                ("POST", f"{path}/walk", {"json": head}),
            ]
        )

    def _of_others(self, model: Any, look: str, name: str, text: Any) -> tuple[str, str, dict[str, Any]]:
        words = {"q": str(text)[:300], "source": str(self.pick("en", "auto"))[:50], "target": str(self.pick("fr"))[:50]}
        prompt = {"model": model, "prompt": text, "max_tokens": self.pick(3), "n": self.pick(1)}
        prompt |= {"logprobs": self.pick(None, 0, 2), "stream": self.pick(False, True)}
        form = self.random.choice(["json", "data", "params"])
        return self.random.choice(
            [
                ("POST", "/translate", {form: words | {"format": str(self.pick("html", "text"))[:50]}}),
                ("POST", "/detect", {"json": {"q": text}}),
                ("POST", "/v1/completions", {"json": prompt}),
                ("GET", f"/v1/models/{model}", {}),
                ("GET", f"/api/runs/{model}", {}),
                ("GET", f"/api/runs/{model}/probes/{self.pick(125)}", {}),
                ("GET", f"/api/runs/{model}/events", {"params": self.query(after=[0, 10**9])}),
                ("GET", self.random.choice(["/api/models", "/api/runs", "/languages", "/api/walkthroughs"]), {}),
                (
                    "POST",
                    "/api/walkthrough",
                    {"json": {self.random.choice(["inputs", "queries"]): self.pick([[1, 0], [0, 1]])}},
                ),
                ("GET", self.random.choice(["/", "/learn", "/docs", "/ready", "/static/x", "/metrics"]), {}),
            ]
        )

    def file(self) -> bytes:
        """A file of some format, often damaged, which may be one that the model takes."""
        content, _ = self.random.choice(list(good_files().values()))
        return content if self.random.random() < 0.5 else changed(content, self.random, [b"\n", b"\t", b"\xff", b"{}"])

    def look_body(self, text: Any, name: str) -> dict[str, Any]:
        body: dict[str, Any] = {"input": text, "options": self.options(), "which": self.pick(0, 1)}
        if self.random.random() < 0.5:
            body["without_heads"] = [f"{self.pick(name)}:{self.pick(0, 1)}"]
        if self.random.random() < 0.3:
            body["without_links"] = [[name, self.pick(0, 1), self.pick(0, 1)]]
        if self.random.random() < 0.3:
            body["replace"] = [self.pick("cat"), self.pick("dog")]
        return body

    def part(self, name: str) -> dict[str, str]:
        spans = ["0:2", ":", "1:", "0:999999999", "5:1"]
        found = self.query(head=["0", "mean", "max"], rows=spans, columns=spans, cells=[8], cell=[2], pool=["max"])
        return found | {"name": str(self.pick(name))[:300]}


@pytest.mark.slow
def test_made_up_requests(running: Running, quiet: None) -> None:
    looks: dict[str, list[str]] = {}
    for model, given in (
        ("tiny", "the cat sees the dog."),
        ("tagger", "the cat"),
        ("writer", "the"),
        ("shapes", {"sample": 1}),
        ("paths", SCENE),
        ("pairs", "GGGAAAACCC"),
    ):
        look = post(running.client, f"/api/models/{model}/looks", input=given)
        looks[look["id"]] = [one["name"] for one in look["attentions"]]
    seen: Counter[int] = Counter()

    def some(seed: int) -> None:
        maker = Maker(seed, list(running.models), looks)
        with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as client:
            for number in range(REQUESTS // 8):
                method, path, given = maker.request()
                if "json" in given:  # written by hand: httpx refuses what is no JSON
                    content = json.dumps(given.pop("json")).encode("utf-8", "surrogatepass")
                    given |= {"content": content, "headers": {"content-type": "application/json"}}
                answer = client.request(method, quote(path, safe="/:.")[:4000], **given)
                seen[answer.status_code] += 1
                assert answer.status_code < 500 or answer.status_code in STATED, (seed, number, method, path, given)
                assert "Traceback" not in answer.text

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(some, seed) for seed in range(8)]:
            done.result()
    assert seen.total() == REQUESTS
    assert seen[200] > REQUESTS // 10  # many got beyond the first check


def shapes() -> Iterator[bytes]:
    """What a connection may begin with: requests of all kinds, cut, doubled, with bytes changed."""
    chance = random.Random(17)
    body = b'{"inputs": ["the cat"]}'
    good = [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/models/tiny/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nq=abc\r\n0\r\n\r\n",
        b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        b"Content-Length: 61\r\n\r\n"
        b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nabc\r\n--x--\r\n',
        b"GET http://localhost/ready HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ]
    for number in range(SHAPES):
        yield changed(good[number % len(good)], chance, [*good, b"\r\n", b"Content-Length: 9\r\n", b"\r\n\r\n"])


def changed(content: bytes, chance: random.Random, pieces: list[bytes]) -> bytes:
    """The content with up to five changes: bytes replaced, left out or put in."""
    one = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(one) + 1)
        match chance.randrange(5):
            case 0:
                one[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del one[place : place + chance.randrange(1, 20)]
            case 2:
                one[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
            case 3:
                one[place:place] = chance.choice([b"\0", b"0" * 5000, b"[" * 5000])
            case 4:
                one[place:place] = chance.choice(pieces)
    return bytes(one)


@pytest.mark.slow
def test_made_up_connections(running: Running, quiet: None) -> None:
    address = httpx.URL(running.url)

    def answer_to(sent: bytes, *, leaves: bool) -> bytes:
        """What comes back until the connection closes, or for a while; who leaves says that nothing will follow."""
        answer = bytearray()
        client = socket.create_connection((address.host, address.port), timeout=60 if leaves else 1)
        with client, contextlib.suppress(ConnectionError, TimeoutError):
            client.sendall(sent)
            if leaves:
                client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                answer += piece
        return bytes(answer)

    answered = 0
    for leaves in (True, False):
        with ThreadPoolExecutor(16) as pool:
            for sent, answer in [(one, pool.submit(answer_to, one, leaves=leaves)) for one in shapes()]:
                assert not re.search(rb"HTTP/1.1 5(?!03|04)", answer.result()), sent
                assert b"Traceback" not in answer.result()
                answered += answer.result().startswith(b"HTTP/1.1 ")
    assert answered > SHAPES // 2
    assert running.client.get("/health").status_code == 200


@pytest.mark.slow
def test_made_up_model_folders(folders: dict[str, Path], tmp_path: Path, quiet: None) -> None:
    """Any value of config.json changed, under a manifest that agrees: refused in a sentence, or it answers."""
    chance = random.Random(23)
    for number in range(FOLDERS):
        folder = folders[chance.choice(list(folders))]
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
        config = json.loads(files["config.json"])
        table = chance.choice([config, config["model"], config["decoding"]]) or config
        key = chance.choice(list(table))
        table[key] = chance.choice([*VALUES, 10**9, 20_000, float("inf"), float("nan"), {key: table[key]}])
        files["config.json"] = json.dumps(config).encode()
        forged = tmp_path / str(number)
        write_folder(forged, files)
        try:
            predictor = open_model(forged)
            if folder.name in ("paths", "pairs"):
                predictor.predict([predictor.from_json(INPUTS[folder.name][0])])
            elif folder.name not in INPUTS:  # the others take images
                predictor.predict(["the cat [MASK]"])
            said = ""
        except SaccadeError as error:
            said = str(error)
        assert "\n" not in said, (key, table[key])


def good_files() -> dict[str, tuple[bytes, Callable[[Path], object]]]:
    """A small file of each format, and what reads it."""
    image, array = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (5, 3), (7, 77, 177)).save(image, "PNG")
    np.savez_compressed(array, images=np.arange(30, dtype=np.uint8).reshape(2, 3, 5), labels=[0, 1])
    index = struct.pack(">4I", IDX_IMAGES, 2, 3, 5) + bytes(range(30))
    tagged = b"1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    return {
        "text.txt": (b"the cat sees\nthe dog\n\nand more\n", lambda path: read_documents(path, "paragraph")),
        "pairs.tsv": (b"source\ttarget\nthe cat\tle chat\nthe dog\tle chien\n", read_table),
        "pairs.csv": (b'source,target\n"the, cat",le chat\nthe dog,le chien\n', read_table),
        "pairs.jsonl": (b'{"source": "the cat", "target": "le chat"}\n' * 3, read_table),
        "labels.tsv": (b"label\ttext\ngood\tthe cat\nbad\tthe dog\n", read_labelled),
        "packed.tsv.gz": (gzip.compress(b"label\ttext\ngood\tthe cat\n", mtime=0), read_labelled),
        "tags.conllu": (tagged, read_tagged),
        "columns.txt": (b"the DET\ncat NOUN\n\nit PRON\n", read_tagged),
        "tracks.txt": (b"0 1 0.5 1.5\n10 1 1.0 2.0\n20 1 1.5 2.5\n", read_tracks),
        "molecules.dbn": (b">one\nGGGAAACCC\n(((...)))\n", read_molecules),
        "molecules.ct": (b"3 one\n1 G 0 2 3 1\n2 A 1 3 0 2\n3 C 2 0 1 3\n", read_molecules),
        "picture.png": (image.getvalue(), read_picture),
        "images.npz": (array.getvalue(), read_npz),
        "images.gz": (gzip.compress(index, mtime=0), lambda path: read_idx_array(path, IDX_IMAGES, "images")),
    }


def test_made_up_data_files(tmp_path: Path, quiet: None) -> None:
    """Every format with bytes changed, left out and put in: refused in a sentence that names the file, or read."""
    chance, outcomes = random.Random(29), Counter[bool]()
    files = good_files()
    pieces = [b"\n", b"\t", b"\r\n", b'"', b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"1e999", b"nan", b"9" * 400, b"{}"]
    for number in range(FILES):
        name, (content, read) = list(files.items())[number % len(files)]
        path = tmp_path / f"{number}-{name}"
        path.write_bytes(changed(content, chance, pieces))
        said = path.name
        try:
            read(path)
        except SaccadeError as error:
            said = str(error)
        outcomes[said == path.name] += 1
        assert path.name in said
        assert "\n" not in said
    assert min(outcomes.values()) > FILES // 10, outcomes
