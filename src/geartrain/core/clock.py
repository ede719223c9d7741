"""The clock of a run."""

from __future__ import annotations

import math

from geartrain.oracles.work_clock import perf_counter


class Clock:
    """Counts the seconds of a method; it is stopped while the driver records and calls back."""

    def __init__(self) -> None:
        self.spent = 0.0  # seconds of earlier runs and before the last stop
        self._since = math.nan  # when the clock was started; nan while it is stopped

    @property
    def seconds(self) -> float:
        running = not math.isnan(self._since)
        return self.spent + (perf_counter() - self._since if running else 0.0)

    def start(self) -> None:
        self._since = perf_counter()

    def stop(self) -> None:
        self.spent = self.seconds
        self._since = math.nan
