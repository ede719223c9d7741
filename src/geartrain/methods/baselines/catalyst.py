r"""Catalyst: acceleration of a method that is not accelerated, on f as a whole.

==========  ============  ==========================================================
symbol      name          meaning
==========  ============  ==========================================================
kappa       ``kappa``     weight of the proximal term
H_k         ``phi``       f + kappa/2 \|. - y_{k-1}\|^2
x_k, y_k    ``x``, ``y``  approximate minimiser of H_k, and its extrapolation
a_k, q      ``a``, ``q``  of the extrapolation, q = mu/(mu + kappa)
==========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from geartrain.methods import smoothness
from geartrain.methods.base import InnerMethod, State, ceiling, solve_model
from geartrain.methods.inner.agm import next_theta
from geartrain.methods.inner.finite_sum import Snapshot, finite_sum
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum, norm


@dataclass(frozen=True)
class DescentState:
    """State of `GradientDescent` and `SVRG`."""

    v: Vector
    grad_g: Vector  # gradient of f at v
    s: int = 0
    memory: Any = None  # components of g at v, where known


@dataclass(frozen=True)
class GradientDescent:
    r"""v_+ = v - grad H(v)/(L_f + kappa): one gradient of h and one of g per step."""

    needs: ClassVar[tuple[str, ...]] = ("grad",)

    def kappa(self, problem: Sum, L_f: float, mu: float) -> float:
        """L - 2 mu; the optimum is flat."""
        return L_f - 2.0 * mu if L_f > 2.0 * mu else 0.5 * L_f

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: DescentState | None = None
    ) -> DescentState:
        """The gradient of the sum at v0."""
        return DescentState(v0, phi.g.grad(v0) if grad_g0 is None else grad_g0)

    def step(self, phi: Model, state: DescentState) -> DescentState:
        assert phi.L_g is not None
        v = state.v - phi.grad(state.v, state.grad_g) / (phi.L_g + phi.alpha)
        return DescentState(v, phi.g.grad(v))

    def limit(self, phi: Model) -> int:
        assert phi.L_g is not None
        return 200 + ceiling(100.0 * (1.0 + phi.L_g / phi.alpha))


@dataclass(frozen=True)
class SVRG:
    r"""SVRG on H = (1/m) sum_k (h + g_k) + kappa/2 \|. - y\|^2, the proximal term exact.

    One step = one epoch of l = 2 m component steps v_+ = (v - eta (G~ + beta))/(1 + eta kappa),
    eta = 1/(4 L), and the gradient of f at their mean. Every component step asks h for a full
    gradient, as in `geartrain.methods.KatyushaWhole`.
    """

    needs: ClassVar[tuple[str, ...]] = ("grad",)

    def kappa(self, problem: Sum, L_f: float, mu: float) -> float:
        """10 L/m, where trials needed the fewest calls."""
        return 10.0 * L_f / finite_sum(problem.g).m

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: DescentState | None = None
    ) -> DescentState:
        """At v0; the slopes of the components are asked for with the gradient."""
        problem: Sum = phi.g.problem
        grad_g, memory = finite_sum(problem.g).snapshot(v0)
        grad = problem.h.grad(v0) + grad_g if grad_g0 is None else grad_g0
        return DescentState(v0, grad, 0, (grad_g, memory))

    def step(self, phi: Model, state: DescentState) -> DescentState:
        problem: Sum = phi.g.problem
        terms = finite_sum(problem.g)
        draw = terms.sampling("importance")
        L = problem.L_h.need("L_h", "SVRG") + draw.L + max(terms.ridges)
        eta = 1.0 / (4.0 * L)
        grad_g, memory = state.memory
        estimator = terms.estimator(Snapshot(state.v, grad_g, memory.copy()), draw.scale)
        order = draw.order(np.random.default_rng((*phi.key, state.s)), 2 * terms.m)
        v, total = state.v, np.zeros(phi.n)
        for k in order:
            estimate = problem.h.grad(v) + estimator(v, k)
            v = (v - eta * (estimate + phi.beta)) / (1.0 + eta * phi.alpha)
            total += v
        v = total / order.size
        grad_g, memory = terms.snapshot(v)
        return DescentState(v, problem.h.grad(v) + grad_g, state.s + 1, (grad_g, memory))

    def limit(self, phi: Model) -> int:
        terms = finite_sum(phi.g.problem.g)
        return 200 + ceiling(100.0 * (1.0 + (phi.L_g or 0.0) / (terms.m * phi.alpha)))


@dataclass(frozen=True, kw_only=True)
class CatalystState(State):
    """State of `Catalyst` after k iterations."""

    k: int
    x: Vector
    y: Vector  # centre of the next proximal term
    shift: Vector  # y_k - y_{k-1}
    grad_f: Vector  # gradient of f at x
    a: float
    L: float  # of f
    kappa: float
    stalled: bool = False
    rounding: bool = False

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad(self) -> Vector:
        return self.grad_f


# Paper: Catalyst
@dataclass(frozen=True)
class Catalyst:
    r"""Catalyst over gradient descent or SVRG.

    Algorithm, with q = mu/(mu + kappa), a_0 = sqrt(q), or (sqrt(5) - 1)/2 for mu = 0::

        1. x_k ~ argmin H_k(x) = f(x) + kappa/2 |x - y_{k-1}|^2 by the inner method, up to
           |grad H_k(x)|^2 <= delta_k kappa (kappa + mu) |x - y_{k-1}|^2,
           delta_k = sqrt(q)/(2 - sqrt(q)), or 1/(k + 1)^2 for mu = 0
        2. a_k^2 = (1 - a_k) a_{k-1}^2 + q a_k
        3. y_k = x_k + b_k (x_k - x_{k-1}), b_k = a_{k-1} (1 - a_{k-1})/(a_{k-1}^2 + a_k)

    Guarantee: f(x_k) - f* <= 2 (1 - sqrt(q)/2)^k (f(x_0) - f*) (criterion C2 of [1]_). h and g
    are asked equally often over gradient descent, h once per component over SVRG: no separation.

    Parameters
    ----------
    inner : inner method
        `GradientDescent` or `SVRG`, or any other one; it minimises H_k, all of f included.
    kappa : float, optional
        By default what the inner method says, and otherwise that of `GradientDescent`.

    Notes
    -----
    The inner run starts at x_{k-1} + kappa/(kappa + mu) (y_{k-1} - y_{k-2}), which halves the
    work against a start at y_{k-1}.

    References
    ----------
    .. [1] H. Lin, J. Mairal, Z. Harchaoui, Catalyst acceleration for first-order convex
       optimization: from theory to practice, JMLR 18 (2018).
    """

    inner: InnerMethod = field(default_factory=GradientDescent)
    kappa: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    inner_asks_both: ClassVar[bool] = True  # the inner method minimises f itself

    def init(self, problem: Sum, x0: Vector) -> CatalystState:
        """x_0 = y_0."""
        L = smoothness.of_sum(problem, None, "Catalyst")
        mu = problem.mu.value or 0.0
        kappa = self.kappa
        if kappa is None:
            own = getattr(self.inner, "kappa", GradientDescent().kappa)
            kappa = own(problem, L, mu)
        a = math.sqrt(mu / (mu + kappa)) if mu else (math.sqrt(5.0) - 1.0) / 2.0
        grad = problem.grad(x0)
        return CatalystState(
            k=0, x=x0, y=x0, shift=np.zeros_like(x0), grad_f=grad, a=a, L=L, kappa=kappa
        )

    def step(self, problem: Sum, state: CatalystState) -> CatalystState:
        mu = problem.mu.value or 0.0
        kappa, y = state.kappa, state.y
        q = mu / (mu + kappa)
        k = state.k + 1
        delta = math.sqrt(q) / (2.0 - math.sqrt(q)) if mu else 1.0 / (k + 1) ** 2
        allowed = math.sqrt(delta * kappa * (kappa + mu))
        phi = Model(problem.whole, beta=-kappa * y, alpha=kappa, L_g=state.L, key=(problem.seed, k))

        # 1.
        def accept(v: Vector, grad_f: Vector, grad_H: Vector) -> bool:
            return norm(grad_H) <= allowed * norm(v - y)

        v0 = state.x + kappa / (kappa + mu) * state.shift
        known = state.grad_f if not state.shift.any() else None
        run = solve_model(self.inner, phi, v0, accept, grad_g0=known)
        # 2. and 3.
        a, momentum = next_theta(state.a, q)
        y_next = run.v + momentum * (run.v - state.x)
        return CatalystState(
            k=k,
            x=run.v,
            y=y_next,
            shift=y_next - y,
            grad_f=run.grad_g,
            a=a,
            L=state.L,
            kappa=kappa,
            stalled=not run.accepted,
            rounding=run.floor,
        )
