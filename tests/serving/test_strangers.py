"""Those who do not have the key: they can neither stop the server nor keep out who has it."""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from servers import Runner, Running
from typer.testing import CliRunner

from saccade.cli.main import app
from saccade.errors import OptionError
from saccade.serving import Limits, Models, create_app
from saccade.serving.http.places import Places
from saccade.serving.http.refusals import Refused
from saccade.serving.http.server import make_server

ENGLISH, FRENCH = "the black cat sees the dog.", "le chat noir voit le chien."
KEY = {"Authorization": "Bearer secret"}
FORM = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture
def locked(folders: dict[str, Path], runner: Runner) -> Running:
    models = Models(Limits(stranger_seconds=0.5))
    models.add(folders["tiny"])
    return runner.start(models, api_key="secret")


def parts(*fields: tuple[str, str], headers: str = "") -> bytes:
    """A form with boundaries, by hand."""
    written = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n{headers}\r\n{text}\r\n' for key, text in fields
    ]
    return "".join([*written, "--x--\r\n"]).encode()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_key_may_have_letters_outside_ascii(encoding: str, folders: dict[str, Path], runner: Runner) -> None:
    models = Models()
    models.add(folders["tiny"])
    client = runner.start(models, api_key="clé secrète").client
    for key, status in (("clé secrète", 200), ("clé secrete", 401)):
        header = b"Bearer " + key.encode(encoding)
        assert client.get("/api/models", headers=[(b"Authorization", header)]).status_code == status


HOSTILE = {
    "many parts": (b"--x\r\n\r\n\r\n" * 300_000, "more than 100 parts"),
    "many fields": (parts(*[("q", "a")] * 101), "more than 100 parts"),
    "nested": (parts(("q", "a"), headers="Content-Type: multipart/mixed; boundary=y\r\n"), "contains another form"),
    "a long header": (b"--x\r\nA: " + b"a" * 1_000_000, "cannot be read"),
    "many headers": (b"--x\r\n" + b"A: b\r\n" * 10_000, "cannot be read"),
    "half boundaries": (b"--x\r\n\r\n" + b"\r\n--" * 700_000, "missing q"),
    "no utf-8": (parts(("q", "a")).replace(b"\r\na\r\n", b"\r\n\xff\r\n"), "UTF-8"),
    "nothing": (b"x", "cannot be read"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_forms_are_refused_while_others_are_answered(kind: str, locked: Running) -> None:
    content, said = HOSTILE[kind]
    for path in ("/translate", "/detect"):
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(locked.client.post, path, content=content, headers=KEY | FORM)
            with httpx.Client(base_url=locked.url, timeout=2, trust_env=False) as other:
                assert other.get("/health").status_code == 200
            answer = asked.result()
        assert (answer.status_code, said in answer.text) == (400, True), answer.text


def test_a_form_without_a_boundary_is_refused(locked: Running) -> None:
    answer = locked.client.post("/detect", content=b"x", headers=KEY | {"Content-Type": "multipart/form-data"})
    assert (answer.status_code, answer.json()["error"]) == (400, "The Content-Type of the form has no boundary.")


def test_the_key_comes_before_the_fields(locked: Running) -> None:
    assert locked.client.post("/translate", content=parts(("q", "a")), headers=FORM).status_code == 403
    fields = [("q", ENGLISH), ("source", "en"), ("target", "fr"), ("api_key", "secret")]
    answer = locked.client.post("/translate", content=parts(*fields), headers=FORM)
    assert answer.json() == {"translatedText": FRENCH}


def test_every_page_is_shown_without_the_key(locked: Running) -> None:
    """The page then asks for the key; a link from another site leads to it too."""
    linked = {"/", *re.findall(r'href="(/\w+)"', locked.client.get("/").text)}
    assert {"/learn", "/ask", "/words"} <= linked
    from_elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for address in linked:
        assert locked.client.get(address).status_code == 200
        assert locked.client.get(address, headers=from_elsewhere).status_code == 200
    assert locked.client.get("/api/models").status_code == 401


def test_a_large_body_needs_the_key_in_a_header(locked: Running) -> None:
    body = {"q": [ENGLISH] * 3, "source": "en", "target": "fr", "api_key": "secret", "padding": "a" * 65_536}
    refused = locked.client.post("/translate", json=body)
    assert refused.status_code == 413
    assert refused.json()["error"] == (
        "The request is larger than 65,536 bytes, which is the limit without the API key in a header: "
        "Authorization: Bearer KEY."
    )
    in_chunks = locked.client.post("/translate", content=(b" " * 10_000 for _ in range(9)))
    assert in_chunks.status_code == 413
    assert locked.client.post("/translate", json=body, headers=KEY).status_code == 200


def test_slow_strangers_hold_no_place(locked: Running) -> None:
    """300 of them, where 256 requests are taken at once; and after a moment they are gone."""
    address = httpx.URL(locked.url)
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{"
    slow = [socket.create_connection((address.host, address.port), timeout=60) for _ in range(300)]
    for one in slow:
        one.sendall(head)
    for _ in range(3):
        assert locked.client.get("/api/models", headers=KEY).status_code == 200
    for one in slow:
        answer = b"".join(iter(lambda one=one: one.recv(65536), b""))  # type: ignore[misc]
        assert answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 429"))
        one.close()


def test_bodies_on_their_way_are_bounded_together_and_for_each_address(runner: Runner) -> None:
    running = runner.start(Models(Limits(all_bodies=3000, address_bodies=2000)))
    url = httpx.URL(running.url)

    def ask(source: str) -> tuple[socket.socket, bytes]:
        one = socket.create_connection((url.host, url.port), 60, source_address=(source, 0))
        one.sendall(b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
        return one, one.recv(12)

    asked = [ask(source) for source in ("127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3")]
    assert [said[9:] for _, said in asked] == [b"100", b"100", b"429", b"100", b"429"]
    for one, _ in asked:
        one.close()


def test_places_are_given_back() -> None:
    places = Places(5, 3, "Full")
    with places.taken("a", 3), places.taken("b", 2):
        for address in "ac":
            with pytest.raises(Refused, match="Full; try again"), places.taken(address):
                pass
    with places.taken("c", 3), pytest.raises(ZeroDivisionError), places.taken("a"):
        raise ZeroDivisionError
    assert not places._taken


def test_only_a_trusted_proxy_says_for_whom_it_asks(folders: dict[str, Path]) -> None:
    """The address counts: two bodies of one are too many, of two not."""
    for proxies, address in (([], "127.0.0.1"), (["127.0.0.1"], "10.1.2.3"), (["10.0.0.0/8"], "127.0.0.1")):
        seen: list[str] = []
        guard = create_app(Models())
        server = make_server(guard, proxies)
        guard.app = lambda scope, receive, send, seen=seen: seen.append(scope["client"][0]) or guard_answer(send)  # type: ignore[assignment, misc]
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/health"
            httpx.get(url, headers={"X-Forwarded-For": "1.1.1.1, 10.1.2.3"}, trust_env=False)
            server.should_exit = True
            thread.join()
        assert seen == [address]


async def guard_answer(send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body"})  # type: ignore[operator]


@pytest.mark.parametrize(("content", "said"), [("", "contains 0 words"), ("a b", "contains 2 words")])
def test_a_key_file_holds_one_key(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    with pytest.raises(OptionError, match=said):
        CliRunner().invoke(app, ["serve", "x", "--api-key-file", str(file)], catch_exceptions=False)


def test_a_key_comes_from_one_place(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("secret\n")
    with pytest.raises(OptionError, match="Give either --api-key-file or --api-key"):
        CliRunner().invoke(
            app, ["serve", "x", "--api-key-file", str(file), "--api-key", "other"], catch_exceptions=False
        )
    with pytest.raises(OptionError, match="not 'proxy'"):
        CliRunner().invoke(
            app, ["serve", "x", "--api-key-file", str(file), "--trusted-proxy", "proxy"], catch_exceptions=False
        )
