"""Shared parts of the checks of a term: counted answers and estimates of their noise.

The noise is estimated by a table of differences [1]_. For a smooth function the k-th differences
T^k of answers at spacing h decrease like h^k until only the noise sigma is left, which may come
from rounding or from the tolerance of a simulator; then (k!)^2/(2k)! E |T^k|^2 = sigma^2. A smooth
function may also vary faster than the spacing resolves. If the noise seems large, it is therefore
estimated again from points that are closer.

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

from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    ReadOnlyArgument,
    answers,
    can,
    extended_valued,
    is_nonsmooth,
)
from geartrain.oracles.question_checks import EPS
from geartrain.oracles.questions import Question
from geartrain.oracles.vectors import Vector, norm

# Points of a table of differences, and their two spacings in units of the scale of x.
_POINTS, _SPACINGS = 7, (1e-5, 1e-8)
_GAMMA = [math.factorial(k) ** 2 / math.factorial(2 * k) for k in range(_POINTS)]
# An answer whose errors exceed this part of its size is called noisy. Single precision stays below.
_NOISY = 3e-6


class OutOfCalls(Exception):
    """The calls that were granted are spent."""


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
            self._checker.spend(question)
            try:
                return ask(*args)
            except ReadOnlyArgument as error:
                self._checker.give_up(f"asking for {question.words} changes x: {error}")

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
        The number of calls that may be made. n partial derivatives or m summands count as one call.
    """

    def __init__(self, term: AnyTerm, x: Vector, rng: np.random.Generator, calls: float) -> None:
        self.term: Any = term
        self.x, self.rng = x, rng
        self.n = x.size
        self.known, self.is_nonsmooth = answers(term), is_nonsmooth(term)
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.unchecked: list[str] = []
        self.broken: set[str] = set()  # questions whose answers cannot be computed with
        self.asked = _Counted(self, term)
        self.calls: Counter[str] = Counter()
        self.left = float(calls)
        self.scale = 1.0 + norm(x) / math.sqrt(self.n)
        # Standard deviations of the errors, and whether one of them is too large for differences.
        self.noise = {"value": 0.0, "grad": 0.0}
        self.noisy = False
        self._answers: dict[bytes, dict[str, Any]] = {}  # by point

    # Answers ----------------------------------------------------------------------

    def has(self, question: str) -> bool:
        """Whether `question` can be answered, by the term or from its other answers."""
        return can(self.term, question)

    def spend(self, question: Question) -> None:
        """Count a call, or raise `OutOfCalls`."""
        per = question.per_gradient
        cost = 1.0 if per is None else 1.0 / per(self.n, getattr(self.term, "n_components", 1) or 1)
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
        return self._at(x, "value")

    def grad(self, x: Vector) -> Vector:
        """The gradient, asked for once per point."""
        return self._at(x, "grad")

    def _at(self, x: Vector, name: str) -> Any:
        known = self._answers.setdefault(x.tobytes(), {})
        if name not in known:
            answer = self._ask(x, name)
            finite = np.array_equal(x, self.x) and not extended_valued(self.term)
            if "value" in answer:
                known["value"] = self.array("the value", answer["value"], (), finite)
            if "grad" in answer:
                known["grad"] = self.array("the gradient", answer["grad"], (self.n,), finite)
        return known[name]

    def _ask(self, x: Vector, name: str) -> dict[str, Any]:
        """Value or gradient; both where the term answers them together."""
        if "value_and_grad" not in self.known:
            return {name: getattr(self.asked, name)(x)}
        pair = self.asked.value_and_grad(x)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            self.give_up("value_and_grad must answer with a pair (value, gradient)")
        return {"value": pair[0], "grad": pair[1]}

    def array(self, name: str, answer: Any, shape: tuple[int, ...], finite: bool = True) -> Vector:
        """The answer as an array, if it is one of real numbers and of that shape."""
        array = np.array(answer)
        if array.shape != shape:
            self.give_up(f"{name} has shape {array.shape}, expected {shape}")
        if array.dtype.kind not in "fiu":
            self.give_up(f"{name} is made of {array.dtype}, not of real numbers")
        if finite and not np.isfinite(array).all():
            self.give_up(f"{name} contains NaN or infinity")
        return array.astype(np.float64)

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
        noisy = [name for name in self.noise if self.has(name)]
        for spacing in _SPACINGS:
            points = [u + i * spacing * self.scale * d for i in range(_POINTS)]
            for name in noisy:
                table = np.array([self._at(p, name) for p in points])
                self.noise[name] = _noise(table.reshape(_POINTS, -1))
            noisy = [name for name in noisy if self.noise[name] > _NOISY * self._size(u, name)]
        for name in noisy:
            self.report_noise(name, self.noise[name], u)

    def report_noise(self, name: str, noise: float, u: Vector) -> None:
        """Report the noise of the answers near u, if it is large and was not stated."""
        size = self._size(u, name)
        stated = float(getattr(self.term, "noise", 0.0) or 0.0) if name == "value" else 0.0
        if noise <= max(_NOISY * size, 4.0 * stated):
            return
        self.noisy = True
        self.problems.append(
            f"the {'value' if name == 'value' else 'gradient'} is noisy: its errors are about "
            f"{noise:.1e}, a relative noise of {noise / size:.0e}"
            + ("; state it, e.g. Term(..., noise=...)" if name == "value" else "")
        )

    def _size(self, u: Vector, name: str) -> float:
        """What the noise of value or gradient near u is compared with."""
        grad = norm(self.grad(u)) if self.has("grad") else 0.0
        size = grad if name == "grad" else max(abs(self.value(u)), grad * self.scale)
        return max(size, float(np.finfo(np.float64).tiny))

    def grad_error(self, u: Vector) -> float:
        """Bound of the errors of the gradient at u, from one more call close to u."""
        known = self._answers.setdefault(u.tobytes(), {})
        if "error" not in known:
            near = u * (1.0 + 8.0 * EPS * self.rng.standard_normal(self.n))
            moved = norm(self.grad(near) - self.grad(u))
            known["error"] = 20.0 * (moved + self.noise["grad"]) + 40.0 * EPS * norm(self.grad(u))
        return known["error"]


def _noise(table: Vector) -> float:
    """The noise of answers at equally spaced points: the median of the orders three to five."""
    by_order = []
    for k in range(1, _POINTS):
        table = np.diff(table, axis=0)
        by_order.append(math.sqrt(_GAMMA[k]) * norm(table.ravel()) / math.sqrt(len(table)))
    return sorted(by_order[2:5])[1]
