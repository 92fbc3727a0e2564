"""Count requests and their durations, and write such metrics in the text format of Prometheus."""

from __future__ import annotations

import bisect
import itertools
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable

__all__ = ["Histogram", "Metrics", "Sample", "counter", "gauge", "histogram", "merge", "render"]

#: Upper bounds of the histogram buckets, in seconds.
BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
#: Name, kind and description of a metric; and the suffix, labels and value of each of its lines.
Sample = tuple[str, str, str, list[tuple[str, dict[str, str], float]]]


class Histogram:
    """A Prometheus histogram: how many durations fall into each bucket."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._counts = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self._counts[bisect.bisect_left(BUCKETS, seconds)] += 1

    def values(self, labels: dict[str, str]) -> list[tuple[str, dict[str, str], float]]:
        """Return the suffix, labels and value of each line that the histogram has in the text format."""
        counts = list(itertools.accumulate(self._counts))
        ends = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
        buckets = [("_bucket", labels | {"le": end}, float(n)) for end, n in zip(ends, counts, strict=True)]
        return [*buckets, ("_sum", labels, self.seconds), ("_count", labels, float(counts[-1]))]


class Metrics:
    """Counts of requests by route and status, their latency, and how many requests are being answered now."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.accepted = 0
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, Histogram] = defaultdict(Histogram)

    def begin(self) -> None:
        with self._lock:
            self.in_flight += 1
            self.accepted += 1

    def end(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self.in_flight -= 1
            self._requests[route, status] += 1
            self._seconds[route].add(seconds)

    def samples(self) -> list[Sample]:
        with self._lock:
            requests = [({"route": route, "status": str(status)}, n) for (route, status), n in self._requests.items()]
            taken = [({"route": route}, seconds) for route, seconds in self._seconds.items()]
            return [
                counter("saccade_requests_total", "Requests answered.", requests),
                gauge("saccade_requests_in_flight", "Requests being answered.", [({}, self.in_flight)]),
                histogram("saccade_request_seconds", "Time from a request's head to the end of its answer.", taken),
            ]


def counter(name: str, about: str, values: Iterable[tuple[dict[str, str], float]]) -> Sample:
    return name, "counter", about, [("", *one) for one in values]


def gauge(name: str, about: str, values: Iterable[tuple[dict[str, str], float]]) -> Sample:
    return name, "gauge", about, [("", *one) for one in values]


def histogram(name: str, about: str, values: Iterable[tuple[dict[str, str], Histogram]]) -> Sample:
    return name, "histogram", about, [line for labels, one in values for line in one.values(labels)]


def render(samples: Iterable[Sample], every: dict[str, str] | None = None) -> str:
    """Return the metrics as text, with the labels ``every`` added to each line."""
    lines = []
    for name, kind, about, values in samples:
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for suffix, labels, value in values:
            # JSON escapes quotes, backslashes and line breaks as this format does.
            pairs = (labels | (every or {})).items()
            shown = ",".join(f"{key}={json.dumps(text, ensure_ascii=False)}" for key, text in pairs)
            lines.append(f"{name}{suffix}{{{shown}}} {value:.15g}" if shown else f"{name}{suffix} {value:.15g}")
    return "\n".join(lines) + "\n"


def merge(texts: Iterable[str]) -> str:
    """Combine the metrics of several processes into one text, in which each metric is described only once."""
    lines: dict[str, list[str]] = {}
    for text in texts:
        for part in text.split("# HELP ")[1:]:
            about, kind, *values = part.splitlines()
            lines.setdefault(f"# HELP {about}\n{kind}", []).extend(values)
    return "".join(f"{head}\n" + "".join(f"{value}\n" for value in values) for head, values in lines.items())
