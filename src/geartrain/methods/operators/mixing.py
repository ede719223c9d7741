r"""Anderson mixing, then a resolvent of Q: the method for equilibria that needs no constants.

============  =============  ===============================================================
symbol        name           meaning
============  =============  ===============================================================
R             ``R``          P + Q
z             ``z``          the anchor, of which the proof speaks
p             ``p``          the point that the mixture is made from
b             ``at.b``       the mixture, with P, Q and the residual that the pairs predict
v             ``to.v``       the trial point
e(v)          ``to.e``       the element of R(v) + dpsi(v) of least norm
u             ``u``          the element of R(v) + dpsi(v) next to L (z - v)
L_P, L_R      ``L_P``, ...   the largest changes of P and of R over a step between points taken,
                             each step back in time by 0.8 less
rho           ``rho``        how far a mixture may go, after one that went too far
============  =============  ===============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.operators.pairs import Mixture, Pairs, Visit, mixture
from geartrain.methods.operators.resolvent import Resolvent, solve
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.vectors import Vector, dot, norm
from geartrain.problem import EPS, Sum

# The probe goes this far over the size of x0; the size that stands for that of x0 = 0.
_PROBE, _SIZE = 1e-4, 1e-2
# L over L_P or L_R; the least L, over |e(x0)| and the size of x0; L falls by the last factor where
# R does not change.
_SHORTER, _LEAST, _FLAT = 0.3, 1e-12, 0.25
# What an older secant counts for L_P and L_R. Without it a P that is steep at the start only is
# asked twice as often, or without end; 0.7 to 0.95 are alike.
_FORGET = 0.8
# Accuracy of a resolvent over the mixed residual, or over this part of that at p.
_ACCURACY, _FLOOR = 0.1, 0.01
# A residual that falls by this factor is taken; the mixture goes on from residuals below _GROWN
# times the best; the radius after others, over the length of the step.
_EDUCATED, _GROWN, _RADIUS = 0.9, 100.0, 0.25
# Failures in a row after which the other map is taken, and the proven step; after a proven step the
# next one comes _BACK failures earlier. Factors of its L.
_OTHER, _GUARD, _BACK = 12, 30, 15
_RAISE, _LOWER = 2.0, 0.8
# A residual of so many rounding units does not fall any more after so many failures. R that does
# not change for so many steps, and over _FAR times the size of x0, has no zero. After _HOPELESS
# failures, those beyond _GUARD with proven steps of ever smaller lengths, nothing helps.
_UNITS, _TRIES, _FAR, _HOPELESS = 10.0, 5, 1e6, _GUARD + 60
# R is not monotone where <R(v) - R(p), v - p> is below minus this part of the norms, and the change
# of R is so many times above rounding.
_MONOTONE, _CLEAR = 1e-6, 1e3


@dataclass(frozen=True, kw_only=True)
class AndersonResolventState(State):
    """State of `AndersonResolvent` after k iterations."""

    k: int
    z: Vector
    p: Visit
    best: Visit  # with the shortest e; the output
    pairs: Pairs
    size: float  # of x0
    least: float  # L is never below
    unit: float  # of rounding
    L_P: float = 0.0
    L_Q: float = 0.0
    L_R: float = 0.0
    flat: float = 1.0  # factor of L, where R does not change
    kept: bool = True  # which map: the resolvent of Q, or a step along R
    rho: float = math.inf
    fails: int = 0  # in a row
    L_proven: float = math.nan  # of the next proven step, after the first one
    L: float = math.nan  # of the last trial
    kind: str = "start"  # "educated", "separating", "failure"; "anchor" where P was asked at z
    stalled: bool = False
    rounding: bool = False
    refuted: bool = False
    note: str = ""

    @property
    def point(self) -> Vector:
        """The visited point with the shortest residual."""
        return self.best.v

    @property
    def grad(self) -> Vector:
        """The residual there: R, or the element of R + dpsi of least norm."""
        return self.best.e

    @property
    def grad_psi(self) -> Vector:  # type: ignore[override]
        """Its part in dpsi."""
        return self.best.e - self.best.R

    @property
    def is_at_anchor(self) -> bool:
        return np.array_equal(self.p.v, self.z)


@dataclass(frozen=True)
class AndersonResolvent:
    r"""Anderson mixing, then a resolvent of Q, with separating steps and a proven step as guard.

    Finds z with 0 in R(z) + dpsi(z), R = P + Q monotone, P dear, Q cheap, psi convex (or none). No
    constants are needed. Every iteration asks P once; or not at all, where its point is p itself.

    Algorithm, from p = z = x0 and the pair of one short step along -R, for k = 0, 1, ...::

        1. b = p + S c, P(b) ~ P(p) + dP c, Q(b) ~ Q(p) + dQ c; c = argmin |r(b)|^2
           (+ (|r(p)|/rho)^2 |S c|^2): without psi, r = R [1]_; with psi,
           r = L_R (b - prox(b - R(b)/L_R, L_R)) by Gauss-Newton steps, no calls but of psi
        2. kept:   0 in P(b) + Q(v) + L (v - b) + dpsi(v),  L = 0.3 L_P
           plain:  v = prox(b - R(b)/L, L),                 L = 0.3 L_R
           (kept first; after 12 failures in a row the other one)
        3. P(v); u in R(v) + dpsi(v), the element next to L (z - v)
           educated,   |e(v)| <= 0.9 best:                           z = p = v
           separating, <u, z - v> >= sqrt(1 - sigma^2) |u| |z - v|:  t = <u, z - v>/|u|^2,
                       z = prox(z - t R(v), 1/t), p = v
           failure:    p = v if |e(v)| <= 100 best, otherwise rho = |v - p|/4
        4. after 30 failures (or separating steps of less than half the length of a proven one)
           p = z, and 2. is  0 in P(z) + Q(v) + L (v - z) + dpsi(v), L = L_P/(sigma (1 - zeta));
           where that fails, 2 L; otherwise 0.8 L, and the next one after 15 failures

    Guarantee: a separating step brings z nearer to every solution z*, whatever v is::

        |z+ - z*|^2 <= |z - z*|^2 - <u, z - v>^2/|u|^2 <= |z - z*|^2 - (1 - sigma^2) |z - v|^2

    Proof: z+ is a proximal step, so
    \|z+ - z*\|^2 <= \|z - z*\|^2 - \|z+ - z\|^2 - 2t (<R(v), z+ - z*> + psi(z+) - psi(z*)); R is
    monotone and u - R(v) in dpsi(v), so the bracket is at least <u, z+ - v>; and
    \|z+ - z\|^2 + 2t <u, z+ - v> >= 2t <u, z - v> - t^2 \|u\|^2. A proven step is separating once
    L >= Lip(P)/(sigma (1 - zeta)) [2]_. To \|e\| <= tol \|e(x0)\| there are at most
    ln(1/tol)/ln(1/0.9) educated steps. P is asked twice before the first iteration.

    Parameters
    ----------
    sigma : float
        Of the separation, between 0 and 1.
    zeta : float
        Resolvents are solved to \|e\| <= zeta sigma L \|v - b\|; between 0 and 1.

    Notes
    -----
    Where 90 % of the mixed residual is in the span of the steps, as skew parts make it, the newest
    change of R is added to P(b): Krylov spaces stand still there. Where R does not change at all, L
    falls by a factor of 4 per step.

    References
    ----------
    .. [1] D. Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12 (1965).
    .. [2] M. Solodov, B. Svaiter, A hybrid approximate extragradient-proximal point algorithm using
       the enlargement of a maximal monotone operator, Set-Valued Anal. 7 (1999).
    """

    sigma: float = 0.9
    zeta: float = 0.3

    needs: ClassVar[tuple[str, ...]] = ("operator",)
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("sigma", "zeta"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)!r}")

    def init(self, problem: Sum, x0: Vector) -> AndersonResolventState:
        """P and Q at x0 and at a point near it."""
        at = _visit(problem, x0, problem.g.operator(x0))
        r, size = norm(at.e), norm(x0) or _SIZE * math.sqrt(x0.size)
        state = AndersonResolventState(
            k=0,
            z=x0,
            p=at,
            best=at,
            pairs=Pairs.none(x0.size),
            size=size,
            least=_LEAST * r / size,
            unit=problem.unit,
        )
        length = _PROBE * size
        while r > 0.0:
            try:
                near = _forward(problem, x0, at.R, r / length)
                return _learned(state, _visit(problem, near.v, near.Q, near.w), True)
            except NonFiniteAnswer:
                length *= 1e-3
                if length < EPS * size:
                    raise
        return state

    def step(self, problem: Sum, state: AndersonResolventState) -> AndersonResolventState:
        """Lines 1 to 3 for one trial point; or P at the anchor, for line 4."""
        state = replace(state, k=state.k + 1, kind="failure", note="")
        proven, length = state.fails >= _GUARD, math.inf
        if proven and not state.L_proven > 0.0:
            state = replace(state, L_proven=self._proven_L(state))
        if proven and np.array_equal(state.best.v, state.z):  # the anchor was visited
            state = replace(state, p=state.best)
        try:
            if proven and not state.is_at_anchor:
                to = _visit(problem, state.z, problem.g.operator(state.z))
                state = _learned(state, to, True)
                return replace(state, p=to, best=_better(state.best, to), kind="anchor")
            L, found = self._trial(problem, state, proven)
            length = norm(found.v - state.p.v)
            if length <= EPS * norm(state.p.v):
                return _nowhere(state, proven)
            if not length < math.inf:
                raise NonFiniteAnswer("a step of the method led too far for numbers")
            to = _visit(problem, found.v, found.Q, found.w)
        except NonFiniteAnswer:
            return _refused(state, proven, length)
        state = replace(state, L=L, L_Q=max(state.L_Q, found.lipschitz))
        return self._judged(problem, state, to, found.w, proven)

    def _proven_L(self, state: AndersonResolventState) -> float:
        if state.L_proven > 0.0:
            return state.L_proven
        return max(state.L_P, state.least) / (self.sigma * (1.0 - self.zeta))

    def _trial(
        self, problem: Sum, state: AndersonResolventState, proven: bool
    ) -> tuple[float, Resolvent]:
        """L and the trial point of lines 1 and 2, or of line 4."""
        p, g, psi = state.p, problem.g, problem.psi
        if proven:
            at, L = Mixture(p.v, p.P, p.Q, math.inf), state.L_proven
        else:
            at = mixture(p, state.pairs, psi, max(state.L_R, state.least), state.rho)
            slope = _SHORTER * state.flat * (state.L_P if state.kept else state.L_R)
            L = max(slope, at.r / state.rho, state.least)
            if not state.kept:
                return L, _forward(problem, at.b, at.P + at.Q, L)
        accuracy = _ACCURACY * max(at.r, _FLOOR * norm(p.e))

        def enough(v: Vector, e: float) -> bool:
            return e <= min(self.zeta * self.sigma * L * norm(v - at.b), accuracy)

        Q = at.Q if proven or psi is not None else None  # without psi Q(b) itself is asked
        return L, solve(g, psi, at.P, L, at.b, at.b, enough, Q, state.L_Q, state.unit)

    def _judged(
        self,
        problem: Sum,
        state: AndersonResolventState,
        to: Visit,
        w: Vector | None,
        proven: bool,
    ) -> AndersonResolventState:
        """Line 3, and the numbers of the next trial."""
        p, z, L, r, least = state.p, state.z, state.L, norm(to.e), norm(state.best.e)
        length, d = norm(to.v - p.v), z - to.v
        u = problem.subgradient(to.v, to.R - L * d, w) + L * d
        along, lengths = dot(u, d), norm(u) * norm(d)
        taken, slow = True, False
        if r <= _EDUCATED * least:
            kind, z = "educated", to.v
        elif 0.0 < math.sqrt(1.0 - self.sigma**2) * lengths <= along:
            kind, t = "separating", along / norm(u) / norm(u)
            z = z - t * u if problem.psi is None else problem.psi.prox(z - t * to.R, 1.0 / t)
            slow = not proven and 1.0 / t > 2.0 * self._proven_L(state)
        else:
            kind, taken = "failure", not proven and r <= _GROWN * least
        failed = kind == "failure"
        fails = state.fails + 1 if failed or slow else _GUARD - _BACK if proven else 0
        is_flat = not norm(to.R - p.R) > _level(state, to)
        new = replace(
            _learned(state, to, taken),
            z=z,
            p=to if taken else p,
            best=_better(state.best, to),
            kind=kind,
            fails=fails,
            flat=_FLAT * state.flat if is_flat and kind == "separating" else 1.0,
        )
        if proven:
            new = replace(new, L_proven=(_RAISE if failed else _LOWER) * L)
        else:
            near = max(state.rho, 2.0 * length) if failed else math.inf
            new = replace(
                new,
                rho=near if taken else _RADIUS * length,
                kept=state.kept ^ (fails > 0 and fails % _OTHER == 0),
            )
        rounding = fails >= _TRIES and _is_rounding(new)
        endless = new.flat <= _FLAT**_TRIES and length > _FAR * state.size
        return replace(new, stalled=rounding or endless or fails >= _HOPELESS, rounding=rounding)


def _visit(problem: Sum, v: Vector, Q: Vector, w: Vector | None = None) -> Visit:
    """The point v, for one call of P."""
    P = problem.h.operator(v)
    return Visit(v, P, Q, problem.subgradient(v, P + Q, w))


def _forward(problem: Sum, b: Vector, R: Vector, L: float) -> Resolvent:
    """prox(b - R/L, L), for one call of Q."""
    u = b - R / L
    v = u if problem.psi is None else problem.psi.prox(u, L)
    return Resolvent(v, problem.g.operator(v), np.zeros(v.size), L * (u - v), 0.0)


def _better(best: Visit, to: Visit) -> Visit:
    return to if norm(to.e) < norm(best.e) else best


def _learned(state: AndersonResolventState, to: Visit, taken: bool) -> AndersonResolventState:
    """With the pair of the step from p, and what it tells of R; rounding errors tell nothing."""
    p, length, change = state.p, norm(to.v - state.p.v), norm(to.R - state.p.R)
    if not change > _level(state, to):
        return state
    state = replace(state, pairs=state.pairs.and_step(p, to))
    if not taken:
        return state

    def secant(new: Vector, old: Vector) -> float:
        return (norm(new - old) - 4.0 * state.unit * (norm(new) + norm(old))) / length

    turned = dot(to.R - p.R, to.v - p.v) < -_MONOTONE * change * length
    if turned and change > _CLEAR * _level(state, to) and not state.refuted:
        note = "two answers show that P + Q is not monotone: nothing is proven"
        state = replace(state, refuted=True, note=note)
    return replace(
        state,
        L_P=max(_FORGET * state.L_P, secant(to.P, p.P)),
        L_Q=max(state.L_Q, secant(to.Q, p.Q)),
        L_R=max(_FORGET * state.L_R, secant(to.R, p.R)),
    )


def _level(state: AndersonResolventState, at: Visit) -> float:
    """Of rounding errors of R."""
    return _UNITS * state.unit * (norm(at.P) + norm(at.Q))


def _refused(state: AndersonResolventState, proven: bool, length: float) -> AndersonResolventState:
    """After an answer that is not finite, at a step of that length, where it is known."""
    state = replace(state, fails=state.fails + 1)
    if proven and not state.is_at_anchor:  # P has no value at the anchor
        return replace(state, z=state.p.v)
    if proven:
        stalled = state.fails >= _HOPELESS
        return replace(state, L_proven=_RAISE * state.L_proven, stalled=stalled)
    if not length < math.inf:
        length = min(state.rho, state.size / _RADIUS)
    return replace(state, rho=_RADIUS * length)


def _nowhere(state: AndersonResolventState, proven: bool) -> AndersonResolventState:
    """After a trial at p itself: the guard comes, and after the guard nothing."""
    if not proven:
        return replace(state, fails=_GUARD)
    return replace(state, stalled=True, rounding=_is_rounding(state))


def _is_rounding(state: AndersonResolventState) -> bool:
    """Whether the best residual is a rounding error of its terms or of its point."""
    at, newest = state.best, state.pairs.P[:3] + state.pairs.Q[:3]
    slope = min((norm(row) for row in newest), default=0.0)
    level = _level(state, at) + _UNITS * state.unit * slope * norm(at.v)
    return norm(at.e) <= level and not state.refuted
