r"""The inner run: L-BFGS on the model phi, from the curvature that is known.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
phi        `Phi`           <grad h(p), v> + 1/2 <v - p, (B + mu I)(v - p)> + g(v)
B          ``B``           of `geartrain.methods.quasi_newton.models`
s, y       ``pairs``       steps and the changes of grad *g* along them; that of the quadratic is
                           added when they are used, so they serve one inner run after the other
tau        ``tau``         curvature of g along the last step
H_0        ``B.solve``     (B + (mu + tau) I)^{-1}
R, D       ``R``           upper triangle and diagonal of S'Y
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.rows import Window
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector

InnerPairs = tuple[tuple[Vector, Vector], ...]  # steps and changes of grad g, newest last
Ask = Callable[[Vector], tuple[float, Vector]]  # value and gradient of g

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A pair is used where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12
# A slope that falls by more than this part shows that phi is not convex.
_BENT = 1.0 + 1e-6
_TINY = 1e-300
# Points per line search.
_POINTS = 30


@dataclass(frozen=True)
class Point:
    """A point v of the inner run."""

    v: Vector
    g: float  # g(v), nan where values are not asked for
    grad_g: Vector
    linear: Vector  # grad h(p) + (B + mu)(v - p)

    @property
    def grad_phi(self) -> Vector:
        """Gradient of phi."""
        return self.linear + self.grad_g


@dataclass(frozen=True)
class Phi:
    """The quadratic part of the model, and g."""

    ask: Ask
    B: LowRank
    mu: float
    geometry: Geometry

    def along(self, at: Point, d: Vector, Bd: Vector, t: float) -> Point:
        """The point at + t d: one gradient of g, no product with B."""
        v = at.v + t * d
        value, grad_g = self.ask(v)
        return Point(v, value, grad_g, at.linear + t * Bd)


@dataclass(frozen=True)
class InnerDescent:
    """Outcome of an inner run."""

    end: Point
    residual: float  # |grad phi| there
    calls: int  # gradients of g
    pairs: InnerPairs
    bent: bool = False  # phi was seen to bend down: it is not convex


def descend(
    phi: Phi,
    at: Point,
    enough: float,
    pairs: InnerPairs,
    leave: Callable[[Point, float], bool],
    *,
    most: int,
    memory: int,
) -> InnerDescent:
    """L-BFGS until |grad phi| <= `enough`, `leave`, or `most` gradients of g."""
    dot, norm = phi.geometry.dot, phi.geometry.norm
    learned = Curvature(phi, memory, at.v.size)
    products = phi.B.all([s for s, _ in pairs], phi.mu)
    for (s, y_g), Bs in zip(pairs, products, strict=True):
        learned.add(s, y_g, Bs)
    del products
    calls, grad, bent = 0, at.grad_phi, False
    residual = norm(grad)
    while calls < most and residual > enough:
        d = learned.direction(grad)
        slope = float(dot(grad, d))
        if not slope < 0.0:  # rounding
            if not len(learned.window):
                break
            learned.window.clear()
            continue
        Bd = phi.B(d, phi.mu)
        found, t, asked, bent = _line_search(phi, at, d, Bd, slope, most - calls)
        calls += asked
        if found is None or bent:
            break
        s, y_g = t * d, found.grad_g - at.grad_g
        learned.add(s, y_g, t * Bd)
        pairs = (*pairs, (s, y_g))[-memory:]
        stuck = norm(s) <= 1e-15 * norm(at.v)
        at, grad = found, found.grad_phi
        residual = norm(grad)
        if stuck or leave(at, residual):
            break
    return InnerDescent(at, residual, calls, pairs, bent)


class Curvature:
    """The pairs of phi, and the base matrix.

    Parameters
    ----------
    phi : Phi
        The model.
    memory : int
        Number of pairs used.
    n : int
        Length of the vectors.
    """

    def __init__(self, phi: Phi, memory: int, n: int) -> None:
        self.phi, self.tau = phi, 0.0
        self.window = Window(memory, n, phi.geometry)

    def add(self, s: Vector, y_g: Vector, Bs: Vector) -> None:
        """Learn from a step s, if there is curvature along it."""
        dot, norm = self.phi.geometry.dot, self.phi.geometry.norm
        y = y_g + Bs
        if float(dot(s, y)) > _CURVED * norm(s) * norm(y):
            self.window.add(s, y)
            self.tau = max(float(dot(s, y_g)), 0.0) / max(float(dot(s, s)), _TINY)

    def direction(self, grad: Vector) -> Vector:
        """-H grad with the BFGS inverse Hessian in compact form [1]_.

        References
        ----------
        .. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their
           use in limited memory methods, Math. Program. 63 (1994), Theorem 2.2.
        """
        phi, window = self.phi, self.window
        if not len(window):
            return -phi.B.solve(grad, phi.mu + self.tau)
        kept = slice(window.low, window.high)
        R = window.R[kept, kept]
        solve = _triangular()
        a = solve(R, window.dots(window.S, grad))[0]
        z = phi.B.solve(grad - window.combine(window.Y, a), phi.mu + self.tau)
        b = solve(R, np.diag(R) * a - window.dots(window.Y, z), trans=1)[0]
        return -(z + window.combine(window.S, b))


@lru_cache(maxsize=1)
def _triangular() -> Any:
    from scipy.linalg.lapack import dtrtrs  # here, because importing it takes a while

    return dtrtrs


def _line_search(
    phi: Phi, at: Point, d: Vector, Bd: Vector, slope_0: float, most: int
) -> tuple[Point | None, float, int, bool]:
    """A point along d with a small slope, its t, the calls of g, and whether phi bends down."""
    dot = phi.geometry.dot
    t, low, high = 1.0, (0.0, slope_0), None
    best: tuple[Point | None, float] = None, 0.0  # the last one that still descends
    for asked in range(1, min(most, _POINTS) + 1):
        try:
            new = phi.along(at, d, Bd, t)
            slope = float(dot(new.linear, d)) + float(dot(new.grad_g, d))
        except NonFiniteAnswer:  # too far
            slope = math.inf
        if _STEEP * slope_0 <= slope <= -_FLAT * slope_0:
            return new, t, asked, False
        if slope < _BENT * low[1]:
            return (*best, asked, True)
        if slope < 0.0:
            low, best = (t, slope), (new, t)
            if high is None:
                rise = (slope - slope_0) / t
                ahead = -slope / rise / t + 1.0 if rise > 0.0 else 10.0
                t *= min(10.0, max(2.0, ahead))
                continue
        else:
            high = t, slope
        if high[0] - low[0] <= 1e-15 * high[0]:
            return new, t, asked, False
        part = low[1] / (low[1] - high[1]) if math.isfinite(high[1]) else 0.3
        t = low[0] + (high[0] - low[0]) * max(0.1, min(0.9, part))
    if slope <= -_STEEP * slope_0:  # out of budget, and not too far
        return new, t, asked, False
    return (*best, asked, False)
