r"""Points that a run may return, and what is proven about them.

For convex f, a point v, the distance R >= \|x0 - x*\|, and grad f(v), or a subgradient there:

====  ==========================================  ==============================================
(a)   \|grad f(v)\|^2/(2 mu)                      f is mu-strongly convex
(b)   \|grad f(v)\| (\|v - x0\| + R)              f(v) - f* <= <grad f(v), v - x*>
(c)   R^2/(2 A)                                   the method's own weight A of that point, from x0
(d)   max <grad f(v), v - s> over the domain of   f(v) - f* <= <grad f(v), v - x*>, needs no R
      psi, where that is finite
(e)   <u, v> + (f(v) - b) polar(u), u a           psi is a norm and h + g >= b, so that psi(x*) <=
      subgradient, polar the dual norm of psi     f* - b <= f(v) - b; needs no R
(f)   the rate of the method on a bounded set     the method's own proof; needs no R
====  ==========================================  ==============================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geartrain.core.contracts import State
from geartrain.oracles.protocols import Vector, calls_user_code
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import dot
from geartrain.problem import EPS, Constant, Sum

# Values that differ by no more than this part of them are equal up to rounding.
_LEVEL = 4.0 * EPS


@dataclass(frozen=True)
class Certificate:
    """An upper bound on f(x) - f*, and what it rests on."""

    bound: float
    assumption: str

    def __float__(self) -> float:
        return self.bound


class Seen(NamedTuple):
    """With a non-smooth term: a subgradient of f, and its part that belongs to psi."""

    subgradient: Vector | None = None
    grad_psi: Vector | None = None
    spread: float = math.nan  # or the Frank-Wolfe gap alone


NOTHING_SEEN = Seen()


@dataclass(frozen=True)
class RunPoint:
    """A point, and what a run knows there."""

    x: Vector
    f: float = math.nan
    grad_norm: float = math.nan  # |grad f(x)|
    weight: float = math.nan  # A of (c)
    rests_on: tuple[str, ...] = ()  # constants of the problem that the weight rests on
    subgradient: Vector | None = None  # of (d) and (e), with a non-smooth term
    grad_psi: Vector | None = None  # the part of it that belongs to psi
    spread: float = math.nan  # (d), where the method knows it
    rate: float = math.nan  # of (f)
    below: bool = False  # f(x) <= f(x0) is shown, by <grad f(x), x0 - x> >= 0 for convex f

    @staticmethod
    def of(state: State, f: float, grad_norm: float, seen: Seen) -> tuple[RunPoint, ...]:
        """The output of a state, and the point of its gradient where that is another one."""
        unknown = state.grad is None and math.isnan(state.frank_wolfe_gap)
        own = unknown or state.grad_point is state.point
        output = RunPoint(
            state.point,
            f,
            grad_norm if own else math.nan,
            float(state.gap_weight),
            state.gap_rests_on,
            *(seen if own else NOTHING_SEEN),
            rate=float(state.gap_bound),
        )
        if own:
            return (output,)
        return output, RunPoint(state.grad_point, math.nan, grad_norm, math.nan, (), *seen)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.x).all())

    def better_than(self, other: RunPoint) -> bool:
        """Smaller f, if by more than rounding, else smaller gradient or gap, else the newer one."""
        slopes = not (math.isnan(self.grad_norm) or math.isnan(other.grad_norm))
        if not (math.isnan(self.f) or math.isnan(other.f)):
            level = abs(self.f - other.f) <= _LEVEL * abs(other.f)
            if not (level and slopes):
                return self.f <= other.f
        if slopes:
            return self.grad_norm <= other.grad_norm
        return not self.gap > other.gap

    @property
    def gap(self) -> float:
        """The smaller one of (d) and (f); nan where none is known."""
        return float(np.fmin(self.spread, self.rate))

    def certificates(self, problem: Sum, x0: Vector, claims: object) -> list[Certificate]:
        """What (a) to (f) give here.

        `claims` is the stopping rule, which may state ``R`` or ``mu``.
        """
        R: float | None = getattr(claims, "R", None)
        mu, slope = problem.mu, self.grad_norm
        if not mu.value:
            mu = Constant(getattr(claims, "mu", None), "given")
        found: list[tuple[float, str]] = []
        if mu.value and not math.isnan(slope):
            told = f"f is {mu.value:.6g}-strongly convex (mu is {mu.origin}{_taken(problem)})"
            found.append((slope * (slope / (2.0 * mu.value)), told))
        if R is not None:
            told = f"|x0 - x*| <= {R:g}, f convex"
            if not math.isnan(slope):
                found.append((slope * (problem.geometry.norm(self.x - x0) + R), told))
            if self.weight > 0.0:
                found.append((0.5 * R * (R / self.weight), told + self._sources(problem)))
        inside = f"f convex, x* in the domain of {problem.psi!r}"
        if math.isfinite(self.spread):
            found.append((self.spread, inside))
        if math.isfinite(self.rate):
            found.append((self.rate, f"{inside}, its diameter" + self._sources(problem)))
        if problem.psi is not None and self.subgradient is not None:
            found += self._by_psi(problem, problem.psi, self.subgradient, inside)
        # Differences may fall below 0 by rounding.
        return [Certificate(max(float(bound), 0.0), told) for bound, told in found]

    def _by_psi(self, problem: Sum, psi: Psi, u: Vector, inside: str) -> list[tuple[float, str]]:
        """What (d) and (e) give. (d) may take a linear program: it is not asked for in vain."""
        found = []
        if math.isfinite(spread := psi.gap(self.x, u)):
            found.append((spread, inside))
        b = problem.lower_bound if math.isfinite(polar := psi.polar(u)) else None
        if b is not None and math.isfinite(self.f):
            told = f"f convex, h + g >= {b:.6g} (stated by the terms)"
            found.append((dot(u, self.x) + (self.f - b) * polar, told))
        return found

    def _sources(self, problem: Sum) -> str:
        """Where the constants are from that (c) and (f) rest on."""
        return "".join(f", {name} is {getattr(problem, name).origin}" for name in self.rests_on)

    def certificate(self, problem: Sum, x0: Vector, claims: object) -> Certificate | None:
        """The smallest of them, or None; there is none for operators."""
        return min(self.certificates(problem, x0, claims), key=float, default=None)


def _taken(problem: Sum) -> str:
    """Words for the terms of the user, whose convexity is a statement, or the default of one."""
    names = [o.name for o in problem.oracles if o.term.convex and calls_user_code(o.term)]
    return f"; {' and '.join(names)} taken to be convex" if names else ""
