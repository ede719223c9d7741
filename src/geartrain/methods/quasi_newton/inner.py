r"""The inner run: L-BFGS on the model phi, from the curvature that is known.

phi(v) = <grad h(p), v> + 1/2 <v - p, (B + mu I)(v - p)> + g(v), with the matrix B of
`geartrain.methods.quasi_newton.models`. The pairs hold the curvature of g alone; that of the
quadratic is added when they are used, so they serve one inner run after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector

InnerPairs = tuple[tuple[Vector, Vector], ...]  # steps and changes of grad g, newest last
Ask = Callable[[Vector], tuple[float, Vector]]  # value and gradient of g

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A pair is used where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12


@dataclass(frozen=True)
class Point:
    """A point v of the inner run."""

    v: Vector
    g: float  # g(v), nan where values are not asked for
    grad_g: Vector
    grad_phi: Vector


@dataclass(frozen=True)
class Phi:
    """The model around p."""

    ask: Ask
    p: Vector
    grad_h: Vector  # gradient of h at p
    B: LowRank
    mu: float

    def at(self, v: Vector) -> Point:
        """One gradient of g."""
        value, grad_g = self.ask(v)
        return Point(v, value, grad_g, self.grad_h + self.B(v - self.p, self.mu) + grad_g)


@dataclass(frozen=True)
class InnerRun:
    """Outcome of an inner run."""

    end: Point
    calls: int  # gradients of g
    pairs: InnerPairs


def descend(
    phi: Phi,
    start: Point,
    enough: float,
    pairs: InnerPairs,
    leave: Callable[[Point], bool],
    *,
    most: int,
    memory: int,
    geometry: Geometry,
) -> InnerRun:
    """L-BFGS until |grad phi| <= `enough`, `leave`, or `most` gradients of g."""
    dot, norm = geometry.dot, geometry.norm
    curved: list[tuple[Vector, Vector, float]] = []
    tau, calls, at = 0.0, 0, start

    def learn(s: Vector, y_g: Vector) -> None:
        nonlocal tau
        y = y_g + phi.B(s, phi.mu)
        sy = float(dot(s, y))
        if sy > _CURVED * norm(s) * norm(y):
            curved.append((s, y, sy))
            del curved[:-memory]
            tau = max(float(dot(s, y_g)), 0.0) / float(dot(s, s))

    for s, y_g in pairs:
        learn(s, y_g)
    while calls < most and norm(at.grad_phi) > enough:
        d = _direction(phi, curved, tau, at.grad_phi, dot)
        slope = float(dot(at.grad_phi, d))
        if not slope < 0.0:  # rounding
            if not curved:
                break
            curved.clear()
            continue
        found, asked = _along(phi, at, d, slope, most - calls, dot)
        calls += asked
        if found is None:
            break
        s, y_g = found.v - at.v, found.grad_g - at.grad_g
        learn(s, y_g)
        pairs = (*pairs, (s, y_g))[-memory:]
        stuck = norm(s) <= 1e-15 * norm(at.v)
        at = found
        if stuck or leave(at):
            break
    return InnerRun(at, calls, pairs)


def _direction(
    phi: Phi,
    curved: list[tuple[Vector, Vector, float]],
    tau: float,
    grad: Vector,
    dot: Callable[[Vector, Vector], float],
) -> Vector:
    """-H grad by the two loops, from the base matrix B + (mu + tau) I."""
    q, weights = -grad, []
    for s, y, sy in reversed(curved):
        weights.append(float(dot(s, q)) / sy)
        q -= weights[-1] * y
    q = phi.B.solve(q, phi.mu + tau)
    for (s, y, sy), weight in zip(curved, reversed(weights), strict=True):
        q += (weight - float(dot(y, q)) / sy) * s
    return q


def _along(
    phi: Phi,
    at: Point,
    d: Vector,
    slope_0: float,
    most: int,
    dot: Callable[[Vector, Vector], float],
) -> tuple[Point | None, int]:
    """A point along d where the slope is small, and the gradients of g that were asked for."""
    t, low, high = 1.0, (0.0, slope_0), None
    best: Point | None = None  # the last one that still descends
    for asked in range(1, min(most, 30) + 1):
        try:
            new = phi.at(at.v + t * d)
            slope = float(dot(new.grad_phi, d))
        except NonFiniteAnswer:  # too far
            new, slope = at, math.inf
        if _STEEP * slope_0 <= slope <= -_FLAT * slope_0:
            return new, asked
        if slope < 0.0:
            low, best = (t, slope), new
            if high is None:
                rise = (slope - slope_0) / t
                ahead = -slope / rise / t + 1.0 if rise > 0.0 else 10.0
                t *= min(10.0, max(2.0, ahead))
                continue
        else:
            high = t, slope
        if high[0] - low[0] <= 1e-15 * high[0]:
            return new, asked
        part = low[1] / (low[1] - high[1]) if math.isfinite(high[1]) else 0.3
        t = low[0] + (high[0] - low[0]) * max(0.1, min(0.9, part))
    if slope <= -_STEEP * slope_0:  # out of budget, and not too far
        return new, asked
    return best, asked
