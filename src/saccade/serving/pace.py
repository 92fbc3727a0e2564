"""Estimate how much work fits into one turn of a model, in token steps (``tasks.base.cost``)."""

from __future__ import annotations

__all__ = ["Pace"]

#: Token steps per second that we assume before the first measurement.
FIRST_SPEED = 50_000.0
#: At each new measurement, the weights of all earlier ones are multiplied by this number.
DECAY = 0.9
#: The next turn may be this many times as large as the mean of the earlier turns.
GROWTH = 4.0


class Pace:
    """Estimates how long a turn takes: a fixed part, plus a part for each token step, fitted to the turns so far.

    The fixed part matters. A decoder needs almost the same time for one text as for ten, so if speed were simply cost
    divided by time, small turns would look slow, and on a busy machine turns would stay small for ever.
    """

    def __init__(self) -> None:
        self._weight = self._cost = self._seconds = self._cost_squared = self._product = 0.0  # weighted sums

    def add(self, cost: float, seconds: float) -> None:
        for name, value in (("weight", 1.0), ("cost", cost), ("seconds", seconds)):
            setattr(self, f"_{name}", DECAY * getattr(self, f"_{name}") + value)
        self._cost_squared = DECAY * self._cost_squared + cost * cost
        self._product = DECAY * self._product + cost * seconds

    def room(self, turn: float) -> float:
        """Return how many token steps fit into a turn of this many seconds.

        If the fixed part alone takes more than half of that time, the turn is allowed twice the time of the fixed part.
        """
        if not self._weight:
            return FIRST_SPEED * turn
        cost, seconds = self._cost / self._weight, max(self._seconds / self._weight, 1e-6)
        variance = self._cost_squared / self._weight - cost * cost
        slope, fixed = seconds / cost, 0.0
        if variance > 0.01 * cost * cost:
            slope = min(slope, max((self._product / self._weight - cost * seconds) / variance, 0.01 * slope))
            fixed = seconds - slope * cost
        elif seconds > turn:  # turns of one size do not show a fixed part: try a larger one
            return 2 * cost
        return min(max(turn - fixed, fixed) / slope, GROWTH * max(cost, FIRST_SPEED * turn / 100))
