"""What the terms have answered of late, so that a change of method asks for no gradient again."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.smoothness import curvature
from geartrain.oracles.answer_cache import Answered
from geartrain.oracles.ledger import Observer, Oracle
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.questions import QUESTIONS, Question
from geartrain.problem import Sum, Summand

# Answers per term that are remembered: of the first iteration, after which levels may change and
# whose inner runs may end long before their last point, and later. Of long vectors there are few.
_FIRST, _LATER, _LONG = 16, 4, 100_000
# The smoothness in use for a term that has shown no curvature, over the largest one.
_FLAT = 1e-3


class HeardAnswers:
    """Hears the gradients of all terms, within a ``with`` statement.

    Parameters
    ----------
    oracles : iterable of Oracle
        Of the terms.
    n : int
        The dimension of x.
    known : dict of Answered
        By name: the answers at the best point so far; empty if they are not known.
    """

    def __init__(self, oracles: Iterable[Oracle], n: int, known: dict[str, Answered]) -> None:
        self.known = known
        most = _FIRST if n < _LONG else _LATER
        self._oracles = tuple(oracles)
        self._recent: dict[str, deque[Answered]] = {}
        self._leave: list[Callable[[], None]] = []
        for oracle in self._oracles:
            before = [known[oracle.name]] if known else []
            self._recent[oracle.name] = deque(before, most)

    def __enter__(self) -> HeardAnswers:
        telling = [question.name for question in QUESTIONS.values() if "grad" in question.tells]
        self._leave = [oracle.observe(telling, self._hearing(oracle)) for oracle in self._oracles]
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Hear no more, and forget."""
        for leave in self._leave:
            leave()
        self._leave, self.known = [], {}
        self._recent = {name: deque(maxlen=0) for name in self._recent}

    def forget_first(self) -> None:
        """Remember fewer answers after the first iteration."""
        self._recent = {name: deque(recent, _LATER) for name, recent in self._recent.items()}

    def _hearing(self, oracle: Oracle) -> Observer:
        name = oracle.name

        def hear(question: Question, args: tuple[Any, ...], answer: Any) -> None:
            fused = "value" in question.tells
            value = question.part(answer, "value") if fused else math.nan
            entry = Answered(args[0].copy(), value, question.part(answer, "grad"))
            self._recent[name].append(entry)

        return hear

    def ask(self, x: Vector) -> None:
        """One gradient of every term at x, with its value where that comes with it."""
        for oracle in self._oracles:
            fused = "value_and_grad" in answers(oracle.term)
            (oracle.value_and_grad if fused else oracle.grad)(x)
        self.keep(x)

    def keep(self, x: Vector) -> None:
        """Keep the answers at x, the best point so far, if all terms were asked there."""
        found = {name: self._at(name, x) for name in self._recent}
        self.known = {name: entry for name, entry in found.items() if entry is not None}
        if len(self.known) < len(found):
            self.known = {}

    def _at(self, name: str, x: Vector) -> Answered | None:
        for entry in reversed(self._recent[name]):
            if np.array_equal(entry.x, x):
                return entry
        kept = self.known.get(name)
        return kept if kept is not None and np.array_equal(kept.x, x) else None

    def recalling(self, problem: Sum, known: dict[str, Answered]) -> Sum:
        """The same sum, with oracles that recall these answers, by name."""
        if not known:
            return problem
        *expensive, last = [
            Summand(RecallingOracle(oracle, known[oracle.name]), L)
            for oracle, L in problem.summands
        ]
        several = tuple(expensive) if problem.expensive else ()
        h = Summand.of(expensive)
        return replace(problem, h=h.oracle, g=last.oracle, expensive=several)

    def secants(self, geometry: Geometry) -> dict[str, float]:
        """By term, the largest secant of its last gradients, for terms that were asked twice."""
        found = {
            name: max(_secant(a, b, geometry) for a, b in pairwise(recent))
            for name, recent in self._recent.items()
            if len(recent) > 1
        }
        floor = _FLAT * max(found.values(), default=0.0)
        return {name: max(secant, floor) for name, secant in found.items() if floor > 0.0}


class RecallingOracle:
    """A counted oracle that knows its answer at one point, until it is asked at another one.

    Parameters
    ----------
    oracle : Oracle
        What is asked.
    known : Answered
        From before.
    """

    def __init__(self, oracle: Any, known: Answered) -> None:
        self._oracle, self._known, self._over = oracle, known, False
        self.kept: dict[str, Any] = {}  # sums with this oracle in them end with it
        if hasattr(oracle, "value_and_grad"):
            self.value_and_grad = self._value_and_grad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._oracle, name)

    def grad(self, x: Vector) -> Vector:
        """The gradient: recalled, or one call."""
        return self._known.grad if self._recalls(x) else self._oracle.grad(x)

    def value(self, x: Vector) -> float:
        """The value: recalled where it has come with the gradient, or one call."""
        known = self._recalls(x) and not math.isnan(self._known.value)
        return self._known.value if known else self._oracle.value(x)

    def _value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        if self._recalls(x):
            return self.value(x), self._known.grad
        return self._oracle.value_and_grad(x)

    def _recalls(self, x: Vector) -> bool:
        self._over = self._over or not np.array_equal(x, self._known.x)
        return not self._over


def _secant(old: Answered, new: Answered, geometry: Geometry) -> float:
    size = geometry.norm(old.grad) + geometry.norm(new.grad)
    return curvature(new.x - old.x, new.grad - old.grad, size, geometry)
