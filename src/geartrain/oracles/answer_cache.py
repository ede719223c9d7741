"""What is known from earlier answers, so that nothing is asked twice.

====================  ==========================================================================
`AnswerCache`         the last answers of an oracle, and those that are kept on purpose
`CachedOracle`        an oracle that answers from its cache where it can
`PaidValues`          values of f that came with gradients, for ``res.fun``
`StartGradients`      gradients of the terms at x0, for the scale of the stopping rule
====================  ==========================================================================

The last two rest on what every `geartrain.oracles.ledger.Oracle` remembers and tells its observers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geartrain.oracles.ledger import Observer, Oracle
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.questions import QUESTIONS, Question

_EPS = float(np.finfo(np.float64).eps)
# Points whose gradients are remembered, besides those that are kept on purpose.
_RECENT = 4


@dataclass(frozen=True)
class Answered:
    """The answers of an oracle at a point."""

    x: Vector
    value: float  # nan where it is not known
    grad: Vector


@dataclass(frozen=True)
class AnswerCache:
    """The answers that are remembered. It is frozen, so that states of methods may hold it."""

    kept: dict[int, tuple[Answered, ...]] = field(default_factory=dict)  # by level: start, end
    recent: tuple[Answered, ...] = ()  # newest first

    def at(self, x: Vector) -> Answered | None:
        known = (*(entry for entries in self.kept.values() for entry in entries), *self.recent)
        return next((entry for entry in known if np.array_equal(entry.x, x)), None)

    def with_recent(self, entry: Answered, most: int = _RECENT) -> AnswerCache:
        """With one more answer; of more than `most` the oldest one is forgotten."""
        return replace(self, recent=(entry, *self.recent[: most - 1]))

    def with_start(self, level: int, entry: Answered) -> AnswerCache:
        """With the answer where a run of this level starts; its last run is forgotten."""
        return replace(self, kept={**self.kept, level: (entry,)})

    def with_end(self, level: int, entry: Answered) -> AnswerCache:
        """With the answer where the run of this level is now."""
        return replace(self, kept={**self.kept, level: (*self.kept[level][:1], entry)})


class CachedOracle:
    """A counted oracle that does not ask again for the gradient at its last points.

    ``observe(cache, entry)`` is called with every new answer, before it is in the cache.
    """

    def __init__(
        self,
        oracle: Any,
        most: int = _RECENT,
        observe: Callable[[AnswerCache, Answered], None] | None = None,
    ) -> None:
        self.oracle, self.observe = oracle, observe
        self.name, self.n, self.ledger = oracle.name, oracle.n, oracle.ledger
        self.term, self.kept = oracle.term, oracle.kept
        self.recalled = AnswerCache()
        self._most = most
        if "value_and_grad" in answers(oracle.term):
            self.value_and_grad = self._fused

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)

    def grad(self, x: Vector) -> Vector:
        return self._answered(x).grad

    def _fused(self, x: Vector) -> tuple[float, Vector]:
        known = self._answered(x)
        return known.value, known.grad

    def value(self, x: Vector) -> float:
        """The value: recalled where it has come with a gradient, or one call."""
        known = self.recalled.at(x)
        return self.oracle.value(x) if known is None or math.isnan(known.value) else known.value

    def keep_start(self, level: int, x: Vector) -> None:
        """Keep the answer at x, where a run of this level starts; it is not among the recent."""
        cache = self.recalled
        self.recalled = cache.with_start(level, self._answered(x))

    def keep_end(self, level: int, x: Vector) -> None:
        """Keep the answer at x, where the run of this level is now; it is not among the recent."""
        cache = self.recalled
        self.recalled = cache.with_end(level, self._answered(x))

    def _answered(self, x: Vector) -> Answered:
        known = self.recalled.at(x)
        if known is not None:
            return known
        if "value_and_grad" in answers(self.term):
            value, grad = self.oracle.value_and_grad(x)
        else:
            value, grad = math.nan, self.oracle.grad(x)
        entry = Answered(x.copy(), value, grad)
        if self.observe is not None:
            self.observe(self.recalled, entry)
        self.recalled = self.recalled.with_recent(entry, self._most)
        return entry


class PaidValues:
    """Values of f from the values that came with the last gradients of its terms.

    A point is the same if its distance is zero in the norm of the geometry, on all ranks over MPI.
    """

    def __init__(
        self, oracles: Sequence[Oracle], norm: Callable[[Vector], float], psi: Any = None
    ) -> None:
        self._oracles, self._norm, self._psi = oracles, norm, psi

    def remember(self, x: Vector, values: dict[str, float]) -> None:
        """What an earlier part of the run has known at x."""
        for oracle in self._oracles:
            if oracle.name in values:
                oracle.recent.append((x.copy(), values[oracle.name]))

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
        recent = reversed(oracle.recent)
        return next((value for at, value in recent if self._norm(at - x) == 0.0), math.nan)


class StartGradients:
    """The gradients of the terms at x0. Methods ask for them anyway: no call is made for them.

    The oracles are observed until `close`.
    """

    def __init__(
        self, oracles: Sequence[Oracle], x0: Vector, norm: Callable[[Vector], float]
    ) -> None:
        self._oracles, self._x0, self._norm = oracles, x0, norm
        self._gradients: dict[str, Vector] = {}
        telling = [question.name for question in QUESTIONS.values() if "grad" in question.tells]
        self._leave = [oracle.observe(telling, self._hearing(oracle.name)) for oracle in oracles]

    def _hearing(self, name: str) -> Observer:
        def hear(question: Question, args: tuple[Any, ...], answer: Any) -> None:
            if name not in self._gradients and np.array_equal(args[0], self._x0):
                self._gradients[name] = question.part(answer, "grad")

        return hear

    def close(self) -> None:
        for leave in self._leave:
            leave()

    def total(self) -> Vector:
        """The gradient of the sum at x0; terms that were not asked there are asked now."""
        for oracle in self._oracles:
            if oracle.name not in self._gradients:
                oracle.grad(self._x0)  # heard
        return np.sum(list(self._gradients.values()), axis=0)

    @property
    def second(self) -> float:
        """The second largest of the norms; 0 if fewer gradients were asked for.

        At a solution the gradients cancel, so that the largest one is no larger than the sum of the
        others. Of two terms, this is the smaller norm.
        """
        return sorted([0.0, 0.0, *map(self._norm, self._gradients.values())])[-2]

    @property
    def rounding(self) -> float:
        """What rounding may leave of their sum with a subgradient that cancels it."""
        return 10.0 * _EPS * sum(map(self._norm, self._gradients.values()))
