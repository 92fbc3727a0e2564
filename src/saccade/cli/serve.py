"""``saccade serve``: answer HTTP requests with models, and show the studio in a browser."""

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
    typer.Argument(metavar="[MODEL...]", help="Model or run folders; NAME=FOLDER also names the model."),
]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)]
Host = Annotated[str, typer.Option(help="Address to listen on; one that others can reach needs an API key.")]
HostNames = Annotated[list[str] | None, typer.Option(help="Another host name of this server. Repeatable.")]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar=KEY_VARIABLE, help="Key that requests must send, as Authorization: Bearer KEY.", show_default=False
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the API key; other users of this machine can read a key on the command line."),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option("--trusted-proxy", help="Address of a reverse proxy whose X-Forwarded-For is trusted. Repeatable."),
]
NoApiKey = Annotated[bool, typer.Option("--no-api-key", help="Answer everyone who can reach the server.")]
Runs = Annotated[Path, typer.Option(help="Folder with the runs to show.")]
Queue = Annotated[int, typer.Option(help="Number of requests that may wait for a model.", min=1)]
Seconds = Annotated[float, typer.Option(help="Time limit for a request, in seconds.", min=0.1)]
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
    """Open the studio in a browser, and answer HTTP requests.

    In the studio you can ask a model, see why it answers the way it does, and follow the numbers. Without a
    model, the one from `saccade demo` is served, and trained first if necessary.

    \b
    Examples:
      saccade serve
      saccade serve en-fr=runs/multi30k-en-fr runs/demo --port 9000 --no-browser
    """
    from saccade.serving import Limits, Models, create_app, listen, serve  # slow to import

    if api_key_file is not None:
        if api_key is not None:
            raise OptionError(f"Give either --api-key-file or --api-key (or {KEY_VARIABLE}), not both.")
        api_key = _read_key(api_key_file)
    _check_key(host, api_key, no_api_key)
    _check_proxies(trusted_proxy or [])
    served = Models(Limits(queue=queue, seconds=seconds), resolve_device(device))
    for given in models or []:
        name, equals, folder = given.partition("=")
        if equals and not folder:
            raise OptionError(f"{given} has no folder after the name; give NAME=FOLDER.")
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
    if browser:  # the socket is already open, so the page waits for the server to start
        webbrowser.open(address)
    app = create_app(served, runs=runs, api_key=api_key, hosts=(host, *(allow_host or [])))
    serve(app, listening, trusted_proxy or [])
    console().print(f"Stopped after answering {app.state.metrics.accepted:,} requests.", markup=False)


def _check_key(host: str, api_key: str | None, no_api_key: bool) -> None:
    """Require an API key, or an explicit --no-api-key, if others can reach the server."""
    from saccade.serving import is_loopback

    if no_api_key and api_key:
        raise OptionError("Give either --no-api-key or --api-key, not both.")
    if not is_loopback(host) and not (api_key or no_api_key):
        raise OptionError(
            f"Others can reach {host}: set --api-key or {KEY_VARIABLE}, or give --no-api-key to answer anyone."
        )


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


def _add_demo(models: Models, device: str) -> None:
    """Serve the demo's model; if it does not exist yet, train it in another process while the page shows progress."""
    if (DEMO / "result.json").exists():
        models.add(DEMO)
        return
    command = [sys.executable, "-m", "saccade.cli", "demo", "--output", str(DEMO), "--device", device]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    models.expect(DEMO.name, DEMO, process)
