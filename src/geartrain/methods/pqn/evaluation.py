r"""The terms as the learned method asks them, and what it knows at a point and along a step.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p, v       `Point`         points where gradients, and mostly values, of all terms are known
r          ``r``           the shortest known subgradient of f = h + g + psi
s          ``s``           v - p
slope      ``slope``       <grad (h + g)(p), s> + psi(v) - psi(p): of f at p, at least
D          ``scale``       the method works in the variables sqrt(D) x where D is given
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.methods.pqn.line_models import ROUNDING, ExponentialFit, change
from geartrain.methods.pqn.records import replace
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import EPS, Sum

# Values are right to this multiple of the rounding unit; and to this part of their size, where the
# curvature along a step is to be told from them. Those that differ by less than `ROUNDING` of their
# size, or by `_ALIKE` units, differ by rounding.
_ULPS, _INEXACT, _ALIKE = 16.0, 1e-12, 64.0
# A step shows curvature where <s, y> exceeds this part of |s| |y|.
CURVED = 1e-12
# A gradient of f is rounding error below so many units of those of h and g.
_LEVEL = 10.0
# Armijo's constant.
_ARMIJO = 1e-4
# Squares of lengths beyond this overflow.
_FAR = 1e150


@dataclass(frozen=True)
class Point:
    """A point and what is known there; values are nan where the terms give none."""

    v: Vector
    h: float
    grad_h: Vector
    g: float
    grad_g: Vector
    psi: float
    r: Vector
    unit: float = EPS  # of rounding in the answers

    @property
    def f(self) -> float:
        """f(v)."""
        return self.h + self.g + self.psi

    @cached_property
    def grad(self) -> Vector:
        """Gradient of h + g."""
        return self.grad_h + self.grad_g

    @property
    def rounding(self) -> float:
        """Size of the rounding error in f(v)."""
        psi = 0.0 if math.isnan(self.psi) else abs(self.psi)  # then its change is bounded by slopes
        return _ULPS * self.unit * (abs(self.h) + abs(self.g) + psi)

    def is_level(self, norm: Callable[[Vector], float]) -> bool:
        """Whether the subgradient of f is rounding error."""
        return norm(self.r) <= _LEVEL * self.unit * (norm(self.grad_h) + norm(self.grad_g))


class NoPsi:
    """psi = 0."""

    separable = has_value = has_residual = is_finite = True

    def value(self, v: Vector) -> float:
        """The number 0."""
        return 0.0

    def prox(self, u: Vector, alpha: Any) -> Vector:
        """The point itself."""
        return u

    def residual(self, v: Vector, d: Vector, w: Vector | None = None) -> Vector:
        """The gradient itself."""
        return d


NO_PSI = NoPsi()


class ScaledPsi:
    """A separable psi as a function of the scaled variables t x."""

    def __init__(self, psi: Psi, t: Vector) -> None:
        self.psi, self.t, self.term = psi, t, psi.term
        self.separable, self.has_value = True, psi.has_value
        self.has_residual = psi.has_residual
        self.has_derivative = psi.has_derivative

    def value(self, v: Vector) -> float:
        """psi(x)."""
        return self.psi.value(v / self.t)

    def prox(self, u: Vector, alpha: Any) -> Vector:
        """Its proximal step."""
        return self.t * self.psi.prox(u / self.t, alpha * self.t**2)

    def derivative(self, u: Vector, alpha: Any) -> Any:
        """Of its proximal step; it is diagonal."""
        return self.psi.derivative(u / self.t, alpha * self.t**2)

    def residual(self, v: Vector, d: Vector, w: Vector | None = None) -> Vector:
        """The element of d + dpsi(v) of least norm, coordinate by coordinate."""
        known = None if w is None else w * self.t
        return self.psi.residual(v / self.t, d * self.t, known) / self.t


class TermEvaluator:
    """Gradients of both terms, with values where they come with the gradients of h.

    Parameters
    ----------
    problem : Sum
        The counted problem.
    scale : vector, optional
        sqrt(D): points are sqrt(D) x, and gradients are divided by it.
    """

    def __init__(self, problem: Sum, scale: Vector | None = None) -> None:
        self.problem, self.geometry, self.scale = problem, problem.geometry, scale
        self.norm: Callable[[Vector], float] = problem.geometry.norm
        self.dot: Callable[[Vector, Vector], float] = problem.geometry.dot
        self.psi: Any = NO_PSI if problem.psi is None else problem.psi
        if problem.psi is not None and scale is not None:
            self.psi = ScaledPsi(problem.psi, scale)
        self.smooth = problem.psi is None
        self.values, self._fused = problem.fuses_h and problem.tells_g, problem.fuses_g

    def outside(self, v: Vector) -> Vector:
        """The point x that v stands for."""
        return v if self.scale is None else v / self.scale

    def gradient_outside(self, grad: Vector) -> Vector:
        """A gradient as one in x."""
        return grad if self.scale is None else grad * self.scale

    def cut(self, p: Point) -> tuple[Vector, Vector]:
        """The point x that p stands for, and the subgradient there."""
        return self.outside(p.v), self.gradient_outside(p.r)

    def moved(self, p: Point, terms: TermEvaluator) -> Point:
        """A point of other variables in these ones."""
        if self.scale is terms.scale:
            return p
        new, old = (1.0 if terms.scale is None else terms.scale for terms in (self, terms))
        t = new / old
        return Point(t * p.v, p.h, p.grad_h / t, p.g, p.grad_g / t, p.psi, p.r / t, p.unit)

    def h(self, v: Vector) -> tuple[float, Vector]:
        """Value and gradient of h: one call. The value is nan where there is none."""
        x = self.outside(v)
        value, grad = (
            self.problem.h.value_and_grad(x) if self.values else (math.nan, self.problem.h.grad(x))
        )
        return value, grad if self.scale is None else grad / self.scale

    def g(self, v: Vector) -> tuple[float, Vector]:
        """Gradient of g, and its value where that costs no call of its own."""
        x, g = self.outside(v), self.problem.g
        value, grad = g.value_and_grad(x) if self.values and self._fused else (math.nan, g.grad(x))
        return value, grad if self.scale is None else grad / self.scale

    def at(self, v: Vector, known_g: tuple[float, Vector] | None = None) -> Point:
        """h and g at any v, in the domain of psi or not; what is known is not asked for again."""
        h, grad_h = self.h(v)
        g, grad_g = self.g(v) if known_g is None else known_g
        if self.values and math.isnan(g):
            g = self.problem.g.value(self.outside(v))
        return Point(v, h, grad_h, g, grad_g, 0.0, grad_h + grad_g, self.problem.unit)

    def both(
        self, v: Vector, known_g: tuple[float, Vector] | None = None, w: Vector | None = None
    ) -> Point:
        """All terms at v in the domain of psi; w is a known element of dpsi(v)."""
        if not self.norm(v) < _FAR:
            raise NonFiniteAnswer("a step of the method led too far for numbers")
        p = self.at(v, known_g)
        if self.smooth:
            return p
        return replace(p, psi=self.psi_at(v), r=self.psi.residual(v, p.r, w))

    def psi_at(self, v: Vector) -> float:
        """psi at a proximal step; nan where there is no value.

        A proximal step is in the domain of psi. Where the value is infinite all the same, rounding
        has moved it out of a set whose indicator allows for none, and no value is known.
        """
        value = self.psi.value(v) if self.psi.has_value else math.nan
        return value if math.isfinite(value) else math.nan


@dataclass(frozen=True)
class Along:
    """One term along the step."""

    slope: float  # <grad(p), s>
    rise: float  # <grad(v) - grad(p), s>
    change: float  # term(v) - term(p)
    error: float = 0.0  # of the change, by rounding

    @staticmethod
    def of(value: float, value_v: float, slope: float, rise: float, unit: float) -> Along:
        """By values, whose rounding unit is given, and slopes at both ends."""
        error = max(_INEXACT, _ULPS * unit) * (abs(value) + abs(value_v))
        told = change(value, value_v, slope, slope + rise, max(ROUNDING, _ALIKE * unit))
        return Along(slope, rise, told, 0.0 if math.isnan(error) else error)

    def __add__(self, other: Along) -> Along:
        return Along(
            self.slope + other.slope,
            self.rise + other.rise,
            self.change + other.change,
            self.error + other.error,
        )

    @property
    def fit(self) -> ExponentialFit:
        """The term along the step."""
        return ExponentialFit.of(self.change - self.slope, self.rise, self.error)


@dataclass(frozen=True)
class Step:
    """The step from p to v, once h is known there: is f lower, and by what."""

    p: Point
    v: Point
    s: Vector
    length: float
    y_h: Vector  # grad h(v) - grad h(p)
    y_g: Vector
    own: Vector  # inner products of s, y_h, y_g with each other
    h: Along
    g: Along
    rise_psi: float  # psi(v) - psi(p), at most

    @staticmethod
    def between(p: Point, v: Point, terms: TermEvaluator) -> Step:
        """From p to v."""
        dot, s = terms.dot, v.v - p.v
        y_h, y_g = v.grad_h - p.grad_h, v.grad_g - p.grad_g
        ss, sh, sg = dot(s, s), dot(s, y_h), dot(s, y_g)
        hg = dot(y_h, y_g)
        own = np.array([[ss, sh, sg], [sh, dot(y_h, y_h), hg], [sg, hg, dot(y_g, y_g)]])
        h = Along.of(p.h, v.h, float(dot(p.grad_h, s)), float(own[0, 1]), v.unit)
        g = Along.of(p.g, v.g, float(dot(p.grad_g, s)), float(own[0, 2]), v.unit)
        rise = 0.0 if terms.smooth else _rise(p, v, float(dot(v.r - v.grad, s)), terms)
        return Step(p, v, s, terms.norm(s), y_h, y_g, own, h, g, rise)

    @cached_property
    def f(self) -> Along:
        """h + g along the step."""
        return self.h + self.g

    @property
    def slope(self) -> float:
        """Of f at p, at least."""
        return self.f.slope + self.rise_psi

    @property
    def change(self) -> float:
        """f(v) - f(p), at most."""
        return self.f.change + self.rise_psi

    def size(self, i: int) -> float:
        """|s|, |y_h| or |y_g|."""
        return math.sqrt(max(float(self.own[i, i]), 0.0))

    def bends(self, c_h: float, c_g: float) -> bool:
        """Whether c_h h + c_g g bends up along the step, as far as rounding shows."""
        square = self.own[1:, 1:] @ (c_h, c_g) @ (c_h, c_g)
        rise = c_h * self.h.rise + c_g * self.g.rise
        return rise > CURVED * self.length * math.sqrt(max(float(square), 0.0))

    def is_lower(self, size: float, size_v: float) -> bool:
        """Whether f is surely lower at v, where |r| is `size` at p and `size_v` at v.

        By Armijo's rule; by its form for slopes [1]_ where the values differ by little; and by
        convexity, f(v) - f(p) <= <r(v), v - p>, where there are no values.

        References
        ----------
        .. [1] W. Hager, H. Zhang, A new conjugate gradient method with guaranteed descent and an
           efficient line search, SIAM J. Optim. 16 (2005).
        """
        p, v, slope = self.p, self.v, self.slope
        if not slope < 0.0:
            return False
        slope_v = self.f.slope + self.f.rise + self.rise_psi
        if math.isnan(v.h + v.g):
            return slope_v <= 0.0
        drop = p.h + p.g - v.h - v.g - self.rise_psi
        if drop >= -_ARMIJO * slope and drop > p.rounding + v.rounding:
            return True
        close = abs(drop) <= max(ROUNDING, _ALIKE * v.unit) * (abs(p.h) + abs(p.g))
        return close and (slope_v <= (2.0 * _ARMIJO - 1.0) * slope or size_v < 0.9 * size)

    def fall(self, terms: TermEvaluator) -> float:
        """A lower bound of f(p) - f(v), by values less their rounding and by convexity."""
        return fall(self.p, self.v, terms)


def fall(p: Point, v: Point, terms: TermEvaluator) -> float:
    """A lower bound of f(p) - f(v), by values less their rounding and by convexity."""
    by_slope = float(terms.dot(v.r, p.v - v.v))
    by_values = p.f - v.f - p.rounding - v.rounding
    return by_slope if math.isnan(by_values) else max(by_slope, by_values)


def _rise(p: Point, v: Point, bound: float, terms: TermEvaluator) -> float:
    """psi(v) - psi(p), or its upper bound <u, v - p>, u in dpsi(v), where that is rounding."""
    told = v.psi - p.psi
    if math.isnan(told):
        return bound
    if p.psi == v.psi == 0.0:  # of a set: exact
        return 0.0
    near = _INEXACT * (abs(p.psi) + terms.norm(p.grad) * terms.norm(p.v))
    contradicts = bound < told <= bound + 1e-6 * (abs(p.psi) + abs(v.psi))
    return bound if abs(told) <= near or contradicts else told
