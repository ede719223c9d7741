r"""The method of Frank and Wolfe, conditional gradients, on f as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import State
from geartrain.methods.cgs import between, linear_minimiser, set_of
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import dot
from geartrain.problem import Sum


@dataclass(frozen=True, kw_only=True)
class FrankWolfeState(State):
    """State of `FrankWolfe` after k iterations."""

    k: int
    x: Vector
    grad_x: Vector  # of h + g
    s: Vector  # lmo(grad_x)
    L: float
    frank_wolfe_gap: float  # max <grad f(x), x - v> over the set
    rounding: bool = False  # the gap is rounding error

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the gap is rounding error."""
        return self.rounding


@dataclass(frozen=True)
class FrankWolfe:
    r"""The method of Frank and Wolfe with the short step.

    Minimises f = h + g over a set C that has linear minimisations and need not have a projection.

    Algorithm, from x_0 in C, with d = grad f(x_k)::

        1. s = lmo(d), the minimiser of <d, v> over all v in C
        2. x_{k+1} = (1 - alpha) x_k + alpha s, alpha = min(1, <d, x_k - s>/(L |x_k - s|^2))

    Guarantee: f(x_k) - f* <= 2 L D^2/(k + 2) for k >= 1, D the diameter of C ([2]_, Theorem 1).
    One gradient of h, one of g and one linear minimisation per iteration. The Frank-Wolfe gap
    <d, x_k - s> >= f(x_k) - f* is known at every point: by it a run ends. D need not be known.

    Parameters
    ----------
    L : float, optional
        Of f; L_h + L_g if not given.

    References
    ----------
    .. [1] M. Frank, P. Wolfe, An algorithm for quadratic programming, Naval Res. Logist. Q. 3
       (1956).
    .. [2] M. Jaggi, Revisiting Frank-Wolfe: projection-free sparse convex optimization, ICML
       (2013).
    """

    L: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    many_terms: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True
    asks_psi: ClassVar[str] = "lmo"

    def init(self, problem: Sum, x0: Vector) -> FrankWolfeState:
        """Line 1 at x_0."""
        psi = set_of(problem, "FrankWolfe")
        L, grad = smoothness.of_sum(problem, self.L, "FrankWolfe"), problem.grad(x0)
        s, gap, error = linear_minimiser(psi, grad, x0)
        return FrankWolfeState(
            k=0, x=x0, grad_x=grad, s=s, L=L, frank_wolfe_gap=gap, rounding=gap <= error
        )

    def step(self, problem: Sum, state: FrankWolfeState) -> FrankWolfeState:
        """Line 2, and line 1 at the new point."""
        gap, k, psi = state.frank_wolfe_gap, state.k + 1, set_of(problem, "FrankWolfe")
        if state.stalled:
            return replace(state, k=k)
        away = state.x - state.s
        x = between(state.x, state.s, min(1.0, gap / (state.L * dot(away, away))))
        grad = problem.grad(x)
        s, gap, error = linear_minimiser(psi, grad, x)
        return replace(
            state, k=k, x=x, grad_x=grad, s=s, frank_wolfe_gap=gap, rounding=gap <= error
        )
