r"""Trial points: the minimiser of a model of f around p, not farther than the trust radius.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``p``           the iterate
R          ``radius``      the trust radius
mu         ``mu``          weight of 1/2 |v - p|^2 that keeps the minimiser near p
=========  ==============  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.inner import Ask, InnerPairs, Phi, Point, descend
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.step import Known
from geartrain.methods.quasi_newton.tuning import Tuning
from geartrain.oracles.protocols import Vector

# Part of g's curvature along a step that a model of h may take away.
_BENT = 0.95
# Trials of mu, and how far beyond the radius an inner run may go before it is left.
_SHIFTS, _LOST = 8, 8.0


@dataclass(frozen=True)
class Trial:
    """A trial point, before h is asked."""

    v: Vector
    B: LowRank  # the model, as used
    pairs: InnerPairs
    end: Point | None = None  # of the inner run, where v is that point
    residual: float = 0.0  # |grad phi| at the end of the inner run
    calls: int = 0  # gradients of g


@dataclass(frozen=True)
class Proposer:
    """Makes trial points from p."""

    ask_g: Ask
    p: Known
    radius: float
    pairs: InnerPairs
    convex: bool  # h is
    budget: float  # gradients of g
    tuning: Tuning
    geometry: Geometry

    def keeping_g(self, B: LowRank) -> Trial:
        """Minimise <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) near p."""
        dot, norm, t = self.geometry.dot, self.geometry.norm, self.tuning
        p, R, grad = self.p, self.radius, self.p.grad
        size = norm(grad)
        start = Point(p.v, p.g, p.grad_g, p.grad_h)
        residual = size
        at, pairs, calls, mu, redone = start, self.pairs, 0, 0.0, False

        def bent(at: Point) -> bool:
            """Whether the model bends down: g flattens on the way, and B does not."""
            if self.convex:
                return False
            s = at.v - p.v
            along_g = float(dot(s, at.grad_g - p.grad_g))
            return float(dot(s, at.linear - p.grad_h)) < -_BENT * along_g

        def leave(at: Point, residual: float) -> bool:
            return norm(at.v - p.v) > _LOST * R or bent(at)

        for _ in range(_SHIFTS):
            most = int(min(t.inner_limit, self.budget - calls))
            if most <= 0:
                break
            run = descend(
                Phi(self.ask_g, B, mu, self.geometry),
                start,
                (t.eta if self.convex else t.eta_other) * size,
                pairs,
                leave,
                most=most,
                memory=t.inner_memory,
            )
            at, residual, pairs, calls = run.end, run.residual, run.pairs, calls + run.calls
            length = norm(at.v - p.v)
            if not (self.convex or redone) and (
                length == 0.0 or run.bent or (bent(at) and length <= _LOST * R)
            ):
                redone, B = True, B.positive()
            elif length <= t.far * R:
                break
            else:
                mu = _larger(mu, size, length, R)
        return self._within(Trial(at.v, B, pairs, at, residual, calls))

    def plain(self, B: LowRank) -> Trial:
        """Minimise the quadratic model of f itself near p."""
        norm, p, R, grad = self.geometry.norm, self.p, self.radius, self.p.grad
        mu = 0.0
        for _ in range(_SHIFTS):
            v = p.v - B.solve(grad, mu)
            length = norm(v - p.v)
            if length <= self.tuning.far * R:
                break
            mu = _larger(mu, norm(grad), length, R)
        return self._within(Trial(v, B, self.pairs))

    def _within(self, trial: Trial) -> Trial:
        """The same, cut to the radius where it is farther."""
        p = self.p.v
        length = self.geometry.norm(trial.v - p)
        if length <= self.tuning.far * self.radius:
            return trial
        v = p + (trial.v - p) * (self.radius / length)
        return Trial(v, trial.B, trial.pairs, None, trial.residual, trial.calls)


def _larger(mu: float, size: float, length: float, R: float) -> float:
    """A larger mu: the secant on 1/|s(mu)|, at most |grad f|/R."""
    if mu > 0.0:
        larger = max((mu + size / length) * length / R - size / length, 2.0 * mu)
    else:
        larger = min(length / R - 1.0, 4.0) * size / length
    return min(max(larger, 1e-3 * size / R), size / R)
