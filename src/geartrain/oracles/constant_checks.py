"""How the stated constants of a term are checked, for `geartrain.check_term`.

A Lipschitz constant that is too small, or a strong convexity that is too large, is refuted by a
pair of points. The pairs lie along directions of least and largest curvature, found by a few steps
of the Lanczos method on differences of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from geartrain.oracles.spectrum import eigh
from geartrain.oracles.vectors import Vector, norm

if TYPE_CHECKING:
    from geartrain.oracles.checker import Checker


class OutOfCalls(Exception):
    """The calls that were granted are spent."""


# Steps of the Lanczos method, at points where that many calls are left.
_LANCZOS = 8
# Distances of the pairs, in units of the scale of x: near ones at one point, far ones at another.
_DISTANCES = (1e-2, 1.0)
# Calls of a point beside these steps, and calls that are left for the other constants.
_BESIDE, _RESERVE = 5, 7
# Steps against the gradient, in units of the scale of x, where values are likely to be low.
_DOWNHILL = (0.1, 1.0, 10.0)
# A constant counts as violated beyond this relative excess.
_EXCESS = 1e-6


def _check_curvature(c: Checker) -> None:
    """L, mu and convexity hold on pairs of points."""
    if c.noisy or not c.has("grad"):
        return
    L = getattr(c.term, "L", None)
    mu = float(getattr(c.term, "mu", 0.0) or 0.0)
    convex = getattr(c.term, "convex", True)
    worst, least = 0.0, np.inf
    for distance in _DISTANCES:
        steps = min(c.n, _LANCZOS, int(c.left) - _BESIDE - _RESERVE)
        if steps < 1:
            if least == np.inf:
                raise OutOfCalls
            break
        u, step = c.somewhere(), distance * c.scale
        grad, error = c.grad(u), c.grad_error(u)
        for d in (c.direction(), *_extremes(c, u, grad, step, steps)):
            change = c.grad(u + step * d) - grad
            if np.isfinite(change).all():
                worst = max(worst, (norm(change) - 2.0 * error) / step)
                least = min(least, (float(change @ d) + 2.0 * error) / step)
    if L is not None:
        c.checked.append("L")
    if convex:
        c.checked.append("convexity and mu")
    if L is not None and worst > L * (1.0 + _EXCESS):
        c.problems.append(
            f"the stated L = {L:.6g} is too small: there are points whose gradients "
            f"differ by {worst:.6g} times their distance"
        )
    if convex and least < -1e-9 * worst:
        c.problems.append(
            f"the term is not convex: there is a pair of points with the curvature {least:.3g} "
            "between them; if that is intended, say convex=False"
        )
    elif convex and least < mu * (1.0 - _EXCESS):
        c.problems.append(
            f"the stated mu = {mu:.6g} is too large: there is a pair of points with the curvature "
            f"{least:.6g} between them"
        )


def _extremes(c: Checker, u: Vector, grad: Vector, step: float, steps: int) -> tuple[Vector, ...]:
    """Directions of least and largest curvature about u, by Lanczos on differences."""
    basis = [c.direction()]
    images: list[Vector] = []
    for _ in range(steps):
        image = (c.grad(u + step * basis[-1]) - grad) / step
        if not np.isfinite(image).all():
            return ()
        images.append(image)
        w = image
        for _ in range(2):
            w = w - np.array(basis).T @ (np.array(basis) @ w)
        size = norm(w)
        if size <= 1e-8 * norm(image):
            break
        basis.append(w / size)
    V = np.array(basis[: len(images)])
    T = V @ np.array(images).T
    vectors = eigh((T + T.T) / 2)[1]
    low, high = vectors[:, 0] @ V, vectors[:, -1] @ V
    return low / norm(low), high / norm(high)


def _check_coordinates(c: Checker) -> None:
    """L_coord hold along coordinates."""
    L_coord = getattr(c.term, "L_coord", None)
    if L_coord is None or c.noisy or not c.has("grad"):
        return
    own = "coord" in c.known - c.broken
    most = min(c.n, 20) if own else min(c.n, 20, int(c.left) - 1)
    if most < 1:
        raise OutOfCalls
    c.checked.append("L_coord")
    grad, error = c.grad(c.x), c.grad_error(c.x)
    for i in c.rng.choice(c.n, size=most, replace=False):
        point, step = c.x.copy(), c.scale * 10.0 ** c.rng.uniform(-3, 0)
        point[i] += step
        there = float(c.asked.coord(point, int(i)) if own else c.grad(point)[i])
        rate = (abs(there - grad[i]) - 2.0 * error) / step
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

    def component(x: Vector, k: int) -> Vector:
        return np.array(c.asked.component(x, k), dtype=np.float64)

    m = c.term.n_components
    for k in c.rng.choice(m, size=min(m, 20), replace=False).tolist():
        at_x = component(c.x, k)
        near = component(c.x * (1.0 + 8.0 * np.finfo(float).eps * c.direction()), k)
        error = 20.0 * norm(near - at_x) + 1e-14 * norm(at_x)
        d = c.direction() * c.scale
        for _ in range(3):  # the curvature of one summand often has a single direction
            change = component(c.x + d, k) - at_x
            size = norm(change)
            rate = (size - 2.0 * error) / norm(d)
            if rate > L_components[k] * (1.0 + _EXCESS):
                c.problems.append(
                    f"the stated L_components[{k}] = {L_components[k]:.6g} is too small: the "
                    f"gradient of that summand changes at the rate {rate:.6g}"
                )
                return
            if size == 0.0:
                break
            d = change / size * c.scale * 10.0 ** c.rng.uniform(-3, 0)


def _check_lower_bound(c: Checker) -> None:
    """No value is below lower_bound, also after steps downhill."""
    bound = getattr(c.term, "lower_bound", None)
    if bound is None or not c.has("value"):
        return
    c.checked.append("lower_bound")
    u = c.somewhere()
    points = [c.x, u, -u]
    if c.has("grad") and not c.noisy:
        slope = c.grad(c.x)
        if norm(slope) > 0.0:
            points += [c.x - (far * c.scale / norm(slope)) * slope for far in _DOWNHILL]
    lowest = np.inf
    for point in points:
        value = c.value(point)
        lowest = min(lowest, value) if np.isfinite(value) else lowest
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
