r"""The Monteiro-Svaiter method on f as a whole: what SAE is without the splitting."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import InnerMethod, State, solve_model
from geartrain.methods.inner.agm import AGM
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum


@dataclass(frozen=True, kw_only=True)
class WholeState(State):
    """State of `MonteiroSvaiterWhole` after k iterations."""

    k: int
    A: float
    y: Vector
    z: Vector
    grad_f: Vector  # gradient of f at y
    L: float
    ms_ratio: float = math.nan
    stalled: bool = False
    rounding: bool = False

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, as long as every test was passed."""
        return math.nan if self.stalled else self.A

    @property
    def point(self) -> Vector:
        return self.y

    @property
    def grad(self) -> Vector:
        return self.grad_f


# Paper: Monteiro-Svaiter
@dataclass(frozen=True)
class MonteiroSvaiterWhole:
    r"""Lines 3 to 5 of SAE with the envelope minimised by the inner method on all of f.

    Algorithm: that of `geartrain.SAE`, but line 4 minimises f(v) + L/2 \|v - x\|^2 as it is: the
    model phi with f in the place of g, alpha = L, beta = -L x.

    Guarantee: that of [1]_, f(y_N) - f* <= R^2/(2 A_N); about sqrt(L R^2/eps) sqrt(L_f/L) inner
    steps. Every inner step asks h and g for a gradient: no separation.

    Parameters
    ----------
    L : float, optional
        Parameter of the envelope; L_h if not given.
    sigma : float
    inner : inner method

    References
    ----------
    .. [1] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for convex
       optimization, SIAM J. Optim. 23 (2013).
    """

    L: float | None = None
    sigma: float = 0.5
    inner: InnerMethod = field(default_factory=AGM)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    inner_asks_both: ClassVar[bool] = True  # the inner method minimises f itself
    any_geometry: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> WholeState:
        """Gradient of f at x0."""
        L = problem.L_h.need("L_h", "MonteiroSvaiterWhole") if self.L is None else self.L
        return WholeState(k=0, A=0.0, y=x0, z=x0, grad_f=problem.grad(x0), L=L)

    def step(self, problem: Sum, state: WholeState) -> WholeState:
        L, A, y, z = state.L, state.A, state.y, state.z
        norm = problem.geometry.norm
        a = (1.0 + math.sqrt(1.0 + 4.0 * A * L)) / (2.0 * L)
        x = y if A == 0.0 else (A * y + a * z) / (A + a)
        phi = Model(
            problem.whole,
            beta=-L * x,
            alpha=L,
            L_g=smoothness.of_sum(problem, None, "MonteiroSvaiterWhole"),
            key=(problem.seed, state.k),
            geometry=problem.geometry,
        )

        def accept(v: Vector, grad_f: Vector, grad_F: Vector) -> bool:
            return norm(grad_F) <= self.sigma * L * norm(v - x)

        known = state.grad_f if A == 0.0 else None
        run = solve_model(self.inner, phi, x, accept, grad_g0=known)
        distance = norm(run.v - x)
        return WholeState(
            k=state.k + 1,
            A=A + a,
            y=run.v,
            z=z - a * run.grad_g,
            grad_f=run.grad_g,
            L=L,
            ms_ratio=run.residual / (L * distance) if distance > 0.0 else 0.0,
            stalled=not run.accepted,
            rounding=run.floor,
        )
