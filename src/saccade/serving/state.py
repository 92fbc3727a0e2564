"""What the parts of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from starlette.requests import HTTPConnection

from saccade.serving.asked import Pool
from saccade.serving.compat.languages import Detector
from saccade.serving.http.metrics import Metrics
from saccade.serving.limits import Limits
from saccade.serving.looks import Looks
from saccade.serving.models import Models

__all__ = ["State", "state_of"]


@dataclass
class State:
    """The models, the looks at them, the runs that may be watched, and what is counted."""

    models: Models
    runs: Path | None = None  # a folder of runs that the Runs page shows, beside those of the models
    api_key: str | None = None
    looks: Looks = field(init=False)
    pool: Pool = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    _detector: Detector | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.pool = Pool(self.limits.queue)
        self.looks = Looks(self.limits, self.pool)

    @property
    def limits(self) -> Limits:
        return self.models.limits

    @property
    def detector(self) -> Detector:
        """Tells languages apart; made anew when a model has come."""
        pairs = self.models.translators()
        if self._detector is None or self._detector.pairs != set(pairs):
            self._detector = Detector(pairs)
        return self._detector

    def described_pending(self) -> list[dict[str, Any]]:
        """The models that are still being made."""
        return [one.describe() for one in list(self.models.pending.values())]


def state_of(request: HTTPConnection) -> State:
    return cast(State, request.app.state.saccade)
