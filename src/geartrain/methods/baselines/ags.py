r"""AGS: accelerated gradient sliding of Lan and Ouyang.

==========  ============  ===========================================================
symbol      name          meaning
==========  ============  ===========================================================
xb          ``x_bar``     output
x           ``x``         end of the last inner sequence u
ul, ut, u   ``u_low``,    sequences of the sliding steps on g
            ``u_tilde``,
            ``u``
T           ``T``         sliding steps per iteration, ceil(sqrt(L_g/L_h))
==========  ============  ===========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State, ceiling
from geartrain.methods.gmco import total
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum

# L_h counts as this part of L_g at least.
_LEAST = 1e-8


@dataclass(frozen=True, kw_only=True)
class AGSState(State):
    """State of `AGS` after k iterations of the stage."""

    k: int
    x_bar: Vector
    x: Vector
    L: float  # L_h
    M: float  # L_g
    start: tuple[Vector, Vector] | None = None  # gradients of h and g at x_bar = x, if known
    grad_psi: Vector | None = None  # in dpsi(x_bar), at the start

    @property
    def point(self) -> Vector:
        return self.x_bar

    @property
    def grad(self) -> Vector | None:
        """Known at the start only."""
        return None if self.start is None else total(self.start[0] + self.start[1], self.grad_psi)


# Paper: AGS
@dataclass(frozen=True)
class AGS:
    r"""Accelerated gradient sliding: one gradient of h and T of g per iteration.

    Algorithm, with L = L_h, M = L_g, T = ceil(sqrt(M/L)), gamma_k = 2/(k + 1), lambda_1 = 1,
    lambda_k = gamma_k (T + 1)(T + 2)/(T (T + 3)), beta_k = 3 L gamma_k/(k lambda_k)::

        1. x_low = (1 - gamma) x_bar + gamma x, gradient of h there
        2. from ut = x_bar, u = x, for t = 1 .. T:
           ul = (1 - lambda) x_bar + lambda ((1 - a) ut + a u);
           u_+ = (beta x + (beta p + q) u - grad h(x_low) - grad g(ul))/(beta + beta p + q);
           ut_+ = (1 - a) ut + a u_+
           with (a, p, q) = (2/(t + 1), (t - 1)/2, 6 M/t) for k = 1 and
           (2/(t + 2), t/2, 6 M/(k (t + 1))) for k > 1
        3. x = u_T, x_bar = (1 - lambda) x_bar + lambda ut_T

    With a non-smooth term psi, u_+ is the proximal step prox(u_+, beta + beta p + q) of psi.

    Guarantee: f(x_bar_N) - f* <= 15 L R^2/(N (N + 1)). For mu > 0 the method starts again from
    x_bar every N_0 = ceil(sqrt(60 L/mu)) iterations, which halves \|x_bar - x*\|^2. One
    gradient of h and T of g per iteration. L is at least 1e-8 M, which any smaller constant allows,
    so that T is at most 10,000.

    Parameters
    ----------
    mu : float, optional
        Strong convexity of f; the problem's if not given.

    References
    ----------
    .. [1] G. Lan, Y. Ouyang, Accelerated gradient sliding for structured convex optimization,
       Comput. Optim. Appl. 82 (2022), arXiv:1609.04905.
    """

    mu: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> AGSState:
        """Both gradients at x0: the first sliding step uses them."""
        L = problem.L_h.need("L_h", "AGS")
        M = problem.L_g.need("L_g", "AGS")
        L = max(L, _LEAST * M) or 1.0
        psi = problem.psi
        if psi is not None and not psi.has_residual:
            raise TypeError(
                f"AGS ends at a point that is no proximal step of {psi!r}, so the term must have "
                "residual(v, d) for the stopping rule; add it, or choose pqn, sae, afb or fgm"
            )
        start = (problem.h.grad(x0), problem.g.grad(x0))
        grad_psi = problem.grad_psi(x0, start[0] + start[1])
        return AGSState(k=0, x_bar=x0, x=x0, L=L, M=M, start=start, grad_psi=grad_psi)

    def step(self, problem: Sum, state: AGSState) -> AGSState:
        mu = problem.mu.value if self.mu is None else self.mu
        if mu and state.k >= stage_length(state.L, mu):
            state = replace(state, k=0, x=state.x_bar)
        L, M, k = state.L, state.M, state.k + 1
        x_bar, x = state.x_bar, state.x
        T = ceiling(math.sqrt(M / L))
        gamma = 2.0 / (k + 1)
        lam = 1.0 if k == 1 else gamma * (T + 1) * (T + 2) / (T * (T + 3))
        beta = 3.0 * L * gamma / (k * lam)
        # 1.
        if state.start is None:
            grad_h = problem.h.grad((1.0 - gamma) * x_bar + gamma * x)
        else:
            grad_h = state.start[0]
        # 2.
        u_tilde, u = x_bar, x
        for t in range(1, T + 1):
            if k == 1:
                a, p, q = 2.0 / (t + 1), (t - 1) / 2.0, 6.0 * M / t
            else:
                a, p, q = 2.0 / (t + 2), t / 2.0, 6.0 * M / (k * (t + 1))
            if t == 1 and state.start is not None:  # u_low = x0
                grad_g = state.start[1]
            else:
                grad_g = problem.g.grad((1.0 - lam) * x_bar + lam * ((1.0 - a) * u_tilde + a * u))
            s = beta + beta * p + q
            u = (beta * x + (beta * p + q) * u - grad_h - grad_g) / s
            if problem.psi is not None:
                u = problem.psi.prox(u, s)
            u_tilde = _between(u_tilde, u, a)
        # 3.
        return AGSState(k=k, x_bar=_between(x_bar, u_tilde, lam), x=u, L=L, M=M)


def _between(x: Vector, y: Vector, t: float) -> Vector:
    """(1 - t) x + t y, which rounding does not move out of a box that holds x and y."""
    return np.clip((1.0 - t) * x + t * y, np.minimum(x, y), np.maximum(x, y))


def stage_length(L: float, mu: float) -> int:
    r"""N_0 = ceil(sqrt(60 L/mu)): from 15 L R^2/N^2 <= mu R^2/4."""
    return ceiling(math.sqrt(60.0 * L / mu))
