r"""Trial points: the minimiser of a model of f around p, not farther than the trust radius.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``Known``       the point where values and gradients of both terms are known
R          ``radius``      the trust radius
mu         ``mu``          weight of 1/2 |v - p|^2 that keeps the minimiser near p
=========  ==============  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.inner import Ask, InnerPairs, Phi, Point, descend
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.tuning import Tuning
from geartrain.oracles.protocols import Vector

# Part of g's curvature along a step that a model of h may take away.
_BENT = 0.95


@dataclass(frozen=True)
class Known:
    """A point and what is known there; values are nan where the terms give none."""

    v: Vector
    h: float
    g: float
    grad_h: Vector
    grad_g: Vector

    @property
    def f(self) -> float:
        """f(v)."""
        return self.h + self.g

    @property
    def grad(self) -> Vector:
        """Gradient of f."""
        return self.grad_h + self.grad_g


@dataclass(frozen=True)
class Trial:
    """A trial point, before h is asked."""

    v: Vector
    B: LowRank  # the model, as used
    end: Point | None  # of the inner run, where v is that point
    residual: float  # |grad phi(v)|
    calls: int  # gradients of g
    pairs: InnerPairs


@dataclass(frozen=True)
class Proposer:
    """Makes trial points from p."""

    ask_g: Ask
    p: Known
    radius: float
    pairs: InnerPairs
    convex: bool
    budget: int  # gradients of g
    tuning: Tuning
    geometry: Geometry

    def by_g(self, B: LowRank) -> Trial:
        """Minimise <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) near p."""
        dot, norm, t = self.geometry.dot, self.geometry.norm, self.tuning
        p, R = self.p, self.radius
        grad = p.grad
        size = norm(grad)
        pairs, calls, mu, redone = self.pairs, 0, 0.0, False
        at = Point(p.v, p.g, p.grad_g, grad)

        def bent(at: Point) -> bool:
            s = at.v - p.v
            return float(dot(s, B(s, mu))) < -_BENT * float(dot(s, at.grad_g - p.grad_g))

        def leave(at: Point) -> bool:
            return norm(at.v - p.v) > 8.0 * R or (not self.convex and bent(at))

        enough = (t.eta if self.convex else t.eta_other) * size
        for _ in range(8):
            if calls >= self.budget:
                break
            run = descend(
                Phi(self.ask_g, p.v, p.grad_h, B, mu),
                Point(p.v, p.g, p.grad_g, grad),
                enough,
                pairs,
                leave,
                most=self.budget - calls,
                memory=t.inner_memory,
                geometry=self.geometry,
            )
            at, pairs, calls = run.end, run.pairs, calls + run.calls
            length = norm(at.v - p.v)
            if not (self.convex or redone) and (length == 0.0 or (bent(at) and length <= 8.0 * R)):
                redone, B = True, B.positive()
                continue
            if length <= t.far * R:
                break
            mu = _shift(mu, size, length, R)
        return self._cut(at.v, B, at, norm(at.grad_phi), calls, pairs)

    def plain(self, B: LowRank) -> Trial:
        """Minimise the quadratic model of f itself near p."""
        norm, p, R = self.geometry.norm, self.p, self.radius
        grad, mu = p.grad, 0.0
        for _ in range(8):
            v = p.v - B.solve(grad, mu)
            length = norm(v - p.v)
            if length <= self.tuning.far * R:
                break
            mu = _shift(mu, norm(grad), length, R)
        return self._cut(v, B, None, 0.0, 0, self.pairs)

    def _cut(
        self,
        v: Vector,
        B: LowRank,
        end: Point | None,
        residual: float,
        calls: int,
        pairs: InnerPairs,
    ) -> Trial:
        """No farther than the radius."""
        p = self.p.v
        length = self.geometry.norm(v - p)
        if length > self.tuning.far * self.radius:
            v, end = p + (v - p) * (self.radius / length), None
        return Trial(v, B, end, residual, calls, pairs)


def _shift(mu: float, size: float, length: float, R: float) -> float:
    """A larger mu: the secant on 1/|s(mu)|, at most |grad f|/R."""
    if mu > 0.0:
        larger = max((mu + size / length) * length / R - size / length, 2.0 * mu)
    else:
        larger = min(length / R - 1.0, 4.0) * size / length
    return min(max(larger, 1e-3 * size / R), size / R)


Maker = Callable[[], LowRank]
