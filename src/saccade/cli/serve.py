"""``saccade serve``: answer HTTP requests with models, and show them in a browser, in web pages called the studio."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import Device, Engine, console, resolve_device
from saccade.errors import OptionError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from saccade.serving import Models, Settings

__all__ = ["serve_models"]

KEY_VARIABLE = "SACCADE_API_KEY"
DEMO = Path("runs/demo")


ModelFolders = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL", help="Model or run folders; NAME=FOLDER serves a model under a name of your choice."
    ),
]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free port.", min=0, max=65535)]
Host = Annotated[
    str, typer.Option(help="Address to listen on; an address that other machines can reach needs an API key.")
]
HostNames = Annotated[
    list[str] | None, typer.Option(help="An additional host name that this server answers to. Repeatable.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar=KEY_VARIABLE, help="Key that requests must send, as Authorization: Bearer KEY.", show_default=False
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the API key; safer than --api-key, which other users of this machine can read."),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy", help="Address of a reverse proxy whose X-Forwarded-For header is trusted. Repeatable."
    ),
]
NoApiKey = Annotated[bool, typer.Option("--no-api-key", help="Answer anyone who can reach the server, without a key.")]
Runs = Annotated[Path, typer.Option(help="Folder with the training runs to show.")]
Queue = Annotated[int, typer.Option(help="Largest number of requests that may wait for a model.", min=1)]
Seconds = Annotated[float, typer.Option(help="Time limit for a request, in seconds.", min=0.1)]
Processes = Annotated[
    int, typer.Option(help="Number of processes that answer requests; they share one copy of the weights.", min=1)
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-certificate", help="Certificate chain in PEM form, to serve HTTPS.")
]
CertificateKey = Annotated[Path | None, typer.Option("--tls-key", help="Private key of the certificate.")]
Embedders = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-embed",
        metavar="ORIGIN",
        help="Origin such as https://lectures.example.org whose pages may show read-only views in a frame. Repeatable.",
    ),
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")]


def serve_models(
    models: ModelFolders = None,
    port: Port = 8420,
    host: Host = "127.0.0.1",
    allow_host: HostNames = None,
    api_key: ApiKey = None,
    api_key_file: ApiKeyFile = None,
    no_api_key: NoApiKey = False,
    trusted_proxy: TrustedProxies = None,
    runs: Runs = Path("runs"),
    queue: Queue = 64,
    seconds: Seconds = 60.0,
    processes: Processes = 1,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    allow_embed: Embedders = None,
    browser: Browser = True,
    engine: Engine = "auto",
    device: Device = "auto",
) -> None:
    """Open the studio in a browser, and answer HTTP requests.

    The studio is a set of web pages in which you can give a model inputs, see what its answers depend on, and follow
    the computation number by number. Without MODEL, the model of `saccade demo` is served, and trained first if
    necessary.

    \b
    Examples:
      saccade serve
      saccade serve en-fr=runs/multi30k-en-fr runs/demo --port 9000 --no-browser
    """
    from saccade.serving import Limits, Settings, listen, supervise  # slow to import

    api_key = _required_key(host, api_key, api_key_file, no_api_key)
    _check_proxies(trusted_proxy or [])
    _check_origins(allow_embed or [])
    tls = _tls(tls_certificate, tls_key)
    settings = Settings(
        models=[_name_and_folder(given) for given in models or ([] if processes == 1 else [str(DEMO)])],
        limits=Limits(queue=queue, seconds=seconds),
        processes=processes,
        device=resolve_device(device),
        engine=engine,
        runs=str(runs),
        api_key=api_key,
        hosts=(host, *(allow_host or [])),
        trusted_proxies=tuple(trusted_proxy or []),
        embedders=tuple(allow_embed or []),
    )

    def started(listening: socket.socket) -> None:
        _announce(host, listening.getsockname()[1], "http" if tls is None else "https", browser)

    if processes == 1:
        _serve_here(settings, host, port, tls, started)
        return
    if not models and not (DEMO / "result.json").exists():
        raise OptionError("With --processes, give a model folder, or run `saccade demo` first.")
    supervise(settings, listen(host, port), tls, started)
    console().print("Stopped.")


def _announce(host: str, port: int, scheme: str, browser: bool) -> None:
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
    console().print(f"Saccade runs at {address}  (press Ctrl-C to stop)", markup=False)
    if browser:
        webbrowser.open(address)


def _serve_here(
    settings: Settings, host: str, port: int, tls: ssl.SSLContext | None, started: Callable[[socket.socket], None]
) -> None:
    """Serve with this process alone, which may also train the model of `saccade demo` first."""
    from saccade.serving import Models, create_app, listen, serve

    models = Models(settings.limits, settings.device, engine=settings.engine)
    for name, folder in settings.models:
        models.add(Path(folder), name)
    listening = listen(host, port)
    if not settings.models:
        _add_demo(models)
    started(listening)  # the socket is already open, so the page waits for the server
    if models.pending:
        console().print(
            "Training the model of `saccade demo` first, which takes about two minutes; the page shows the progress."
        )
    app = create_app(
        models,
        runs=Path(settings.runs or ""),
        api_key=settings.api_key,
        hosts=settings.hosts,
        embedders=settings.embedders,
    )
    serve(app, listening, settings.trusted_proxies, tls)
    console().print(f"Stopped after answering {counted(app.state.metrics.accepted, 'request')}.", markup=False)


def _name_and_folder(given: str) -> tuple[str | None, str]:
    name, equals, folder = given.partition("=")
    if equals and not (name and folder):
        raise OptionError(f"{given} lacks the {'folder' if name else 'name'}; give NAME=FOLDER.")
    return (name, folder) if equals else (None, given)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    from saccade.serving import tls_context

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise OptionError("HTTPS needs both --tls-certificate and --tls-key.")
    return tls_context(certificate, key)


def _required_key(host: str, api_key: str | None, file: Path | None, no_api_key: bool) -> str | None:
    """The API key; if others can reach the server, there must be one, or an explicit --no-api-key."""
    from saccade.serving import is_loopback

    if file is not None:
        if api_key is not None:
            raise OptionError(f"Give either --api-key-file or --api-key (or {KEY_VARIABLE}), not both.")
        api_key = _read_key(file)
    if no_api_key and api_key:
        raise OptionError("Give either --no-api-key or --api-key, not both.")
    if not is_loopback(host) and not (api_key or no_api_key):
        raise OptionError(
            f"Other machines can reach {host}: set --api-key or {KEY_VARIABLE}, or give --no-api-key to answer anyone."
        )
    return api_key


def _read_key(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8 text; it must contain the API key.") from None
    if len(lines) != 1:
        raise OptionError(f"{path} must contain only the API key, on one line; it contains {len(lines)} words.")
    return lines[0]


def _check_proxies(addresses: list[str]) -> None:
    for one in addresses:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            raise OptionError(
                f"--trusted-proxy takes an IP address or a network such as 10.0.0.0/8, not {one!r}."
            ) from None


def _check_origins(origins: list[str]) -> None:
    for one in origins:
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", one):
            raise OptionError(
                f"--allow-embed takes an origin such as https://lectures.example.org, without a path, not {one!r}."
            )


def _add_demo(models: Models) -> None:
    """Serve the demo's model; if it does not exist yet, train it in another process while the page shows progress."""
    if (DEMO / "result.json").exists():
        models.add(DEMO)
        return
    command = [sys.executable, "-m", "saccade.cli", "demo", "--output", str(DEMO), "--device", models.device]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    models.expect(DEMO.name, DEMO, process)
