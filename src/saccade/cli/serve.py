"""``saccade serve``: models over HTTP, and the studio."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Device, console, resolve_device

__all__ = ["serve_models"]

KEY_VARIABLE = "SACCADE_API_KEY"


def serve_models(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL...]", help="Model folders, or folders of runs; NAME=FOLDER names one."),
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8420,
    host: Annotated[
        str, typer.Option(help="The address to listen at; others than this machine need a key.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    device: Device = "auto",
) -> None:
    """Open the studio: ask a model, see why it answers so, and take the numbers apart.

    \b
    Examples:
      saccade serve runs/demo
      saccade serve en-fr=runs/multi30k-en-fr runs/demo --port 9000 --no-browser
    """
    from saccade.serving import Models, create_app, listen, serve  # not before: other commands start faster

    served = Models(device=resolve_device(device))
    for given in models or []:
        name, equals, folder = given.partition("=")
        served.add(Path(folder if equals else given), name if equals else None)
    listening = listen(host, port)
    address = f"http://{host}:{listening.getsockname()[1]}/"

    console().print(f"Saccade answers at {address}  (Ctrl-C ends it)", markup=False)
    if browser:  # the socket listens already, so the page waits until it is answered
        webbrowser.open(address)
    serve(create_app(served), listening)
