"""How the stated constants of a term are checked, for `geartrain.check_term`.

A Lipschitz constant that is too small, or a strong convexity that is too large, is refuted by a
pair of points. The pairs lie along directions of least and largest curvature, found by a few steps
of the Lanczos method on differences of gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from geartrain.oracles.checker import Checker
from geartrain.oracles.question_checks import EPS
from geartrain.oracles.spectrum import eigh
from geartrain.oracles.vectors import Vector, norm

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
