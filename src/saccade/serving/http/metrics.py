"""What is counted, in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

__all__ = ["Metrics", "Sample", "render"]

#: Upper ends of the classes that durations are counted in, in seconds.
BUCKETS = (0.005, 0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0)
#: Name, kind, what it is, and (labels, value) pairs.
Sample = tuple[str, str, str, Iterable[tuple[dict[str, str], float]]]


class Metrics:
    """Requests by route and status, how long they took, and how many there are now."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.accepted = 0
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = 0.0
        self._buckets = [0] * (len(BUCKETS) + 1)

    def begin(self) -> None:
        with self._lock:
            self.in_flight += 1
            self.accepted += 1

    def end(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self.in_flight -= 1
            self._requests[route, status] += 1
            self._seconds += seconds
            place = next((number for number, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))
            self._buckets[place] += 1

    def samples(self) -> list[Sample]:
        with self._lock:
            requests = [({"route": route, "status": str(status)}, n) for (route, status), n in self._requests.items()]
            counts, seconds = list(self._buckets), self._seconds
        ends = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
        classes = [({"le": end}, float(sum(counts[: number + 1]))) for number, end in enumerate(ends)]
        name = "saccade_request_seconds"
        return [
            ("saccade_requests_total", "counter", "Requests that were answered.", requests),
            ("saccade_requests_in_flight", "gauge", "Requests that are being answered.", [({}, self.in_flight)]),
            (f"{name}_bucket", "", "", classes),
            (f"{name}_sum", "", "", [({}, seconds)]),
            (f"{name}_count", "", "", [({}, float(sum(counts)))]),
        ]


def render(samples: Iterable[Sample]) -> str:
    """The lines that Prometheus reads."""
    lines = []
    for name, kind, about, values in samples:
        if name.endswith("_bucket"):
            base = name.removesuffix("_bucket")
            lines += [f"# HELP {base} How long requests took.", f"# TYPE {base} histogram"]
        elif kind:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for labels, value in values:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
