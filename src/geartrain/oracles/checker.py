"""Shared parts of the checks of a term: counted answers and estimates of their noise.

========  ================  ==========================================================
symbol    name              meaning
========  ================  ==========================================================
sigma     ``noise``         standard deviation of the error of an answer
T^k       --                k-th differences of answers at equally spaced points
gamma_k   ``_GAMMA``        (k!)^2/(2k)!, so that E gamma_k |T^k|^2 = sigma^2
========  ================  ==========================================================

The noise is estimated by a table of differences [1]_. For a smooth function the k-th differences of
answers at spacing h decrease like h^k until only the noise is left, which may come from rounding or
from the tolerance of a simulator. A smooth function may also vary faster than the spacing resolves.
If the noise seems large, it is therefore estimated again from points that are closer.

References
----------
.. [1] J. More, S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from geartrain.oracles.constant_checks import CONSTANT_CHECKS, OutOfCalls
from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    ReadOnlyArgument,
    answers,
    can,
    extended_valued,
)
from geartrain.oracles.question_checks import EPS, NOISY
from geartrain.oracles.questions import COLUMNS, QUESTIONS, Question
from geartrain.oracles.vectors import Vector, norm

# Points of a table of differences, and their two spacings in units of the scale of x.
_POINTS, _SPACINGS = 7, (1e-5, 1e-8)
_GAMMA = [math.factorial(k) ** 2 / math.factorial(2 * k) for k in range(_POINTS)]


class Broken(Exception):
    """An answer cannot be computed with; the reason is among the problems."""


class _Counted(Asked):
    """The answers of a term, counted against a budget."""

    def __init__(self, checker: Checker, term: AnyTerm) -> None:
        self._checker = checker
        super().__init__(term)

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        ask = super()._own(question, fn)

        def counted(*args: Any) -> Any:
            self._checker.spend(question, args)
            before = [a.copy() for a in args if isinstance(a, np.ndarray)]
            try:
                answer = ask(*args)
            except ReadOnlyArgument as error:
                self._checker.give_up(f"asking for {question.words} changes x: {error}")
            after = [a for a in args if isinstance(a, np.ndarray)]
            if not all(map(np.array_equal, before, after)):  # by code that ignores the flag
                self._checker.give_up(f"asking for {question.words} changes x; work on a copy")
            return answer

        return counted


class Checker:
    """A term that is being checked; the problems that are found are collected in `problems`.

    Parameters
    ----------
    term : object
        The term.
    x : array (n,)
        The point around which the term is checked.
    rng : Generator
        Generator of random directions.
    calls : float
        The number of calls that may be made. n partial derivatives or m summands count as one call,
        and products with the Hessian as one call per column.
    """

    def __init__(self, term: AnyTerm, x: Vector, rng: np.random.Generator, calls: float) -> None:
        self.term: Any = term
        self.x, self.rng = x, rng
        self.n = x.size
        self.known = answers(term)
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.unchecked: list[str] = []
        self.broken: set[str] = set()  # questions whose answers cannot be computed with
        self.asked = _Counted(self, term)
        self.calls: Counter[str] = Counter()
        self.left = float(calls)
        self.scale = 1.0 + norm(x) / math.sqrt(self.n)
        # Standard deviations of the errors of a value and of a gradient, and whether one of them
        # is too large for differences to be meaningful.
        self.value_noise = self.grad_noise = 0.0
        self.noisy = False
        self.stated_noise = float(getattr(term, "noise", 0.0) or 0.0)
        self.may_be_infinite = extended_valued(term)
        self.at_x: dict[str, Any] = {}  # own answers at x, by question
        self._values: dict[bytes, float] = {}
        self._grads: dict[bytes, Vector] = {}
        self._errors: dict[bytes, float] = {}

    # Answers ----------------------------------------------------------------------

    def has(self, question: str) -> bool:
        """Whether `question` can be answered, by the term or from its other answers."""
        return can(self.term, question)

    def spend(self, question: Question, args: tuple[Any, ...]) -> None:
        """Count a call, or raise `OutOfCalls`."""
        per = question.per_gradient
        cost = 1.0 if per is None else 1.0 / per(self.n, getattr(self.term, "n_components", 1) or 1)
        if COLUMNS in question.answer:
            cost = args[1].shape[1] + (len(question.answer) > 1)
        if cost > self.left + 1e-9:
            raise OutOfCalls
        self.left -= cost
        self.calls[question.name] += 1

    def give_up(self, problem: str) -> NoReturn:
        """Report this problem and end the check."""
        self.problems.append(problem)
        raise Broken

    def value(self, x: Vector) -> float:
        """The value, asked for once per point."""
        key = x.tobytes()
        if key not in self._values:
            if "value_and_grad" in self.known:
                self._ask_both(x)
            else:
                self._values[key] = float(self.asked.value(x))
        return self._values[key]

    def grad(self, x: Vector) -> Vector:
        """The gradient, asked for once per point."""
        key = x.tobytes()
        if key not in self._grads:
            if "value_and_grad" in self.known:
                self._ask_both(x)
            else:
                self._grads[key] = np.array(self.asked.grad(x), dtype=np.float64)
        return self._grads[key]

    def remember_x(self) -> None:
        """Store the answers in `at_x`, so that they are not asked for again."""
        value, grad = self.at_x.get("value_and_grad", (None, None))
        value = self.at_x.get("value") if value is None else value
        grad = self.at_x.get("grad") if grad is None else grad
        if value is not None:
            self._values[self.x.tobytes()] = value
        if grad is not None:
            self._grads[self.x.tobytes()] = grad

    def _ask_both(self, x: Vector) -> None:
        value, grad = self.asked.value_and_grad(x)
        self._values[x.tobytes()] = float(value)
        self._grads[x.tobytes()] = np.array(grad, dtype=np.float64)

    # Points ------------------------------------------------------------------

    def direction(self) -> Vector:
        """A random unit vector."""
        d = self.rng.standard_normal(self.n)
        return d / norm(d)

    def somewhere(self) -> Vector:
        """A random point at the distance of the scale of x."""
        return self.x + self.scale * self.rng.standard_normal(self.n)

    # Noise ----------------------------------------------------------

    def measure_noise(self) -> None:
        """Estimate the noise of values and gradients, and report it if it is large."""
        u = self.x + 1e-3 * self.scale * self.direction()  # x itself may lie on a kink
        d = self.direction()
        kinds = {name: self.has(name) for name in ("value", "grad")}
        found = {"value": 0.0, "grad": 0.0}
        for spacing in _SPACINGS:
            points = [u + i * spacing * self.scale * d for i in range(_POINTS)]
            for name in kinds:
                if kinds[name]:
                    table = np.array([getattr(self, name)(p) for p in points])
                    found[name] = _noise(table.reshape(_POINTS, -1))
            sizes = self._sizes(u)
            kinds = {name: kinds[name] and found[name] > NOISY * sizes[name] for name in kinds}
            if not any(kinds.values()):
                break
        self.value_noise, self.grad_noise = found["value"], found["grad"]
        for name, words in (("value", "value"), ("grad", "gradient")):
            if not kinds[name] or (name == "value" and found[name] <= 4.0 * self.stated_noise):
                continue
            level = found[name] / sizes[name]
            self.noisy = True
            self.problems.append(
                f"the {words} is noisy: at points closer than {_SPACINGS[-1] * self.scale:.0e} its "
                f"errors are about {found[name]:.1e}, a relative noise of {level:.0e}"
                + ("; state it, e.g. Term(..., noise=...)" if name == "value" else "")
            )

    def _sizes(self, u: Vector) -> dict[str, float]:
        """Sizes of value and gradient to which their noise near u is compared."""
        sizes = {"value": 0.0, "grad": 0.0}
        if self.has("grad"):
            sizes["grad"] = norm(self.grad(u))
        if self.has("value"):
            sizes["value"] = max(abs(self.value(u)), sizes["grad"] * self.scale)
        return {name: max(size, float(np.finfo(np.float64).tiny)) for name, size in sizes.items()}

    def grad_error(self, u: Vector) -> float:
        """Bound of the errors of the gradient at u, from one more call close to u."""
        key = u.tobytes()
        if key not in self._errors:
            near = u * (1.0 + 8.0 * EPS * self.rng.standard_normal(self.n))
            moved = norm(self.grad(near) - self.grad(u))
            size = 40.0 * EPS * norm(self.grad(u))
            self._errors[key] = 20.0 * (moved + self.grad_noise) + size
        return self._errors[key]


def _noise(table: Vector) -> float:
    """The noise of answers at equally spaced points: the median of the orders three to five."""
    by_order = []
    for k in range(1, _POINTS):
        table = np.diff(table, axis=0)
        by_order.append(math.sqrt(_GAMMA[k]) * norm(table.ravel()) / math.sqrt(len(table)))
    return sorted(by_order[2:5])[1]


def examine(checker: Checker) -> None:
    """Run the checks of questions and of constants, as long as calls are left."""
    checks = {q.name: q.check for q in QUESTIONS.values() if checker.has(q.name)}
    for name, check in {**checks, **CONSTANT_CHECKS}.items():
        if check is None:
            continue
        try:
            with np.errstate(all="ignore"):
                check(checker)
        except OutOfCalls:
            checker.unchecked.append(name)
        except Broken:
            checker.broken.add(name)
            if name in ("grad", "value"):  # which all other checks compare with
                return
