r"""Extragradient: a step with the operator of a point ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from geartrain.methods.operators.step_length import (
    SteppingMethod,
    SteppingState,
    backward,
    search,
)
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum


class ExtragradientState(SteppingState):
    """State of `Extragradient` after k iterations."""


@dataclass(frozen=True)
class Extragradient(SteppingMethod):
    r"""Korpelevich's extragradient method, by a constant or by trial.

    Finds z with 0 in R(z) + dpsi(z), R = P + Q monotone and Lipschitz.

    Algorithm, from z_0::

        1. w = prox(z_k - t R(z_k), 1/t)
        2. z_{k+1} = prox(z_k - t R(w), 1/t)

    without psi w = z_k - t R(z_k) and z_{k+1} = z_k - t R(w). The length t is theta/L; with
    ``adaptive`` it is shortened until t \|R(w) - R(z_k)\| <= theta \|w - z_k\| [2]_ [3]_: by the
    secant of the trial that failed, to 0.9 of the longest step that it allows. After a step that
    passed it grows towards that of its own secant, by at most a fifth.

    Guarantee: \|z_{k+1} - z*\|^2 <= \|z_k - z*\|^2 - (1 - theta^2) \|w - z_k\|^2 [1]_, so that
    \|w - z_k\| falls like 1/sqrt(k), and linearly if R is strongly monotone. Two calls of P and of
    Q and two proximal steps per iteration; ``adaptive``: one of each more per trial that failed,
    and one at the start for the first secant.

    Parameters
    ----------
    L : float, optional
        Lipschitz constant of R; L_P + L_Q if not given. Not used with ``adaptive``.
    theta : float
        t times L, or the bound on t times the secant; between 0 and 1.
    adaptive : bool
        Whether t is found by trial, without constants.

    References
    ----------
    .. [1] G. Korpelevich, The extragradient method for finding saddle points and other problems,
       Matecon 12 (1976).
    .. [2] E. Khobotov, Modification of the extra-gradient method for solving variational
       inequalities and certain optimization problems, USSR Comput. Math. Math. Phys. 27 (1987).
    .. [3] P. Marcotte, Application of Khobotov's algorithm to variational inequalities and network
       equilibrium problems, INFOR 29 (1991).
    """

    def init(self, problem: Sum, x0: Vector) -> ExtragradientState:
        R, t = self.first(problem, x0)
        return ExtragradientState(k=0, z=x0, R=R, t=t, grad_psi=problem.grad_psi(x0, R))

    def step(self, problem: Sum, state: ExtragradientState) -> ExtragradientState:
        """Lines 1 and 2, and R at the new point."""
        z, R, k = state.z, state.R, state.k + 1
        theta = self.theta if self.adaptive else math.inf
        ahead = search(
            problem, z, R, state.t, theta, lambda t: backward(problem, z - t * R, t)
        )  # line 1
        if ahead.R is None or ahead.rounding:
            return replace(state, k=k, stalled=True, rounding=ahead.rounding)
        t, forward = ahead.t, z - ahead.t * ahead.R
        z_next = backward(problem, forward, t)  # line 2
        R_next = problem.grad(z_next)
        grad_psi = problem.grad_psi(z_next, R_next, (forward - z_next) / t)
        t_next = ahead.t_next if self.adaptive else t
        return ExtragradientState(k=k, z=z_next, R=R_next, t=t_next, grad_psi=grad_psi)
