"""One line on stderr that tells which run is going on and how far it is."""

from __future__ import annotations

import math
import sys
from typing import TextIO


class StatusLine:
    """Shows the number of the run, its name, f - f* and the seconds so far.

    Parameters
    ----------
    runs : int
        Number of all runs.
    stream : text stream, optional
        stderr if not given. On a terminal the line is rewritten; elsewhere there is one line per
        finished run.
    """

    def __init__(self, runs: int, stream: TextIO | None = None) -> None:
        self.runs, self.number = runs, 0
        self.stream = sys.stderr if stream is None else stream
        self._live = self.stream.isatty()
        self._label, self._shown = "", -math.inf

    def begin(self, label: str) -> None:
        """A run starts."""
        self.number += 1
        self._label, self._shown = label, -math.inf
        if self._live:
            self._write(f"{self._head()} ...", end="")

    def show(self, gap: float, spent: float) -> None:
        """The state of the run, shown at most four times per second of the run."""
        if self._live and spent - self._shown >= 0.25:
            self._shown = spent
            self._write(self._line(gap, spent), end="")

    def end(self, gap: float, spent: float, word: str = "") -> None:
        """The run is over."""
        self._write(f"{self._line(gap, spent)}{word}", end="\n")

    def note(self, sentence: str) -> None:
        """Write a line of its own."""
        self._write(sentence, end="\n")

    def _head(self) -> str:
        width = len(str(self.runs))
        return f"[{self.number:{width}}/{self.runs}] {self._label:52}"

    def _line(self, gap: float, spent: float) -> str:
        return f"{self._head()} f - f* {gap:8.1e} {spent:7.1f} s"

    def _write(self, text: str, end: str) -> None:
        start = "\r\x1b[K" if self._live else ""
        print(f"{start}{text}", end=end, file=self.stream, flush=True)
