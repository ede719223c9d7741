"""`check_term`: are the answers of a term consistent? For terms that users write themselves.

The noise is estimated by a table of differences [1]_. For a smooth function the k-th differences
T^k of answers at spacing h decrease like h^k until only the noise sigma is left, which may come
from rounding or from the tolerance of a simulator; then (k!)^2/(2k)! E |T^k|^2 = sigma^2. A smooth
function may also vary faster than the spacing resolves. If the noise seems large, it is therefore
estimated again from points that are closer.

A Lipschitz constant that is too small, or a strong convexity that is too large, is refuted by a
pair of points. The pairs lie along directions of least and largest curvature, found by a few
steps of the Lanczos method on differences of gradients.

References
----------
.. [1] J. More, S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    ReadOnlyArgument,
    answers,
    as_term,
    can,
    extended_valued,
    is_nonsmooth,
)
from geartrain.oracles.question_checks import EPS
from geartrain.oracles.questions import QUESTIONS, Question
from geartrain.oracles.spectrum import eigh
from geartrain.oracles.validation import as_positive, as_vector, as_whole
from geartrain.oracles.vectors import Vector, norm

# Points of a table of differences, and their two spacings in units of the scale of x.
_POINTS, _SPACINGS = 7, (1e-5, 1e-8)
_GAMMA = [math.factorial(k) ** 2 / math.factorial(2 * k) for k in range(_POINTS)]
# An answer whose errors exceed this part of its size is called noisy. Single precision stays below.
_NOISY = 3e-6
_LANCZOS = 8  # steps
_DISTANCE = 0.1  # of the pairs, in units of the scale of x
_SAMPLE = 10  # coordinates and summands that are looked at
# Steps against the gradient, in units of the scale of x, where values are likely to be low.
_DOWNHILL = (0.1, 1.0, 10.0)
# A constant counts as violated beyond this relative excess.
_EXCESS = 1e-6


@dataclass(frozen=True)
class TermReport:
    """What `check_term` found; true if nothing is wrong.

    Attributes
    ----------
    problems : tuple of str
        One sentence for each thing that is wrong.
    checked : tuple of str
        What was checked.
    unchecked : tuple of str
        What was not, or not to its end, because the calls that were granted were spent.
    calls : dict
        How often each question was asked.
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"checked: {', '.join(self.checked)}"]
        if self.unchecked:
            lines.append(f"not finished: {', '.join(self.unchecked)}; allow more calls")
        asked = ", ".join(f"{count} {name}" for name, count in self.calls.items())
        lines.append(f"calls: {asked or 'none'}")
        return "\n".join([*lines, *([f"- {p}" for p in self.problems] or ["nothing wrong found"])])


# Paper: Assumption 1
def check_term(
    term: AnyTerm, x: Any = None, *, n: int | None = None, seed: int = 0, calls: float = 60
) -> TermReport:
    """Look for contradictions between what `term` answers and what it states.

    The checks are: shapes and finiteness; changes of x; the noise of values and gradients; fused
    against separate answers; the gradient against the values (Taylor's formula), against the mean
    of the components and against the partial derivatives; that a proximal step minimises and is
    firmly non-expansive; and that the stated L, mu, L_coord, L_components and lower_bound are not
    violated.

    Parameters
    ----------
    term : object
        Anything that answers some of the questions of `geartrain.oracles.questions`.
    x : array, optional
        Where to look; random if not given.
    n : int, optional
        Dimension, if neither `x` is given nor the term knows its own.
    seed : int
        Seed of the random points.
    calls : float
        How many calls may be made. n partial derivatives or `n_components` summands count as one
        call, and a product with the Hessian as one call per column.

    Returns
    -------
    TermReport
        True if nothing is wrong; ``print`` it for the sentences.

    Examples
    --------
    >>> import geartrain as gt
    >>> wrong = gt.Term(value=lambda x: x @ x, grad=lambda x: x, n=2)
    >>> report = gt.check_term(wrong)
    >>> report.ok
    False
    >>> report.problems[0].partition(':')[0]
    'the gradient does not fit the value'
    """
    rng = np.random.default_rng(as_whole(seed, "seed"))
    n = as_term(term).n if n is None else as_whole(n, "n", 1)
    if x is None:
        if n is None:
            raise ValueError("check_term needs a point x or the dimension n")
        x = rng.standard_normal(n)
    checker = Checker(term, as_vector(x, "x", n), rng, as_positive(calls, "calls"))
    if not checker.known:
        return TermReport(("the term answers no question: see geartrain.Term",), ())
    if "component" in checker.known and checker.term.n_components is None:
        return TermReport(("the term has component but no n_components",), ())
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
                break
    return TermReport(
        tuple(checker.problems),
        tuple(checker.checked),
        tuple(checker.unchecked),
        dict(checker.calls),
    )


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
    """A term that is being checked around x; what is wrong is collected in `problems`."""

    def __init__(self, term: AnyTerm, x: Vector, rng: np.random.Generator, calls: float) -> None:
        self.term: Any = as_term(term)
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

    def has(self, question: str) -> bool:
        """Whether `question` can be answered, by the term or from its other answers."""
        return can(self.term, question)

    def spend(self, question: Question) -> None:
        """Count a call, or raise `OutOfCalls`."""
        per = question.per_gradient
        cost = 1.0 if per is None else 1.0 / per(self.n, self.term.n_components or 1)
        if cost > self.left + 1e-9:
            raise OutOfCalls
        self.left -= cost
        self.calls[question.name] += 1

    def give_up(self, problem: str) -> NoReturn:
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

    def direction(self) -> Vector:
        d = self.rng.standard_normal(self.n)
        return d / norm(d)

    def somewhere(self) -> Vector:
        """A random point at the distance of the scale of x."""
        return self.x + self.scale * self.rng.standard_normal(self.n)

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
        stated = float(self.term.noise) if name == "value" else 0.0
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


def _check_curvature(c: Checker) -> None:
    """L, mu and convexity hold on pairs of points."""
    if c.noisy or not c.has("grad"):
        return
    L, mu, convex = c.term.L, float(c.term.mu), c.term.convex
    u, step = c.somewhere(), _DISTANCE * c.scale
    error = 2.0 * c.grad_error(u) / step
    most, least = 0.0, np.inf

    def rate(d: Vector) -> Vector:
        return (c.grad(u + step * d) - c.grad(u)) / step

    for d in (c.direction(), *_extremes(rate, c.direction(), min(c.n, _LANCZOS))):
        most = max(most, norm(rate(d)) - error)
        least = min(least, float(rate(d) @ d) + error)
    c.checked += ["L"] * (L is not None) + ["convexity and mu"] * convex
    if L is not None and most > L * (1.0 + _EXCESS):
        c.problems.append(
            f"the stated L = {L:.6g} is too small: there are points whose gradients "
            f"differ by {most:.6g} times their distance"
        )
    if convex and least < -1e-9 * most:
        c.problems.append(
            f"the term is not convex: there is a pair of points with the curvature {least:.3g} "
            "between them; if that is intended, say convex=False"
        )
    elif convex and least < mu * (1.0 - _EXCESS):
        c.problems.append(
            f"the stated mu = {mu:.6g} is too large: there is a pair of points with the curvature "
            f"{least:.6g} between them"
        )


def _extremes(rate: Callable[[Vector], Vector], v: Vector, steps: int) -> tuple[Vector, ...]:
    """Unit directions of least and largest curvature; none outside of the domain of the term."""
    basis: list[Vector] = []
    images: list[Vector] = []
    for _ in range(steps):
        basis.append(v)
        images.append(rate(v))
        if not np.isfinite(images[-1]).all():
            return ()
        v = np.linalg.qr(np.column_stack([*basis, images[-1]]))[0][:, -1]
    T = np.array(basis) @ np.array(images).T
    vectors = eigh((T + T.T) / 2)[1]
    return vectors[:, 0] @ np.array(basis), vectors[:, -1] @ np.array(basis)


def _check_coordinates(c: Checker) -> None:
    """L_coord hold along coordinates."""
    L_coord = c.term.L_coord
    if L_coord is None or c.noisy or not c.has("grad"):
        return
    c.checked.append("L_coord")
    own = "coord" in c.known - c.broken
    for i in c.rng.choice(c.n, size=min(c.n, _SAMPLE), replace=False).tolist():
        point, step = c.x.copy(), c.scale * 10.0 ** c.rng.uniform(-3, 0)
        point[i] += step
        there = float(c.asked.coord(point, i) if own else c.grad(point)[i])
        rate = (abs(there - c.grad(c.x)[i]) - 2.0 * c.grad_error(c.x)) / step
        if rate > L_coord[i] * (1.0 + _EXCESS):
            c.problems.append(
                f"the stated L_coord[{i}] = {L_coord[i]:.6g} is too small: the partial "
                f"derivative changes at the rate {rate:.6g}"
            )
            return


def _check_components(c: Checker) -> None:
    """L_components hold on pairs of points."""
    L_components = c.term.L_components
    if L_components is None or c.noisy or "component" not in c.known - c.broken:
        return
    c.checked.append("L_components")
    m = c.term.n_components
    for k in c.rng.choice(m, size=min(m, _SAMPLE), replace=False).tolist():
        at_x = np.array(c.asked.component(c.x, k), dtype=np.float64)
        near = c.asked.component(c.x * (1.0 + 8.0 * EPS * c.direction()), k)
        error = 20.0 * norm(near - at_x) + 40.0 * EPS * norm(at_x)
        d = c.direction() * c.scale
        for _ in range(3):  # the curvature of one summand often has a single direction
            change = c.asked.component(c.x + d, k) - at_x
            rate = (norm(change) - 2.0 * error) / norm(d)
            if rate > L_components[k] * (1.0 + _EXCESS):
                c.problems.append(
                    f"the stated L_components[{k}] = {L_components[k]:.6g} is too small: the "
                    f"gradient of that summand changes at the rate {rate:.6g}"
                )
                return
            if rate <= 0.0:
                break
            d = change / norm(change) * c.scale * 10.0 ** c.rng.uniform(-3, 0)


def _check_lower_bound(c: Checker) -> None:
    """No value is below lower_bound, also after steps downhill."""
    bound = c.term.lower_bound
    if bound is None or not c.has("value"):
        return
    c.checked.append("lower_bound")
    points = [c.x, c.somewhere()]
    if c.has("grad") and not c.noisy and norm(c.grad(c.x)) > 0.0:
        down = -c.scale / norm(c.grad(c.x)) * c.grad(c.x)
        points += [c.x + far * down for far in _DOWNHILL]
    lowest = min((v for v in map(c.value, points) if np.isfinite(v)), default=np.inf)
    if lowest < bound - _EXCESS * max(abs(bound), abs(lowest)):
        c.problems.append(
            f"the stated lower_bound = {bound:.6g} is too large: there is a point with the value "
            f"{lowest:.6g}"
        )


CONSTANT_CHECKS: dict[str, Callable[[Checker], None]] = {
    "L, mu and convexity": _check_curvature,
    "L_coord": _check_coordinates,
    "L_components": _check_components,
    "lower_bound": _check_lower_bound,
}
