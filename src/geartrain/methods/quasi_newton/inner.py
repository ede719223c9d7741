r"""The inner run: L-BFGS on the model phi, from the curvature that is known.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
phi        `Phi`           <grad h(p), v> + 1/2 <v - p, (B + mu I)(v - p)> + g(v)
B          ``B``           of `geartrain.methods.quasi_newton.models`
s, y       ``pairs``       steps and the changes of grad *g* along them; that of the quadratic is
                           added when they are used, so they serve one inner run after the other
d, B d     ``d, Bd``       search direction, and its product with B + mu I
=========  ==============  ==================================================================

B is applied once per step, in coefficients (`geartrain.methods.quasi_newton.curvature`); points of
a line search need no product with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.curvature import Curvature
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector

Ask = Callable[[Vector], tuple[float, Vector]]  # value and gradient of g

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A slope that falls by more than this part shows that phi is not convex.
_BENT = 1.0 + 1e-6
# Points per line search.
_POINTS = 30


@dataclass(slots=True)
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
    calls, grad, bent = 0, at.grad_phi, False
    residual = norm(grad)
    learned = Curvature(phi.B, phi.mu, pairs, memory, grad.size, phi.geometry)
    while calls < most and residual > enough:
        d, Bd = learned.direction(grad)
        slope = float(dot(grad, d))
        if not slope < 0.0:  # rounding
            if not len(learned):
                break
            learned.clear()
            continue
        ray = Ray(phi, at, d, slope, float(dot(at.linear, d)), float(dot(d, Bd)))
        found, asked, bent = _line_search(ray, most - calls)
        calls += asked
        if found is None or bent:
            break
        # the vectors of the direction become those of the step
        s, linear = d, Bd
        if found.t != 1.0:
            s *= found.t
            linear *= found.t
        linear += at.linear
        y_g = found.grad_g - at.grad_g
        stuck = norm(s) <= 1e-15 * norm(at.v)
        at = Point(found.v, found.g, found.grad_g, linear)
        np.add(linear, found.grad_g, out=grad)
        residual = norm(grad)
        learned.add(s, y_g, grad)
        if stuck or leave(at, residual):
            break
    return InnerDescent(at, residual, calls, learned.pairs(), bent)


@dataclass(slots=True)
class OnRay:
    """A point of a line search."""

    t: float
    v: Vector
    g: float
    grad_g: Vector


@dataclass(slots=True)
class Ray:
    """phi along v + t d: one gradient of g per point, and no product with B."""

    phi: Phi
    at: Point
    d: Vector
    slope: float  # <grad phi, d> at t = 0
    linear: float  # its part <grad h(p) + (B + mu)(v - p), d>
    bend: float  # <d, (B + mu) d>

    def __call__(self, t: float) -> tuple[OnRay, float]:
        """The point at t, and the slope of phi there."""
        v = self.at.v + (self.d if t == 1.0 else t * self.d)
        value, grad_g = self.phi.ask(v)
        slope = self.linear + t * self.bend + float(self.phi.geometry.dot(grad_g, self.d))
        return OnRay(t, v, value, grad_g), slope


def _line_search(ray: Ray, most: int) -> tuple[OnRay | None, int, bool]:
    """A point along the ray with a small slope, the calls of g, and whether phi bends down."""
    slope_0 = ray.slope
    t, low, high = 1.0, (0.0, slope_0), None
    best: OnRay | None = None  # the last one that still descends
    for asked in range(1, min(most, _POINTS) + 1):
        try:
            new, slope = ray(t)
        except NonFiniteAnswer:  # too far
            slope = math.inf
        if _STEEP * slope_0 <= slope <= -_FLAT * slope_0:
            return new, asked, False
        if slope < _BENT * low[1]:
            return best, asked, True
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
            return new, asked, False
        part = low[1] / (low[1] - high[1]) if math.isfinite(high[1]) else 0.3
        t = low[0] + (high[0] - low[0]) * max(0.1, min(0.9, part))
    if slope <= -_STEEP * slope_0:  # out of budget, and not too far
        return new, asked, False
    return best, asked, False
