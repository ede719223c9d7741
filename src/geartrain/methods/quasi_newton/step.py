r"""The step from the iterate p to a trial point v, once h is known there: is it lower, and by what.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p, v       ``Known``       points where gradients, and mostly values, of both terms are known
s          ``s``           v - p
slope      ``slope``       <grad f(p), s>, of f; ``slope_v``: <grad f(v), s>
rise       ``rise``        slope_v - slope
change     ``change``      f(v) - f(p)
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.along import ExponentialFit, change
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS

# A gradient of f is rounding error below this part of those of h and g.
_SMALLEST = 10.0 * EPS
# Values are taken to be right to this multiple of the rounding unit; and to this part, where the
# curvature along a step is to be told from them.
_ULPS = 16.0
_INEXACT = 1e-12
# A step shows curvature where <s, y> exceeds this part of |s| |y|.
CURVED = 1e-12


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

    @cached_property
    def grad(self) -> Vector:
        """Gradient of f."""
        return self.grad_h + self.grad_g

    def exchanged(self) -> Known:
        """With h and g in each other's place."""
        return Known(self.v, self.g, self.h, self.grad_g, self.grad_h)

    def is_level(self, norm: Callable[[Vector], float]) -> bool:
        """Whether the gradient of f is rounding error."""
        return norm(self.grad) <= _SMALLEST * (norm(self.grad_h) + norm(self.grad_g))

    def unlike(self, norm: Callable[[Vector], float]) -> float:
        """|grad h|/|grad g|, at most 1: how little g is like f, where h = f - g."""
        size_h, size_g = norm(self.grad_h), norm(self.grad_g)
        return size_h / size_g if size_h < size_g else 1.0

    def as_loss(self, norm: Callable[[Vector], float]) -> float:
        """The curvature c of c/2 |x - a|^2 with the value and the gradient of h; nan if unknown.

        Losses are positive and nearly vanish somewhere, and the scale of a step follows from that
        as in the step size of Polyak [1]_. Where h is not positive, a = 0 takes the place of the
        value.

        References
        ----------
        .. [1] B. Polyak, Introduction to Optimization (1987), Section 5.3.
        """
        size, away = norm(self.grad_h), norm(self.v)
        if self.h > 0.0:
            return 0.5 * size * (size / self.h)
        return size / away if away > 0.0 else math.nan

    @property
    def rounding(self) -> float:
        """Size of the rounding error in f(v)."""
        return _ULPS * EPS * (abs(self.h) + abs(self.g))


@dataclass(frozen=True)
class Along:
    """One term along the step."""

    slope: float  # <grad(p), s>
    rise: float  # <grad(v) - grad(p), s>
    change: float  # term(v) - term(p)
    error: float = 0.0  # of the change, by rounding

    @property
    def fit(self) -> ExponentialFit:
        """The term along the step, by values and slopes at its ends."""
        return ExponentialFit.of(self.change - self.slope, self.rise, self.error)


def _along(value: float, value_v: float, slope: float, rise: float) -> Along:
    """A term along the step; its values, sums of many numbers, are wrong by `_INEXACT`."""
    told = change(value, value_v, slope, slope + rise)
    error = _INEXACT * (abs(value) + abs(value_v))
    return Along(slope, rise, told, 0.0 if math.isnan(error) else error)


@dataclass(frozen=True)
class Step:
    """The step from p to v."""

    p: Known
    v: Known
    s: Vector
    length: float  # |s|
    y_h: Vector  # grad h(v) - grad h(p)
    y_g: Vector
    h: Along
    g: Along

    @staticmethod
    def between(p: Known, v: Known, geometry: Geometry) -> Step:
        """From p to v."""
        dot, s = geometry.dot, v.v - p.v
        y_h, y_g = v.grad_h - p.grad_h, v.grad_g - p.grad_g
        slope_h, slope_g = float(dot(p.grad_h, s)), float(dot(p.grad_g, s))
        rise_h, rise_g = float(dot(y_h, s)), float(dot(y_g, s))
        h = _along(p.h, v.h, slope_h, rise_h)
        g = _along(p.g, v.g, slope_g, rise_g)
        return Step(p, v, s, geometry.norm(s), y_h, y_g, h, g)

    @property
    def f(self) -> Along:
        """f along the step."""
        h, g = self.h, self.g
        error = h.error + g.error
        return Along(h.slope + g.slope, h.rise + g.rise, h.change + g.change, error)

    @property
    def slope_v(self) -> float:
        """<grad f(v), s>."""
        return self.h.slope + self.g.slope + self.h.rise + self.g.rise

    def h_bends(self, norm: Callable[[Vector], float]) -> bool:
        """Whether h bends up along the step, as far as rounding shows."""
        return self.h.rise > CURVED * self.length * norm(self.y_h)

    def f_bends(self, norm: Callable[[Vector], float]) -> bool:
        """Whether f bends up along the step, as far as rounding shows."""
        return self.f.rise > CURVED * self.length * norm(self.y_h + self.y_g)

    def bent(self, convex: bool, norm: Callable[[Vector], float]) -> float:
        """|y_h|^2/<y_h, s> for a convex h, |y_h|/|s| otherwise: at most L_h."""
        if self.length == 0.0:
            return 0.0
        size = norm(self.y_h)
        if convex and self.h.rise > _ULPS * EPS * size * self.length:
            return size * (size / self.h.rise)
        return size / self.length

    def is_descent(self, armijo: float, rounding: float) -> bool:
        """Whether f is surely lower at v.

        By Armijo's rule; by its form for slopes [1]_ where the values differ by little; and by
        convexity, f(v) - f(p) <= <grad f(v), v - p>, where there are no values.

        References
        ----------
        .. [1] W. Hager, H. Zhang, A new conjugate gradient method with guaranteed descent and an
           efficient line search, SIAM J. Optim. 16 (2005).
        """
        p, v, slope = self.p, self.v, self.h.slope + self.g.slope
        if math.isnan(v.f):
            return self.slope_v <= 0.0
        drop = p.f - v.f
        if drop >= -armijo * slope and drop > p.rounding + v.rounding:
            return True
        close = abs(drop) <= rounding * (abs(p.h) + abs(p.g))
        return close and self.slope_v <= (2.0 * armijo - 1.0) * slope

    @property
    def drop(self) -> float:
        """A lower bound of f(p) - f(v), by values less their rounding or by convexity."""
        by_values = self.p.f - self.v.f - self.p.rounding - self.v.rounding
        return -self.slope_v if math.isnan(by_values) else max(-self.slope_v, by_values)

    @property
    def above(self) -> float:
        """A lower bound of f(v) - f(p), by values less their rounding or by convexity."""
        slope = self.h.slope + self.g.slope
        by_values = self.v.f - self.p.f - self.p.rounding - self.v.rounding
        return slope if math.isnan(by_values) else max(slope, by_values)
