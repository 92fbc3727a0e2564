"""One worker process: opens the models and answers the connections that the supervisor passes on."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from saccade.errors import SaccadeError, StorageError
from saccade.serving.http.app import create_app
from saccade.serving.http.server import BACKLOG, serve
from saccade.serving.limits import Limits
from saccade.serving.models import Models
from saccade.serving.processes.neighbours import Neighbours, socket_path

__all__ = ["Settings", "socket_path"]


@dataclass(frozen=True)
class Settings:
    """The settings of a worker.

    The supervisor sends them through a pipe, because they may contain the API key, and all users of a machine can read
    command lines.
    """

    models: list[tuple[str | None, str]]  # names and folders
    limits: Limits
    processes: int
    device: str = "cpu"
    engine: str = "auto"
    runs: str | None = None
    api_key: str | None = None
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ()

    def to_json(self, number: int, folder: Path) -> str:
        return json.dumps({"number": number, "folder": str(folder), "settings": asdict(self)})


def bind(folder: Path, number: int) -> socket.socket:
    """Return a Unix socket for this worker, bound to its path in ``folder``."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(socket_path(folder, number)))
    except OSError as error:  # most often, the path is too long
        made.close()
        why = error.strerror or error
        raise StorageError(f"Cannot make a socket in {folder} ({why}); choose another folder with TMPDIR.") from None
    return made


def work() -> None:
    """Run a worker: answer requests until SIGTERM, or until the supervisor has stopped."""
    supervisor = os.fdopen(os.dup(1), "w")  # is told whether the worker is ready, and reads nothing else:
    os.dup2(2, 1)  # what libraries print goes to stderr
    given = json.loads(sys.stdin.readline())
    settings = Settings(**given["settings"] | {"limits": Limits(**given["settings"]["limits"])})
    number, folder = given["number"], Path(given["folder"])

    def stop_with_supervisor() -> None:
        sys.stdin.read()
        shutil.rmtree(folder, ignore_errors=True)  # a supervisor that was killed has left it
        os._exit(1)

    threading.Thread(target=stop_with_supervisor, daemon=True).start()
    models = Models(settings.limits, settings.device, folder, settings.engine)
    try:
        for name, path in settings.models:
            models.add(Path(path), name)
        listening = bind(folder, number)
    except SaccadeError as error:
        print(json.dumps({"failure": str(error)}), file=supervisor, flush=True)
        sys.exit(1)
    app = create_app(
        models,
        runs=None if settings.runs is None else Path(settings.runs),
        api_key=settings.api_key,
        hosts=settings.hosts,
        neighbours=Neighbours(folder, number, settings.processes),
        embedders=settings.embedders,
    )
    listening.listen(BACKLOG)
    print(json.dumps({"failure": None}), file=supervisor, flush=True)
    serve(app, listening, settings.trusted_proxies)
