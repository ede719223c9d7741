"""`check_term`: does a term answer consistently? For terms that users write themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector, answers, can
from geartrain.oracles.validation import as_vector


@dataclass(frozen=True)
class TermReport:
    """What `check_term` found; true if nothing is wrong.

    Attributes
    ----------
    problems : tuple of str
        One sentence for each thing that is wrong.
    checked : tuple of str
        What was looked at.
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"checked: {', '.join(self.checked)}"
        if self.ok:
            return f"{head}\nnothing wrong found"
        return "\n".join([head, *(f"- {p}" for p in self.problems)])


class _Checker:
    def __init__(self, term: Any, x: Vector, rng: np.random.Generator) -> None:
        self.term, self.x, self.rng = term, x, rng
        self.n = x.size
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.scale = 1.0 + float(np.linalg.norm(x)) / max(np.sqrt(self.n), 1.0)

    def grad(self, x: Vector) -> Vector:
        term = self.term
        if "grad" in answers(term):
            return np.asarray(term.grad(x), dtype=np.float64)
        return np.asarray(term.value_and_grad(x)[1], dtype=np.float64)

    def value(self, x: Vector) -> float:
        term = self.term
        return float(term.value(x) if "value" in answers(term) else term.value_and_grad(x)[0])

    def direction(self) -> Vector:
        d = self.rng.standard_normal(self.n)
        return d / np.linalg.norm(d)

    def shapes(self) -> bool:
        """Whether the gradient is an array of the right length, finite."""
        self.checked.append("shape of the gradient")
        grad = self.grad(self.x)
        if grad.shape != (self.n,):
            self.problems.append(
                f"the gradient has shape {grad.shape}, expected ({self.n},) as x has"
            )
            return False
        if not np.isfinite(grad).all():
            self.problems.append("the gradient contains NaN or infinity")
            return False
        return True

    def fused(self) -> None:
        """Fused and separate answers agree."""
        known = answers(self.term)
        if "value_and_grad" not in known:
            return
        value, grad = self.term.value_and_grad(self.x)
        if "value" in known:
            self.checked.append("value_and_grad against value")
            alone = self.term.value(self.x)
            if not np.isclose(value, alone, rtol=1e-8, atol=1e-12):
                self.problems.append(
                    f"value_and_grad gives the value {value:.9g} but value gives {alone:.9g}"
                )
        if "grad" in known:
            self.checked.append("value_and_grad against grad")
            if not np.allclose(grad, self.term.grad(self.x), rtol=1e-7, atol=1e-10):
                self.problems.append("value_and_grad and grad give different gradients")

    def taylor(self) -> None:
        """|f(x + td) - f(x) - t<grad, d>| must fall like t^2: the slope tells a wrong gradient."""
        self.checked.append("Taylor slope of the gradient")
        d = self.direction()
        f0, slope = self.value(self.x), float(self.grad(self.x) @ d)
        steps = self.scale * np.logspace(-1, -5, 9)
        errors = np.array([abs(self.value(self.x + t * d) - f0 - t * slope) for t in steps])
        noise = 1e-13 * (1.0 + abs(f0) + abs(slope) * steps)
        usable = errors > 20.0 * noise
        if usable.sum() < 3:
            # An (almost) linear function, or a correct gradient lost in rounding.
            return
        rate = np.polyfit(np.log(steps[usable]), np.log(errors[usable]), 1)[0]
        if rate < 1.5:
            near = steps[usable][-1]
            seen = (self.value(self.x + near * d) - self.value(self.x - near * d)) / (2 * near)
            self.problems.append(
                "the gradient does not fit the value: the Taylor error falls like "
                f"t^{rate:.2f} instead of t^2; along a random direction the value changes at "
                f"the rate {seen:.6g} but the gradient says {slope:.6g}"
            )

    def components(self) -> None:
        """The mean of the summands' gradients is the gradient."""
        if "component" not in answers(self.term):
            return
        m = getattr(self.term, "n_components", None)
        if m is None:
            self.problems.append("the term has component but no n_components")
            return
        if m > 20_000:
            return
        self.checked.append("mean of components")
        mean = np.zeros(self.n)
        for k in range(m):
            mean += np.asarray(self.term.component(self.x, k))
        mean /= m
        if {"grad", "value_and_grad"} & answers(self.term):
            gap = float(np.linalg.norm(mean - self.grad(self.x)))
            size = float(np.linalg.norm(mean)) + 1e-12
            if gap > 1e-7 * size + 1e-9:
                self.problems.append(
                    "the mean of the components is not the gradient: they differ by "
                    f"{gap:.3g} (gradient norm {size:.3g}); component(x, k) must be the "
                    "gradient of one summand of a mean, not of a sum"
                )

    def partials(self) -> None:
        """coord(x, i) is the i-th entry of the gradient."""
        if "coord" not in answers(self.term) or not (
            {"grad", "value_and_grad"} & answers(self.term)
        ):
            return
        self.checked.append("partial derivatives")
        grad = self.grad(self.x)
        picks = self.rng.choice(self.n, size=min(self.n, 20), replace=False)
        for i in picks:
            partial = float(self.term.coord(self.x, int(i)))
            if abs(partial - grad[i]) > 1e-7 * (abs(grad[i]) + np.abs(grad).max()) + 1e-10:
                self.problems.append(
                    f"coord(x, {i}) = {partial:.9g} but the gradient's entry is {grad[i]:.9g}"
                )
                return

    def constants(self) -> None:
        """Stated L, mu, L_coord and L_components hold on random pairs."""
        L = getattr(self.term, "L", None)
        mu = float(getattr(self.term, "mu", 0.0) or 0.0)
        convex = getattr(self.term, "convex", True)
        if L is not None:
            self.checked.append("L")
        if convex:
            self.checked.append("convexity and mu")
        worst, least = 0.0, np.inf
        for k in range(30):
            u = self.x + self.scale * self.rng.standard_normal(self.n)
            d = self.direction() * self.scale * 10.0 ** self.rng.uniform(-3, 0.5)
            if k % 2:  # along the gradient's change: close to the steepest curvature
                d = self.grad(u + d) - self.grad(u)
                size = np.linalg.norm(d)
                d = d / size * self.scale if size > 0 else self.direction()
            change = self.grad(u + d) - self.grad(u)
            squared = float(d @ d)
            worst = max(worst, float(np.linalg.norm(change)) / np.sqrt(squared))
            least = min(least, float(change @ d) / squared)
        if L is not None and worst > L * (1 + 1e-6) + 1e-10:
            self.problems.append(
                f"the stated L = {L:.6g} is too small: a pair of points was met whose gradients "
                f"differ by {worst:.6g} times their distance"
            )
        tolerance = 1e-7 * max(worst, 1e-300) + 1e-12
        if convex and least < -tolerance:
            self.problems.append(
                f"the term is not convex: curvature {least:.3g} was met along a pair of "
                "points; if that is meant, say convex=False"
            )
        elif convex and least < mu - tolerance:
            self.problems.append(
                f"the stated mu = {mu:.6g} is too large: curvature {least:.6g} was met"
            )
        self._coordinate_constants()

    def _coordinate_constants(self) -> None:
        L_coord = getattr(self.term, "L_coord", None)
        if L_coord is None:
            return
        self.checked.append("L_coord")
        for i in self.rng.choice(self.n, size=min(self.n, 20), replace=False):
            step = np.zeros(self.n)
            step[i] = self.scale * 10.0 ** self.rng.uniform(-3, 0)
            change = abs(self.grad(self.x + step)[i] - self.grad(self.x)[i]) / step[i]
            if change > L_coord[i] * (1 + 1e-6) + 1e-9:
                self.problems.append(
                    f"the stated L_coord[{i}] = {L_coord[i]:.6g} is too small: the partial "
                    f"derivative changes at the rate {change:.6g}"
                )
                return


def check_term(term: Any, x: Any = None, *, n: int | None = None, seed: int = 0) -> TermReport:
    """Look for contradictions between what `term` answers and what it states.

    Checks the shape of the gradient, fused against separate answers, the slope of the Taylor
    error, that the mean of the components is the gradient, that partial derivatives are its
    entries, and that the stated L, mu, L_coord are not violated on random pairs of points.

    Parameters
    ----------
    term : object
        Anything that answers some of the questions of `geartrain.oracles.protocols`.
    x : array, optional
        Where to look; random if not given.
    n : int, optional
        Dimension, if neither `x` is given nor the term knows its own.
    seed : int
        Seed of the random points.

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
    >>> report.problems[0][:38]
    'the gradient does not fit the value: t'
    """
    rng = np.random.default_rng(seed)
    n = getattr(term, "n", None) if n is None else n
    if x is None:
        if n is None:
            raise ValueError("check_term needs a point x or the dimension n")
        x = rng.standard_normal(n)
    checker = _Checker(term, as_vector(x, "x", n), rng)
    known = answers(term)
    if not known:
        return TermReport(("the term answers no question: see geartrain.Term",), ())
    if {"grad", "value_and_grad"} & known:
        if checker.shapes():
            checker.fused()
            if can(term, "value"):
                checker.taylor()
            checker.components()
            checker.partials()
            checker.constants()
    else:
        checker.components()
    return TermReport(tuple(checker.problems), tuple(checker.checked))
