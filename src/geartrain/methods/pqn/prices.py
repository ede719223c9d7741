"""The ratio of prices by the seconds that are measured, the method's own arithmetic included.

The own seconds of inner runs, and proximal steps of psi, are added to the price of g, the other own
seconds to that of h. What happens once, such as imports and the factorisation of a quadratic g,
happens in the first iterations. They are left out as soon as there are later ones, and until then
the seconds of the oracles alone are the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from geartrain.core import clock
from geartrain.methods.pqn.records import replace
from geartrain.oracles.sum_oracle import leaves
from geartrain.problem import Sum

# Iterations that are left out.
WARM = 3


@dataclass(frozen=True)
class Usage:
    """Calls and seconds of a run so far."""

    calls_h: int = 0
    seconds_h: float = 0.0
    calls_g: int = 0  # gradients, and proximal steps of a quadratic g
    seconds_g: float = 0.0
    inner: float = 0.0  # own seconds in inner runs
    outer: float = 0.0  # own seconds outside of them

    @staticmethod
    def of(problem: Sum, own: tuple[float, float]) -> Usage:
        """By the ledger, with these own seconds in inner runs and outside them.

        A g = c/2 |x|^2 + <b, x>, or none, costs nothing: every model is minimised in the same way,
        and all own seconds are those of h.
        """
        if getattr(problem.g.term, "spherical", None) is not None:
            return Usage(*_asked(problem.h), outer=sum(own))
        return Usage(*_asked(problem.h), *_asked(problem.g), *own)

    def since(self, first: Usage) -> Usage:
        """Without what came `first`."""
        before = vars(first)
        return Usage(**{name: now - before[name] for name, now in vars(self).items()})

    def ratio(self, first: Usage) -> float:
        """The price of a call of h over that of a gradient of g, without what came `first`."""
        later = self.since(first)
        if self.calls_g == 0:
            return math.inf
        if first.calls_h == 0 or later.calls_h == 0 or later.calls_g == 0:
            later = replace(self, inner=0.0, outer=0.0)
        price_h = (later.seconds_h + later.outer) / max(later.calls_h, 1)
        price_g = (later.seconds_g + later.inner) / max(later.calls_g, 1)
        return price_h / price_g if price_g > 0.0 else math.inf


def _asked(oracle: Any) -> tuple[int, float]:
    """Gradients and proximal steps of a term; of terms that are asked together, of the first."""
    ledger, names = oracle.ledger, [leaf.name for leaf in leaves(oracle)]
    kinds = ("grad", "prox")
    calls = sum(ledger.calls.get(f"{names[0]}.{kind}", 0) for kind in kinds)
    seconds = sum(ledger.seconds.get(f"{name}.{kind}", 0.0) for name in names for kind in kinds)
    return calls, seconds


class Stopwatch:
    """The method's own seconds: those that pass outside the oracles.

    Parameters
    ----------
    problem : Sum
        With the ledger of the oracles' seconds.
    """

    def __init__(self, problem: Sum) -> None:
        self._seconds = problem.ledger.seconds
        self._start, self._asked = clock.perf_counter(), sum(self._seconds.values())

    def own(self) -> float:
        """Since the last look."""
        now, asked = clock.perf_counter(), sum(self._seconds.values())
        own = max((now - self._start) - (asked - self._asked), 0.0)
        self._start, self._asked = now, asked
        return own
