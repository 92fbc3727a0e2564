"""Who may ask, and how much: hostile requests are refused cleanly, and no file is read for them."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from pydantic import BaseModel, ValidationError
from servers import Runner, Running, post

from saccade.errors import shortened
from saccade.lens import WalkDocument
from saccade.serving import Limits, Models, is_loopback, listen
from saccade.serving.compat.completions import CompletionBody
from saccade.serving.compat.translate import TranslateBody
from saccade.serving.http.refusals import Refused
from saccade.serving.looks import Look, Looks
from saccade.serving.routes.models import LookBody

JSON = {"content-type": "application/json"}


def error_of(answer: httpx.Response) -> str:
    """The one sentence of a refusal."""
    said = answer.json()["error"]
    assert isinstance(said, str)
    assert "Traceback" not in said
    return said


def test_pages_of_others_are_refused(client: httpx.Client) -> None:
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/health", headers={"Host": "localhost.evil.example:80"}).status_code == 400
    for host in ("localhost:1234", "127.0.0.1", "[::1]:80"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    own = str(client.base_url).rstrip("/")
    assert client.get("/health", headers={"Origin": own}).status_code == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://[", ""):
        assert client.get("/health", headers={"Origin": origin}).status_code == 403


FETCHES = [
    ("/api/models", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
    ("/api/models", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
    ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),  # a link to the studio
    ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ("/api/models", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),  # <img src="...">
    ("/api/models", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),  # another port
    ("/api/models", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
]


@pytest.mark.parametrize(("path", "headers", "status"), FETCHES)
def test_fetches_of_other_sites_are_refused(
    path: str, headers: dict[str, str], status: int, client: httpx.Client
) -> None:
    assert client.get(path, headers=headers).status_code == status


def test_answers_are_not_kept_by_others(client: httpx.Client) -> None:
    assert client.get("/static/style.css").headers["cache-control"] == "no-cache"
    for path in ("/api/models", "/languages", "/v1/models", "/nowhere", "/metrics"):
        assert client.get(path).headers["cache-control"] == "no-store"


def test_head_is_answered_where_get_is(client: httpx.Client) -> None:
    for path in ("/", "/health", "/languages", "/docs", "/openapi.json", "/static/style.css", "/nowhere"):
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    assert client.head("/translate").status_code == 405


def test_a_further_name_can_be_allowed(runner: Runner) -> None:
    running = runner.start(Models(), hosts=["studio.example"])
    assert running.client.get("/health", headers={"Host": "Studio.Example:80"}).status_code == 200
    assert running.client.get("/ready").status_code == 503  # there is no model


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_known(host: str, here: bool) -> None:
    assert is_loopback(host) == here


def test_nothing_written_into_a_page_runs(client: httpx.Client) -> None:
    for path in ("/", "/health", "/api/models", "/nowhere", "/static/style.css", "/docs"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in client.get("/docs").text


NESTED = b"[" * 200_000 + b"]" * 200_000
BODIES: dict[str, tuple[bytes, int]] = {
    "large": (b'{"inputs": ["' + b"a" * 10_000_000 + b'"]}', 413),
    "long": (json.dumps({"inputs": ["a " * 15_000]}).encode(), 413),
    "many": (json.dumps({"inputs": ["a"] * 200}).encode(), 413),
    "no utf-8": (b'{"inputs": ["\xff\xfe"]}', 400),
    "half a character": (b'{"inputs": ["\\ud800"]}', 400),
    "nested": (b'{"inputs": ' + NESTED + b"}", 400),
    "nested 65 levels": (b'{"inputs": ' + NESTED[200_000 - 64 : 200_000 + 64] + b"}", 400),
    "very many lists": (b'{"inputs": [' + b"[]," * 100_000 + b"[]]}", 400),
    "very many keys": (b'{"inputs": ["a"], "options": {' + b'"a": 1, ' * 2000 + b'"b": 1}}', 400),
    "very many numbers that are no object": (b'{"inputs": ["a"], "options": [' + b"1, " * 1_000_000 + b"1]}", 400),
    "a key twice": (b'{"inputs": ["a"], "inputs": ["b"]}', 400),
    "5,000 digits": (b'{"inputs": ["a"], "options": {"beam": ' + b"9" * 5000 + b"}}", 400),
    "an open string of quotes": (b'{"inputs": ["' + rb"\"" * 1_000_000, 400),
    "no json": (b"{", 400),
    "not a number": (b'{"inputs": ["a"], "options": {"length_penalty": NaN}}', 400),
    "infinite": (b'{"inputs": ["a"], "options": {"length_penalty": 1e999}}', 400),
    "no object": (b"3", 400),
    "nothing": (b"", 400),
    "no input": (b'{"inputs": []}', 400),
    "a temperature beyond numbers": (b'{"inputs": ["a"], "options": {"sample": true, "temperature": 1e39}}', 400),
    "another kind": (b'{"inputs": [{"png": "x"}]}', 400),
    "unknown option": (b'{"inputs": ["a"], "options": {"beams": 3}}', 400),
    "unknown key": (b'{"inputs": ["a"], "path": "/etc/passwd"}', 400),
    "400 digits": (b'{"inputs": ["a"], "options": {"beam": ' + b"9" * 400 + b"}}", 400),
    "minus 400 digits": (b'{"inputs": ["a"], "options": {"beam": -' + b"9" * 400 + b"}}", 400),
    "400 digits elsewhere": (b'{"inputs": ["a"], "options": {"seed": ' + b"9" * 400 + b"}}", 400),
    "a whole number as a fraction": (b'{"inputs": ["a"], "options": {"beam": 1e308}}', 400),
    "too much": (b'{"inputs": ["a"], "options": {"beam": 1000}}', 400),
}


@pytest.mark.parametrize("kind", BODIES)
def test_hostile_bodies_are_refused(kind: str, client: httpx.Client) -> None:
    content, status = BODIES[kind]
    answer = client.post("/api/models/tiny/predict", content=content, headers=JSON)
    assert answer.status_code == status, answer.text
    assert len(error_of(answer)) < 500


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (CompletionBody, "prompt", [0] * 1000),
        (CompletionBody, "stop", [0] * 1000),
        (TranslateBody, "q", [0] * 1000),
        (WalkDocument, "tokens", [0] * 1000),
        (WalkDocument, "changed", [0] * 1000),
        (WalkDocument, "inputs", [["a"] * 50] * 50),
        (WalkDocument, "mask", [["a"] * 50] * 50),
        (LookBody, "without_heads", [0] * 1000),
        (LookBody, "without_links", [0] * 1000),
    ],
)
def test_a_list_of_wrong_values_is_refused_at_the_first(kind: type[BaseModel], field: str, value: Any) -> None:
    """Two million sentences about two million values took a minute, during which nobody else was answered."""
    with pytest.raises(ValidationError) as found:
        kind.model_validate({field: value})
    # One for each type that is allowed, or for each level of lists.
    assert sum(error["loc"][0] == field for error in found.value.errors()) <= 3


def test_an_invalid_value_is_shown_in_part() -> None:
    class Counted(list[int]):
        seen = 0

        def __iter__(self) -> Iterator[int]:
            for one in super().__iter__():
                Counted.seen += 1
                yield one

    assert shortened(Counted(range(10**6))) == f"[{', '.join(map(str, range(20)))}..."[:57] + "..."
    assert Counted.seen <= 30
    assert shortened([[1, "a"], {"b": None}]) == "[[1, 'a'], {'b': None}]"


def test_brackets_in_a_text_are_no_nesting(client: httpx.Client) -> None:
    content = b"\xef\xbb\xbf" + json.dumps({"inputs": ["[" * 200 + "{" * 200 + '"\\']}).encode()
    assert client.post("/api/models/tiny/predict", content=content, headers=JSON).status_code == 200


def test_a_compressed_body_is_refused(client: httpx.Client) -> None:
    content = gzip.compress(b'{"inputs": ["a"]}')
    answer = client.post("/api/models/tiny/predict", content=content, headers=JSON | {"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert "without Content-Encoding" in error_of(answer)


def test_a_file_may_be_called_json_without_being_json(client: httpx.Client) -> None:
    answer = client.post("/api/models/tiny/file", content=b"the cat\nthe dog\n", headers=JSON)
    assert len(answer.json()["answers"]) == 2


def test_long_addresses_are_refused(client: httpx.Client) -> None:
    assert client.get("/health?" + "&".join(["a=1"] * 100)).status_code == 200
    many, long = client.get("/health?" + "&".join(["a=1"] * 101)), client.get("/api/models/" + "a" * 5000)
    assert (many.status_code, error_of(many)) == (400, "The query string has more than 100 fields.")
    assert (long.status_code, "4,096 bytes" in error_of(long)) == (414, True)


@pytest.mark.parametrize("span", ["bytes=0-10", "bytes=x-", "bytes=999999999-", "bytes=" + ",".join(["0-"] * 2500)])
def test_a_file_of_the_page_is_sent_whole(span: str, client: httpx.Client) -> None:
    answer, whole = client.get("/static/style.css", headers={"Range": span}), client.get("/static/style.css")
    assert (answer.status_code, answer.content) == (200, whole.content)


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "", "x"])
def test_a_body_of_another_kind_is_refused_whatever_its_bytes(kind: str, client: httpx.Client) -> None:
    answer = client.post("/api/models/tiny/predict", content=b'{"inputs": ["\xf5"]}', headers={"content-type": kind})
    assert answer.status_code == 400, answer.text
    assert error_of(answer)


def test_a_body_without_a_length_is_counted(client: httpx.Client) -> None:
    chunks = (b"a" * 1_000_000 for _ in range(6))
    answer = client.post("/api/models/tiny/predict", content=chunks, headers=JSON)
    assert answer.status_code == 413
    assert client.get("/health").status_code == 200


PATHS = (
    "/etc/passwd",
    "..",
    "../../../etc/passwd",
    "%2e%2e%2fmanifest.json",
    "%00",
    "tiny/..",
    "tiny%2f..%2ftiny",
    "C:\\x",
)


@pytest.mark.parametrize("path", PATHS)
def test_paths_lead_to_no_file(path: str, running: Running) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    for place in ("/api/models/{}/predict", "/static/{}", "/api/runs/{}", "/api/looks/{}/tile?name=x", "/v1/models/{}"):
        with socket.create_connection((host, int(port)), timeout=20) as raw:  # a client would tidy the path up
            method = "POST" if "predict" in place else "GET"
            lines = [f"{method} {place.format(path)} HTTP/1.1", "Host: localhost", "Connection: close"]
            raw.sendall("\r\n".join([*lines, "Content-Length: 0", "", ""]).encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:200]
        assert b"root:" not in answer
        assert b"sha256" not in answer


def test_an_image_is_never_a_path(client: httpx.Client, tmp_path: Path) -> None:
    for given in (
        "/etc/passwd",
        "digits:1",
        {"png": "/etc/passwd"},
        {"path": "x"},
        {"sample": "/etc"},
        {"png": "AAAA"},
    ):
        answer = client.post("/api/models/shapes/predict", json={"inputs": [given]})
        assert answer.status_code == 400, answer.text
        error_of(answer)
    sizes: list[Any] = [[[]], [[0.5], [0.5, 0.5]], [[2.0]], "x", [["a"]], [[True]], []]
    for pixels in sizes:
        assert client.post("/api/models/shapes/predict", json={"inputs": [{"pixels": pixels}]}).status_code == 400


def encoded_png(width: int, height: int) -> str:
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def test_few_bytes_of_many_pixels_are_refused(client: httpx.Client) -> None:
    def status(*pictures: str) -> int:
        body = {"inputs": [{"png": one} for one in pictures]}
        return client.post("/api/models/shapes/predict", json=body).status_code

    large = encoded_png(4096, 4096)
    assert status(encoded_png(7, 5), large) == 200
    assert status(*[large] * 5) == 413
    assert status(encoded_png(4097, 1)) == 413


@pytest.mark.parametrize("side", [10_000, 60_000])  # Pillow warns of the first and refuses the second
def test_a_picture_of_very_many_pixels_is_refused_without_a_warning(side: int, client: httpx.Client) -> None:
    content = bytearray(base64.b64decode(encoded_png(7, 5)))
    content[16:24] = struct.pack(">II", side, side)  # in the header, which is all that is read
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    body = {"inputs": [{"png": base64.b64encode(content).decode()}]}
    answer = client.post("/api/models/shapes/predict", json=body)
    assert (answer.status_code, f"{side} pixels along one side" in error_of(answer)) == (413, True)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_pictures_of_other_formats_are_refused(kind: str, client: httpx.Client) -> None:
    content = io.BytesIO()
    frames = [Image.new("RGB", (9, 9), (shade, 0, 0)) for shade in (0, 90, 180)]
    more = {"save_all": True, "append_images": frames[1:]} if kind in ("GIF", "WEBP", "TIFF") else {}
    frames[0].save(content, kind, **more)
    body = {"inputs": [{"png": base64.b64encode(content.getvalue()).decode()}]}
    answer = client.post("/api/models/shapes/predict", json=body)
    assert (answer.status_code, error_of(answer)[:26]) == (400, "The picture cannot be read")


def test_markup_stays_text(client: httpx.Client) -> None:
    text = "<script>alert(1)</script> <img src=x onerror=alert(1)>"
    look = post(client, "/api/models/tiny/looks", input=text)
    page = client.get(f"/api/looks/{look['id']}/export", params={"format": "html", "name": "encoder.0.self"})
    assert page.headers["content-disposition"].startswith("attachment")
    assert "<img src=x" not in page.text
    assert "alert(1)</script>" not in page.text


def test_looks_are_bounded(running: Running) -> None:
    look = post(running.client, "/api/models/tiny/looks", input="the cat sees the dog.")
    kept = running.app.state.looks[look["id"]]
    few = Looks(Limits(looks=3))
    ids = [few.add(Look(kept.served, kept.given, kept.view)).id for _ in range(4)]
    assert len(few) == 3
    few[ids[1]]  # used again, so the next to go is another
    few.add(Look(kept.served, kept.given, kept.view))
    assert few[ids[1]].id == ids[1]
    for gone in (ids[0], ids[2]):
        with pytest.raises(Exception, match="no longer in memory"):
            few[gone]
    small = Looks(Limits(look_bytes=kept.nbytes))
    small.add(Look(kept.served, kept.given, kept.view))
    small.add(Look(kept.served, kept.given, kept.view))
    assert (len(small), small.nbytes) == (1, kept.nbytes)


def test_looks_that_grow_make_others_go(running: Running) -> None:
    look = post(running.client, "/api/models/tiny/looks", input="the cat sees the dog.")
    kept = running.app.state.looks[look["id"]]
    looks = Looks(Limits(look_bytes=2 * kept.nbytes + 100))
    first, second = (looks.add(Look(kept.served, kept.given, kept.view)).id for _ in range(2))
    assert len(looks) == 2
    looks.draw(second, lambda one: one.pyramid.whole(look["layer"], 0, 64, "max")).result()
    assert looks[second].id == second
    with pytest.raises(Refused, match="no longer in memory"):
        looks[first]


def test_pictures_are_bounded_in_number_and_time(running: Running) -> None:
    look = post(running.client, "/api/models/tiny/looks", input="the cat sees the dog.")
    kept = running.app.state.looks[look["id"]]
    looks = Looks(Limits(queue=2, seconds=1e-6, map_seconds=1e-6))
    ids = [looks.add(Look(kept.served, kept.given, kept.view)).id for _ in range(5)]
    with pytest.raises(Refused, match="took too long") as late:
        looks.draw(ids[0], lambda one: one.pyramid.whole(look["layer"], 0, 64, "max")).result()
    assert late.value.status == 503
    hold, begun = threading.Event(), threading.Semaphore(0)
    running_ones = [looks.draw(ids[0], lambda _: (begun.release(), hold.wait()))]
    begun.acquire()
    with pytest.raises(Refused, match="Other pictures") as same:
        looks.draw(ids[0], lambda _: None).result()
    running_ones.append(looks.draw(ids[1], lambda _: (begun.release(), hold.wait())))  # one client gets two threads
    begun.acquire()
    others = [looks.draw(id, lambda _: None) for id in ids[2:4]]
    with pytest.raises(Refused, match="2 requests are already waiting") as many:
        looks.draw(ids[4], lambda _: None)
    assert same.value.status == many.value.status == 429
    others[-1].abandon()  # who leaves makes room
    last = looks.draw(ids[4], lambda _: None)
    hold.set()
    for asked in (*running_ones, others[0], last):
        asked.exception()
    assert others[-1].cancelled()


def test_what_watches_the_server_is_told(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json()["ready"]
    post(client, "/api/models/tiny/predict", inputs=["the cat", "the dog"])
    lines = client.get("/metrics").text.splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(samples['saccade_requests_total{route="/api/models/{name}/predict",status="200"}']) >= 1
    assert float(samples['saccade_inputs_total{model="tiny"}']) >= 2
    route = 'route="/api/models/{name}/predict"'
    count = samples[f"saccade_request_seconds_count{{{route}}}"]
    assert samples[f'saccade_request_seconds_bucket{{{route},le="+Inf"}}'] == count
    lane = 'model="tiny",lane="quick"'
    assert float(samples[f"saccade_tokens_total{{{lane}}}"]) >= 4
    for name in ("queue", "compute"):
        assert float(samples[f"saccade_{name}_seconds_count{{{lane}}}"]) >= 1
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_answers_are_sent_at_once() -> None:
    """asyncio switches off Nagle's algorithm for sockets that are named as TCP: else each answer takes 40 ms more."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        assert accepted.proto == socket.IPPROTO_TCP
        accepted.close()


def test_a_file_of_the_page_never_changes_at_the_address_that_the_page_uses(client: httpx.Client) -> None:
    """Browsers keep it for good; another version of the page has other addresses."""
    page = client.get("/").text
    (main,) = re.findall(r'<script type="module" src="(/static/\w{16}/main\.js)">', page)
    assert f'<link rel="modulepreload" href="{main}">' in page
    found = client.get(main)
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert found.content == client.get("/static/main.js").content
    assert client.get(main.replace("/static/", "/static/0")).status_code == 404
