"""What a run says: ``verbose=`` prints it, and the logger ``"geartrain"`` gets it in any case."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from geartrain.core.status import Status

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate, Result

LOGGER = logging.getLogger("geartrain")
LOGGER.addHandler(logging.NullHandler())  # a library is silent unless the user says otherwise


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
        parts.append(_bill(seen.calls))
        self._say(2, logging.DEBUG, ", ".join(parts))

    def end(self, result: Result) -> None:
        status = Status(result.status).name
        seconds = float(result.history["seconds"][-1]) if result.history.rows else 0.0
        parts = [f"{status} after {result.nit} iterations and {seconds:.3g} s"]
        if not math.isnan(result.fun):
            parts.append(f"f = {result.fun:.9g}")
        told = ", ".join([*parts, _bill(result.calls)])
        self._say(1, logging.INFO, f"{told}. {result.message}")

    def _say(self, least: int, level: int, text: str) -> None:
        if self.verbose >= least:
            print(text)
        LOGGER.log(level, text)


def _bill(calls: dict[str, int]) -> str:
    return ", ".join(f"{key} {count}" for key, count in calls.items() if count)
