"""The progress bar of a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TextIO

from geartrain.core.stopping import AnyOf, Calls, Gap, Gradient, Rule, Seconds
from geartrain.oracles.work_clock import compiling

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate

_TEXT = "{desc} [{elapsed}"


class Progress:
    """A bar of tqdm that tells how far a run is: f or ``|grad f|``, calls of oracles, time left.

    The bar is an estimate: gradients are taken to shrink as quickly as they did so far, and
    budgets to be used up evenly.

    Parameters
    ----------
    rule : rule, optional
        The stopping rule, for bar and time left.
    stream : file, optional
        Where the bar is written; if not given, standard error or the output of the cell.
    every : float
        Seconds between two updates.
    """

    def __init__(
        self, rule: Rule | None = None, stream: TextIO | None = None, every: float = 0.5
    ) -> None:
        self.rule, self.stream, self.every = rule, stream, every
        self._first_norm = math.nan
        self._bar: Any = None

    def __call__(self, intermediate_result: Intermediate) -> None:
        seen = intermediate_result
        if self._bar is None:
            self._first_norm = seen.grad_norm
            self._bar = self._new_bar()
            compiling.listeners.add(self)
        done = max(self._done(self.rule, seen), self._bar.n)  # a bar does not shrink
        self._bar.bar_format = f"|{{bar}}| {_TEXT}<{{remaining}}]" if done > 0.0 else f"{_TEXT}]"
        self._bar.set_description_str(_line(seen), refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Show the bar as it is at the end, without a time left."""
        if self._bar is not None:
            self._bar.bar_format = self._bar.bar_format.replace("<{remaining}", "")
            self._bar.close()
            self._bar = None
            compiling.listeners.discard(self)

    def compiles(self) -> None:
        """Numba compiles a loop, which takes seconds in which nothing else is told."""
        self._bar.set_description_str("compiling", refresh=True)

    def _new_bar(self) -> Any:
        if self.stream is None:
            from tqdm.auto import tqdm
        else:
            from tqdm.std import tqdm
        return tqdm(
            total=1.0,
            file=self.stream,
            mininterval=self.every,
            miniters=0,  # news come without a longer bar, too
            smoothing=0,  # the time left by the mean rate
            bar_format=f"{_TEXT}]",
        )

    def _done(self, rule: Rule | None, seen: Intermediate) -> float:
        """Part of the run that is done, between 0 and 1; 0 where nothing is known."""
        done = 0.0
        if isinstance(rule, AnyOf):
            done = max(self._done(r, seen) for r in rule.rules)
        elif isinstance(rule, Calls):
            done = max(seen.calls.get(k, 0) / most for k, most in rule.budget.items())
        elif isinstance(rule, Seconds):
            done = seen.seconds / rule.limit
        elif isinstance(rule, Gradient):
            done = self._digits(seen, max(rule.rel * self._first_norm, rule.abs))
        elif isinstance(rule, Gap) and rule.mu is not None:
            done = self._digits(seen, math.sqrt(2.0 * rule.eps * rule.mu))
        return min(done, 1.0)

    def _digits(self, seen: Intermediate, target: float) -> float:
        """Part of the digits that the gradient has to lose."""
        first, now = self._first_norm, seen.grad_norm
        if 0.0 < target < first and 0.0 < now < first:
            return math.log(first / now) / math.log(first / target)
        return 0.0


def _line(seen: Intermediate) -> str:
    if not math.isnan(seen.grad_norm):
        value = [f"|grad f| {seen.grad_norm:.2e}"]
    else:
        value = [] if math.isnan(seen.fun) else [f"f {seen.fun:.9g}"]
    calls = [f"{k} {v}" for k, v in seen.calls.items() if v]
    return "  ".join([f"{seen.nit:6d}", *value, " ".join(calls)])
