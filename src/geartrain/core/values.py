"""Values of f that a run has paid for, so that ``res.fun`` need not ask again."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import Vector, answers
from geartrain.problem import Sum

# A result is one of the last points that were asked for, or its value is asked for again.
_KEPT = 4
# Questions whose answer begins with the value.
_FUSED = {"value_and_grad", "second_order"}


class PaidValues:
    """Remembers the values that came with the last gradients of the terms."""

    def __init__(self, problem: Sum) -> None:
        self._oracles, self._norm = problem.oracles, problem.geometry.norm
        self._psi = problem.psi
        self._last: dict[str, deque[tuple[Vector, float]]] = {}
        for oracle in self._oracles:
            last = self._last[oracle.name] = deque(maxlen=_KEPT)
            for question in _FUSED & answers(oracle.term):
                setattr(oracle, question, _remembering(getattr(oracle, question), last))

    def remember(self, x: Vector, values: dict[str, float]) -> None:
        """What an earlier part of the run has known at x."""
        for name, value in values.items():
            self._last[name].append((x.copy(), value))

    def known(self, x: Vector) -> dict[str, float]:
        """By term, the values at x that cost no call."""
        values = {oracle.name: self._value(oracle, x) for oracle in self._oracles}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def total(self, known: dict[str, float], x: Vector) -> float:
        """f(x) from the values of all terms; nan where one of them is not known."""
        if len(known) < len(self._oracles) or (self._psi is not None and not self._psi.has_value):
            return math.nan
        return sum(known.values()) + (0.0 if self._psi is None else self._psi.value(x))

    def f(self, x: Vector) -> float:
        """f(x): known, or one counted call of each term whose value is not known there."""
        known = self.known(x)
        missing = [oracle for oracle in self._oracles if oracle.name not in known]
        return self.total({**known, **{oracle.name: oracle.value(x) for oracle in missing}}, x)

    def _value(self, oracle: Oracle, x: Vector) -> float:
        """That of one term, or nan."""
        for point, value in reversed(self._last[oracle.name]):
            if self._norm(point - x) == 0.0:
                return value
        return math.nan


def _remembering(
    ask: Callable[..., tuple[Any, ...]], last: deque[tuple[Vector, float]]
) -> Callable[..., tuple[Any, ...]]:
    def asked(x: Vector, *more: Vector) -> tuple[Any, ...]:
        answer = ask(x, *more)
        last.append((x.copy(), answer[0]))
        return answer

    return asked
