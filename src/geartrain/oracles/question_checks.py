"""How an answer to each question is checked, for `geartrain.check_term`.

One function per question; the table of questions refers to them. The first line of a docstring is
the statement that is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from geartrain.oracles.checker import Checker

EPS = float(np.finfo(np.float64).eps)
# With more summands than this their mean takes too long.
MOST_COMPONENTS = 20_000


def check_grad(c: Checker) -> None:
    """The gradient is a finite vector, leaves x alone, and fits the stated L and mu."""
    if _shapes(c):
        _side_effects(c)
        _constants(c)
    else:
        c.broken = True


def check_component(c: Checker) -> None:
    """The mean of the summands' gradients is the gradient, and L_components hold."""
    _mean_of_components(c)
    _component_constants(c)


def check_coord(c: Checker) -> None:
    """The partial derivatives are the entries of the gradient, and L_coord hold."""
    _entries_of_the_gradient(c)
    _coordinate_constants(c)


def _shapes(c: Checker) -> bool:
    """Whether value and gradient are what can be computed with."""
    c.checked.append("shape of the gradient")
    grad = np.asarray(c.raw_grad(c.x))
    if grad.shape != (c.n,):
        c.problems.append(f"the gradient has shape {grad.shape}, expected ({c.n},) as x has")
    elif grad.dtype.kind not in "fiu":
        c.problems.append(f"the gradient is made of {grad.dtype}, not of real numbers")
    elif not np.isfinite(grad).all():
        c.problems.append("the gradient contains NaN or infinity")
    elif c.has("value"):
        value = np.asarray(
            c.term.value(c.x) if "value" in c.known else c.term.value_and_grad(c.x)[0]
        )
        if value.ndim or value.dtype.kind not in "fiu":
            what = f"an array of shape {value.shape}" if value.ndim else f"{value!r}"
            c.problems.append(f"the value is {what}, expected a number")
        elif not np.isfinite(value):
            c.problems.append(f"the value is {value}")
    return not c.problems


def _side_effects(c: Checker) -> None:
    """A question leaves x and earlier answers alone."""
    if not {"grad", "value_and_grad"} & c.known:
        return
    c.checked.append("side effects")
    x = c.x.copy()
    first = c.raw_grad(x)
    if not np.array_equal(x, c.x):
        c.problems.append("asking for the gradient changes x; work on a copy")
        return
    copy = np.array(first)
    c.raw_grad(x + c.scale)
    if not np.array_equal(first, copy):
        c.problems.append(
            "the gradient is answered in the same array every time, so that a new answer "
            "overwrites the last one; return a copy"
        )


def check_value_and_grad(c: Checker) -> None:
    """Fused and separate answers agree."""
    if "value_and_grad" not in c.known:
        return
    value, grad = c.term.value_and_grad(c.x)
    if "value" in c.known:
        c.checked.append("value_and_grad against value")
        alone = c.term.value(c.x)
        if abs(value - alone) > 1e-9 * abs(alone) + c.value_noise(c.x, alone):
            c.problems.append(
                f"value_and_grad gives the value {value:.9g} but value gives {alone:.9g}"
            )
    if "grad" in c.known:
        c.checked.append("value_and_grad against grad")
        alone = c.grad(c.x)
        gap = float(np.linalg.norm(grad - alone))
        if gap > 1e-9 * np.linalg.norm(alone) + c.grad_noise(c.x, alone):
            c.problems.append(
                f"value_and_grad and grad give different gradients: they differ by {gap:.3g}"
            )


def check_value(c: Checker) -> None:
    """|f(x + td) - f(x) - t<grad, d>| must fall like t^2: the slope tells a wrong gradient.

    A secant of f lies between the slopes that the gradient states along it. Where it does
    not, at several small t, value and gradient are not of the same function.
    """
    c.checked.append("Taylor slope of the gradient")
    f0, g0 = c.value(c.x), c.grad(c.x)
    noise = c.value_noise(c.x, f0)
    pairs = []
    for _ in range(3):
        d = c.direction()
        slope = float(g0 @ d)
        wrong, steps, errors, seen = 0, [], [], slope
        for t in c.scale * np.logspace(-1, -9, 17):
            up, down = c.value(c.x + t * d), c.value(c.x - t * d)
            secant = (up - down) / (2.0 * t)
            lost = 2.0 * (noise + 40.0 * EPS * (abs(up) + abs(down))) / t
            bend = max(abs(float(c.grad(c.x + s * d) @ d) - slope) for s in (t, -t))
            if abs(secant - slope) > 2.0 * bend + lost + 1e-7 * abs(slope):
                wrong += 1
                steps.append(t)
                errors.append(abs(up - f0 - t * slope))
                seen = secant
        if wrong >= 3:
            pairs.append((seen, slope, np.polyfit(np.log(steps), np.log(errors), 1)[0]))
    if not pairs:
        return
    seen, slope, rate = pairs[0]
    ratios = [b / a for a, b, _ in pairs if a != 0.0]
    factor = ""
    if len(ratios) == 3 and np.ptp(ratios) <= 1e-3 * abs(ratios[0]):
        factor = f": it is {ratios[0]:.4g} times what it should be, in every direction"
    c.problems.append(
        "the gradient does not fit the value: the Taylor error falls like "
        f"t^{rate:.2f} instead of t^2; along a random direction the value changes at "
        f"the rate {seen:.6g} but the gradient says {slope:.6g}{factor}"
    )


def _mean_of_components(c: Checker) -> None:
    """The mean of the summands' gradients is the gradient."""
    if "component" not in c.known:
        return
    m = c.term.n_components
    if m > MOST_COMPONENTS or not {"grad", "value_and_grad"} & c.known:
        return
    c.checked.append("mean of components")
    parts = np.array([c.term.component(c.x, k) for k in range(m)], dtype=np.float64)
    if parts.shape != (m, c.n):
        c.problems.append(
            f"component(x, k) has shape {parts.shape[1:]}, expected ({c.n},) as x has"
        )
        return
    grad = c.grad(c.x)
    gap = float(np.linalg.norm(parts.mean(axis=0) - grad))
    size = float(np.linalg.norm(grad))
    typical = float(np.linalg.norm(parts, axis=1).mean())
    if not gap <= 1e-9 * (size + typical) + c.grad_noise(c.x, grad):
        of_a_sum = np.linalg.norm(parts.sum(axis=0) - grad) <= 1e-6 * (size + m * typical)
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


def _entries_of_the_gradient(c: Checker) -> None:
    """Partial derivatives are the entries of the gradient."""
    if "coord" not in c.known or not {"grad", "value_and_grad"} & c.known:
        return
    c.checked.append("partial derivatives")
    grad = c.grad(c.x)
    allowed = 1e-9 * float(np.abs(grad).max()) + c.grad_noise(c.x, grad)
    for i in c.rng.choice(c.n, size=min(c.n, 20), replace=False):
        partial = float(c.term.coord(c.x, int(i)))
        if not abs(partial - grad[i]) <= allowed:
            c.problems.append(
                f"coord(x, {i}) = {partial:.9g} but the gradient's entry is {grad[i]:.9g}"
            )
            return


def check_prox(c: Checker) -> None:
    """The gradient of term(v) + alpha/2 |v - u|^2 vanishes at prox(u, alpha)."""
    if "prox" not in c.known:
        return
    c.checked.append("prox")
    alpha = float(getattr(c.term, "L", None) or 1.0)
    p = np.asarray(c.term.prox(c.x, alpha), dtype=np.float64)
    if p.shape != (c.n,):
        c.problems.append(f"prox has shape {p.shape}, expected ({c.n},) as x has")
        return
    grad, pull = c.grad(p), alpha * (p - c.x)
    size = float(np.linalg.norm(grad) + alpha * np.linalg.norm(c.x))
    left = float(np.linalg.norm(grad + pull))
    if not left <= 1e-6 * size + c.grad_noise(p, grad):
        c.problems.append(
            "prox(u, alpha) does not minimise term(v) + alpha/2 |v - u|^2: with alpha = "
            f"{alpha:.3g} a gradient of norm {left:.3g} is left (of {size:.3g})"
        )


def _constants(c: Checker) -> None:
    """Stated L and mu hold on pairs of points along the flattest and steepest directions."""
    L = getattr(c.term, "L", None)
    mu = float(getattr(c.term, "mu", 0.0) or 0.0)
    convex = getattr(c.term, "convex", True)
    if L is not None:
        c.checked.append("L")
    if convex:
        c.checked.append("convexity and mu")
    worst, least = 0.0, np.inf
    for _ in range(5):
        u = c.x + c.scale * c.rng.standard_normal(c.n)
        grad = c.grad(u)
        noise = c.grad_noise(u, grad)
        step = c.scale * 10.0 ** c.rng.uniform(-3, 0.5)
        for d in (c.direction(), *c.extremes(u, grad, step)):
            change = c.grad(u + step * d) - grad
            worst = max(worst, (float(np.linalg.norm(change)) - 2.0 * noise) / step)
            least = min(least, (float(change @ d) + 2.0 * noise) / step)
    if L is not None and worst > L * (1 + 1e-6):
        c.problems.append(
            f"the stated L = {L:.6g} is too small: a pair of points was met whose gradients "
            f"differ by {worst:.6g} times their distance"
        )
    if convex and least < -1e-9 * worst:
        c.problems.append(
            f"the term is not convex: curvature {least:.3g} was met along a pair of "
            "points; if that is meant, say convex=False"
        )
    elif convex and least < mu * (1 - 1e-6):
        c.problems.append(f"the stated mu = {mu:.6g} is too large: curvature {least:.6g} was met")


def _coordinate_constants(c: Checker) -> None:
    """The stated L_coord hold."""
    L_coord = getattr(c.term, "L_coord", None)
    if L_coord is None:
        return
    c.checked.append("L_coord")
    grad = c.grad(c.x)
    noise = c.grad_noise(c.x, grad)
    for i in c.rng.choice(c.n, size=min(c.n, 20), replace=False):
        step = np.zeros(c.n)
        step[i] = c.scale * 10.0 ** c.rng.uniform(-3, 0)
        seen = (abs(c.grad(c.x + step)[i] - grad[i]) - 2.0 * noise) / step[i]
        if seen > L_coord[i] * (1 + 1e-6):
            c.problems.append(
                f"the stated L_coord[{i}] = {L_coord[i]:.6g} is too small: the partial "
                f"derivative changes at the rate {seen:.6g}"
            )
            return


def _component_constants(c: Checker) -> None:
    """The stated L_components hold."""
    L_components = getattr(c.term, "L_components", None)
    if L_components is None or "component" not in c.known or c.problems:
        return
    c.checked.append("L_components")
    m = c.term.n_components
    for k in c.rng.choice(m, size=min(m, 20), replace=False):
        at_x = np.asarray(c.term.component(c.x, int(k)))
        near = np.asarray(c.term.component(c.nearby(c.x), int(k)))
        noise = 20.0 * np.linalg.norm(near - at_x) + 40.0 * EPS * np.linalg.norm(at_x)
        d = c.direction() * c.scale
        for _ in range(3):  # the curvature of one summand often has a single direction
            change = np.asarray(c.term.component(c.x + d, int(k))) - at_x
            size = float(np.linalg.norm(change))
            seen = (size - 2.0 * noise) / np.linalg.norm(d)
            if seen > L_components[k] * (1 + 1e-6):
                c.problems.append(
                    f"the stated L_components[{k}] = {L_components[k]:.6g} is too small: that "
                    f"summand's gradient changes at the rate {seen:.6g}"
                )
                return
            if size == 0.0:
                break
            d = change / size * c.scale * 10.0 ** c.rng.uniform(-3, 0)
