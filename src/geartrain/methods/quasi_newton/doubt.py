r"""Answers that cannot be: what shows that h is not convex, or that the answers are noisy.

Along a step s of a convex function u with exact answers, <u'(p), s> <= u(v) - u(p) <= <u'(v), s>.
Where an inequality fails by more than rounding, the answers contradict each other or convexity. A
non-convex h contradicts convexity consistently: its values agree with its slopes. Noise does not.
Gradients that change much along a short step on which the values do not change show noise, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.step import Along, Step
from geartrain.problem import EPS

# An inequality between slopes fails where it does so by this part of the gradients.
_SURE = 1e-8
# Values may be wrong by this part of their size: terms cancel inside, too.
_VALUES = 1e-10
# A gradient of f has become smaller where it is below this part of the smallest one so far.
_SMALLER = 0.9
# f has become smaller where it falls by this part of its fall from x_0 on.
_LOWER = 0.01
# A gradient jumps where it changes by more than so many times what the secants so far allow.
_JUMP = 10.0
# A run ends after so many trial points without a smaller gradient: by noise, if so many of them
# contradicted each other, or by rounding, if all of them were level.
_PATIENCE, _EVIDENCE = 15, 3
# Steps that look for noise are at most so many trust radii long.
_PROBE = 0.01
# They are not made where one of so many trial points has lowered f.
_FALLING = 4
# A step is level where |grad f| is below this part of the gradients of the terms, and no values
# show a change of f.
_LEVEL = 1e5 * EPS
# The change of h is known to this part of <change of grad h, s> where values and slopes agree.
_AGREE = 0.25


@dataclass(frozen=True)
class Doubt:
    """Contradictions since the gradient of f, or f itself, last became smaller."""

    smallest: float  # |grad f|
    length: float = math.inf  # of the step then
    L_seen: float = 0.0  # largest |change of grad h|/|step| then
    idle: int = 0  # trial points since then
    falls: int = 0  # of f along them, as values show
    contradictions: int = 0
    level: int = 0  # steps along which f does not change, as far as rounding shows

    def after(
        self, step: Step, size: float, fallen: float, L_seen: float, geometry: Geometry
    ) -> Doubt:
        """After a trial point with |grad f(v)| = `size`.

        f has fallen by `fallen` so far, and |change of grad h|/|step| was at most `L_seen`.
        """
        if size < _SMALLER * self.smallest or step.p.f - step.v.f > _LOWER * fallen:
            return Doubt(min(size, self.smallest), step.length, L_seen)
        wild = contradicts(step, geometry)
        if step.length < self.length:
            wild = wild or jumps(step, self.L_seen, geometry)
        found = self.contradictions + wild
        level = self.level + is_level(step, size, geometry)
        falls = self.falls + (step.p.f - step.v.f > _value_error(step))
        return replace(self, idle=self.idle + 1, falls=falls, contradictions=found, level=level)

    def radius(self, R: float) -> float:
        """The trust radius R; a small part of it at every other trial point without progress.

        Along a short step noise outweighs the curvature, and exact answers do not contradict. There
        is progress, if little, where values show that f falls.
        """
        unclear = self.idle >= _PATIENCE and _FALLING * self.falls < self.idle
        return _PROBE * R if unclear and self.idle % 2 else R

    @property
    def is_noise(self) -> bool:
        """Whether contradictions are what prevents progress."""
        return self.idle >= _PATIENCE and self.contradictions >= _EVIDENCE

    @property
    def is_rounding(self) -> bool:
        """Whether rounding is what prevents progress."""
        return self.idle >= _PATIENCE and self.level == self.idle


def is_level(step: Step, size: float, geometry: Geometry) -> bool:
    """Whether neither values nor gradients, |grad f(v)| = `size`, tell v from a minimiser."""
    p, v, norm = step.p, step.v, geometry.norm
    if size > _LEVEL * (norm(v.grad_h) + norm(v.grad_g)):
        return False
    return not abs(v.f - p.f) > p.rounding + v.rounding


def contradicts(step: Step, geometry: Geometry) -> bool:
    """Whether the answers along the step are not those of a convex f."""
    p, v, norm = step.p, step.v, geometry.norm
    sizes = norm(p.grad_h) + norm(p.grad_g) + norm(v.grad_h) + norm(v.grad_g)
    sure = _SURE * sizes * step.length
    if step.f.rise < -sure:
        return True
    if math.isnan(v.f - p.f):
        return False
    sure += _value_error(step)
    difference = v.f - p.f
    return difference < step.f.slope - sure or difference > step.slope_v + sure


def _value_error(step: Step) -> float:
    """What rounding inside the terms may do to the difference of two values."""
    p, v = step.p, step.v
    return _VALUES * (abs(p.h) + abs(p.g) + abs(v.h) + abs(v.g))


def jumps(step: Step, L_seen: float, geometry: Geometry) -> bool:
    """Whether grad h changes too much for so short a step, and the values do not change."""
    p, v, norm = step.p, step.v, geometry.norm
    if L_seen == 0.0 or abs(v.f - p.f) > _value_error(step):
        return False
    allowed = max(_JUMP * L_seen * step.length, _SURE * (norm(p.grad_h) + norm(v.grad_h)))
    return norm(step.y_h) > allowed


def evidence_against_convexity(step: Step, geometry: Geometry) -> int:
    """1 where the slopes of h fall along the step, and its values agree; -1 where they do not.

    0 where the slopes rise.
    """
    h, norm = step.h, geometry.norm
    sure = _SURE * (norm(step.p.grad_h) + norm(step.v.grad_h)) * step.length
    if not h.rise < -max(sure, 1e-3 * norm(step.y_h) * step.length):
        return 0
    if math.isnan(step.v.h - step.p.h):
        return 1
    exact = Along(h.slope, h.rise, step.v.h - step.p.h)
    rounding = 32.0 * EPS * (abs(step.p.h) + abs(step.v.h))
    error = abs(exact.change - exact.slope - 0.5 * exact.rise)
    return 1 if error <= _AGREE * -exact.rise - rounding else -1
