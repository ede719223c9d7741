r"""Answers that cannot be: what shows that h is not convex, or that the answers are noisy.

Along a step s of a convex function u with exact answers, <u'(p), s> <= u(v) - u(p) <= <u'(v), s>.
Where an inequality fails by more than rounding, the answers contradict each other or convexity. A
non-convex h contradicts convexity consistently: its values agree with its slopes. Noise does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.step import Along, Step
from geartrain.problem import EPS

# An inequality between slopes fails where it does so by this part of the gradients.
_SURE = 1e-8
# A gradient of f has become smaller where it is below this part of the smallest one so far.
_SMALLER = 0.9
# Noise is what ends a run after so many trial points without a smaller gradient, if so many of them
# contradicted each other.
_PATIENCE, _EVIDENCE = 15, 3
# The change of h is known to this part of <change of grad h, s> where values and slopes agree.
_AGREE = 0.25


@dataclass(frozen=True)
class Doubt:
    """Contradictions since the gradient of f last became smaller."""

    smallest: float  # |grad f|
    idle: int = 0  # trial points since then
    contradictions: int = 0

    def after(self, step: Step, size: float, geometry: Geometry) -> Doubt:
        """After a trial point with |grad f(v)| = `size`."""
        if size < _SMALLER * self.smallest:
            return Doubt(size)
        found = self.contradictions + contradicts(step, geometry)
        return replace(self, idle=self.idle + 1, contradictions=found)

    @property
    def is_noise(self) -> bool:
        """Whether contradictions are what prevents progress."""
        return self.idle >= _PATIENCE and self.contradictions >= _EVIDENCE


def contradicts(step: Step, geometry: Geometry) -> bool:
    """Whether the answers along the step are not those of a convex f."""
    p, v, norm = step.p, step.v, geometry.norm
    sizes = norm(p.grad_h) + norm(p.grad_g) + norm(v.grad_h) + norm(v.grad_g)
    sure = _SURE * sizes * step.length
    if step.f.rise < -sure:
        return True
    if math.isnan(v.f - p.f):
        return False
    sure += p.rounding + v.rounding
    difference = v.f - p.f
    return difference < step.f.slope - sure or difference > step.slope_v + sure


def disproves_convexity(step: Step, geometry: Geometry) -> bool:
    """Whether h is not convex along the step, by slopes and, where they are known, by values."""
    h, norm = step.h, geometry.norm
    sure = _SURE * (norm(step.p.grad_h) + norm(step.v.grad_h)) * step.length
    if not h.rise < -max(sure, 1e-3 * norm(step.y_h) * step.length):
        return False
    if math.isnan(step.v.h - step.p.h):
        return True
    exact = Along(h.slope, h.rise, step.v.h - step.p.h)
    rounding = 32.0 * EPS * (abs(step.p.h) + abs(step.v.h))
    return abs(exact.change - exact.slope - 0.5 * exact.rise) <= _AGREE * -exact.rise - rounding
