r"""AEG: accelerated extragradient, or optimal gradient sliding.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
p, q       ``h``, ``g``  r = p + q; p may be non-convex
L_p        ``L_h``       smoothness of p
x          ``x``         moved by the gradients of r
x_f        ``x_f``       almost minimises the model A; the output
x_g        ``x_g``       tau x + (1 - tau) x_f, where the model is made
theta      ``1/alpha``   1/(2 L_p), length of the proximal step
=========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import InnerMethod, State, solve_model
from geartrain.methods.inner.agm import AGM
from geartrain.oracles.protocols import Vector
from geartrain.problem import MissingConstant, Model, Sum

# c of the computable stop rule: |grad A(v)| <= c L_p |v - x_g| implies the rule of the paper,
# |grad A(v)| <= L_p/sqrt(3) |x_g - argmin A|, since A is 2 L_p-strongly convex.
ACCURACY = 1.0 / (math.sqrt(3.0) + 0.5)


@dataclass(frozen=True, kw_only=True)
class AEGState(State):
    """State of `AEG` after k iterations."""

    k: int
    x: Vector
    x_f: Vector  # output
    x_g: Vector  # where the last model was made
    grad_h: Vector  # gradient of h at x_f
    grad_g: Vector  # gradient of g at x_f
    L_h: float  # the constant in use: raised when h shows more curvature
    inner_steps: int = 0
    stalled: bool = False
    rounding: bool = False
    note: str = ""

    @property
    def L(self) -> float:  # type: ignore[override]
        """The inverse of the step length theta."""
        return 2.0 * self.L_h

    @property
    def point(self) -> Vector:
        return self.x_f

    @property
    def grad(self) -> Vector:
        return self.grad_h + self.grad_g


@dataclass(frozen=True)
class AEG:
    r"""Accelerated extragradient for r = p + q, mu-strongly convex; p = h may be non-convex.

    Algorithm 1 of [1]_, from x_0 = x_f, with tau = min(1, sqrt(mu/L_p)/2), theta = 1/(2 L_p),
    eta = min(1/(2 mu), 1/(2 sqrt(mu L_p))), alpha = mu::

        1. x_g = tau x + (1 - tau) x_f
        2. x_f ~ argmin A(v) = <grad p(x_g), v> + |v - x_g|^2/(2 theta) + q(v), until
           |grad A(x_f)| <= c L_p |x_f - x_g|
        3. x_+ = x + eta alpha (x_f - x) - eta grad r(x_f)

    Guarantee: \|x - x*\|^2/eta + (2/tau)(r(x_f) - r*) falls by the factor
    1 - 1/2 min(1, sqrt(mu/L_p)) per iteration. Two gradients of h per iteration.

    Parameters
    ----------
    mu : float, optional
        Strong convexity of f, above 0; the problem's if not given.
    inner : inner method

    Notes
    -----
    Deviation: the paper stops step 2 by the distance to the minimiser of A, which is not known;
    the rule above implies it with c = 1/(sqrt(3) + 1/2). A pair of gradients of h that shows more
    curvature than L_h raises L_h and leaves a note.

    References
    ----------
    .. [1] D. Kovalev, A. Beznosikov, E. Borodich, A. Gasnikov, G. Scutari, Optimal gradient
       sliding and its application to distributed optimization under similarity,
       arXiv:2205.15136 (2022).
    """

    mu: float | None = None
    inner: InnerMethod = field(default_factory=AGM)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> AEGState:
        self._mu(problem)
        L_h = problem.L_h.need("L_h", "AEG")
        grad_h, grad_g = problem.h.grad(x0), problem.g.grad(x0)
        return AEGState(k=0, x=x0, x_f=x0, x_g=x0, grad_h=grad_h, grad_g=grad_g, L_h=L_h)

    def _mu(self, problem: Sum) -> float:
        mu = problem.mu.value if self.mu is None else self.mu
        if not mu:
            raise MissingConstant(
                "AEG needs mu > 0, the strong convexity of h + g, which neither the terms nor the "
                "call give; pass mu=..., or choose a method that needs no constants"
            )
        return mu

    def step(self, problem: Sum, state: AEGState) -> AEGState:
        """One iteration: two gradients of h and one inner run."""
        mu, L_p, x, x_f = self._mu(problem), state.L_h, state.x, state.x_f
        norm = problem.geometry.norm
        tau = min(1.0, 0.5 * math.sqrt(mu / L_p))
        eta = min(0.5 / mu, 0.5 / (math.sqrt(mu) * math.sqrt(L_p)))
        # 1.
        first = state.k == 0
        x_g = x_f if first else tau * x + (1.0 - tau) * x_f
        grad_p = state.grad_h if first else problem.h.grad(x_g)
        # 2. with 1/theta = 2 L_p
        A = Model(
            problem.g,
            beta=grad_p - 2.0 * L_p * x_g,
            alpha=2.0 * L_p,
            L_g=problem.L_g.value,
            mu_g=problem.mu_g,
            key=(problem.seed, state.k),
            geometry=problem.geometry,
        )

        def accept(v: Vector, grad_g: Vector, grad_A: Vector) -> bool:
            return norm(grad_A) <= ACCURACY * L_p * norm(v - x_g)

        run = solve_model(self.inner, A, x_g, accept, grad_g0=state.grad_g if first else None)
        x_f = run.v
        grad_h = problem.h.grad(x_f)
        size = norm(grad_h) + L_p * norm(x_f)
        L_h, note = smoothness.checked(L_p, x_f - x_g, grad_h - grad_p, size, problem.geometry)
        return AEGState(
            k=state.k + 1,
            # 3.
            x=x + eta * mu * (x_f - x) - eta * (grad_h + run.grad_g),
            x_f=x_f,
            x_g=x_g,
            grad_h=grad_h,
            grad_g=run.grad_g,
            L_h=L_h,
            inner_steps=run.steps,
            stalled=not run.accepted,
            rounding=run.floor,
            note=note,
        )
