r"""The length t of a step from z along -R(z): by a constant, or by secants of R.

=========  =============  ===================================================================
symbol     name           meaning
=========  =============  ===================================================================
R          ``R``          P + Q, one call of each
L          ``L``          its Lipschitz constant
w          ``w``          the point of a trial step of length t
theta      ``theta``      the trial passes if t |R(w) - R(z)| <= theta |w - z|
=========  =============  ===================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.gmco import total
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_positive
from geartrain.problem import EPS, Sum, norm

# The first secant is that of a step of this length, over the size of z; where z = 0, of that of a
# vector whose entries are a hundredth.
_PROBE, _SIZE = 1e-4, 1e-2
# A trial is at this part of the longest step that the last secant allows, and longer than the last
# step by this factor at most; a step that leads out of all numbers is shortened by _CUT.
SAFE, _GROW, _CUT = 0.9, 1.2, 0.1
# Trials in a row. Steps of this size, over that of z, are rounding errors; where no trial passes,
# those of so many rounding units of the answers are, too.
_TRIALS, _ROUNDED, _UNITS = 30, EPS, 10.0


@dataclass(frozen=True, kw_only=True)
class SteppingState(State):
    """State after k steps along -R."""

    k: int
    z: Vector
    R: Vector  # P + Q at z
    t: float  # length of the next step, or of its first trial
    grad_psi: Vector | None = None  # in dpsi(z): the one for which the residual is shortest
    stalled: bool = False
    rounding: bool = False

    @property
    def point(self) -> Vector:
        return self.z

    @property
    def grad(self) -> Vector:
        """R(z); with psi, the shortest element of R(z) + dpsi(z)."""
        return total(self.R, self.grad_psi)


@dataclass(frozen=True)
class SteppingMethod:
    """The parameters of extragradient and of optimistic gradient."""

    L: float | None = None
    theta: float = 0.9
    adaptive: bool = False

    needs: ClassVar[tuple[str, ...]] = ("operator",)
    takes_psi: ClassVar[bool] = True
    most: ClassVar[tuple[float, str]] = (1.0, "1")  # theta is below that, also in words

    def __post_init__(self) -> None:
        if self.L is not None:
            as_positive(self.L, "L")
        if not 0.0 < self.theta < self.most[0]:
            raise ValueError(f"theta must be between 0 and {self.most[1]}, got {self.theta:g}")

    def first(self, problem: Sum, z: Vector) -> tuple[Vector, float]:
        """R(z_0) and the length of the first step: by a secant if `adaptive`, else theta/L."""
        if self.adaptive:
            R = problem.grad(z)
            return R, SAFE * self.theta * by_secant(problem, z, R)
        t = by_constant(problem, self.theta, self.L, type(self).__name__)
        return problem.grad(z), t


def by_constant(problem: Sum, theta: float, L: float | None, method: str) -> float:
    """theta/L, where L is L_P + L_Q if not given; any length will do for a constant R."""
    if L is None:
        L = problem.L_h.need("L_P", method) + problem.L_g.need("L_Q", method)
    return theta / L if L > 0.0 else 1.0


def by_secant(problem: Sum, z: Vector, R: Vector) -> float:
    """|w - z|/|R(w) - R(z)| with w close to z: one call of R, and one proximal step."""
    size, slope = norm(z) or _SIZE * math.sqrt(z.size), norm(R)
    if slope == 0.0:
        return 1.0
    short = _PROBE * size / slope
    w = backward(problem, z - short * R, short)
    if (length := norm(w - z)) == 0.0:
        return short
    try:
        change = norm(problem.grad(w) - R)
    except NonFiniteAnswer:
        return short
    return length / change if 0.0 < change < math.inf else short


def backward(problem: Sum, u: Vector, t: float) -> Vector:
    """The proximal step of psi of length t from u; u itself where there is no psi."""
    return u if problem.psi is None else problem.psi.prox(u, 1.0 / t)


def finite(R: Vector) -> Vector:
    """R, unless the sum of two finite answers has overflowed."""
    if not math.isfinite(norm(R)):
        raise NonFiniteAnswer("P + Q is not finite")
    return R


class Trial(NamedTuple):
    """How a search ended."""

    w: Vector
    R: Vector | None  # R(w); None if no trial has passed
    t: float
    t_next: float  # the length to begin the next search with
    rounding: bool  # a step of the first length is rounding of z


def search(
    problem: Sum, z: Vector, R: Vector, t: float, theta: float, place: Callable[[float], Vector]
) -> Trial:
    """Shorten t until w = place(t) passes; one call of R per trial, none where w = z.

    R is known at z. With theta = inf the first trial passes.
    """
    first, failure = math.inf, None
    for trial in range(_TRIALS):
        w = place(t)
        length, still = norm(w - z), np.array_equal(w, z)
        if trial == 0:
            first = length
            if still:
                return Trial(w, R, t, t, True)
        elif still:
            break
        try:
            R_w = finite(problem.grad(w))
        except NonFiniteAnswer as error:
            if theta == math.inf:
                raise
            failure, t = error, _CUT * t
            continue
        change = norm(R_w - R)
        longest = theta * length / change if change > 0.0 else math.inf
        if t <= longest:
            t_next = min(_GROW * t, max(t, SAFE * longest))
            return Trial(w, R_w, t, t_next, first <= _ROUNDED * norm(z))
        failure, t = None, SAFE * min(t, longest or _CUT * t)
    if failure is not None:
        raise failure
    return Trial(z, None, t, t, first <= _UNITS * problem.unit * norm(z))
