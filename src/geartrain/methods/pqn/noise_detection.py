"""Runs without progress: is it noise, rounding, or neither? And an h that is not convex.

After some trial points without progress, or where a step vanishes, h is asked once at a point so
close to the iterate that a tenth of the gradient cannot change by the curvature seen so far. Where
it does change, the answers are noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.methods.pqn.evaluation import Point, Step, TermEvaluator
from geartrain.methods.pqn.records import replace
from geartrain.problem import EPS

_TINY = 1e-300
# There is progress where |r| falls below this part of its smallest so far, or f by this part of
# its fall from x_0 on.
_SMALLER, _LOWER = 0.9, 0.01
# Trial points without progress after which the answers are looked at, and then after twice as many.
_PATIENCE = 10
# The answers are looked at so far away that the gradient changes by this part; they are noise where
# it changes by that part, and rounding where the change is that part of the gradients of the terms.
_NEAR, _NOISE, _ROUNDING = 1e-3, 0.1, 1e-9
# Slopes of h fall along a step where they do so by this part of |s| |y_h|, and of the gradients;
# values agree where they do up to this part of the fall.
_FALLS, _SURE, _AGREE = 1e-3, 1e-8, 0.25


@dataclass(frozen=True)
class ProgressMonitor:
    """Of |r| and of f."""

    smallest: float  # |r|
    lowest: float  # f
    first: float  # f(x_0)
    idle: int = 0  # trial points since the last progress
    patience: int = _PATIENCE

    def at(self, p: Point, size: float) -> ProgressMonitor:
        """After a look at p, where |r| = `size`."""
        fallen = self.lowest - p.f > _LOWER * (self.first - p.f)
        if not (size < _SMALLER * self.smallest or fallen):
            return self
        lowest = min(p.f, self.lowest)
        return ProgressMonitor(min(size, self.smallest), lowest, self.first)

    def after_trial(self) -> ProgressMonitor:
        """After one more trial point."""
        return replace(self, idle=self.idle + 1)

    @property
    def is_doubtful(self) -> bool:
        """Whether the answers should be looked at."""
        return self.idle >= self.patience

    def looked(self) -> ProgressMonitor:
        """After they were."""
        return replace(self, patience=2 * self.idle)


@dataclass(frozen=True)
class Verdict:
    """What a second look at the answers shows."""

    noise: bool = False
    rounding: bool = False


def look(terms: TermEvaluator, p: Point, size: float, steepest: float) -> Verdict:
    """One call of h and of g near p; `steepest` is the largest secant of grad (h + g).

    The point is a proximal step where there is a psi, so that it is in its domain.
    """
    e = max(_NEAR * size / max(steepest, _TINY), 8.0 * EPS * terms.norm(p.v))
    v = p.v - (e / size) * p.grad
    if not terms.smooth:  # |v - p| <= e, by the optimality of proximal steps
        v = terms.psi.prox(v, size / e)
        e = terms.norm(v - p.v)
        if e == 0.0:
            return Verdict()
    change = terms.norm(terms.at(v).grad - p.grad) - steepest * e
    if not change > _NOISE * size:
        return Verdict()
    if change <= _ROUNDING * (terms.norm(p.grad_h) + terms.norm(p.grad_g)):
        return Verdict(rounding=True)
    return Verdict(noise=True)


def shows_nonconvexity(step: Step, terms: TermEvaluator) -> bool:
    """Whether the slopes of h fall along the step, and its values agree."""
    h, norm = step.h, terms.norm
    sure = _SURE * (norm(step.p.grad_h) + norm(step.v.grad_h))
    if not h.rise < -max(sure, _FALLS * step.size(1)) * step.length:
        return False
    if math.isnan(step.v.h - step.p.h):
        return True
    return abs(h.change - h.slope - 0.5 * h.rise) <= -_AGREE * h.rise
