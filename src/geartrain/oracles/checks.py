"""`check_term`: are the answers of a term consistent? For terms that users write themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.oracles.checker import Broken, Checker, OutOfCalls
from geartrain.oracles.protocols import AnyTerm
from geartrain.oracles.question_checks import EPS
from geartrain.oracles.questions import QUESTIONS
from geartrain.oracles.spectrum import eigh
from geartrain.oracles.validation import as_positive, as_vector, as_whole
from geartrain.oracles.vectors import Vector, norm


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
        """Whether nothing is wrong."""
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
    n = getattr(term, "n", None) if n is None else as_whole(n, "n", 1)
    if x is None:
        if n is None:
            raise ValueError("check_term needs a point x or the dimension n")
        x = rng.standard_normal(n)
    checker = Checker(term, as_vector(x, "x", n), rng, as_positive(calls, "calls"))
    if not checker.known:
        return TermReport(("the term answers no question: see geartrain.Term",), ())
    if "component" in checker.known and getattr(term, "n_components", None) is None:
        return TermReport(("the term has component but no n_components",), ())
    _examine(checker)
    return TermReport(
        tuple(checker.problems),
        tuple(checker.checked),
        tuple(checker.unchecked),
        dict(checker.calls),
    )


def _examine(checker: Checker) -> None:
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


# How the stated constants of a term are checked, for `geartrain.check_term`.
#
# A Lipschitz constant that is too small, or a strong convexity that is too large, is refuted by a
# pair of points. The pairs lie along directions of least and largest curvature, found by a few
# steps of the Lanczos method on differences of gradients.

_LANCZOS = 8  # steps
_DISTANCE = 0.1  # of the pairs, in units of the scale of x
_SAMPLE = 10  # coordinates and summands that are looked at
# Steps against the gradient, in units of the scale of x, where values are likely to be low.
_DOWNHILL = (0.1, 1.0, 10.0)
# A constant counts as violated beyond this relative excess.
_EXCESS = 1e-6


def _check_curvature(c: Checker) -> None:
    """L, mu and convexity hold on pairs of points."""
    if c.noisy or not c.has("grad"):
        return
    L, convex = getattr(c.term, "L", None), getattr(c.term, "convex", True)
    mu = float(getattr(c.term, "mu", 0.0) or 0.0)
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
    L_coord = getattr(c.term, "L_coord", None)
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
    L_components = getattr(c.term, "L_components", None)
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
    bound = getattr(c.term, "lower_bound", None)
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
