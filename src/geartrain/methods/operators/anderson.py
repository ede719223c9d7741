r"""Anderson mixing: the combination of known points with the shortest residual, and a step.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
S, Y       ``S``, ``Y``    the last steps between points, and the changes of R along them
c          ``c``           least squares: \|R(z) - Y c\|
1/L        ``weight``      length of the step from the combination
a          ``anchor``      where the proven method, extragradient, goes on
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.operators.extragradient import Extragradient, ExtragradientState
from geartrain.methods.operators.step_length import SAFE, by_secant, finite
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_positive, as_whole
from geartrain.problem import Sum, norm

# A point is a success if \|R\| is at most this part of the least so far. Points in a row without
# one before a proven step, and after a proven step.
_LESS, _PATIENCE, _AGAIN = 0.9, 30, 15
# Where \|R\| is above this multiple of the least, the pairs are of no use.
_FAR = 1e3
# Of the least squares: squares of coefficients, with columns of length 1.
_RIDGE = 1e-10
_GUARD = Extragradient(adaptive=True)


@dataclass(frozen=True, kw_only=True)
class AndersonState(State):
    """State of `Anderson` after k iterations."""

    k: int
    z: Vector
    R: Vector  # P + Q at z
    weight: float  # 1/L
    least: float  # of |R| so far
    anchor: ExtragradientState
    S: tuple[Vector, ...] = ()
    Y: tuple[Vector, ...] = ()
    failures: int = 0  # points without success in a row
    stalled: bool = False
    rounding: bool = False

    @property
    def point(self) -> Vector:
        return self.z

    @property
    def grad(self) -> Vector:
        return self.R


@dataclass(frozen=True)
class Anderson:
    r"""Anderson mixing (type II) of the map z - R(z)/L, with a safeguard.

    Finds z with R(z) = 0, R = P + Q monotone and Lipschitz.

    Algorithm, from z_0 and the anchor a = z_0:

    1. c = argmin \|R(z_k) - Y c\|^2, with a ridge of 1e-10 for columns of length 1 [1]_
    2. v = z_k - S c - (R(z_k) - Y c)/L
    3. z_{k+1} = v; and a = v if \|R(v)\| is at most 0.9 of the least so far
    4. after 30 points in a row that were not, or one at which \|R(v)\| is above 1000 times the
       least (then S and Y are emptied): a = z_{k+1} = an adaptive step of `Extragradient` from a.
       The next one follows after 15 points

    Guarantee: \|R\| comes as close to 0 as one likes: either line 3 moves the anchor again and
    again, or from some iteration on line 4 alone does, which converges. For affine R and with all
    pairs it is GMRES, one iteration behind ([1]_, Theorem 2.2). One call of P and of Q per
    iteration, in one by line 4 as in `Extragradient`, and one at the start for the first secant.

    Parameters
    ----------
    L : float, optional
        Of lines 1 and 2; if not given, the newest secant \|R(z_k) - R(z_{k-1})\|/\|z_k - z_{k-1}\|.
    memory : int
        Most pairs that are kept.

    Notes
    -----
    Deviation: [1]_ has no safeguard, without which the method may diverge, and drops old pairs by
    the condition of Y instead of the ridge.

    References
    ----------
    .. [1] H. Walker, P. Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal.
       49 (2011).
    """

    L: float | None = None
    memory: int = 200

    needs: ClassVar[tuple[str, ...]] = ("operator",)

    def __post_init__(self) -> None:
        if self.L is not None:
            as_positive(self.L, "L")
        as_whole(self.memory, "memory", 1)

    def init(self, problem: Sum, x0: Vector) -> AndersonState:
        R = problem.grad(x0)
        t = by_secant(problem, x0, R)
        anchor = ExtragradientState(k=0, z=x0, R=R, t=SAFE * _GUARD.theta * t)
        weight = t if self.L is None else 1.0 / self.L
        return AndersonState(k=0, z=x0, R=R, weight=weight, least=norm(R), anchor=anchor)

    def step(self, problem: Sum, state: AndersonState) -> AndersonState:
        """Lines 1 to 3, or line 4."""
        if state.failures >= _PATIENCE:
            return self._proven(problem, state)
        v, k = _mixture(state), state.k + 1
        try:
            R = finite(problem.grad(v))
            far = norm(R) > _FAR * state.least
        except NonFiniteAnswer:
            far = True
        if far:
            return replace(state, k=k, S=(), Y=(), failures=_PATIENCE)
        anchor, failures = state.anchor, state.failures + 1
        if norm(R) <= _LESS * state.least:
            anchor, failures = replace(anchor, z=v, R=R), 0
        return self._at(state, v, R, anchor, failures)

    def _proven(self, problem: Sum, state: AndersonState) -> AndersonState:
        """Line 4."""
        anchor = _GUARD.step(problem, state.anchor)
        if anchor.stalled:
            return replace(state, k=state.k + 1, stalled=True, rounding=anchor.rounding)
        return self._at(state, anchor.z, anchor.R, anchor, _PATIENCE - _AGAIN)

    def _at(
        self, old: AndersonState, z: Vector, R: Vector, anchor: ExtragradientState, failures: int
    ) -> AndersonState:
        """The state at z, with the pair that leads there."""
        S, Y, weight = old.S, old.Y, old.weight
        s, y = z - old.z, R - old.R
        if 0.0 < (length := norm(s)) < math.inf and 0.0 < (change := norm(y)) < math.inf:
            S, Y = (*S, s / change)[-self.memory :], (*Y, y / change)[-self.memory :]
            weight = length / change if self.L is None else weight
        return AndersonState(
            k=old.k + 1,
            z=z,
            R=R,
            weight=weight,
            least=min(old.least, norm(R)),
            anchor=anchor,
            S=S,
            Y=Y,
            failures=failures,
        )


def _mixture(state: AndersonState) -> Vector:
    """The point v of lines 1 and 2."""
    z, R = state.z, state.R
    if state.S:
        S, Y = np.array(state.S).T, np.array(state.Y).T
        count = S.shape[1]
        rows = np.vstack([Y, math.sqrt(_RIDGE) * np.eye(count)])
        c = np.linalg.lstsq(rows, np.append(R, np.zeros(count)), rcond=None)[0]
        z, R = z - S @ c, R - Y @ c
    return z - state.weight * R
