r"""The hybrid proximal extragradient method, separated: P is asked twice per step, Q as needed.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
z          ``z``           the centre, which comes closer to every solution
v          ``v``           the output: nearly the resolvent of P(z) + Q, in the set
R          ``P_v + Q_v``   P + Q
e          ``e``           shortest element of R(v) + L (v - z) + dpsi(v)
L          ``L``           inverse length of the step
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.core.contracts import State
from geartrain.methods.operators import resolvent
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import dot, norm
from geartrain.problem import EPS, Sum

# After a failed test L grows, after a passed one it falls, where L_P is not known.
_GROWTH, _DECAY = 2.0, 0.8
# Failed tests in a row after which the run ends; points beyond this are lost.
_FAILURES, _FAR = 60, 1e150
# A proximal step with this inverse length is the projection on the domain of psi.
_PROJECTS = 1e100
# The probe for the first L goes this far along -R, over the size of z; from 0 by this part of 1.
_PROBE, _PROBE_AT_ZERO = 1e-4, 1e-6
# <R(v) - R(z), v - z> below this part of |R(v) - R(z)| |v - z| is no rounding.
_MONOTONE = 1e-6


@dataclass(frozen=True, kw_only=True)
class HPEState(State):
    """State of `HPE` after k iterations."""

    k: int
    z: Vector
    P_z: Vector
    Q_z: Vector
    v: Vector
    u: Vector  # the shortest element of R(v) + dpsi(v)
    grad_psi: Vector | None  # its part in dpsi(v)
    L: float
    lipschitz: float = 0.0  # of Q, as far as is seen
    failures: int = 0  # in a row
    ms_ratio: float = math.nan  # |e|/(L |v - z|)
    stalled: bool = False
    rounding: bool = False
    refuted: bool = False  # two answers show that R is not monotone
    note: str = ""

    @property
    def point(self) -> Vector:
        """The point v."""
        return self.v

    @property
    def grad(self) -> Vector:
        return self.u


# Paper: variational inequalities
@dataclass(frozen=True)
class HPE:
    r"""The hybrid proximal extragradient method [1]_ with a strong monotonicity mu >= 0.

    Finds 0 in R(z) + dpsi(z), R = P + Q. With sigma_mu^2 = sigma^2 + mu/L::

        1. v: |e_Q| <= sigma/2 L |v - z| for an e_Q in P(z) + Q(v) + L (v - z) + dpsi(v)
        2. e, the shortest element of R(v) + L (v - z) + dpsi(v); u = e - L (v - z)
        3. |e| <= sigma_mu L |v - z|: z_+ = (L z + mu v - u)/(L + mu), projected on the domain
           of psi; otherwise L <- 2 L, and from 1. again

    Guarantee, for every v that passes 3. and every solution z*::

        (L + mu) |z_+ - z*|^2 <= L |z - z*|^2 - (1 - sigma^2) L^2/(L + mu) |v - z|^2

    Proof: z_+ minimises <u, w> + L/2 \|w - z\|^2 + mu/2 \|w - v\|^2; the three-point inequality at
    w = z*, <u, v - z*> >= mu \|v - z*\|^2, and \|e\|^2/(2 (L + mu)) <= L/2 \|v - z\|^2 by 3.; a
    projection on a convex set that holds z* does not move away from it. The test passes once
    L >= 2 L_P/sigma, L_P the Lipschitz constant of P: O(L_P/mu ln 1/eps) calls of P, two per step,
    whatever Q is; for mu = 0 the least \|v - z\| falls like 1/sqrt(k). Step 1 asks Q alone.

    Where L_P is known (stated, or given as ``L_P=``), L = 2 L_P/sigma. Otherwise one short probe of
    P finds a first L, which grows after a failed test and falls by a fifth after a passed one.

    Parameters
    ----------
    sigma : float
        The error that is allowed, between 0 and 1.

    References
    ----------
    .. [1] M. Solodov, B. Svaiter, A hybrid approximate extragradient-proximal point algorithm using
       the enlargement of a maximal monotone operator, Set-Valued Anal. 7 (1999).
    """

    sigma: float = 0.9

    needs: ClassVar[tuple[str, ...]] = ("operator",)
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.sigma < 1.0:
            raise ValueError(f"sigma must be between 0 and 1, got {self.sigma!r}")

    def init(self, problem: Sum, x0: Vector) -> HPEState:
        """P and Q at x_0, and the first L: one call of each, and one more of P for a probe."""
        P, Q = problem.h.operator(x0), problem.g.operator(x0)
        u, w = _shortest(problem, x0, P + Q)
        L_P = problem.L_h.value
        if L_P is None:
            L_P = _probed(problem, x0, P, u)
        L = max(2.0 * L_P / self.sigma, _least(x0, u))
        return HPEState(k=0, z=x0, P_z=P, Q_z=Q, v=x0, u=u, grad_psi=w, L=L)

    def step(self, problem: Sum, state: HPEState) -> HPEState:
        """Lines 1 to 3 for one trial point: one call of P, and one at z_+ where it passes."""
        z, L, psi = state.z, state.L, problem.psi
        state = replace(state, k=state.k + 1, note="")
        if _is_level(state, problem.unit):
            return replace(state, stalled=True, rounding=True)
        mu, found = float(problem.mu.value or 0.0), problem.L_h.value is None
        # 1.
        unit = problem.unit
        level = 10.0 * unit * (norm(state.P_z) + norm(state.Q_z))

        def enough(v: Vector, error: float) -> bool:
            return error <= max(0.5 * self.sigma * L * norm(v - z), level)

        try:
            run = resolvent.solve(
                problem.g, psi, state.P_z, L, z, z, enough, state.Q_z, state.lipschitz, unit
            )
            v, Q, lipschitz = run.v, run.Q, run.lipschitz
            away, length = v - z, norm(v - z)
            if not norm(v) < _FAR:
                raise NonFiniteAnswer("a step of the method led too far for numbers")
            if length <= 2.0 * EPS * norm(z):
                return replace(state, stalled=True)
            P = problem.h.operator(v)
        except NonFiniteAnswer:
            if state.failures >= _FAILURES:
                raise
            return replace(state, L=4.0 * L, failures=state.failures + 1)
        # 2.
        e, _ = _shortest(problem, v, P + Q + L * away, run.w)
        ratio = norm(e) / (L * length)
        shortest, w = _shortest(problem, v, P + Q, run.w)
        state = replace(state, v=v, u=shortest, grad_psi=w, lipschitz=lipschitz, ms_ratio=ratio)
        change = P + Q - state.P_z - state.Q_z
        if not state.refuted and dot(change, away) < -_MONOTONE * norm(change) * length:
            note = "two answers show that P + Q is not monotone: nothing is proven"
            state = replace(state, refuted=True, note=note)
        # 3.
        if not ratio <= math.sqrt(self.sigma**2 + mu / L):
            stalled = state.failures >= _FAILURES
            failures = state.failures + 1
            return replace(state, L=_GROWTH * L, failures=failures, stalled=stalled)
        z = (L * z + mu * v - (e - L * away)) / (L + mu)
        if psi is not None:
            z = psi.prox(z, _PROJECTS)
        least = _least(z, shortest)
        return replace(
            state,
            z=z,
            P_z=problem.h.operator(z),
            Q_z=problem.g.operator(z),
            L=max(_DECAY * L, least) if found else L,
            failures=0,
        )


def _shortest(
    problem: Sum, v: Vector, R: Vector, w: Vector | None = None
) -> tuple[Vector, Vector | None]:
    """The shortest known element of R + dpsi(v), where w is in dpsi(v); and its part in dpsi(v)."""
    if problem.psi is None:
        return R, None
    u = problem.psi.residual(v, R, w)
    return u, u - R


def _probed(problem: Sum, z: Vector, P: Vector, u: Vector) -> float:
    """A secant of P along -R: one call."""
    size = norm(u)
    if size == 0.0:
        return 0.0
    near = _PROBE * norm(z) or _PROBE_AT_ZERO * math.sqrt(z.size)
    w = z - near / size * u
    if problem.psi is not None:
        w = problem.psi.prox(w, _PROJECTS)
    if (length := norm(w - z)) == 0.0:
        return 0.0
    return norm(problem.h.operator(w) - P) / length


def _least(z: Vector, u: Vector) -> float:
    """A lower bound for L: no step is longer than 1e12 times z, or 1."""
    return 1e-12 * norm(u) / (norm(z) or 1.0) or 1.0


def _is_level(state: HPEState, unit: float) -> bool:
    """Whether the residual is rounding error."""
    return norm(state.u) <= 10.0 * unit * (norm(state.P_z) + norm(state.Q_z))
