r"""FGM: the fast gradient method on f as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import State
from geartrain.methods.inner.agm import next_theta
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum


@dataclass(frozen=True, kw_only=True)
class FGMState(State):
    """State of `FGM` after k iterations."""

    k: int
    x: Vector  # main sequence, the output
    y: Vector  # extrapolated point
    grad_y: Vector  # gradient of f at y
    theta: float
    L: float
    since: int = 0  # iterations since the last restart
    uphill: float = -math.inf  # <grad f(y_{k-1}), x_k - x_{k-1}>
    grad_psi: Vector | None = None  # with psi: an element of dpsi(x)
    grad_bound: float = math.nan  # with psi: L |y_{k-1} - x_k| >= |subgradient of f at x_k|

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad_point(self) -> Vector:
        """The extrapolated point y; with psi, which may be infinite there, x."""
        return self.y if self.grad_psi is None else self.x

    @property
    def grad(self) -> Vector | None:
        """Gradient of f at y; with psi, a subgradient at x, known at the start only."""
        if self.grad_psi is None:
            return self.grad_y
        return self.grad_y + self.grad_psi if self.y is self.x else None


# Paper: FGM
@dataclass(frozen=True)
class FGM:
    r"""Nesterov's fast gradient method, convex (mu = 0) and strongly convex; FISTA with psi.

    Algorithm, from x_0 = y_0, theta_0 = 1, with q = mu/L::

        1. x_{k+1} = y_k - grad f(y_k)/L
        2. theta_{k+1} and the momentum m_k from next_theta
        3. y_{k+1} = x_{k+1} + m_k (x_{k+1} - x_k)

    With a non-smooth term psi, line 1 is x_{k+1} = prox(y_k - grad (h + g)(y_k)/L, L) [2]_.

    Guarantee: f(x_k) - f* <= min(4/(k + 2)^2, (1 - sqrt q)^{k-1}) 2 L R^2 up to a constant
    ([1]_, Theorem 2.2.3). One gradient of h and one of g per iteration, and one proximal step.

    Parameters
    ----------
    L : float, optional
        Of f; L_h + L_g if not given.
    mu : float, optional
        Strong convexity of f; the problem's if not given.

    References
    ----------
    .. [1] Yu. Nesterov, Lectures on Convex Optimization, 2nd ed. (2018).
    .. [2] A. Beck, M. Teboulle, A fast iterative shrinkage-thresholding algorithm for linear
       inverse problems, SIAM J. Imaging Sci. 2 (2009).
    """

    L: float | None = None
    mu: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    many_terms: ClassVar[bool] = True
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> FGMState:
        L, grad = smoothness.of_sum(problem, self.L, "FGM"), problem.grad(x0)
        grad_psi = problem.grad_psi(x0, grad)
        return FGMState(k=0, x=x0, y=x0, grad_y=grad, theta=1.0, L=L, grad_psi=grad_psi)

    def restart(self, state: FGMState) -> FGMState:
        """Start again from y, whose gradient is known; it need not be in the domain of psi."""
        x = state.y if state.grad_psi is None else state.x
        return replace(state, x=x, theta=1.0, since=0)

    def step(self, problem: Sum, state: FGMState) -> FGMState:
        mu = (problem.mu.value or 0.0) if self.mu is None else self.mu
        x, grad_psi, grad_bound = state.y - state.grad_y / state.L, None, math.nan
        slope = state.grad_y
        if problem.psi is not None:
            x = problem.psi.prox(x, state.L)
            slope = state.L * (state.y - x)  # the gradient mapping
            grad_psi, grad_bound = slope - state.grad_y, problem.geometry.norm(slope)
        theta, momentum = next_theta(state.theta, mu / state.L)
        y = x + momentum * (x - state.x)
        return FGMState(
            k=state.k + 1,
            x=x,
            y=y,
            grad_y=problem.grad(y),
            theta=theta,
            L=state.L,
            since=state.since + 1,
            uphill=float(problem.geometry.dot(slope, x - state.x)),
            grad_psi=grad_psi,
            grad_bound=grad_bound,
        )
