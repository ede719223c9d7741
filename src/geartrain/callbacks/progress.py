"""The progress bar of a run: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import math
import sys
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from geartrain.callbacks.notebook import NotebookBar, in_notebook
from geartrain.core.stopping import AnyOf, Calls, Gap, Gradient, Rule, Seconds

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate

_BAR = 20


class Progress:
    """A line that tells how far a run is: bar, f or ``|grad f|``, calls of each oracle, time left.

    The bar is an estimate: gradients are taken to shrink as quickly as they did so far, and
    budgets to be used up evenly. In a notebook the line stands beside a bar of the browser.

    Parameters
    ----------
    rule : rule, optional
        The stopping rule, for bar and time left.
    stream : file, optional
        Where the line is written; if not given, standard error or the output of the cell.
    every : float
        Seconds between two lines.
    """

    def __init__(
        self, rule: Rule | None = None, stream: TextIO | None = None, every: float = 0.5
    ) -> None:
        self.rule, self.stream, self.every = rule, stream, every
        self._first_norm = math.nan
        self._first_seconds = 0.0
        self._next = -math.inf
        self._line = ""
        self._last = ""  # the line without the time left, for a run that is over
        self._part = 0.0  # of the run that is done, by the lines so far
        self._bar = NotebookBar() if stream is None and in_notebook() else None

    def __call__(self, intermediate_result: Intermediate) -> None:
        """Show a line, if it is time."""
        seen = intermediate_result
        if math.isnan(self._first_norm):
            self._first_norm, self._first_seconds = seen.grad_norm, seen.seconds
        shown, self._line = self._line, self.line(seen)
        now = perf_counter()
        if now >= self._next:
            self._next = now + self.every
            if self._bar is not None:
                self._bar.show(self._line, self._part)
            else:
                self._print(self._line.ljust(len(shown)))

    def close(self) -> None:
        """Show the last line and end it."""
        if self._line and self._bar is not None:
            self._bar.show(self._last, self._part, over=True)
        elif self._line:
            self._print(self._last.ljust(len(self._line)) + "\n")
        self._line = ""

    def line(self, seen: Intermediate) -> str:
        """The line for what a callback sees."""
        done = self._part = max(self._part, self._done(self.rule, seen))  # a bar does not shrink
        calls = " ".join(f"{k} {v}" for k, v in seen.calls.items() if v)
        if math.isnan(seen.grad_norm):
            what = "" if math.isnan(seen.fun) else f"f {seen.fun:.9g}  "
        else:
            what = f"|grad f| {seen.grad_norm:.2e}  "
        bar, left = "", ""
        if done > 0.0:
            full = int(_BAR * done)
            bar = "" if self._bar else f"[{'#' * full}{'.' * (_BAR - full)}] "
            elapsed = seen.seconds - (self._first_seconds if self._by_gradient else 0.0)
            left = f", about {_duration(elapsed * (1.0 - done) / done)} left"
        self._last = f"{bar}{seen.nit:6d}  {what}{calls}  {_duration(seen.seconds)}"
        return self._last + left

    _by_gradient = False  # whether the part that is done counts from the first line

    def _done(self, rule: Rule | None, seen: Intermediate) -> float:
        """Part of the run that is done, between 0 and 1; 0 where nothing is known."""
        if isinstance(rule, AnyOf):
            parts = [(self._done(r, seen), self._by_gradient) for r in rule.rules]
            done, self._by_gradient = max(parts)
            return done
        self._by_gradient = False
        done = 0.0
        if isinstance(rule, Calls):
            done = max(seen.calls.get(k, 0) / most for k, most in rule.budget.items())
        elif isinstance(rule, Seconds):
            done = seen.seconds / rule.limit
        elif isinstance(rule, Gradient) or (isinstance(rule, Gap) and rule.mu is not None):
            self._by_gradient = True
            first, now = self._first_norm, seen.grad_norm
            if isinstance(rule, Gradient):
                target = max(rule.rel * first, rule.abs)
            else:
                target = math.sqrt(2.0 * rule.eps * (rule.mu or 0.0))
            if 0.0 < target < first and 0.0 < now < first:
                done = math.log(first / now) / math.log(first / target)
        return min(done, 1.0)

    def _print(self, text: str) -> None:
        stream = sys.stderr if self.stream is None else self.stream
        print(f"\r{text}", end="", file=stream, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 100.0 else f"{minutes / 60.0:.1f} h"
