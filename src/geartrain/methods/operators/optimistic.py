r"""Optimistic gradient: a step with the operator as it is expected one step ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.methods.operators.step_length import (
    SteppingMethod,
    SteppingState,
    backward,
    search,
)
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum


@dataclass(frozen=True, kw_only=True)
class OptimisticGradientState(SteppingState):
    """State of `OptimisticGradient` after k iterations."""

    R_old: Vector  # at the point before
    t_old: float  # of the last step


@dataclass(frozen=True)
class OptimisticGradient(SteppingMethod):
    r"""Optimistic gradient (Popov's method), as forward-reflected-backward steps with psi.

    Finds z with 0 in R(z) + dpsi(z), R = P + Q monotone and Lipschitz.

    Algorithm, from z_{-1} = z_0 and t_{-1} = t_0::

        1. u = z_k - t_k R(z_k) - t_{k-1} (R(z_k) - R(z_{k-1}))
        2. z_{k+1} = prox(u, 1/t_k), without psi z_{k+1} = u

    The length t_k is theta/L; with ``adaptive`` it is shortened until
    t_k \|R(z_{k+1}) - R(z_k)\| <= theta \|z_{k+1} - z_k\| (the linesearch of [2]_), as in
    `Extragradient`. Without psi and with one length it is Popov's method [1]_, whose points ahead
    are these z_k; with psi it takes one proximal step instead of two, and 1/(2L) is proven.

    Guarantee: with <., .> the inner product,
    \|z_k - z*\|^2 + 2 t_{k-1} <R(z_k) - R(z_{k-1}), z* - z_k> + theta \|z_k - z_{k-1}\|^2
    is at least (1 - theta) \|z_k - z*\|^2 and falls by (1 - 2 theta) \|z_{k+1} - z_k\|^2 or more
    ([2]_, section 2); linear if R is strongly monotone. One call of P and of Q and one proximal
    step per iteration; ``adaptive``: one of each more per trial that failed, and one at the start
    for the first secant.

    Parameters
    ----------
    L : float, optional
        Lipschitz constant of R; L_P + L_Q if not given. Not used with ``adaptive``.
    theta : float
        t times L, or the bound on t times the secant; between 0 and 1/2.
    adaptive : bool
        Whether t is found by trial, without constants.

    References
    ----------
    .. [1] L. Popov, A modification of the Arrow-Hurwicz method for search of saddle points, Math.
       Notes 28 (1980).
    .. [2] Yu. Malitsky, M. Tam, A forward-backward splitting method for monotone inclusions without
       cocoercivity, SIAM J. Optim. 30 (2020).
    """

    theta: float = 0.49

    most: ClassVar[tuple[float, str]] = (0.5, "1/2")

    def init(self, problem: Sum, x0: Vector) -> OptimisticGradientState:
        R, t = self.first(problem, x0)
        grad_psi = problem.grad_psi(x0, R)
        return OptimisticGradientState(k=0, z=x0, R=R, R_old=R, t=t, t_old=t, grad_psi=grad_psi)

    def step(self, problem: Sum, state: OptimisticGradientState) -> OptimisticGradientState:
        """Lines 1 and 2, and R at the new point."""
        z, R, k = state.z, state.R, state.k + 1
        reflected = state.t_old * (R - state.R_old)

        def forward(t: float) -> Vector:
            return z - t * R - reflected

        theta = self.theta if self.adaptive else math.inf
        new = search(problem, z, R, state.t, theta, lambda t: backward(problem, forward(t), t))
        if new.R is None:
            return replace(state, k=k, stalled=True, rounding=new.rounding)
        return OptimisticGradientState(
            k=k,
            z=new.w,
            R=new.R,
            R_old=R,
            t=new.t_next if self.adaptive else new.t,
            t_old=new.t,
            grad_psi=problem.grad_psi(new.w, new.R, (forward(new.t) - new.w) / new.t),
            stalled=new.rounding and state.rounding,  # one step may lead back to z by chance
            rounding=new.rounding,
        )
