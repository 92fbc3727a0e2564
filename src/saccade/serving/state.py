"""The state that all routes of a server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from starlette.requests import HTTPConnection

from saccade.serving.apart import Apart
from saccade.serving.compat.languages import Detector
from saccade.serving.http.metrics import Metrics
from saccade.serving.http.places import Crowd, Unread
from saccade.serving.http.shares import Shares
from saccade.serving.limits import Limits
from saccade.serving.looks import Looks
from saccade.serving.models import Models
from saccade.serving.processes.neighbours import Neighbours
from saccade.serving.threads import REST, Pool, share_readers
from saccade.serving.walks import walk_through

__all__ = ["ServerState", "state_of"]


@dataclass
class ServerState:
    """The models, the looks (recorded attention of answers), the folder of runs, the threads and the metrics."""

    models: Models
    runs: Path | None = None  # the Runs page shows the runs in this folder, and those of the served models
    api_key: str | None = None
    neighbours: Neighbours | None = None  # the other processes of this server
    embedders: tuple[str, ...] = ()  # origins whose pages may show read-only views in a frame
    looks: Looks = field(init=False)
    pool: Pool = field(init=False)
    apart: Pool = field(init=False)  # waits for the process below
    walks: Apart = field(default_factory=lambda: Apart(walk_through))
    shares: Shares = field(default_factory=Shares)
    metrics: Metrics = field(default_factory=Metrics)
    refused: Crowd = field(default_factory=Crowd)
    unread: Unread = field(init=False)
    draining: bool = False
    _detector: Detector | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.unread = Unread(self.limits.all_bodies, self.limits.address_bodies)
        self.pool = Pool(self.limits.queue, rest=REST, is_shared=self.shares.is_shared)
        share_readers(self.shares.is_shared)
        self.apart = Pool(self.limits.queue, threads=1, each=1)
        self.looks = Looks(self.limits, self.pool, "" if self.neighbours is None else f"{self.neighbours.number}-")

    @property
    def limits(self) -> Limits:
        return self.models.limits

    @property
    def detector(self) -> Detector:
        """The language detector for the current models."""
        pairs = self.models.translators()
        if self._detector is None or self._detector.translators != pairs:
            self._detector = Detector(pairs)
        return self._detector


def state_of(request: HTTPConnection) -> ServerState:
    return cast(ServerState, request.app.state.saccade)
