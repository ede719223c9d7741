r"""Gradient sliding of Lan, for a non-smooth g.

==========  ============  ===========================================================
symbol      name          meaning
==========  ============  ===========================================================
xb          ``x_bar``     output
x           ``x``         end of the last sequence u
ut, u       ``u_tilde``,  sequences of the sliding steps on g
            ``u``
M           ``M``         g(v) <= g(u) + <g'(u), v - u> + M \|v - u\|; twice the Lipschitz
                          constant of g
N           ``N``         iterations of a stage
T_k         ``T``         sliding steps of iteration k
==========  ============  ===========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.core.loop import State
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_positive, as_whole
from geartrain.problem import Sum


@dataclass(frozen=True, kw_only=True)
class GradientSlidingState(State):
    """State of `GradientSliding` after k iterations of the stage."""

    k: int
    x_bar: Vector
    x: Vector
    L: float  # L_h
    start: tuple[Vector, Vector] | None = None  # gradient of h and subgradient of g, if known

    @property
    def point(self) -> Vector:
        return self.x_bar


# Paper: gradient sliding
@dataclass(frozen=True)
class GradientSliding:
    r"""Gradient sliding: one gradient of h and T_k subgradients of g per iteration.

    Minimises h + g, h convex and L-smooth, g convex and Lipschitz, not necessarily smooth.

    Algorithm, with gamma_k = 2/(k + 1), beta_k = 2 L/k, T_k = ceil(M^2 N k^2/(D L^2)) and
    D = 3 R^2/4, for k = 1 .. N::

        1. x_low = (1 - gamma_k) x_bar + gamma_k x, gradient of h there
        2. from ut = u = x, for t = 1 .. T_k, with p_t = t/2 and theta_t = 2 (t + 1)/(t (t + 3)):
           u_+ = argmin <grad h(x_low) + g'(u), v> + beta_k/2 |v - x|^2 + beta_k p_t/2 |v - u|^2,
           ut_+ = (1 - theta_t) ut + theta_t u_+
        3. x = u_T, x_bar = (1 - gamma_k) x_bar + gamma_k ut_T

    Guarantee: f(x_bar_N) - f* <= 6 L R^2/(N (N + 1)) ([1]_, Corollary 2), hence N_h of order
    sqrt(L R^2/eps) and N_g of order M^2 R^2/eps^2 + N_h. One gradient of h and T_k subgradients of
    g per iteration.

    Parameters
    ----------
    M : float
        Twice the Lipschitz constant of g.
    N : int
        Iterations of a stage; `geartrain.theory.gradient_sliding` has the number for an accuracy.
    R : float
        Bound on \|x_0 - x*\|.

    Notes
    -----
    Implements Algorithm 1 of [1]_ with the parameters of Corollary 2. The ``grad`` of a non-smooth
    term answers with a subgradient, and is counted as ``g.grad``. A run that goes on after N
    iterations starts a new stage from x_bar. This is the method from which the separation of
    oracles for smooth terms started ([2]_, Section 1).

    References
    ----------
    .. [1] G. Lan, Gradient sliding for composite optimization, Math. Program. 159 (2016).
    .. [2] A. Ivanova et al., Oracle complexity separation in convex optimization, J. Optim. Theory
       Appl. 193 (2022).
    """

    M: float
    N: int = 100
    R: float = 1.0

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def __post_init__(self) -> None:
        as_positive(self.M, "M")
        as_positive(self.R, "R")
        as_whole(self.N, "N", 1)

    def init(self, problem: Sum, x0: Vector) -> GradientSlidingState:
        """Gradient of h and subgradient of g at x0: the first sliding step uses them."""
        L = problem.L_h.need("L_h", "GradientSliding")
        start = (problem.h.grad(x0), problem.g.grad(x0))
        return GradientSlidingState(k=0, x_bar=x0, x=x0, L=L, start=start)

    def step(self, problem: Sum, state: GradientSlidingState) -> GradientSlidingState:
        if state.k >= self.N:
            state = replace(state, k=0, x=state.x_bar)
        L, k, x = state.L, state.k + 1, state.x
        gamma, beta = 2.0 / (k + 1), 2.0 * L / k
        # 1.
        x_low = (1.0 - gamma) * state.x_bar + gamma * x
        grad_h = problem.h.grad(x_low) if state.start is None else state.start[0]
        # 2.
        u = u_tilde = x
        for t in range(1, sliding_steps(k, self.N, L, self.M, self.R) + 1):
            p, theta = t / 2.0, 2.0 * (t + 1) / (t * (t + 3))
            if t == 1 and state.start is not None:  # u = x0
                grad_g = state.start[1]
            else:
                grad_g = problem.g.grad(u)
            u = (beta * x + beta * p * u - grad_h - grad_g) / (beta * (1.0 + p))
            u_tilde = (1.0 - theta) * u_tilde + theta * u
        # 3.
        x_bar = (1.0 - gamma) * state.x_bar + gamma * u_tilde
        return GradientSlidingState(k=k, x_bar=x_bar, x=u, L=L)


def sliding_steps(k: int, N: int, L: float, M: float, R: float) -> int:
    """T_k = ceil(M^2 N k^2/(D L^2)), D = 3 R^2/4."""
    return math.ceil(M**2 * N * k**2 / (0.75 * R**2 * L**2))
