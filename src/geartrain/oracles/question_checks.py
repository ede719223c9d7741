"""How the answers to each question are checked, for `geartrain.check_term`.

There is one function per question, and the table of questions refers to them. The first line of a
docstring is the statement that is checked; where it does not hold, a sentence is added to the
problems of the `geartrain.oracles.checks.Checker` c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from geartrain.oracles.vectors import Vector, norm

if TYPE_CHECKING:
    from geartrain.oracles.checks import Checker

EPS = float(np.finfo(np.float64).eps)
# With more summands than this their mean takes too long.
MOST_COMPONENTS = 20_000
# Steps of the test of Taylor's formula along two directions, in units of the scale of x.
_STEPS = ((1e-2, 1e-5, 1e-8), (1e-3, 1e-6))
# A proximal step may be the result of an iteration, which ends at about this relative error.
_PROX_ERROR = 1e-6
# Sizes of the directions of linear minimisations.
_LMO_SCALES = (1.0, 1.0, 1e-3, 1e3)
# Lengths of the steps along which an operator is looked at.
_OPERATOR_SCALES = (1.0, 1.0, 1.0, 1e-3, 1e-3, 10.0)


def check_grad(c: Checker) -> None:
    """The gradient is a finite vector, and it is not noisy."""
    c.checked += ["shape of the gradient", "noise"]
    if "component" in c.known:
        c.array("component(x, k)", c.asked.component(c.x, 0), (c.n,))
    c.grad(c.x)
    if c.has("value"):
        c.value(c.x)
    c.measure_noise()


def check_value(c: Checker) -> None:
    """The value is a finite number, and the gradient is its derivative."""
    if c.has("grad"):
        _check_taylor(c)
    elif not c.is_nonsmooth:
        c.checked.append("noise")
        c.value(c.x)
        c.measure_noise()


def _check_taylor(c: Checker) -> None:
    """Differences of values are integrals of the slope."""
    c.checked.append("Taylor formula of value and gradient")
    grad = c.grad(c.x)
    wrong: list[tuple[float, float]] = []  # steps and errors
    slopes: list[tuple[float, float]] = []  # of the values and of the gradient, one per direction
    for steps in _STEPS:
        d = c.direction()
        slope, seen = float(grad @ d), []
        for t in c.scale * np.array(steps):
            up, down = c.value(c.x + t * d), c.value(c.x - t * d)
            ends = [float(c.grad(c.x + s * d) @ d) for s in (t, -t)]
            # The integral of the slope over [-t, t] by Simpson's rule, and by the trapezoidal one.
            simpson, trapezoid = t / 3.0 * (sum(ends) + 4.0 * slope), t * sum(ends)
            lost = 40.0 * (c.noise["value"] + EPS * (abs(up) + abs(down)))
            lost += 20.0 * t * c.noise["grad"] + 1e-7 * abs(t * slope)
            if (error := abs(up - down - simpson)) > 2.0 * abs(simpson - trapezoid) + lost:
                wrong.append((t, error))
                seen = [((up - down) / (2.0 * t), slope)]
        slopes += seen
    if len(wrong) < 2:
        return
    log_steps, log_errors = np.log(wrong).T
    if np.polyfit(log_steps, log_errors, 1)[0] < 0.5:  # errors of the values, not of the gradient
        c.report_noise("value", max(wrong, key=lambda pair: pair[1])[1], c.x)
        return
    by_value, by_gradient = slopes[0]
    ratios = [b / a for a, b in slopes if a != 0.0]
    factor = ""
    if len(ratios) == 2 and np.ptp(ratios) <= 1e-3 * abs(ratios[0]):
        factor = f": it is {ratios[0]:.4g} times what it should be, in every direction"
    c.problems.append(
        "the gradient does not fit the value: along a random direction the value changes at "
        f"the rate {by_value:.6g} but the gradient says {by_gradient:.6g}{factor}"
    )


def check_value_and_grad(c: Checker) -> None:
    """Value and gradient of the fused answer are those of the separate answers."""
    if "value_and_grad" not in c.known:
        return
    if "value" in c.known:
        c.checked.append("value_and_grad against value")
        fused, alone = c.value(c.x), float(c.array("the value", c.asked.value(c.x), ()))
        if abs(fused - alone) > 1e-9 * abs(alone) + 40.0 * (c.noise["value"] + EPS * abs(alone)):
            c.problems.append(
                f"value_and_grad gives the value {fused:.9g} but value gives {alone:.9g}"
            )
    if "grad" in c.known:
        c.checked.append("value_and_grad against grad")
        grad = c.array("the gradient", c.asked.grad(c.x), (c.n,))
        gap = norm(c.grad(c.x) - grad)
        if gap > 1e-9 * norm(grad) + c.grad_error(c.x):
            c.problems.append(
                f"value_and_grad and grad give different gradients: they differ by {gap:.3g}"
            )


def check_component(c: Checker) -> None:
    """The mean of the gradients of the summands is the gradient."""
    m = c.term.n_components
    if m > MOST_COMPONENTS or c.known.isdisjoint(("grad", "value_and_grad")):
        return
    c.checked.append("mean of components")
    parts = np.array(
        [c.array("component(x, k)", c.asked.component(c.x, k), (c.n,)) for k in range(m)]
    )
    grad = c.grad(c.x)
    gap, size = norm(parts.mean(axis=0) - grad), norm(grad)
    typical = float(np.linalg.norm(parts, axis=1).mean())
    if not gap <= 1e-9 * (size + typical) + c.grad_error(c.x):
        of_a_sum = norm(parts.sum(axis=0) - grad) <= 1e-6 * (size + m * typical)
        c.problems.append(
            "the mean of the components is not the gradient: they differ by "
            f"{gap:.3g} (gradient norm {size:.3g}); "
            + (
                f"their sum is: multiply component by n_components = {m}, or "
                if of_a_sum and m > 1
                else ""
            )
            + "component(x, k) must be the gradient of one summand of a mean, not of a sum"
        )


def check_coord(c: Checker) -> None:
    """The partial derivatives are the entries of the gradient."""
    if c.known.isdisjoint(("grad", "value_and_grad")):
        return
    c.checked.append("partial derivatives")
    grad = c.grad(c.x)
    allowed = 1e-9 * float(np.abs(grad).max()) + c.grad_error(c.x)
    for i in c.rng.choice(c.n, size=min(c.n, 20), replace=False):
        partial = float(c.asked.coord(c.x, int(i)))
        if not abs(partial - grad[i]) <= allowed:
            c.problems.append(
                f"coord(x, {i}) = {partial:.9g} but the gradient's entry is {grad[i]:.9g}"
            )
            return


def check_prox(c: Checker) -> None:
    """prox(u, alpha) minimises term(v) + alpha/2 |v - u|^2."""
    c.checked.append("prox")
    alpha = 2.5 * float(c.term.L or 1.0)
    u = c.somewhere()

    def prox(u: Vector, alpha: float) -> Vector:
        return c.array("prox(u, alpha)", c.asked.prox(u, alpha), (c.n,))

    how = _is_no_prox(c, prox, u, alpha)
    if not how:
        return
    if not _is_no_prox(c, lambda u, alpha: prox(u, 1.0 / alpha), u, alpha):
        how += (
            "; prox(u, 1/alpha) does: alpha was taken for a step length, but here it is the weight "
            "of |v - u|^2/2, the inverse of a step length"
        )
    c.problems.append(f"prox(u, alpha) does not minimise term(v) + alpha/2 |v - u|^2: {how}")


def check_lmo(c: Checker) -> None:
    """lmo(d) minimises <d, v> over the set, and no two of its answers are too far apart."""
    c.checked.append("lmo")
    directions = [scale * c.direction() for scale in _LMO_SCALES]
    points = [c.array("lmo(d)", c.asked.lmo(d), (c.n,)) for d in directions]
    if "prox" in c.known:  # a projection is in the set, too
        points.append(c.array("prox(u, alpha)", c.asked.prox(c.somewhere(), 1.0), (c.n,)))
    for d, s in zip(directions, points, strict=False):
        if c.has("value") and not np.isfinite(c.asked.value(s)):
            c.problems.append("the value at lmo(d) is infinite: it is outside of the set")
            return
        least = min(points, key=lambda v: float(d @ v))
        lost = 1e-9 * norm(d) * (norm(s) + norm(least))
        if float(d @ s) > float(d @ least) + lost:
            c.problems.append(
                f"lmo(d) does not minimise <d, v>: it answers with a point where that is "
                f"{d @ s:.6g}, and with one where it is {d @ least:.6g} for another d"
            )
            return
    diameter = c.term.diameter
    far = max(norm(s - v) for s in points for v in points)
    if diameter is not None and far > diameter * (1.0 + 1e-9):
        c.problems.append(
            f"the stated diameter = {diameter:.6g} is too small: two points of the set are "
            f"{far:.6g} apart"
        )


def check_operator(c: Checker) -> None:
    """An operator is monotone with its mu and Lipschitz with its L; a gradient has other checks."""
    if c.has("grad"):
        return
    c.checked.append("monotonicity and constants of the operator")
    at_x = c.array("the operator", c.asked.operator(c.x), (c.n,))
    for scale in _OPERATOR_SCALES:
        s = scale * c.scale * c.direction()
        y = c.array("the operator", c.asked.operator(c.x + s), (c.n,)) - at_x
        error = 1e-9 * norm(s) * norm(y) + 40.0 * EPS * norm(s) * norm(at_x)
        L = norm(y) / norm(s)
        if float(y @ s) < c.term.mu * norm(s) ** 2 - error:
            bound = f"mu |u - v|^2 = {c.term.mu * norm(s) ** 2:.6g}" if c.term.mu else "0"
            c.problems.append(
                f"the operator is not monotone as stated: <R(u) - R(v), u - v> = {y @ s:.6g} for "
                f"two points, which is below {bound}"
            )
            return
        if c.term.L is not None and c.term.L * (1.0 + 1e-9) + error / norm(s) ** 2 < L:
            c.problems.append(
                f"the stated L = {c.term.L:.6g} is too small: two points show {L:.6g}"
            )
            return


def _is_no_prox(
    c: Checker, prox: Callable[[Vector, float], Vector], u: Vector, alpha: float
) -> str:
    """Why `prox` is no proximal step of the term; empty if nothing speaks against it."""
    p = prox(u, alpha)
    if c.has("grad"):
        # grad term(p) + alpha (p - u) = 0
        size = norm(c.grad(p)) + alpha * (norm(p) + norm(u))
        left = norm(c.grad(p) + alpha * (p - u))
        if left > _PROX_ERROR * size + c.grad_error(p):
            return f"with alpha = {alpha:.3g} a gradient of norm {left:.3g} is left (of {size:.3g})"
        return ""
    if c.has("value"):
        how = _contradicting_value(c, u, alpha, p)
        if how:
            return how
    # The resolvent identity: p is also the proximal step for alpha/4 of u + 3 (u - p).
    gap = norm(prox(u + 3.0 * (u - p), alpha / 4.0) - p)
    if c.term.convex and gap > _PROX_ERROR * (norm(p) + norm(u)):
        return (
            f"the answers for alpha = {alpha:.3g} and {alpha / 4.0:.3g} are not steps of one "
            f"convex function: p and prox(u + 3 (u - p), alpha/4) differ by {gap:.3g}"
        )
    return ""


def _contradicting_value(c: Checker, u: Vector, alpha: float, p: Vector) -> str:
    """A value that p = prox(u, alpha) rules out, in words; empty if none is found.

    alpha (u - p) is a subgradient of a convex term at p. Of another term at least term(v) +
    alpha/2 |v - u|^2 is not smaller than at p.
    """
    value = float(c.asked.value(p))
    if not np.isfinite(value):
        return f"the value at prox(u, alpha) is {value}"
    curvature = 0.0 if c.term.convex else alpha
    around = c.direction() * max(norm(u - p), 1e-3 * c.scale)
    for v in (u, p + 0.1 * (u - p), p - 0.1 * (u - p), p + around, 0.5 * p, 1.01 * p, 0.99 * p):
        there, step = float(c.asked.value(v)), v - p
        least = value + alpha * float((u - p) @ step) - 0.5 * curvature * float(step @ step)
        lost = _PROX_ERROR * alpha * (norm(p) + norm(u)) * norm(step) + 40.0 * c.noise["value"]
        if there < least - lost - 1e-12 * (abs(value) + abs(there)):
            return (
                f"with alpha = {alpha:.3g} the value {value:.9g} there implies a value of at least "
                f"{least:.9g} at another point, where it is {there:.9g}"
            )
    return ""
