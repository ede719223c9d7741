"""What a run says while it goes on: a bar, and words.

``verbose=`` prints the words, and the logger ``"geartrain"`` gets them in any case.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, TextIO

from geartrain.core.status import Status
from geartrain.core.stopping import AnyOf, Calls, Gap, Gradient, Rule, Seconds
from geartrain.oracles.work_clock import compiling

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate, Result

LOGGER = logging.getLogger("geartrain")
LOGGER.addHandler(logging.NullHandler())  # a library is silent unless the user says otherwise

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
    return "  ".join([f"{seen.nit:6d}", *value, " ".join(_bill(seen.calls))])


def _bill(calls: dict[str, int]) -> list[str]:
    return [f"{key} {count}" for key, count in calls.items() if count]


class Narrator:
    """Says how a run begins, goes on and ends.

    The first and the last line are logged at level INFO, the lines of the iterations at level
    DEBUG. The callback is needed only if somebody reads the latter, see `listens`.

    Parameters
    ----------
    verbose : int
        0 prints nothing, 1 the first and the last line, 2 the lines of the iterations as well.
    """

    inside_iterations = False

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose

    @property
    def listens(self) -> bool:
        """Whether somebody reads the lines of the iterations."""
        return self.verbose >= 2 or LOGGER.isEnabledFor(logging.DEBUG)

    def begin(self, words: str) -> None:
        self._say(1, logging.INFO, words)

    def __call__(self, intermediate_result: Intermediate) -> None:
        seen = intermediate_result
        parts = [f"iteration {seen.nit}"]
        if not math.isnan(seen.fun):
            parts.append(f"f = {seen.fun:.9g}")
        if not math.isnan(seen.grad_norm):
            parts.append(f"|grad f| = {seen.grad_norm:.3e}")
        self._say(2, logging.DEBUG, ", ".join([*parts, *_bill(seen.calls)]))

    def end(self, result: Result) -> None:
        status = Status(result.status).name
        seconds = float(result.history["seconds"][-1]) if result.history.rows else 0.0
        parts = [f"{status} after {result.nit} iterations and {seconds:.3g} s"]
        if not math.isnan(result.fun):
            parts.append(f"f = {result.fun:.9g}")
        told = ", ".join([*parts, *_bill(result.calls)])
        self._say(1, logging.INFO, f"{told}. {result.message}")

    def _say(self, least: int, level: int, text: str) -> None:
        if self.verbose >= least:
            print(text)
        LOGGER.log(level, text)
