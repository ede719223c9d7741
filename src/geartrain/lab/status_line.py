"""One line on stderr: which run, how far, and how long at most."""

from __future__ import annotations

import math
import sys
from typing import TextIO


class StatusLine:
    """Tells method, f - f* and an upper bound of the time that is left.

    Parameters
    ----------
    seconds : float
        Sum of the time limits of all runs.
    stream : text stream, optional
        stderr if not given. On a terminal the line is rewritten; elsewhere there is one line for
        every finished run.
    """

    def __init__(self, seconds: float, stream: TextIO | None = None) -> None:
        self.left = seconds
        self.stream = sys.stderr if stream is None else stream
        self._live = self.stream.isatty()
        self._label, self._limit, self._shown = "", 0.0, -math.inf

    def begin(self, label: str, limit: float) -> None:
        """A run that takes `limit` seconds at most."""
        self._label, self._limit, self._shown = label, limit, -math.inf
        if self._live:
            self._write(f"{label:58} ...", end="")

    def show(self, gap: float, spent: float) -> None:
        """The state of the run, four times a second."""
        if self._live and spent - self._shown >= 0.25:
            self._shown = spent
            left = self.left - min(spent, self._limit)
            self._write(f"{self._line(gap, spent)}  at most {span(left)} left", end="")

    def end(self, gap: float, spent: float, word: str = "") -> None:
        """The run is over; what it did not use is not left any more."""
        self.left -= self._limit
        left = f"  at most {span(self.left)} left" if self.left > 0.0 else ""
        self._write(f"{self._line(gap, spent)}{word}{left}", end="\n")

    def note(self, sentence: str) -> None:
        """A line of its own."""
        self._write(sentence, end="\n")

    def _line(self, gap: float, spent: float) -> str:
        return f"{self._label:58} f - f* {gap:8.1e} {spent:7.1f} s"

    def _write(self, text: str, end: str) -> None:
        start = "\r\x1b[K" if self._live else ""
        print(f"{start}{text}", end=end, file=self.stream, flush=True)


def span(seconds: float) -> str:
    """Minutes and seconds in words."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"
