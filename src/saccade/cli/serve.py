"""``saccade serve``: models over HTTP, and the studio."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import Device, console, resolve_device
from saccade.errors import OptionError

if TYPE_CHECKING:
    from saccade.serving import Models

__all__ = ["serve_models"]

KEY_VARIABLE = "SACCADE_API_KEY"
DEMO = Path("runs/demo")


ModelFolders = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL...]", help="Model or run folders; NAME=FOLDER gives one a name."),
]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)]
Host = Annotated[str, typer.Option(help="Address to listen on; other than this machine needs an API key.")]
HostNames = Annotated[
    list[str] | None, typer.Option(help="Another host name by which the server is reached. Repeatable.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar=KEY_VARIABLE, help="Key that requests must send as Authorization: Bearer KEY.", show_default=False
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the API key; on the command line, any user of this machine could read it."),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option("--trusted-proxy", help="Address of a reverse proxy whose X-Forwarded-For is trusted. Repeatable."),
]
NoApiKey = Annotated[bool, typer.Option("--no-api-key", help="Answer anyone who can reach the server.")]
Runs = Annotated[Path, typer.Option(help="Folder whose runs are shown.")]
Queue = Annotated[int, typer.Option(help="Requests that may wait for one model.", min=1)]
Seconds = Annotated[float, typer.Option(help="Seconds that one request may compute.", min=0.1)]
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
    browser: Browser = True,
    device: Device = "auto",
) -> None:
    """Open the studio: ask a model, see why it answers the way it does, and take the numbers apart.

    Without a model, serve that of `saccade demo`, training it first if necessary.

    \b
    Examples:
      saccade serve
      saccade serve en-fr=runs/multi30k-en-fr runs/demo --port 9000 --no-browser
    """
    from saccade.serving import Limits, Models, create_app, listen, serve  # slow, so only this command pays for it

    if api_key_file is not None:
        if api_key is not None:
            raise OptionError(f"--api-key-file and --api-key (or {KEY_VARIABLE}) are both given; give only one.")
        api_key = _read_key(api_key_file)
    _check_key(host, api_key, no_api_key)
    _check_proxies(trusted_proxy or [])
    served = Models(Limits(queue=queue, seconds=seconds), resolve_device(device))
    for given in models or []:
        name, equals, folder = given.partition("=")
        if equals and not folder:
            raise OptionError(f"{given} names no folder; give NAME=FOLDER.")
        served.add(Path(folder if equals else given), name if equals else None)
    listening = listen(host, port)
    if not models:
        _add_demo(served, device)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    console().print(f"Saccade runs at {address}  (press Ctrl-C to stop)", markup=False)
    if served.pending:
        console().print(
            "Training the model of `saccade demo` first, which takes a few minutes; the page shows the progress."
        )
    if browser:  # the socket listens already, so the page waits until it is answered
        webbrowser.open(address)
    app = create_app(served, runs=runs, api_key=api_key, hosts=(host, *(allow_host or [])))
    serve(app, listening, trusted_proxy or [])
    console().print(f"Stopped after answering {app.state.metrics.accepted:,} requests.", markup=False)


def _check_key(host: str, api_key: str | None, no_api_key: bool) -> None:
    """Beyond this machine nobody is let in by oversight."""
    from saccade.serving import is_loopback

    if no_api_key and api_key:
        raise OptionError("--no-api-key and --api-key contradict each other; give only one.")
    if not is_loopback(host) and not (api_key or no_api_key):
        raise OptionError(
            f"Others can reach {host}: set --api-key or {KEY_VARIABLE}, or give --no-api-key to answer anyone."
        )


def _read_key(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        raise OptionError(f"{path}: the key is not text in UTF-8.") from None
    if len(lines) != 1:
        raise OptionError(f"{path} must hold the API key on one line and nothing else; it holds {len(lines)} words.")
    return lines[0]


def _check_proxies(addresses: list[str]) -> None:
    for one in addresses:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            said = f"--trusted-proxy takes an IP address or a network such as 10.0.0.0/8; not {one!r}."
            raise OptionError(said) from None


def _add_demo(models: Models, device: str) -> None:
    """The demonstration's model; where there is none yet, a process of its own trains it while the page shows how."""
    if (DEMO / "result.json").exists():
        models.add(DEMO)
        return
    command = [sys.executable, "-m", "saccade.cli", "demo", "--output", str(DEMO), "--device", device]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    models.expect(DEMO.name, DEMO, process)
