r"""Anderson mixing, then a resolvent of Q: the method for equilibria that needs no constants.

============  =============  ===============================================================
symbol        name           meaning
============  =============  ===============================================================
R             ``R``          P + Q
z             ``z``          the anchor, of which the proof speaks
p             ``p``          the point that the mixture is made from
s, dP, dQ     ``pairs``      steps between visited points, changes of P and Q along them
e(v)          ``Visit.e``    the element of R(v) + dpsi(v) of least norm
L_P, L_R      ``L_P``, ...   the largest changes of P and of R over a step between points taken
D             ``D``          the derivative of the proximal step at p - R(p)/L_R
rho           ``rho``        how far a mixture may go, after one that went too far
============  =============  ===============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.operators.resolvent import derivative, solve
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.vectors import Vector, dot, norm
from geartrain.problem import EPS, Sum

# The probe goes this far over the size of x0; the size that stands for that of x0 = 0.
_PROBE, _SIZE = 1e-4, 1e-2
# Steps with less than this outside of the newer ones are left out; weight of |c|^2; where less than
# _NOVEL of the mixed residual is outside of the steps, the newest change stands for it.
_NEW, _RIDGE, _NOVEL = 1e-3, 1e-12, 0.1
# L over L_P or L_R; the least L, over |e(x0)| and the size of x0.
_SHORTER, _LEAST = 0.3, 1e-12
# Accuracy of a resolvent over the mixed residual, or this part of that at p.
_ACCURACY, _FLOOR = 0.1, 0.01
# A residual that falls by this factor is taken; the mixture goes on from residuals below _GROWN
# times the best; the radius after others, over the length of the step.
_EDUCATED, _GROWN, _RADIUS = 0.9, 100.0, 0.25
# Failures in a row after which the other map is taken, the proven step comes, and the ones that are
# left to the next proven step; factors of its L.
_OTHER, _GUARD, _BACK = 12, 30, 15
_RAISE, _LOWER = 2.0, 0.8
# A residual of so many rounding units is not improved any more after so many failures. R that does
# not change over _FAR times the size of x0 has no zero; nor do proven steps help that fail with an
# L of _HOPELESS times what was seen.
_UNITS, _TRIES, _FAR, _HOPELESS = 10.0, 5, 1e6, 1e16


@dataclass(frozen=True)
class Visit:
    """A point with P and Q there."""

    v: Vector
    P: Vector
    Q: Vector
    e: Vector  # the element of R(v) + dpsi(v) of least norm

    @property
    def R(self) -> Vector:
        return self.P + self.Q


@dataclass(frozen=True)
class Pairs:
    """Steps of length 1 and the changes of P and Q along them, one per row, newest first."""

    s: Vector
    P: Vector
    Q: Vector

    def with_newest(self, p: Visit, to: Visit) -> Pairs:
        """With the step from p to `to`; of n variables min(n, 200) + 20 are kept."""
        s, n = to.v - p.v, p.v.size
        new, most = (s, to.P - p.P, to.Q - p.Q), min(n, 200) + 20
        return Pairs(
            *(
                np.vstack([x / norm(s), rows])[:most]
                for x, rows in zip(new, self._rows, strict=True)
            )
        )

    @property
    def _rows(self) -> tuple[Vector, Vector, Vector]:
        return self.s, self.P, self.Q

    def independent(self) -> tuple[Vector, Vector, Vector]:
        """The steps, changes of P and changes of R as columns, without what newer steps tell."""
        S, P, Q = (rows.T for rows in self._rows)
        R = P + Q
        for _ in range(3):
            S, P, R = (columns[:, : len(columns)] for columns in (S, P, R))
            new = np.abs(np.linalg.qr(S, mode="r").diagonal()) > _NEW
            if new.all():
                break
            S, P, R = S[:, new], P[:, new], R[:, new]
        return S, P, R


@dataclass(frozen=True, kw_only=True)
class AndersonResolventState(State):
    """State of `AndersonResolvent` after k trials."""

    k: int
    z: Vector  # the anchor
    p: Visit
    best: Visit  # with the shortest e; the output
    pairs: Pairs
    L_P: float
    L_Q: float
    L_R: float
    least: float  # L is never below
    size: float  # of x0
    kept: bool = True  # which map: the resolvent of Q, or a step along R
    fails: int = 0  # in a row
    rho: float = math.inf
    L_proven: float = math.nan  # of the next proven step, where there was one
    kind: str = "start"  # of the last trial: "educated", "separating", "failure", "anchor"
    L: float = math.nan  # of the last trial
    stalled: bool = False
    rounding: bool = False

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


class _Trial(NamedTuple):
    v: Vector
    Q: Vector
    w: Vector | None  # an element of dpsi(v)
    L: float
    L_Q: float = 0.0  # as far as the resolvent has seen


class _Mixture(NamedTuple):
    """The point p + S c that the pairs propose, and what they predict there."""

    b: Vector
    P: Vector
    R: Vector
    r: float  # norm of the residual


@dataclass(frozen=True)
class AndersonResolvent:
    r"""Anderson mixing, then a resolvent of Q, with separating steps and a proven step as guard.

    Finds z with 0 in R(z) + dpsi(z), R = P + Q monotone, P dear, Q cheap, psi convex (or none). No
    constants are needed, and every iteration asks P once.

    Algorithm, from p = z = x0 and the pair of one short step along -R, for k = 0, 1, ...::

        1. c = argmin |r + A c|^2 (+ (|r|/rho)^2 |S c|^2), r = L_R (p - prox(p - R(p)/L_R, L_R)),
           A = L_R S - D (L_R S - dR): without psi, r = R(p) and A = dR    [1]_
           b = p + S c, P(b) ~ P(p) + dP c, R(b) ~ R(p) + dR c
        2. kept:   0 in P(b) + Q(v) + L (v - b) + dpsi(v), L = 0.3 L_P
           plain:  v = prox(b - R(b)/L, L),                L = 0.3 L_R
           (kept first; after 12 failures in a row the other one)
        3. P(v); u in R(v) + dpsi(v), the element next to L (z - v)
           educated,   |e(v)| <= 0.9 best:                           z = p = v
           separating, <u, z - v> >= sqrt(1 - sigma^2) |u| |z - v|:  t = <u, z - v>/|u|^2,
                       z = prox(z - t R(v), 1/t), p = v
           failure:    p = v if |e(v)| <= 100 best, otherwise rho = |v - p|/4
        4. after 30 failures (or separating steps with t below half of a proven one's) p = z, and
           2. is  0 in P(z) + Q(v) + L (v - z) + dpsi(v), L = L_P/(sigma (1 - zeta));
           if it fails, 2 L; if it passes, 0.8 L, and the next one after 15 failures

    Guarantee: a separating step brings z nearer to every solution z*,
    \|z+ - z*\|^2 <= \|z - z*\|^2 - (1 - sigma^2) \|v - z\|^2, whatever v is. Proof: z+ is a proximal
    step, so \|z+ - z*\|^2 <= \|z - z*\|^2 - \|z+ - z\|^2 - 2t (<R(v), z+ - z*> + psi(z+) - psi(z*));
    R and dpsi are monotone, so the bracket is at least <u, z+ - v>; and
    \|z+ - z\|^2 + 2t <u, z+ - v> >= 2t <u, z - v> - t^2 \|u\|^2 = <u, z - v>^2/\|u\|^2. A proven step
    is separating once L >= Lip(P)/(sigma (1 - zeta)) [2]_. Educated steps are at most
    ln(1/tol)/ln(1/0.9). One call of P per iteration, two before the first one.

    Parameters
    ----------
    sigma : float
        Of the separation.
    zeta : float
        Resolvents are solved until \|e\| <= zeta sigma L \|v - b\|.

    Notes
    -----
    Where 90 % of the mixed residual lies in the span of the steps, as skew parts make it, the
    newest change of R takes its place: Krylov spaces stand still there.

    References
    ----------
    .. [1] D. Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12 (1965).
    .. [2] M. Solodov, B. Svaiter, A hybrid approximate extragradient-proximal point algorithm
       using the enlargement of a maximal monotone operator, Set-Valued Anal. 7 (1999).
    """

    sigma: float = 0.9
    zeta: float = 0.3

    needs: ClassVar[tuple[str, ...]] = ("operator",)
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("sigma", "zeta"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name):g}")

    def init(self, problem: Sum, x0: Vector) -> AndersonResolventState:
        """P and Q at x0 and at a point near it."""
        start = _visit(problem, x0, problem.g.operator(x0), None)
        none, r = np.zeros((0, x0.size)), norm(start.e)
        size = norm(x0) or _SIZE * math.sqrt(x0.size)
        state = AndersonResolventState(
            k=0,
            z=x0,
            p=start,
            best=start,
            pairs=Pairs(none, none, none),
            L_P=0.0,
            L_Q=0.0,
            L_R=0.0,
            least=_LEAST * r / size,
            size=size,
        )
        if r == 0.0:
            return state
        t = _PROBE * size / r
        while True:
            try:
                near = _visit(problem, *_forward(problem, x0, start.R, 1.0 / t))
                return _learned(state, near)
            except NonFiniteAnswer:
                t *= 1e-3
                if t * r < EPS * size:
                    raise

    def step(self, problem: Sum, state: AndersonResolventState) -> AndersonResolventState:
        """One trial point, at which P is asked; or P at the anchor, for a proven step from there."""
        state, length = replace(state, k=state.k + 1, kind="failure"), math.nan
        if proven := state.fails >= _GUARD:
            state = replace(state, L_proven=self._proven_L(state))
        try:
            if proven and not np.array_equal(state.p.v, state.z):
                return self._to_anchor(problem, state)
            trial = self._proven(problem, state) if proven else self._mixed(problem, state)
            length = norm(trial.v - state.p.v)
            if not EPS * norm(state.p.v) < length < math.inf:
                return _nowhere(state, proven)
            to = _visit(problem, trial.v, trial.Q, trial.w)
        except NonFiniteAnswer:
            return _refused(state, proven, length)
        return self._judged(problem, state, trial, to, proven)

    def _to_anchor(self, problem: Sum, state: AndersonResolventState) -> AndersonResolventState:
        at = _visit(problem, state.z, problem.g.operator(state.z), None)
        return replace(_learned(state, at), p=at, best=_better(state.best, at), kind="anchor")

    # lines 1 and 2
    def _mixed(self, problem: Sum, state: AndersonResolventState) -> _Trial:
        at = mixture(problem, state)
        slope = _SHORTER * (state.L_P if state.kept else state.L_R)
        L = max(slope, at.r / state.rho, state.least)
        if not state.kept:
            v, Q, w = _forward(problem, at.b, at.R, L)
            return _Trial(v, Q, w, L)
        exact = _ACCURACY * max(at.r, _FLOOR * norm(state.p.e))

        def enough(v: Vector, e: float) -> bool:
            return e <= min(self.zeta * self.sigma * L * norm(v - at.b), exact)

        Q = None if problem.psi is None else at.R - at.P
        found = solve(problem.g, problem.psi, at.P, L, at.b, at.b, enough, Q, state.L_Q)
        return _Trial(found.v, found.Q, found.w, L, found.lipschitz)

    # line 4
    def _proven(self, problem: Sum, state: AndersonResolventState) -> _Trial:
        p, L = state.p, state.L_proven

        def enough(v: Vector, e: float) -> bool:
            return e <= self.zeta * self.sigma * L * norm(v - p.v)

        found = solve(problem.g, problem.psi, p.P, L, p.v, p.v, enough, p.Q, state.L_Q)
        return _Trial(found.v, found.Q, found.w, L, found.lipschitz)

    def _proven_L(self, state: AndersonResolventState) -> float:
        if state.L_proven > 0.0:
            return state.L_proven
        return max(state.L_P, state.least) / (self.sigma * (1.0 - self.zeta))

    # line 3
    def _judged(
        self,
        problem: Sum,
        state: AndersonResolventState,
        trial: _Trial,
        to: Visit,
        proven: bool,
    ) -> AndersonResolventState:
        p, z, L, fails, r = state.p, state.z, trial.L, state.fails, norm(to.e)
        least, d = norm(state.best.e), z - to.v
        u = problem.subgradient(to.v, to.R - L * d, trial.w) + L * d
        along, lengths = dot(u, d), norm(u) * norm(d)
        taken, slow = True, False
        if r <= _EDUCATED * least:
            kind, z = "educated", to.v
        elif 0.0 < math.sqrt(1.0 - self.sigma**2) * lengths <= along:
            kind, t = "separating", along / norm(u) / norm(u)
            z = z - t * u if problem.psi is None else problem.psi.prox(z - t * to.R, 1.0 / t)
            slow = not proven and 1.0 / t > 2.0 * self._proven_L(state)
        else:
            kind, taken = "failure", r <= _GROWN * least
        failed, rho, L_proven = kind == "failure", state.rho, state.L_proven
        if proven:
            L_proven = (_RAISE if failed else _LOWER) * L
        else:
            length = norm(to.v - p.v)
            rho = max(rho, 2.0 * length) if failed else math.inf
            rho = rho if taken else _RADIUS * length
        fails = fails + 1 if failed or slow else _GUARD - _BACK if proven else 0
        learned = _learned(state, to, taken)
        after = replace(
            learned,
            z=z,
            p=to if taken and not (proven and failed) else p,
            best=_better(state.best, to),
            kind=kind,
            L=L,
            L_Q=max(learned.L_Q, trial.L_Q),
            L_proven=L_proven,
            rho=rho,
            fails=fails,
            kept=state.kept ^ (not proven and fails > 0 and fails % _OTHER == 0),
        )
        over = after.fails >= _TRIES and _is_rounding(after)
        stalled = over or _is_hopeless(after) or (kind != "educated" and _is_constant(state, to))
        return replace(after, stalled=stalled, rounding=over)


# line 1
def mixture(problem: Sum, state: AndersonResolventState) -> _Mixture:
    """The point that the pairs propose, and what they predict there."""
    p, psi, n = state.p, problem.psi, state.p.v.size
    S, dP, dR = state.pairs.independent()
    r, A, R = p.R, dR, p.R
    if psi is not None:
        alpha = max(state.L_R, state.least)
        forward = p.v - R / alpha
        D = derivative(psi, forward, alpha)
        r, A = alpha * (p.v - psi.prox(forward, alpha)), alpha * S - D(alpha * S - dR)
    if not S.size:
        return _Mixture(p.v, p.P, R, norm(r))
    scale = np.sqrt((A * A).sum(axis=0)) + 1e-300
    rows = [A / scale, math.sqrt(_RIDGE) * np.eye(len(scale))]
    if state.rho < math.inf:
        rows.append(norm(r) / state.rho * S / scale)
    q, triangle = np.linalg.qr(np.vstack(rows))
    c = np.linalg.solve(triangle, -(q[:n].T @ r)) / scale
    b, P, R, r = p.v + S @ c, p.P + dP @ c, R + dR @ c, r + A @ c
    size = norm(r)
    if len(scale) < n:
        basis = np.linalg.qr(S)[0]
        if norm(r - basis @ (basis.T @ r)) < _NOVEL * size:
            new = A[:, 0] - basis @ (basis.T @ A[:, 0])
            if norm(new) > 1e-8 * norm(A[:, 0]):
                new *= size / norm(new)
                P, R = P + new, R + new
    return _Mixture(b, P, R, size)


def _visit(problem: Sum, v: Vector, Q: Vector, w: Vector | None) -> Visit:
    """One call of P."""
    P = problem.h.operator(v)
    return Visit(v, P, Q, problem.subgradient(v, P + Q, w))


def _forward(problem: Sum, b: Vector, R: Vector, L: float) -> tuple[Vector, Vector, Vector | None]:
    """prox(b - R/L, L), Q there and the element of dpsi that the step tells."""
    u, w = b - R / L, None
    v = u
    if problem.psi is not None:
        v = problem.psi.prox(u, L)
        w = L * (u - v)
    return v, problem.g.operator(v), w


def _better(best: Visit, to: Visit) -> Visit:
    return to if norm(to.e) < norm(best.e) else best


def _learned(
    state: AndersonResolventState, to: Visit, taken: bool = True
) -> AndersonResolventState:
    """With the pair of the step from p, and the constants that it shows."""
    p = state.p
    length = norm(to.v - p.v)
    if not length > 0.0:
        return state
    state = replace(state, pairs=state.pairs.with_newest(p, to))
    if not taken:
        return state

    def secant(new: Vector, old: Vector) -> float:
        return (norm(new - old) - 4.0 * EPS * (norm(new) + norm(old))) / length

    return replace(
        state,
        L_P=max(state.L_P, secant(to.P, p.P)),
        L_Q=max(state.L_Q, secant(to.Q, p.Q)),
        L_R=max(state.L_R, secant(to.R, p.R)),
    )


def _refused(state: AndersonResolventState, proven: bool, length: float) -> AndersonResolventState:
    """After an answer that is not finite, at a step of that length, where it is known."""
    state = replace(state, fails=state.fails + 1)
    if proven and not np.array_equal(state.p.v, state.z):
        return replace(state, z=state.p.v)  # the anchor itself cannot be asked
    if proven:
        state = replace(state, L_proven=_RAISE * state.L_proven)
        return replace(state, stalled=_is_hopeless(state))
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
    at = state.best
    return norm(at.e) <= _UNITS * EPS * (norm(at.P) + norm(at.Q) + state.L_R * norm(at.v))


def _is_hopeless(state: AndersonResolventState) -> bool:
    """Whether proven steps fail that are much shorter than the proof asks for."""
    return state.L_proven > _HOPELESS * max(state.L_P, state.least)


def _is_constant(state: AndersonResolventState, to: Visit) -> bool:
    """Whether R does not change over a very long step."""
    R, far = state.p.R, _FAR * state.size
    changed = norm(to.R - R) > _UNITS * EPS * (norm(to.P) + norm(to.Q))
    return not changed and norm(to.v - state.p.v) > far
